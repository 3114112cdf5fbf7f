/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/nf.h"
#include "set.h"

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
};

/* One per worker, a cache line each: written by its lcore at every tick. */
struct acl_worker {
	_Alignas(64) _Atomic(uint64_t) seen; /* the epoch of its last quiescent point */
};

struct acl {
	_Atomic(struct acl_set *) set;
	_Atomic(uint64_t) epoch;
	struct acl_set *retired;
	unsigned int n_workers;
	struct acl_worker *workers;
};

void acl_process(struct nf_worker *w, struct burst *b);
