/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8 /* lists within lists */

/* The next word of the header into `word`: up to white space that is not within brackets. */
static int next_word(struct rule_text *t, const char **at, char *word, size_t size)
{
	const char *p = *at;
	size_t n = 0;
	int open = 0;

	while (isspace((unsigned char)*p))
		p++;
	for (; *p && (open > 0 || (!isspace((unsigned char)*p) && *p != '(')); p++) {
		open += *p == '[' ? 1 : *p == ']' ? -1 : 0;
		if (isspace((unsigned char)*p))
			continue;
		if (n + 1 == size)
			return err_set(t->err, EINVAL, t->place,
				       "a field of more than %zu characters", size - 1);
		word[n++] = *p;
	}
	word[n] = '\0';
	*at = p;
	if (n)
		return 0;
	return err_set(t->err, EINVAL, t->place,
		       "not a rule: action proto src sports -> dst dports (options)");
}

static int parse_action(struct rule_text *t, const char *word)
{
	static const char *const names[] = {
		[RULE_ALERT] = "alert", [RULE_MARK] = "mark", [RULE_DROP] = "drop"};
	static const char *const others[] = {"pass",       "reject", "rejectsrc", "rejectdst",
					     "rejectboth", "log",    "config",    "activate",
					     "dynamic",    "sdrop"};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(word, names[i])) {
			t->rule->action = (uint8_t)i;
			return 0;
		}
	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(word, others[i]))
			return err_set(t->err, ENOTSUP, t->place,
				       "action \"%s\" is not supported: alert, mark, drop", word);
	return err_set(t->err, EINVAL, t->place, "\"%.40s\" is not an action: alert, mark, drop",
		       word);
}

static int parse_proto(struct rule_text *t, const char *word)
{
	static const struct {
		const char *name;
		uint8_t number;
	} protos[] = {{"ip", 0},
		      {"tcp", IPPROTO_TCP},
		      {"udp", IPPROTO_UDP},
		      {"icmp", 1},
		      {"sctp", IPPROTO_SCTP},
		      {"tcp-stream", IPPROTO_TCP},
		      {"tcp-pkt", IPPROTO_TCP}};

	for (unsigned int i = 0; i < sizeof(protos) / sizeof(*protos); i++) {
		if (strcmp(word, protos[i].name))
			continue;
		t->rule->proto = protos[i].number;
		t->rule->icmp = protos[i].number == IPPROTO_ICMP;
		if (!strcmp(word, "tcp-stream"))
			t->rule->flow |= RULE_ONLY_STREAM;
		if (!strcmp(word, "tcp-pkt"))
			t->rule->flow |= RULE_NO_STREAM;
		return 0;
	}
	return err_set(
		t->err, ENOTSUP, t->place,
		"protocol \"%.40s\" is not supported: ip, tcp, tcp-stream, tcp-pkt, udp, icmp, "
		"sctp",
		word);
}

/* What addresses and ports share: "any" restricts nothing, and a variable was not replaced. */
static int check_any(struct rule_text *t, const char *text, bool negated, bool *any)
{
	*any = !strcmp(text, "any");
	if (text[0] == '$')
		return err_set(t->err, EINVAL, t->place,
			       "\"%.60s\": this variable has no value; params.variables gives them",
			       text);
	if (*any && negated)
		return err_set(t->err, EINVAL, t->place, "!any matches nothing");
	return 0;
}

static int add_addr(struct rule_text *t, struct rule_addrs *of, const char *text, bool negated)
{
	struct rule_addr *items;
	struct rule_addr a = {.negated = negated};
	bool any;
	int rc;

	rc = check_any(t, text, negated, &any);
	if (rc || any)
		return rc;
	if (param_ip_parse(text, &a.ip))
		return err_set(
			t->err, EINVAL, t->place,
			"\"%.60s\" is not an address: any, an IPv4 or IPv6 address or prefix, "
			"or [a, !b]",
			text);
	items = realloc(of->items, (of->count + 1) * sizeof(*items));
	if (!items)
		return err_set(t->err, ENOMEM, t->place, "out of memory for rules");
	of->items = items;
	items[of->count++] = a;
	return 0;
}

static bool port_number(const char *text, size_t len, uint16_t *out)
{
	unsigned int v = 0;

	if (!len || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		v = v * 10 + (unsigned int)(text[i] - '0');
	}
	*out = (uint16_t)v;
	return v <= UINT16_MAX;
}

static bool port_range(const char *text, struct rule_range *r)
{
	const char *colon = strchr(text, ':');
	size_t len = strlen(text);

	if (!colon) {
		bool ok = port_number(text, len, &r->low);

		r->high = r->low;
		return ok;
	}
	r->low = 0;
	r->high = UINT16_MAX;
	if (len == 1)
		return false;
	return (colon == text || port_number(text, (size_t)(colon - text), &r->low)) &&
	       (!colon[1] || port_number(colon + 1, strlen(colon + 1), &r->high)) &&
	       r->low <= r->high;
}

