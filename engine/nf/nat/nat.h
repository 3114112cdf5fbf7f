/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include "core/nf.h"
#include "nf/lib/track.h"
#include "nf/lib/fragments.h"
#include "nf/lib/trail.h"
#include "nf/lib/tuple.h"
#include "table/flow.h"
#include "table/snapshot.h"

/* What the files of this NF share; nobody else includes it. */

enum nat_drop {
	DROP_PORTS_EXHAUSTED,
	DROP_TABLE_FULL,
	DROP_NO_MAPPING,
	DROP_FRAGMENT,
	DROP_ICMP_UNRELATED,
	DROP_UNSUPPORTED,
	DROP_FRAGMENT_OVERLAP,
	DROP_FRAGMENT_LIMIT,
	DROP_FRAGMENT_TIMEOUT,
	DROP_HAIRPIN_FULL,
};

enum nat_counter { C_HITS, C_NEW, C_EXPIRED, C_RELATED, C_SESSIONS, C_MAPPINGS, C_HAIRPINNED,
		   C_TRIES };

enum nat_mapping { NAT_PER_ENDPOINT, NAT_ENDPOINT_INDEPENDENT };

struct nat_static_params {
	struct param_ip inside, outside;
	uint64_t inside_port, outside_port;
	uint32_t protocol; /* 0 tcp, 1 udp */
};

struct nat_params {
	struct param_list pool, inside, statics;
	uint32_t mapping, filtering; /* enum nat_mapping, the same words for both */
	uint64_t port_min, port_max, sessions, seed;
	double established_s, transitory_s, udp_s, icmp_s, fragment_s;
	uint64_t datagrams, held_fragments;
};

/* What workers read; replaced whole by an update. */
struct nat_statics {
	struct nat_static_params *list;
	size_t count;
	uint32_t *addrs; /* outside addresses of theirs that are not in the pool */
	size_t n_addrs;
};

struct nat {
	struct snapshot statics;
};

/*
 * One way of a session: what is written into its packets. A session has two such records, in
 * one table: outward (source rewritten), and inward (destination rewritten; zone 1 in the key).
 */
struct nat_way {
	uint32_t addr; /* network order, as port is */
	uint16_t port;
	uint16_t pad;
	uint32_t l3_delta, l4_delta; /* csum_add's */
	uint32_t peer;               /* flow_index of the other way */
	uint32_t mapping;            /* flow_index in `mappings`, or NAT_NO_MAPPING */
};
static_assert(sizeof(struct nat_way) == 24, "a session's record is a line with its key");
#define NAT_NO_MAPPING UINT32_MAX
#define NAT_INWARD 1 /* flow_key4.zone */

/* Endpoint-independent mapping: two records too, by the inside and by the outside endpoint. */
struct nat_map {
	uint32_t addr; /* the other side's endpoint */
	uint16_t port;
	uint16_t pad;
	uint32_t peer;
	uint32_t sessions;
};

/* In flow.user of a way: the state of track.h, and which side its packets are. */
#define NAT_STATE(user) ((enum track_state)((user) & 0xff))
#define NAT_REPLY 0x100
#define NAT_HAIRPIN 0x200 /* outward way: its remote endpoint is an outside one of ours */

struct nat_endpoint {
	uint32_t addr; /* network order, as port is */
	uint16_t port;
};

/* Towards this remote endpoint nothing was free. */
struct nat_full {
	uint64_t remote;
	uint32_t until; /* flow_now() */
};

/*
 * How far the choice of ports has come. In an elastic segment each bucket has this, as it has ports of its
 * own (ports.c).
 */
#define NAT_STEPS 256 /* in all; of a bucket NAT_BUCKET_STEPS */
#define NAT_BUCKET_STEPS 16

struct nat_progress {
	uint64_t key[2];
	unsigned int each; /* steps and full of each bucket */
	uint16_t *steps;
	struct nat_full *full; /* by a hash of the remote endpoint; the last one keeps the place */
};

