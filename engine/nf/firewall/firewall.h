/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/nf.h"
#include "nf/lib/rules/set.h"
#include "nf/lib/fragments.h"
#include "table/flow.h"
#include "table/snapshot.h"
#include "nf/lib/track.h"

/* What the files of this NF share; nobody else includes it. */

enum fw_drop {
	DROP_DENIED,
	DROP_DEFAULT,
	DROP_INVALID_STATE,
	DROP_NOT_SYN,
	DROP_ICMP_UNRELATED,
	DROP_SYN_FLOOD,
	DROP_TABLE_FULL,
	DROP_FRAGMENT,
	DROP_FRAGMENT_OVERLAP,
	DROP_FRAGMENT_LIMIT,
	DROP_FRAGMENT_TIMEOUT,
	DROP_NON_IP,
};

enum fw_counter {
	C_HITS,
	C_NEW,
	C_EXPIRED,
	C_RELATED,
	C_FLOWS,
	C_HALF_OPEN,
	C_HELD,
};

/* As in the plan, and in an update: what may begin a flow in one direction. */
struct fw_policy_params {
	struct param_list rules; /* struct acl_rule_conf */
	char *rules_file;
	uint32_t default_action; /* enum acl_action */
};

struct fw_timeouts {
	double syn, established, closing, udp, udp_replied, icmp, other, fragment;
};

struct fw_params {
	struct fw_policy_params policy[NF_DIRECTIONS];
	struct fw_timeouts timeout_s;
	uint64_t flows, half_open, datagrams, held_fragments;
	bool tcp_loose;
	uint32_t non_ip;
};

/* What workers read; replaced whole by an update. */
struct fw_rules {
	struct acl_set *sets[NF_DIRECTIONS];
	bool default_deny[NF_DIRECTIONS];
};

struct fw {
	struct snapshot rules;
};

struct fw_worker {
	struct flow_table *flows[FLOW_FAMILIES];
	struct fw *fw;
	uint32_t timeouts[TRACK_STATES]; /* in flow_now units */
	uint32_t *half_open, half_open_max; /* of each bucket, in an elastic segment */
	struct fragments fragments;
	const struct fw_rules *current; /* as read for this burst: for fragments */
};

/*
 * The key of a flow: the same for both ways, with the smaller endpoint first, so that a flow is one
 * record. `low` of a packet says whether its source is that endpoint.
 */
union fw_key {
	struct flow_key4 v4;
	struct flow_key6 v6;
};

/* In flow.user. */
#define FW_STATE(user) ((enum track_state)((user) & 0xff))
#define FW_ORIGIN_LOW 0x100 /* the flow's first packet came from the smaller endpoint */

static inline bool fw_half_open(enum track_state s)
{
	return s == TRACK_SYN_SENT || s == TRACK_SYN_RECEIVED;
}

/* 0, the packet passes; or the verdict. Begins the flow when the rules permit it. */
uint8_t fw_new_flow(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		    const union fw_key *key, bool v6, bool low, enum nf_direction dir, uint32_t now);
/* Everything that is not TCP or UDP. */
uint8_t fw_other(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		 enum nf_direction dir, uint32_t now);
/* fragments_ops.first. */
uint8_t fw_first_fragment(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir, uint32_t now,
			  void *note);
/* What a packet does to its flow. */
uint8_t fw_known_flow(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		      struct flow *f, const union fw_key *key, bool v6, bool low,
		      enum nf_direction dir, uint32_t now);
uint8_t fw_known_or_new(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
			const union fw_key *key, bool v6, bool low, enum nf_direction dir,
			uint32_t now);
/* A flow ends: with its table, as each family has one. */
struct fw_end {
	struct fw_worker *fw;
	const struct flow_table *flows;
};
bool fw_gone(void *end, struct flow *f);

/* Makes the key of a tuple; addresses and ports as they lie in the packet, bucket: pkt_bucket. */
bool fw_key4_make(struct flow_key4 *k, const void *src, const void *dst, uint16_t sport,
		  uint16_t dport, uint8_t proto, uint8_t bucket);
/* Whether it may have been made so, outside of any bucket. */
bool fw_key4_sound(const struct flow_key4 *k);
bool fw_key6_make(struct flow_key6 *k, const void *src, const void *dst, uint16_t sport,
		  uint16_t dport, uint8_t proto, uint8_t bucket);

/* nf_ops.keeps (kept.c). */
extern const struct nf_keeps fw_keeps;
bool fw_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		    struct nf_flow_action *action);
void fw_process(struct nf_worker *w, struct burst *b);
void fw_tick(struct nf_worker *w, uint64_t now_tsc);
