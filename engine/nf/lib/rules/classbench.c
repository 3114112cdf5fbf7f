/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Where in a line the parser is, and how to say what is wrong there. */
struct cursor {
	const char *at;
	const char *place;
	struct err *err;
};

static void skip_blanks(struct cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n')
		c->at++;
}

/* Length of the text up to the next blank: what a message quotes. */
static int token_len(const char *text)
{
	size_t n = strcspn(text, " \t\r\n");

	return n < 60 ? n : 60;
}

static int bad(struct cursor *c, const char *field, const char *at, const char *allowed)
{
	if (!*at || token_len(at) == 0)
		return err_set(c->err, EINVAL, c->place, "%s is missing: %s", field, allowed);
	return err_set(c->err, EINVAL, c->place, "%s \"%.*s\": %s", field, token_len(at), at,
		       allowed);
}

/* Decimal, or hexadecimal after 0x; at most max. False leaves the cursor alone. */
static bool parse_number(struct cursor *c, unsigned long max, unsigned long *out)
{
	bool hex = c->at[0] == '0' && (c->at[1] == 'x' || c->at[1] == 'X');
	const char *digits = hex ? c->at + 2 : c->at;
	char *end;

	if (!isxdigit((unsigned char)digits[0]))
		return false;
	errno = 0;
	*out = strtoul(digits, &end, hex ? 16 : 10);
	if (end == digits || errno || *out > max)
		return false;
	c->at = end;
	return true;
}

static bool parse_char(struct cursor *c, char want)
{
	if (*c->at != want)
		return false;
	c->at++;
	return true;
}

static bool at_token_end(const struct cursor *c)
{
	return *c->at == '\0' || strchr(" \t\r\n", *c->at);
}

static int parse_prefix(struct cursor *c, const char *field, struct param_ip *ip)
{
	static const char *const allowed =
		"an address with a prefix length, as 10.0.0.0/8 or 2001:db8::/32";
	const char *start;
	char text[64];
	size_t len;

	skip_blanks(c);
	start = c->at;
	len = strcspn(start, " \t\r\n");
	if (len == 0 || len >= sizeof(text))
		return bad(c, field, start, allowed);
	memcpy(text, start, len);
	text[len] = '\0';
	if (!strchr(text, '/') || param_ip_parse(text, ip))
		return bad(c, field, start, allowed);
	c->at = start + len;
	return 0;
}

static int parse_range(struct cursor *c, const char *field, uint16_t range[2])
{
	static const char *const allowed = "two ports 0..65535, \"lowest : highest\"";
	unsigned long low, high;
	const char *start;

	skip_blanks(c);
	start = c->at;
	if (!parse_number(c, UINT16_MAX, &low))
		return bad(c, field, start, allowed);
	skip_blanks(c);
	if (!parse_char(c, ':'))
		return bad(c, field, start, allowed);
	skip_blanks(c);
	if (!parse_number(c, UINT16_MAX, &high) || !at_token_end(c))
		return bad(c, field, c->at, allowed);
	if (low > high)
		return err_set(c->err, EINVAL, c->place,
			       "%s %lu : %lu: the lowest port comes first", field, low, high);
	range[0] = low;
	range[1] = high;
	return 0;
}

static int parse_masked(struct cursor *c, const char *field, const char *allowed, unsigned long max,
			unsigned long *value, unsigned long *mask)
{
	const char *start;

	skip_blanks(c);
	start = c->at;
	if (!parse_number(c, max, value) || !parse_char(c, '/') || !parse_number(c, max, mask) ||
	    !at_token_end(c))
		return bad(c, field, start, allowed);
	*value &= *mask;
	return 0;
}

static int parse_addresses(struct cursor *c, struct acl_rule *rule)
{
	struct param_ip src = {0}, dst = {0};
	int rc;

	if (!parse_char(c, '@'))
		return bad(c, "filter", c->at, "a filter begins with @ and its source prefix");
	rc = parse_prefix(c, "source", &src);
	if (rc)
		return rc;
	rc = parse_prefix(c, "destination", &dst);
	if (rc)
		return rc;
	acl_rule_set_src(rule, &src);
	if (acl_rule_set_dst(rule, &dst))
		return err_set(c->err, EINVAL, c->place,
			       "source is IPv%d and destination IPv%d: both are of one family",
			       src.family, dst.family);
	return 0;
}

static int parse_masks(struct cursor *c, struct acl_rule *rule)
{
	unsigned long value, mask;
	int rc;

	rc = parse_masked(c, "protocol", "value/mask, each 0..0xff, as 0x06/0xff", UINT8_MAX,
			  &value, &mask);
	if (rc)
		return rc;
	rule->proto = value;
	rule->proto_mask = mask;

	skip_blanks(c);
	if (!*c->at)
		return 0;
	rc = parse_masked(c, "flags", "value/mask, each 0..0xffff, as 0x1000/0x1000", UINT16_MAX,
			  &value, &mask);
	if (rc)
		return rc;
	rule->flags = value;
	rule->flags_mask = mask;
	return 0;
}

int classbench_parse_line(const char *line, const char *place, struct acl_rule *rule,
			  struct err *err)
{
	struct cursor c = {.at = line, .place = place, .err = err};
	int rc;

	skip_blanks(&c);
	if (!*c.at || *c.at == '#')
		return 0;
	acl_rule_any(rule);
	rc = parse_addresses(&c, rule);
	if (rc)
		return rc;
	rc = parse_range(&c, "source ports", rule->sport);
	if (rc)
		return rc;
	rc = parse_range(&c, "destination ports", rule->dport);
	if (rc)
		return rc;
	rc = parse_masks(&c, rule);
	if (rc)
		return rc;
	skip_blanks(&c);
	if (*c.at)
		return bad(&c, "text after the flags", c.at, "nothing follows them");
	return 1;
}

static int read_line(const char *line, size_t len, const char *place, struct acl_rules *rules,
		     struct err *err)
{
	struct acl_rule rule;
	int rc;

	if (strlen(line) != len)
		return err_set(err, EINVAL, place, "a NUL byte: rule files are text");
	rc = classbench_parse_line(line, place, &rule, err);
	if (rc <= 0)
		return rc;
	if (acl_rules_add(rules, &rule))
		return err_set(err, ENOMEM, place, "out of memory for rules");
	return 0;
}

int classbench_read(FILE *f, const char *name, struct acl_rules *rules, struct err *err)
{
	char place[sizeof(err->path)];
	unsigned int number = 0;
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int rc = 0;

	while (rc == 0 && (len = getline(&line, &room, f)) >= 0) {
		snprintf(place, sizeof(place), "%.170s:%u", name, ++number);
		rc = read_line(line, len, place, rules, err);
	}
	if (rc == 0 && ferror(f))
		rc = err_set(err, EIO, name, "cannot be read after line %u", number);
	free(line);
	return rc;
}

int classbench_load(const char *path, struct acl_rules *rules, struct err *err)
{
	FILE *f = fopen(path, "re");
	int rc;

	if (!f)
		return err_set(err, errno, path, "cannot be opened: %s", strerror(errno));
	rc = classbench_read(f, path, rules, err);
	fclose(f);
	return rc;
}
