/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ALL_PORTS(r) ((r)[0] == 0 && (r)[1] == 65535)

/* The versions of IP that a prefix has; an asterisk has both. */
static int read_prefix(struct lpm_prefix *to, const char *text)
{
	char address[64];
	unsigned int bits;

	memset(to, 0, sizeof(*to));
	if (!strcmp(text, "*"))
		return RULE_IPV4 | RULE_IPV6;
	if (sscanf(text, "%63[^/]/%u", address, &bits) != 2)
		return -EINVAL;
	to->bits = (uint8_t)bits;
	if (inet_pton(AF_INET, address, to->addr) == 1 && bits <= 32)
		return RULE_IPV4;
	return inet_pton(AF_INET6, address, to->addr) == 1 && bits <= 128 ? RULE_IPV6 : -EINVAL;
}

static int read_rule(struct rule *r, const char *line)
{
	char action[8], src[64], dst[64];
	int from, to, proto;

	if (sscanf(line, "%7s %63s %63s %hu-%hu %hu-%hu %d", action, src, dst, &r->sport[0],
		   &r->sport[1], &r->dport[0], &r->dport[1], &proto) != 8)
		return -EINVAL;
	from = read_prefix(&r->src, src);
	to = read_prefix(&r->dst, dst);
	if (from < 0 || to < 0 || proto < -1 || proto > 255)
		return -EINVAL;
	r->versions = (uint8_t)(from & to);
	r->proto = (int16_t)proto;
	r->permit = !strcmp(action, "permit");
	return r->permit || !strcmp(action, "deny") ? 0 : -EINVAL;
}

int rules_read(const char *file, struct rule **rules, uint32_t *n, struct problem *p)
{
	FILE *f = fopen(file, "re");
	char line[256];
	int rc = 0;

	*rules = NULL;
	*n = 0;
	if (!f)
		return problem_is(p, -errno, "%s: %s", file, strerror(errno));
	while (!rc && fgets(line, sizeof(line), f)) {
		struct rule *more = reallocarray(*rules, *n + 1ul, sizeof(*more));

		if (!more) {
			rc = -ENOMEM;
			break;
		}
		*rules = more;
		rc = read_rule(&more[(*n)++], line);
		if (rc)
			problem_is(p, rc, "%s: line %u is no rule", file, *n);
		else if (*n > ACL_WORDS_MAX * 64)
			rc = problem_is(p, -E2BIG, "%s: more than %d rules", file,
					ACL_WORDS_MAX * 64);
	}
	fclose(f);
	return rc;
}

static uint64_t hash(const uint64_t *set, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < words; i++)
		h = (h ^ set[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
	return h;
}

static int reindex(struct rule_sets *s)
{
	uint32_t mask = s->room * 4 - 1;
	uint32_t *index = calloc(mask + 1ul, sizeof(*index));

	if (!index)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++) {
		uint64_t at = hash(s->sets + (size_t)i * s->words, s->words);

		while (index[at & mask])
			at++;
		index[at & mask] = i + 1;
	}
	free(s->index);
	s->index = index;
	s->index_mask = mask;
	return 0;
}

static int make_room(struct rule_sets *s)
{
	uint32_t room = s->room ? s->room * 2 : 64;
	uint64_t *more = reallocarray(s->sets, (size_t)room * s->words, sizeof(*more));

	if (!more)
		return -ENOMEM;
	s->sets = more;
	s->room = room;
	return reindex(s);
}

/* The number of a set; -ENOMEM. */
static int number(struct rule_sets *s, const uint64_t *set, uint32_t *to)
{
	size_t bytes = s->words * sizeof(*set);
	uint64_t at;

	if (s->n == s->room && make_room(s))
		return -ENOMEM;
	for (at = hash(set, s->words); s->index[at & s->index_mask]; at++) {
		*to = s->index[at & s->index_mask] - 1;
		if (!memcmp(s->sets + (size_t)*to * s->words, set, bytes))
			return 0;
	}
	memcpy(s->sets + (size_t)s->n * s->words, set, bytes);
	*to = s->n++;
	s->index[at & s->index_mask] = s->n;
	return 0;
}

static void put(uint64_t *set, uint32_t rule)
{
	set[rule / 64] |= 1ull << rule % 64;
}

static bool covers(const struct lpm_prefix *wide, const struct lpm_prefix *narrow)
{
	unsigned int whole = wide->bits / 8, rest = wide->bits % 8;

	return wide->bits <= narrow->bits && !memcmp(wide->addr, narrow->addr, whole) &&
	       (!rest || !((wide->addr[whole] ^ narrow->addr[whole]) >> (8 - rest)));
}

static int same_prefix(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct lpm_prefix, value));
}

