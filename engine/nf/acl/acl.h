/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/nf.h"
#include "cache.h"
#include "nf/lib/rules/set.h"
#include "table/snapshot.h"

enum acl_drop {
	ACL_DROP_DENIED,
	ACL_DROP_DEFAULT,
	ACL_DROP_NON_IP,
	ACL_DROP_FRAGMENT,
};

enum acl_counter {
	ACL_COUNT_PERMITTED,
	ACL_COUNT_DEFAULT,
	ACL_COUNT_NON_IP,
	ACL_COUNT_NO_PORTS,
	ACL_COUNT_CACHE_HITS,
	ACL_COUNT_CACHE_MISSES,
};

enum acl_fragments {
	ACL_FRAGMENTS_MATCH,
	ACL_FRAGMENTS_DENY,
};

enum acl_reverse {
	ACL_REVERSE_MATCH,
	ACL_REVERSE_SWAP,
	ACL_REVERSE_PERMIT,
};

/* What a rule set is made from: in the plan, and in an update. */
struct acl_rules_conf {
	struct param_list rules; /* struct acl_rule_conf */
	char *rules_file;
	uint32_t file_action; /* enum acl_action */
	uint64_t file_alternate;
	uint32_t default_action;
};

struct acl_conf {
	struct acl_rules_conf rules;
	uint32_t non_ip;
	uint32_t fragments;
	uint32_t reverse;
	bool match_flags;
	uint64_t table_mb;
	uint64_t cache_flows;
};

/* One per worker, from a cache line of its own on. */
struct acl_worker {
	_Alignas(64) struct acl_bucket *cache; /* NULL: none */
	uint32_t cache_mask;                 /* buckets - 1 */
	uint32_t way;
	uint64_t cache_set; /* serial of the set that the cache's answers are from */
	/* Since the last tick; a cache that seldom hits is left aside for most bursts. */
	uint32_t hits, misses;
	uint32_t judged_hits, judged_misses; /* since it was judged, which may be many ticks */
	bool aside;
	uint32_t bursts;
};

struct acl {
	struct snapshot set; /* struct acl_set */
	unsigned int n_workers;
	struct acl_worker *workers;
};

/* The verdict on what rte_acl answered. */
static inline uint8_t acl_verdict(const struct acl_set *set, uint32_t match)
{
	return !match ? set->default_verdict : match == ACL_MATCH_PERMIT ? 0 : NF_DROP(ACL_DROP_DENIED);
}

bool acl_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action);
void acl_process(struct nf_worker *w, struct burst *b);
/* Judges the cache by what it did since the last tick. */
void acl_cache_tick(struct nf_worker *w);
