/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_fib.h>
#include <rte_lpm6.h>
#include <rte_rib6.h>

#include "fib_priv.h"

/*
 * One copy of a longest-prefix-match table, and the rules that are in it: rte_fib (DIR-24-8) with
 * the RIB that it keeps for IPv4, rte_lpm6 and a rte_rib6 for both copies for IPv6.
 *
 * Why not rte_fib6: in 22.11 its count of reserved groups depends on the order in which prefixes
 * come and go, so that after some thousand changes it refuses prefixes that it has room for.
 */
struct lpm_copy {
	struct rte_fib *v4;
	uint16_t miss4;                 /* what rte_fib answers when there is no route */
	uint32_t groups4, groups4_used; /* /24s that may have, and have, longer prefixes */
	struct rte_lpm6 *v6;
	uint16_t default6; /* rte_lpm6 takes no default route; FIB_MISS: there is none */
};

int lpm_copy_create(struct lpm_copy *c, const struct fib_conf *conf);
void lpm_copy_destroy(struct lpm_copy *c);
void lpm_copy_lookup(const struct lpm_copy *c, const void *keys, uint16_t *nhs, unsigned int n);

/*
 * Put (add or change) and remove in a copy that nobody reads. 0, -ENOSPC (copy as it was);
 * anything else is a bug of the library underneath.
 */
int lpm_copy_put(struct lpm_copy *c, const void *key, uint8_t len, uint16_t nh);
int lpm_copy_remove(struct lpm_copy *c, const void *key, uint8_t len);

/* The rules of IPv6. */
struct rte_rib6 *lpm_rules6_create(const struct fib_conf *conf);
int lpm_rules6_put(struct rte_rib6 *rules, const void *key, uint8_t len, uint16_t nh);
int lpm_rules6_get(struct rte_rib6 *rules, const void *key, uint8_t len, uint16_t *nh);
int lpm_rules6_next(struct rte_rib6 *rules, uint64_t *cursor, struct fib_route *route);
/* Those of IPv4, in the copy. */
int lpm_rules4_get(const struct lpm_copy *c, const void *key, uint8_t len, uint16_t *nh);
int lpm_rules4_next(const struct lpm_copy *c, uint64_t *cursor, struct fib_route *route);
