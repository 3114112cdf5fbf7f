/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void items_free(struct rule_text *t)
{
	for (unsigned int i = 0; i < t->n_items; i++)
		free(t->items[i].bytes);
}

static int complete(struct rule_text *t)
{
	const struct rule *r = t->rule;

	if (!r->sid)
		return err_set(t->err, EINVAL, t->place, "no sid; each rule needs its own number");
	if (!t->n_items)
		return err_set(t->err, ENOTSUP, t->place,
			       "sid %u: neither content nor pcre; a rule needs one", r->sid);
	return rule_exprs_make(t);
}

int rule_parse(const char *line, const char *place, const struct param_list *vars,
	       struct rule *rule, struct err *err)
{
	struct rule_text t = {.place = place, .err = err, .rule = rule, .vars = vars};
	const char *rest;
	int rc;

	*rule = (struct rule){.gid = 1, .rev = 0, .priority = 3};
	snprintf(rule->place, sizeof(rule->place), "%s", place);
	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return 0;
	rc = rule_header_parse(&t, line, &rest);
	if (!rc)
		rc = rule_options_parse(&t, rest);
	if (!rc)
		rc = complete(&t);
	items_free(&t);
	if (rc)
		rule_free(rule);
	return rc ? rc : 1;
}

void rule_free(struct rule *rule)
{
	for (unsigned int i = 0; i < rule->n_exprs; i++)
		free(rule->exprs[i]);
	free(rule->src.items);
	free(rule->dst.items);
	free(rule->sport.items);
	free(rule->dport.items);
	free(rule->msg);
	free(rule->classtype);
	*rule = (struct rule){0};
}

static bool prefix_holds(const struct param_ip *ip, uint8_t family, const uint8_t *addr)
{
	unsigned int whole = ip->len / 8, rest = ip->len % 8;

	if (ip->family != family || memcmp(ip->addr, addr, whole))
		return false;
	return !rest || !((ip->addr[whole] ^ addr[whole]) & (0xff00 >> rest));
}

static bool addr_in(const struct rule_addrs *of, uint8_t family, const uint8_t *addr)
{
	bool wanted = false, found = false;

	for (size_t i = 0; i < of->count; i++) {
		bool in = prefix_holds(&of->items[i].ip, family, addr);

		if (of->items[i].negated && in)
			return false;
		wanted |= !of->items[i].negated;
		found |= in && !of->items[i].negated;
	}
	return found || !wanted;
}

static bool port_in(const struct rule_ranges *of, uint16_t port)
{
	bool wanted = false, found = false;

	for (size_t i = 0; i < of->count; i++) {
		bool in = port >= of->items[i].low && port <= of->items[i].high;

		if (of->items[i].negated && in)
			return false;
		wanted |= !of->items[i].negated;
		found |= in && !of->items[i].negated;
	}
	return found || !wanted;
}

static bool one_way(const struct rule *r, const struct rule_packet *p, bool swapped)
{
	return addr_in(swapped ? &r->dst : &r->src, p->family, p->src) &&
	       addr_in(swapped ? &r->src : &r->dst, p->family, p->dst) &&
	       port_in(swapped ? &r->dport : &r->sport, p->sport) &&
	       port_in(swapped ? &r->sport : &r->dport, p->dport);
}

bool rule_applies(const struct rule *r, const struct rule_packet *p)
{
	uint8_t proto = r->icmp && p->family == 6 ? 58 : r->proto;

	if (proto && proto != p->proto)
		return false;
	if ((r->flow & RULE_TO_SERVER && !p->to_server) ||
	    (r->flow & RULE_TO_CLIENT && p->to_server) ||
	    (r->flow & RULE_ESTABLISHED && !p->established))
		return false;
	if (r->has_size && (p->size < r->size.low || p->size > r->size.high) != r->size.negated)
		return false;
	return one_way(r, p, false) || (r->both_ways && one_way(r, p, true));
}