static int add_port(struct rule_text *t, struct rule_ranges *of, const char *text, bool negated)
{
	struct rule_range r = {.negated = negated}, *items;
	bool any;
	int rc;

	rc = check_any(t, text, negated, &any);
	if (rc || any)
		return rc;
	if (!port_range(text, &r))
		return err_set(
			t->err, EINVAL, t->place,
			"\"%.60s\" is not a port: any, 80, 1024:, :1023, 80:90, or [80, !81]",
			text);
	items = realloc(of->items, (of->count + 1) * sizeof(*items));
	if (!items)
		return err_set(t->err, ENOMEM, t->place, "out of memory for rules");
	of->items = items;
	items[of->count++] = r;
	return 0;
}

/* The end of the first element of a list, which may be a list itself. */
static char *element_end(char *p)
{
	int open = 0;

	for (; *p && (open || *p != ','); p++)
		open += *p == '[' ? 1 : *p == ']' ? -1 : 0;
	return p;
}

/* `ports`: a list of ports, otherwise of addresses. Negation of a list is that of its elements. */
static int parse_list(struct rule_text *t, char *text, bool ports, void *of, bool negated,
		      unsigned int depth)
{
	size_t len;
	int rc = 0;

	for (; *text == '!'; text++)
		negated = !negated;
	len = strlen(text);
	if (text[0] != '[')
		return ports ? add_port(t, of, text, negated) : add_addr(t, of, text, negated);
	if (text[len - 1] != ']' || depth == DEPTH_MAX)
		return err_set(t->err, EINVAL, t->place, "\"%.60s\" is not a list: [a, b, !c]",
			       text);
	text[len - 1] = '\0';
	text++;
	do {
		char *end = element_end(text);
		bool last = !*end;

		*end = '\0';
		rc = parse_list(t, text, ports, of, negated, depth + 1);
		text = end + !last;
		if (last)
			break;
	} while (!rc);
	return rc;
}

static const char *variable(const struct rule_text *t, const char *name, size_t len)
{
	const struct rule_var *vars = t->vars->items;

	for (size_t i = 0; i < t->vars->count; i++)
		if (strlen(vars[i].name) == len && !memcmp(vars[i].name, name, len))
			return vars[i].value;
	return NULL;
}

/* Put values in place of variables, which may use others. What has no value stays: see add_addr. */
static int expand(struct rule_text *t, char *word, size_t size)
{
	char *at = word;

	for (unsigned int times = 0; (at = strchr(at, '$')); times++) {
		size_t name = strspn(at + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					     "0123456789_");
		const char *value = variable(t, at + 1, name);
		char *behind = at + 1 + name;

		if (!value) {
			at++;
			continue;
		}
		if (times == 64 || (size_t)(at - word) + strlen(value) + strlen(behind) >= size)
			return err_set(
				t->err, EINVAL, t->place,
				"the variable $%.*s makes a field of more than %zu characters",
				(int)(name < 40 ? name : 40), at + 1, size - 1);
		memmove(at + strlen(value), behind, strlen(behind) + 1);
		memcpy(at, value, strlen(value));
	}
	for (at = word; *word; word++)
		if (!isspace((unsigned char)*word))
			*at++ = *word;
	*at = '\0';
	return 0;
}

static int parse_direction(struct rule_text *t, const char *word)
{
	t->rule->both_ways = !strcmp(word, "<>");
	if (t->rule->both_ways || !strcmp(word, "->"))
		return 0;
	return err_set(t->err, EINVAL, t->place, "\"%.40s\" is not a direction: -> or <>", word);
}

int rule_header_parse(struct rule_text *t, const char *line, const char **rest)
{
	struct rule *r = t->rule;
	char word[4096];
	int rc = 0;

	for (unsigned int i = 0; i < 7 && !rc; i++) {
		rc = next_word(t, &line, word, sizeof(word));
		if (!rc)
			rc = expand(t, word, sizeof(word));
		if (rc)
			break;
		switch (i) {
		case 0:
			rc = parse_action(t, word);
			break;
		case 1:
			rc = parse_proto(t, word);
			break;
		case 2:
			rc = parse_list(t, word, false, &r->src, false, 0);
			break;
		case 3:
			rc = parse_list(t, word, true, &r->sport, false, 0);
			break;
		case 4:
			rc = parse_direction(t, word);
			break;
		case 5:
			rc = parse_list(t, word, false, &r->dst, false, 0);
			break;
		default:
			rc = parse_list(t, word, true, &r->dport, false, 0);
		}
	}
	*rest = line;
	return rc;
}