/* Each prefix of a field once, and the one of no bits; how many. */
static uint32_t distinct(struct lpm_prefix *to, const struct rule *rules, uint32_t n,
			 uint8_t version, size_t field)
{
	uint32_t all = 1, kept = 0;

	memset(&to[0], 0, sizeof(to[0]));
	for (uint32_t i = 0; i < n; i++)
		if (rules[i].versions & version)
			to[all++] = *(const struct lpm_prefix *)((const char *)&rules[i] + field);
	qsort(to, all, sizeof(*to), same_prefix);
	for (uint32_t i = 0; i < all; i++)
		if (!kept || same_prefix(&to[kept - 1], &to[i]))
			to[kept++] = to[i];
	return kept;
}

static int build_addresses(struct rule_sets *s, struct lpm *t, const struct rule *rules, uint32_t n,
			   uint8_t version, size_t field, uint64_t *set)
{
	struct lpm_prefix *prefixes = calloc(n + 1ul, sizeof(*prefixes));
	uint32_t all;
	int rc = prefixes ? lpm_init(t) : -ENOMEM;

	if (rc) {
		free(prefixes);
		return rc;
	}
	all = distinct(prefixes, rules, n, version, field);
	for (uint32_t i = 0; i < all && !rc; i++) {
		memset(set, 0, s->words * sizeof(*set));
		for (uint32_t r = 0; r < n; r++) {
			const void *own = (const char *)&rules[r] + field;

			if (rules[r].versions & version && covers(own, &prefixes[i]))
				put(set, r);
		}
		rc = number(s, set, &prefixes[i].value);
	}
	rc = rc ?: lpm_fill(t, prefixes, all);
	free(prefixes);
	return rc;
}

/* Sets change only where a range begins, or behind where one ends. */
static int build_ports(struct rule_sets *s, uint32_t *of, const struct rule *rules, uint32_t n,
		       size_t field, uint64_t *set)
{
	bool *edge = calloc(65537, sizeof(*edge));
	int rc = edge ? 0 : -ENOMEM;

	for (uint32_t r = 0; r < n && !rc; r++) {
		const uint16_t *range = (const void *)((const char *)&rules[r] + field);

		edge[range[0]] = edge[range[1] + 1] = true;
	}
	for (uint32_t port = 0; port < 65536 && !rc; port++) {
		if (port && !edge[port]) {
			of[port] = of[port - 1];
			continue;
		}
		memset(set, 0, s->words * sizeof(*set));
		for (uint32_t r = 0; r < n; r++) {
			const uint16_t *range = (const void *)((const char *)&rules[r] + field);

			if (range[0] <= port && port <= range[1])
				put(set, r);
		}
		rc = number(s, set, &of[port]);
	}
	free(edge);
	return rc;
}

static int build_protocols(struct rule_sets *s, const struct rule *rules, uint32_t n, uint64_t *set)
{
	int rc = 0;

	for (int proto = 0; proto < 256 && !rc; proto++) {
		memset(set, 0, s->words * sizeof(*set));
		for (uint32_t r = 0; r < n; r++)
			if (rules[r].proto < 0 || rules[r].proto == proto)
				put(set, r);
		rc = number(s, set, &s->of_proto[proto]);
	}
	return rc;
}

static int build_flags(struct rule_sets *s, const struct rule *rules, uint32_t n, uint64_t *set)
{
	int rc;

	memset(set, 0, s->words * sizeof(*set));
	for (uint32_t r = 0; r < n; r++)
		if (rules[r].permit)
			put(set, r);
	rc = number(s, set, &s->permits);
	memset(set, 0, s->words * sizeof(*set));
	for (uint32_t r = 0; r < n; r++)
		if (ALL_PORTS(rules[r].sport) && ALL_PORTS(rules[r].dport))
			put(set, r);
	return rc ?: number(s, set, &s->any_ports);
}

#define FIELD(name) offsetof(struct rule, name)

int rule_sets_build(struct rule_sets *s, const struct rule *rules, uint32_t n)
{
	uint64_t *set;
	int rc;

	memset(s, 0, sizeof(*s));
	s->words = n ? (n + 63) / 64 : 1;
	set = calloc(s->words, sizeof(*set));
	rc = set ? number(s, set, &s->permits) : -ENOMEM; /* the empty set is number 0 */
	rc = rc ?: build_flags(s, rules, n, set);
	rc = rc ?: build_protocols(s, rules, n, set);
	rc = rc ?: build_ports(s, s->of_sport, rules, n, FIELD(sport), set);
	rc = rc ?: build_ports(s, s->of_dport, rules, n, FIELD(dport), set);
	rc = rc ?: build_addresses(s, &s->src4, rules, n, RULE_IPV4, FIELD(src), set);
	rc = rc ?: build_addresses(s, &s->dst4, rules, n, RULE_IPV4, FIELD(dst), set);
	rc = rc ?: build_addresses(s, &s->src6, rules, n, RULE_IPV6, FIELD(src), set);
	rc = rc ?: build_addresses(s, &s->dst6, rules, n, RULE_IPV6, FIELD(dst), set);
	free(set);
	return rc;
}

void rule_sets_fini(struct rule_sets *s)
{
	free(s->sets);
	free(s->index);
	lpm_fini(&s->src4);
	lpm_fini(&s->dst4);
	lpm_fini(&s->src6);
	lpm_fini(&s->dst6);
}