struct nat_worker {
	struct flow_table *sessions, *mappings;
	const struct nat_params *params;
	const struct nat_statics *statics; /* as read for this burst */
	struct nat *shared;
	struct fragments fragments;
	uint32_t timeouts[TRACK_STATES];
	struct nat_progress progress; /* in an elastic segment the first worker's */
};

static inline struct nat_way *nat_way(struct flow *f)
{
	return flow_state4(f);
}

/* The key of TCP, UDP or an ICMP query as it comes: outward ones have their identifier as source
 * port, inward ones as destination port. False: it is none of these. */
bool nat_query_key(struct flow_key4 *key, const struct rte_mbuf *m, enum nf_direction dir);

/* Which outside endpoint a session gets (ports.c). */
int nat_ports_init(struct nat_progress *p, const struct nf_worker *w, struct err *err);
void nat_ports_fini(struct nat_progress *p);
/* nf_ops.bucket_of: answers come to where their outside port is. */
bool nat_bucket_of(const struct nf *nf, const struct rte_mbuf *m, enum nf_direction dir, uint8_t *bucket);
uint32_t nat_pool_addr(const struct nat_params *p, size_t i);
/* False: none that was tried is free. */
bool nat_pick_outside(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
		      uint32_t now, struct nat_endpoint *out);
/* The static mapping of an endpoint on one side, as the endpoint of the other side. */
bool nat_find_static(const struct nat_statics *statics, uint8_t proto, struct nat_endpoint e,
		     bool inside, struct nat_endpoint *other);
struct flow_key4 nat_map_key(struct nat_endpoint e, uint8_t proto, bool inside);
/* nf_ops.keeps (kept.c). */
extern const struct nf_keeps nat_keeps;
struct flow_key4 nat_inward_key(const struct flow_key4 *outward, struct nat_endpoint outside);

/* Both ways of one; the outward one, or NULL when the table is full. */
struct flow *nat_add_session(struct nat_worker *nat, const struct flow_key4 *outward,
			     struct nat_endpoint outside, struct flow *mapping, enum track_state state,
			     uint32_t now);
/* The two records of a mapping; the inside one, or NULL when the table is full. */
struct flow *nat_add_mapping(struct nat_worker *nat, struct nat_endpoint inside,
			     struct nat_endpoint outside, uint8_t proto, uint32_t now);
void nat_end_mapping(struct nat_worker *nat, struct flow *inside);
/* Begins a session; the packet's own way of it, or NULL and the verdict. */
struct flow *nat_new_outward(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
			     uint32_t now, uint8_t *verdict);
struct flow *nat_new_inward(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
			    uint32_t now, uint8_t *verdict);
/* flow_gone_fn of sessions and of mappings. */
bool nat_session_gone(void *worker, struct flow *f);
bool nat_mapping_gone(void *worker, struct flow *f);
/* Both ways of it go. */
void nat_end_session(struct nat_worker *nat, struct flow *f);

static inline bool nat_is_icmp_error(uint8_t type)
{
	return type == 3 || type == 4 || type == 11 || type == 12; /* RFC 5508 section 3.2 */
}

/* The key of answers to the packet that an ICMP error from outside is about; false: it is no such error. */
bool nat_error_key(struct flow_key4 *key, const struct rte_mbuf *m);
/* The verdict on an ICMP error, translated when it is about a known session; 0: passes. */
uint8_t nat_icmp_error(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir);

bool nat_is_inside(const struct nat_params *p, uint32_t addr);
bool nat_is_outside(const struct nat_worker *nat, uint32_t addr);

extern const struct param nat_static_params[];
int nat_check_host4(const struct param_ip *ip, const char *path, struct err *err);
/* No endpoint has two mappings. */
int nat_statics_check(const struct nat_params *p, struct err *err);
struct nat_statics *nat_statics_make(const struct nat_params *p, struct err *err);
void nat_statics_free(void *object);
int nat_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);

/* fragments_ops. */
uint8_t nat_first_fragment(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir,
			   uint32_t now, void *note);
void nat_later_fragment(struct nf_worker *w, struct rte_mbuf *m, const void *note);

bool nat_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action);
void nat_process(struct nf_worker *w, struct burst *b);