static int append(struct rules *rules, const struct rule *rule)
{
	if (rules->count == rules->room) {
		size_t room = rules->room ? rules->room * 2 : 64;
		struct rule *items = realloc(rules->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		rules->items = items;
		rules->room = room;
	}
	rules->items[rules->count++] = *rule;
	return 0;
}

int rules_add_line(struct rules *rules, const char *line, const char *place, bool skip,
		   struct err *err)
{
	struct rule rule;
	int rc = rule_parse(line, place, &rules->vars, &rule, err);

	if (rc == -ENOTSUP && skip) {
		rules->skipped++;
		return 0;
	}
	if (rc <= 0)
		return rc;
	if (!append(rules, &rule))
		return 0;
	rule_free(&rule);
	return err_set(err, ENOMEM, place, "out of memory for rules");
}

/* A backslash at its end joins a line with the next. */
static bool joined(char *line)
{
	size_t len = strlen(line);

	while (len && isspace((unsigned char)line[len - 1]))
		line[--len] = '\0';
	if (!len || line[len - 1] != '\\')
		return false;
	line[len - 1] = '\0';
	return true;
}

static char *join(char *whole, const char *line)
{
	size_t had = whole ? strlen(whole) : 0;
	char *more = realloc(whole, had + strlen(line) + 1);

	if (!more) {
		free(whole);
		return NULL;
	}
	strcpy(more + had, line);
	return more;
}

int rules_read(FILE *f, const char *name, struct rules *rules, bool skip, struct err *err)
{
	char *line = NULL, *whole = NULL, place[sizeof(err->path)];
	unsigned int number = 0;
	size_t room = 0;
	ssize_t len;
	int rc = 0;

	while (!rc && (len = getline(&line, &room, f)) >= 0) {
		bool nul = strlen(line) != (size_t)len, more = joined(line);

		number++;
		snprintf(place, sizeof(place), "%.160s:%u", name, number);
		if (nul) {
			rc = err_set(err, EINVAL, place, "a NUL byte: rule files are text");
			break;
		}
		whole = join(whole, line);
		if (!whole)
			rc = err_set(err, ENOMEM, place, "out of memory for rules");
		if (more || rc)
			continue;
		rc = rules_add_line(rules, whole, place, skip, err);
		free(whole);
		whole = NULL;
	}
	if (!rc && whole)
		rc = err_set(err, EINVAL, place, "ends with a backslash, but no line follows");
	free(whole);
	free(line);
	return rc;
}

int rules_load(const char *path, struct rules *rules, bool skip, struct err *err)
{
	FILE *f = fopen(path, "r");
	int rc;

	if (!f)
		return err_set(err, errno, path, "cannot be read: %s", strerror(errno));
	rc = rules_read(f, path, rules, skip, err);
	fclose(f);
	return rc;
}

int rules_add_list(struct rules *rules, const struct param_list *list, const char *path, bool skip,
		   struct err *err)
{
	char *const *lines = list->items;
	char place[sizeof(err->path)];
	int rc = 0;

	for (size_t i = 0; i < list->count && !rc; i++) {
		snprintf(place, sizeof(place), "%.150s[%zu]", path, i);
		rc = rules_add_line(rules, lines[i], place, skip, err);
	}
	return rc;
}

static int by_number(const void *a, const void *b)
{
	const struct rule *x = *(const struct rule *const *)a, *y = *(const struct rule *const *)b;

	if (x->sid != y->sid)
		return x->sid < y->sid ? -1 : 1;
	if (x->gid != y->gid)
		return x->gid < y->gid ? -1 : 1;
	return x < y ? -1 : x > y;
}

int rules_check(const struct rules *rules, struct err *err)
{
	const struct rule **sorted = calloc(rules->count + 1, sizeof(*sorted));
	int rc = 0;

	if (!sorted)
		return err_set(err, ENOMEM, "params.rules", "out of memory for rules");
	for (size_t i = 0; i < rules->count; i++)
		sorted[i] = &rules->items[i];
	qsort(sorted, rules->count, sizeof(*sorted), by_number);
	for (size_t i = 1; i < rules->count && !rc; i++)
		if (sorted[i]->sid == sorted[i - 1]->sid && sorted[i]->gid == sorted[i - 1]->gid)
			rc = err_set(err, EINVAL, sorted[i]->place,
				     "sid %u is taken already, by %s", sorted[i]->sid,
				     sorted[i - 1]->place);
	free(sorted);
	return rc;
}

void rules_free(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		rule_free(&rules->items[i]);
	free(rules->items);
	*rules = (struct rules){0};
}
