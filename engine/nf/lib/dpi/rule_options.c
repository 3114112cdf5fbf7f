/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 65535

struct option {
	const char *name;
	int (*parse)(struct rule_text *t, const char *name, char *value);
};

static int bad(struct rule_text *t, const char *name, const char *value, const char *allowed)
{
	return err_set(t->err, EINVAL, t->place, "%s: \"%.60s\"; allowed: %s", name,
		       value ? value : "", allowed);
}

static int unsupported(struct rule_text *t, const char *name, const char *value)
{
	return err_set(t->err, ENOTSUP, t->place, "%s%s%.60s is not supported", name,
		       value ? ":" : "", value ? value : "");
}

static bool number(const char *text, uint32_t max, uint32_t *out)
{
	unsigned long v;
	char *end;

	if (!text || !isdigit((unsigned char)*text))
		return false;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (*end || errno || v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

static int parse_id(struct rule_text *t, const char *name, char *value)
{
	struct rule *r = t->rule;
	uint32_t *out = !strcmp(name, "sid") ? &r->sid : !strcmp(name, "rev") ? &r->rev : &r->gid;

	return number(value, UINT32_MAX, out) ? 0 : bad(t, name, value, "0 to 4294967295");
}

static int parse_priority(struct rule_text *t, const char *name, char *value)
{
	return number(value, 255, &t->rule->priority) ? 0 : bad(t, name, value, "0 to 255");
}

/* Without its quotes; what a backslash protects stands for itself. */
static char *unquote(char *value)
{
	size_t len = strlen(value);
	char *out = value;

	if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
		value[len - 1] = '\0';
		value++;
	}
	out = strdup(value);
	if (!out)
		return NULL;
	len = 0;
	for (const char *p = out; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		out[len++] = *p;
	}
	out[len] = '\0';
	return out;
}

static int parse_text(struct rule_text *t, const char *name, char *value)
{
	char **out = !strcmp(name, "msg") ? &t->rule->msg : &t->rule->classtype;

	if (!value || !*value)
		return bad(t, name, value, "a text");
	free(*out);
	*out = unquote(value);
	return *out ? 0 : err_set(t->err, ENOMEM, t->place, "out of memory for rules");
}

/* Documentation for people, and hints to an engine that this is not. */
static int ignore(struct rule_text *t, const char *name, char *value)
{
	return 0;
}

static struct rule_item *add_item(struct rule_text *t, const char *name, size_t bytes)
{
	struct rule_item *item;

	if (t->n_items == RULE_EXPRS_MAX) {
		err_set(t->err, EINVAL, t->place, "%s: more than %d contents and pcres", name,
			RULE_EXPRS_MAX);
		return NULL;
	}
	item = &t->items[t->n_items];
	*item = (struct rule_item){.bytes = calloc(1, bytes + 1)};
	if (!item->bytes) {
		err_set(t->err, ENOMEM, t->place, "out of memory for rules");
		return NULL;
	}
	t->n_items++;
	return item;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* What is within bars: pairs of hexadecimal digits, white space anywhere between. */
static const char *hex_part(const char *p, struct rule_item *item)
{
	for (; *p && *p != '|'; p++) {
		if (isspace((unsigned char)*p))
			continue;
		if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]))
			return NULL;
		item->bytes[item->len++] = (uint8_t)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
		p++;
	}
	return *p ? p : NULL;
}

static int content_bytes(struct rule_text *t, struct rule_item *item, const char *p)
{
	static const char allowed[] =
		"text in quotes with bytes as |00 1f|, and \\\" \\\\ \\; \\: \\| for these characters";
	const char *whole = p;

	for (; *p; p++) {
		if (*p == '|') {
			p = hex_part(p + 1, item);
			if (!p)
				return bad(t, "content", whole, allowed);
		} else if (*p == '\\') {
			if (!p[1] || !strchr("\"\\;:|", p[1]))
				return bad(t, "content", whole, allowed);
			item->bytes[item->len++] = (uint8_t) * ++p;
		} else {
			item->bytes[item->len++] = (uint8_t)*p;
		}
	}
	if (!item->len || item->len > RULE_CONTENT_MAX)
		return err_set(t->err, EINVAL, t->place, "content: %zu bytes; allowed: 1 to %d",
			       item->len, RULE_CONTENT_MAX);
	return 0;
}

