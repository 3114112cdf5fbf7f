/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lpm.h"
#include "problem.h"

/* A rule; a field of 0 bits, or with all values, matches every packet. */
struct rule {
	struct lpm_prefix src, dst;
	uint16_t sport[2], dport[2]; /* first and last */
	int16_t proto;               /* -1: any */
	uint8_t versions;            /* of IP: RULE_IPV4, RULE_IPV6, both or none */
	bool permit;
};

enum { RULE_IPV4 = 1, RULE_IPV6 = 2 };

/* Lines of `permit|deny SRC DST SPORT-SPORT DPORT-DPORT PROTO`; `*` is any. */
int rules_read(const char *file, struct rule **rules, uint32_t *n, struct problem *p);

/*
 * The rules as sets, by the value of each field of a packet. A set has a bit for each rule, the
 * first one's lowest; it is known by its number, and there are no two alike.
 */
struct rule_sets {
	uint32_t words; /* of 64 bits, of a set */
	uint64_t *sets;
	uint32_t n, room;
	uint32_t *index, index_mask; /* 1 + number, by hash */
	uint32_t of_proto[256], of_sport[65536], of_dport[65536];
	uint32_t permits, any_ports;
	struct lpm src4, dst4, src6, dst6;
};

/* -ENOMEM. rule_sets_fini in any case. */
int rule_sets_build(struct rule_sets *s, const struct rule *rules, uint32_t n);
void rule_sets_fini(struct rule_sets *s);
