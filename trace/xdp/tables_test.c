/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of prefixes and sets of rules, held against a walk over all prefixes and all rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maglev.h"
#include "rules.h"

#define PREFIXES 400
#define RULES 300
#define LOOKUPS 20000

static uint64_t seed = 24;

static uint32_t any(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Few values of each byte, so that prefixes lie in each other and addresses meet them. */
static void any_address(uint8_t addr[16], unsigned int bytes)
{
	memset(addr, 0, 16);
	for (unsigned int i = 0; i < bytes; i++)
		addr[i] = (uint8_t)(any(3) ? any(3) * 127 : any(256));
}

static void any_prefix(struct lpm_prefix *p, unsigned int bytes)
{
	any_address(p->addr, bytes);
	p->bits = (uint8_t)any(bytes * 8 + 1);
	for (unsigned int bit = p->bits; bit < bytes * 8; bit++)
		p->addr[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
}

static bool has(const struct lpm_prefix *p, const uint8_t *addr)
{
	for (unsigned int bit = 0; bit < p->bits; bit++)
		if ((p->addr[bit / 8] ^ addr[bit / 8]) & 0x80 >> bit % 8)
			return false;
	return true;
}

static void test_prefixes(unsigned int bytes)
{
	struct lpm_prefix given[PREFIXES], sorted[PREFIXES];
	struct lpm t;

	for (uint32_t i = 0; i < PREFIXES; i++) {
		any_prefix(&given[i], bytes);
		given[i].value = given[i].bits + 1u;
	}
	memcpy(sorted, given, sizeof(given));
	CHECK(!lpm_init(&t));
	CHECK(!lpm_fill(&t, sorted, PREFIXES));
	for (uint32_t n = 0; n < LOOKUPS; n++) {
		uint8_t addr[16];
		uint32_t best = 0;

		any_address(addr, bytes);
		for (uint32_t i = 0; i < PREFIXES; i++)
			if (has(&given[i], addr) && given[i].value > best)
				best = given[i].value;
		CHECK(lpm_lookup(&t, addr, bytes) == best);
	}
	lpm_fini(&t);
}

static void any_ports(uint16_t range[2])
{
	uint16_t one = (uint16_t)any(65536), other = (uint16_t)any(65536);

	range[0] = any(2) ? 0 : one < other ? one : other;
	range[1] = range[0] || any(2) ? (one < other ? other : one) : 65535;
}

static void any_rule(struct rule *r)
{
	unsigned int bytes = any(2) ? 4 : 16;

	memset(r, 0, sizeof(*r));
	r->versions = bytes == 4 ? RULE_IPV4 : RULE_IPV6;
	if (any(3))
		any_prefix(&r->src, bytes);
	if (any(3))
		any_prefix(&r->dst, bytes);
	if (!r->src.bits && !r->dst.bits && any(2))
		r->versions = RULE_IPV4 | RULE_IPV6;
	any_ports(r->sport);
	any_ports(r->dport);
	r->proto = (int16_t)(any(2) ? -1 : (int)any(256));
	r->permit = any(2);
}

struct header {
	uint8_t src[16], dst[16];
	uint16_t sport, dport;
	uint8_t proto, version;
	bool ports;
};

static bool is(const struct rule *r, const struct header *h)
{
	bool all = !r->sport[0] && r->sport[1] == 65535 && !r->dport[0] && r->dport[1] == 65535;

	if (!(r->versions & h->version) || !has(&r->src, h->src) || !has(&r->dst, h->dst))
		return false;
	if (r->proto >= 0 && r->proto != h->proto)
		return false;
	if (!h->ports)
		return all;
	return r->sport[0] <= h->sport && h->sport <= r->sport[1] && r->dport[0] <= h->dport &&
	       h->dport <= r->dport[1];
}

/* As acl.bpf.c: the number of the first rule, or of none. */
static uint32_t first(const struct rule_sets *s, const struct header *h)
{
	unsigned int bytes = h->version == RULE_IPV4 ? 4 : 16;
	const struct lpm *src = bytes == 4 ? &s->src4 : &s->src6;
	const struct lpm *dst = bytes == 4 ? &s->dst4 : &s->dst6;
	uint32_t of[5] = {lpm_lookup(src, h->src, bytes), lpm_lookup(dst, h->dst, bytes),
			  h->ports ? s->of_sport[h->sport] : s->any_ports,
			  h->ports ? s->of_dport[h->dport] : s->any_ports, s->of_proto[h->proto]};

	for (uint32_t w = 0; w < s->words; w++) {
		uint64_t all = ~0ull;

		for (int i = 0; i < 5; i++)
			all &= s->sets[(size_t)of[i] * s->words + w];
		if (all)
			return w * 64 + (uint32_t)__builtin_ctzll(all);
	}
	return UINT32_MAX;
}

static void test_rules(uint32_t n)
{
	static struct rule rules[RULES];
	static struct rule_sets sets;

	for (uint32_t i = 0; i < n; i++)
		any_rule(&rules[i]);
	CHECK(!rule_sets_build(&sets, rules, n));
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		struct header h = {.sport = (uint16_t)any(65536),
				   .dport = (uint16_t)any(65536),
				   .proto = (uint8_t)any(256),
				   .ports = any(4)};
		uint32_t wanted = 0;

		h.version = any(2) ? RULE_IPV4 : RULE_IPV6;
		any_address(h.src, h.version == RULE_IPV4 ? 4 : 16);
		any_address(h.dst, h.version == RULE_IPV4 ? 4 : 16);
		while (wanted < n && !is(&rules[wanted], &h))
			wanted++;
		CHECK(first(&sets, &h) == (wanted < n ? wanted : UINT32_MAX));
		if (wanted < n)
			CHECK((sets.sets[(size_t)sets.permits * sets.words + wanted / 64] >>
				       wanted % 64 &
			       1) == rules[wanted].permit);
	}
	rule_sets_fini(&sets);
}

/* Shares by weight, within the paper's few per cent; who stays keeps most of what it had. */
static void test_maglev(void)
{
	static uint32_t table[65537], fewer[65537];
	struct maglev_member members[8];
	uint32_t share[9] = {0}, moved = 0;

	for (uint32_t i = 0; i < 8; i++)
		members[i] = (struct maglev_member){
			.name = 77 + i, .weight = 1 + i / 4, .value = i + 1};
	CHECK(!maglev_fill(table, 65537, members, 8));
	CHECK(!maglev_fill(fewer, 65537, members, 7));
	for (uint32_t i = 0; i < 65537; i++) {
		CHECK(table[i] >= 1 && table[i] <= 8);
		share[table[i]]++;
		moved += table[i] != 8 && table[i] != fewer[i];
	}
	for (uint32_t i = 1; i <= 8; i++)
		CHECK(abs((int)share[i] * 12 - 65537 * (i > 4 ? 2 : 1)) < 65537 / 20);
	CHECK(moved < 65537 / 5);
	memset(table, 0, sizeof(table));
	members[0].weight = 0;
	CHECK(!maglev_fill(table, 65537, members, 1));
	CHECK(!table[0] && !table[65536]);
}

int main(void)
{
	test_maglev();
	test_prefixes(4);
	test_prefixes(16);
	test_rules(RULES);
	test_rules(64);
	test_rules(0);
	return 0;
}