/* What stands within the quotes of "text"; NULL when it is not in quotes. */
static char *quoted(char *value)
{
	size_t len = value ? strlen(value) : 0;

	if (len < 2 || value[0] != '"' || value[len - 1] != '"')
		return NULL;
	value[len - 1] = '\0';
	return value + 1;
}

static int parse_content(struct rule_text *t, const char *name, char *value)
{
	struct rule_item *item;
	char *text;

	if (value && *value == '!')
		return unsupported(t, name, value);
	text = quoted(value);
	if (!text)
		return bad(t, name, value, "text in quotes");
	item = add_item(t, name, strlen(text));
	return item ? content_bytes(t, item, text) : -EINVAL;
}

static int regex_flags(struct rule_text *t, struct rule_item *item, const char *flags)
{
	size_t n = 0;

	for (const char *f = flags; *f; f++) {
		if (*f == 'i')
			item->nocase = true;
		else if (*f == 'R')
			item->relative = true;
		else if (*f == 'A')
			item->anchored = true;
		else if (!strchr("smx", *f))
			return unsupported(t, "pcre flag", flags);
		else if (!memchr(item->flags, *f, n))
			item->flags[n++] = *f;
	}
	return 0;
}

static int parse_pcre(struct rule_text *t, const char *name, char *value)
{
	struct rule_item *item;
	char *text, *end;

	if (value && *value == '!')
		return unsupported(t, name, value);
	text = quoted(value);
	end = text ? strrchr(text, '/') : NULL;
	if (!end || *text != '/' || end < text + 2)
		return bad(t, name, text ? text : value, "\"/expression/flags\"");
	item = add_item(t, name, (size_t)(end - text));
	if (!item)
		return -EINVAL;
	item->regex = true;
	item->len = (size_t)(end - text) - 1;
	memcpy(item->bytes, text + 1, item->len);
	return regex_flags(t, item, end + 1);
}

/* What changes the content before it. */
static int modify(struct rule_text *t, const char *name, char *value)
{
	struct rule_item *item = t->n_items ? &t->items[t->n_items - 1] : NULL;
	static const char range[] = "0 to 65535";
	uint32_t v = 0;

	if (!item || item->regex)
		return err_set(t->err, EINVAL, t->place, "%s: there is no content before it", name);
	if (!strcmp(name, "nocase")) {
		item->nocase = true;
		return 0;
	}
	if (!strcmp(name, "startswith")) {
		item->has_offset = item->has_depth = true;
		item->depth = (uint32_t)item->len;
		return 0;
	}
	if (value && (value[0] == '-' || isalpha((unsigned char)value[0])))
		return unsupported(t, name, value); /* negative, or a variable of byte_extract */
	if (!number(value, NUMBER_MAX, &v))
		return bad(t, name, value, range);
	if (!strcmp(name, "offset")) {
		item->has_offset = true;
		item->offset = v;
	} else if (!strcmp(name, "depth")) {
		item->has_depth = true;
		item->depth = v;
	} else if (!strcmp(name, "distance")) {
		item->has_distance = item->relative = true;
		item->distance = v;
	} else {
		item->has_within = item->relative = true;
		item->within = v;
	}
	return 0;
}

static int parse_flow(struct rule_text *t, const char *name, char *value)
{
	static const struct {
		const char *word;
		uint8_t bit;
	} words[] = {
		{"to_server", RULE_TO_SERVER},     {"from_client", RULE_TO_SERVER},
		{"to_client", RULE_TO_CLIENT},     {"from_server", RULE_TO_CLIENT},
		{"established", RULE_ESTABLISHED}, {"stateless", 0},
		{"only_stream", RULE_ONLY_STREAM}, {"no_stream", RULE_NO_STREAM},
	};
	char *save = NULL;

	if (!value)
		return bad(t, name, value, "to_server, established and so on");
	for (char *w = strtok_r(value, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		unsigned int i = 0;

		while (i < sizeof(words) / sizeof(*words) && strcmp(w, words[i].word))
			i++;
		if (i == sizeof(words) / sizeof(*words))
			return unsupported(t, name, w);
		t->rule->flow |= words[i].bit;
	}
	return 0;
}

/* N, >N, <N, N<>M; of a packet's payload, so that the rule looks at packets, not at streams. */
static int parse_dsize(struct rule_text *t, const char *name, char *value)
{
	static const char allowed[] = "N, !N, >N, <N, N<>M; 0 to 65535";
	char *text = value ? value : (char *)"", *between = strstr(text, "<>");
	struct rule *r = t->rule;
	uint32_t low = 0, high = NUMBER_MAX;

	if (between) {
		*between = '\0';
		if (!number(text, NUMBER_MAX, &low) || !number(between + 2, NUMBER_MAX, &high) ||
		    low + 1 >= high)
			return bad(t, name, between + 2, allowed);
		low++;
		high--;
	} else if (*text == '>') {
		if (!number(text + 1, NUMBER_MAX - 1, &low))
			return bad(t, name, text, allowed);
		low++;
	} else if (*text == '<') {
		if (!number(text + 1, NUMBER_MAX, &high) || !high)
			return bad(t, name, text, allowed);
		high--;
	} else {
		r->size.negated = *text == '!';
		if (!number(text + r->size.negated, NUMBER_MAX, &low))
			return bad(t, name, text, allowed);
		high = low;
	}
	r->has_size = true;
	r->size.low = (uint16_t)low;
	r->size.high = (uint16_t)high;
	r->flow |= RULE_NO_STREAM;
	return 0;
}

static const struct option options[] = {
	{"msg", parse_text},	  {"classtype", parse_text}, {"sid", parse_id},
	{"gid", parse_id},	  {"rev", parse_id},	     {"priority", parse_priority},
	{"content", parse_content}, {"pcre", parse_pcre},    {"nocase", modify},
	{"offset", modify},	  {"depth", modify},	     {"distance", modify},
	{"within", modify},	  {"startswith", modify},    {"flow", parse_flow},
	{"dsize", parse_dsize},	  {"reference", ignore},     {"metadata", ignore},
	{"fast_pattern", ignore}, {"rawbytes", ignore},	     {"target", ignore},
};

static int parse_one(struct rule_text *t, char *name, char *value)
{
	for (unsigned int i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (!strcmp(name, options[i].name))
			return options[i].parse(t, name, value);
	return err_set(t->err, ENOTSUP, t->place, "option \"%.40s\" is not supported", name);
}

/* The semicolon that ends an option: not in quotes, not behind a backslash. NULL: there is none. */
static char *option_end(char *p)
{
	bool quotes = false;

	for (; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '"')
			quotes = !quotes;
		else if (*p == ';' && !quotes)
			return p;
	}
	return NULL;
}

static char *trim(char *p)
{
	size_t len;

	while (isspace((unsigned char)*p))
		p++;
	for (len = strlen(p); len && isspace((unsigned char)p[len - 1]); len--)
		p[len - 1] = '\0';
	return p;
}

static int parse_all(struct rule_text *t, char *at)
{
	int rc = 0;

	while (!rc && *(at = trim(at)) && *at != ')') {
		char *end = option_end(at), *colon;

		if (!end)
			return err_set(t->err, EINVAL, t->place,
				       "\"%.60s\": no semicolon ends this option", at);
		*end = '\0';
		colon = at + strcspn(at, ":\"");
		if (*colon == ':')
			*colon++ = '\0';
		else
			colon = NULL;
		rc = parse_one(t, trim(at), colon ? trim(colon) : NULL);
		at = end + 1;
	}
	if (!rc && (at[0] != ')' || *trim(at + 1)))
		return err_set(t->err, EINVAL, t->place,
			       "the bracket is not closed at the line's end");
	return rc;
}

int rule_options_parse(struct rule_text *t, const char *text)
{
	char *copy;
	int rc;

	while (isspace((unsigned char)*text))
		text++;
	if (*text != '(')
		return err_set(t->err, EINVAL, t->place, "\"%.40s\": options stand in brackets",
			       text);
	copy = strdup(text + 1);
	if (!copy)
		return err_set(t->err, ENOMEM, t->place, "out of memory for rules");
	rc = parse_all(t, copy);
	free(copy);
	return rc;
}
