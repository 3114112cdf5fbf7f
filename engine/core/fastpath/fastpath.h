/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/nf.h"
#include "core/offload.h"
#include "core/plain.h"
#include "core/plan/plan.h"

/*
 * The consolidated fast path (docs/design/fastpath.md): where each function of a run can say that
 * it will do to a flow's packets what it has just done, the run's rewrite and way out are kept for
 * the flow, and its next packets get them at once. What Open vSwitch's exact-match cache is to one
 * switch (Pfaff et al., NSDI 2015, section 4.2), for a chain.
 *
 * One per replica, used by its lcore only; counters are read by others as they are.
 */

#define FAST_STEPS_MAX 16   /* functions of one run */
#define FAST_FLOWS_MAX 4    /* of them with state of their own for the flow */
#define FAST_PATHS_MAX 1024
#define FAST_WATCHED_MAX 64 /* flow tables of all functions */
#define FAST_WAYS 4
#define FAST_REFRESH 64     /* flow_now units, some 30 ms: flows may live that much longer */
#define FAST_DECLINED 0     /* the path of flows that some function must see */
#define FAST_HEADERS 58     /* bytes: Ethernet, IPv6 and ports, which is more than with IPv4 */

/* What a run did, as far as it is the same for many flows. A hit needs the first line only. */
struct fast_path {
	_Alignas(64) uint32_t packets; /* not yet counted at the steps */
	struct target to;
	_Alignas(8) uint8_t macs[12];
	uint8_t sets;    /* enum nf_flow_sets */
	uint8_t ttl;     /* taken off */
	uint8_t ttl_needed; /* more than that; the function that drops might have looked at it first */
	uint8_t n_accounts;
	uint8_t n_steps;
	uint8_t direction;
	bool ends;       /* dropped by the last step */
	struct fast_account {
		uint16_t node;
		uint16_t flow; /* which of the entry's flows is this function's */
	} accounts[FAST_FLOWS_MAX];
	const struct flow_epochs *epochs[FAST_FLOWS_MAX];
	struct fast_step {
		uint16_t node;
		uint8_t verdict;
		uint32_t counters;
	} steps[FAST_STEPS_MAX];
};
static_assert(offsetof(struct fast_path, epochs) <= 64, "a hit reads one line of the path");

/* Of one flow in one direction: is it still as it was, and where does it go. */
struct fast_flow {
	uint32_t version;    /* of the cache, when it was last seen to hold; 0: free */
	uint32_t refresh_at;
	uint16_t path;
	uint16_t l4_delta;   /* 0: neither addresses nor ports change */
	uint32_t epochs;     /* sum over `flow`; each only grows, so equal means none changed */
	uint32_t flow[FAST_FLOWS_MAX];
};

/* A place of the cache: this, the key, and what is written into the packet. */
struct fast_entry {
	struct fast_flow flow;
	uint64_t key[]; /* as struct flow_key4 or 6; zone: the run's first node, and the direction */
};

/* As they leave. */
struct fast_rewrite4 {
	uint32_t src, dst, ports;
	uint16_t l3_delta;
	uint16_t pad;
};

struct fast_rewrite6 {
	uint8_t addrs[32];
	uint32_t ports;
	uint32_t pad[5];
};

#define FAST_ENTRY4_BYTES 64
#define FAST_ENTRY6_BYTES 128
static_assert(sizeof(struct fast_flow) + 8 * FAST_KEY4_WORDS + sizeof(struct fast_rewrite4) ==
		      FAST_ENTRY4_BYTES, "a hit reads one line of the cache");
static_assert(sizeof(struct fast_flow) + 8 * FAST_KEY6_WORDS + sizeof(struct fast_rewrite6) ==
		      FAST_ENTRY6_BYTES, "IPv6: two lines");

/* Beside each entry, for the refreshing of what it stands for. */
struct fast_timers {
	uint32_t *expires[FAST_FLOWS_MAX];
	uint32_t timeout[FAST_FLOWS_MAX];
};

struct fast_table {
	uint8_t *entries;
	struct fast_timers *timers; /* as entries */
};

struct fast_stats {
	uint64_t hits, misses; /* misses: packets that went the plain way */
	uint64_t recorded, declined, evicted;
	uint64_t flushes;      /* whole cache void: some table changed */
	uint64_t cycles, cycles_packets; /* of the sampled polls */
};

/* Of each entry's slot, in a segment that tells its host what it decided. */
enum fast_told_state {
	FAST_UNTOLD,
	FAST_TOLD,
	FAST_RETRACTED, /* until the host has seen it: it may still count packets there */
};

struct fast_told {
	uint64_t hits; /* of the host's, that were credited */
	uint32_t version;
	uint32_t retracted; /* `voided` that the host has to see */
	uint32_t since;     /* flow_now units */
	uint8_t state;
};

/* What a segment tells the other end of its link (core/offload.h). */
struct fast_offer {
	struct link_rxq *q;
	struct offload_area *area; /* NULL: nobody is there to be told */
	uint64_t which;
	uint16_t node, outlet; /* flows of packets that come to this, and leave by that, are told */
	uint8_t direction;
	bool emptying; /* tables changed: nothing is told until all is retracted */
	uint32_t tables, voided;
	uint64_t head;
	uint32_t looked; /* flow_now units */
	uint64_t flows_seen;
	struct fast_told *told;
	uint32_t *live; /* slots that are told or retracted */
	uint32_t n_live;
	uint64_t told_flows, retracted_flows, no_room, spared;
};

/* A packet on its way through a run for the first time; what is seen of it. */
struct fast_record {
	struct rte_mbuf *m;
	uint64_t key[FAST_KEY6_WORDS];
	uint32_t hash;
	enum fast_family family;
	uint8_t before[FAST_HEADERS];
	uint8_t n_steps, n_flows, n_accounts, sets;
	bool open;
	struct nf_flow at; /* the tuple as the next step finds it */
	struct fast_step steps[FAST_STEPS_MAX];
	struct fast_account accounts[FAST_FLOWS_MAX];
	const struct flow_epochs *epochs[FAST_FLOWS_MAX];
	uint32_t epoch_sum;
	uint32_t flow[FAST_FLOWS_MAX];
	struct fast_timers timers;
};

struct fastpath {
	struct fast_table tables[FAST_FAMILIES];
	struct fast_path *paths;
	uint32_t set_mask, seed, victim;
	/*
	 * `version` grows when some table or some flow of a function changed: what holds for it, holds.
	 * What was last seen to hold before `valid_from` is void, what is between is looked at again.
	 */
	uint32_t version, valid_from;
	unsigned int n_paths, n_touched;
	uint16_t touched[FAST_PATHS_MAX];
	/* Sum of what each function's tables have seen of changes, and of its flows' epochs: they grow. */
	unsigned int n_changes, n_watched;
	const _Atomic uint64_t **changes;
	const struct flow_epochs *watched[FAST_WATCHED_MAX];
	uint64_t changes_seen, flows_seen;
	/* Since it was judged: a cache that does not pay is left aside for most bursts. */
	uint32_t seen, gained, lost;
	bool aside;
	uint32_t bursts;
	unsigned int n_accountants; /* nodes that want to account */
	uint16_t *accountants;
	unsigned int n_records;
	struct fast_offer *offer; /* NULL: what is known is done here */
	struct fast_stats stats;
	struct fast_record records[BURST_MAX];
};

struct fast_hits {
	unsigned int n;
	unsigned int n_accounted;
	struct target to; /* of the first */
	bool mixed;       /* others leave by other ways */
	uint16_t path[BURST_MAX];
	struct rte_mbuf *pkts[BURST_MAX];
	struct fast_accounted {
		const struct fast_flow *flow;
		struct rte_mbuf *m;
	} accounted[BURST_MAX];
};

struct replica;

/* From the plan's nodes: which are able, and where runs begin. Nothing when no two are neighbours. */
int fastpath_open(struct replica *r, const struct plan_segment *s, struct err *err);
void fastpath_close(struct fastpath *fp);

/*
 * Take out of a burst at the head of a run what is known, rewritten, and let the rest be noted on
 * its way. Packets of one 5-tuple stay in order.
 */
void fastpath_take(struct replica *r, struct burst *b, unsigned int node, struct fast_hits *hits);

/*
 * Offload of state (docs/design/offload-state.md): where the segment's only input tells, its flows
 * are told to the other end rather than taken here. After links were opened.
 */
int fastpath_offer_open(struct replica *r, const struct plan_segment *s, struct err *err);
/* In place of fastpath_take: packets whose flow is not told yet are noted on their way. */
void fastpath_offer_look(struct replica *r, const struct burst *b, unsigned int node);
/* In front of functions' ticks, what was spared is credited; behind them, changed flows are
 * retracted. */
void fastpath_offer_before_tick(struct replica *r, uint64_t now);
void fastpath_offer_behind_tick(struct replica *r);

/* After a function has written its verdicts, before packets leave it. */
void fastpath_note(struct replica *r, unsigned int node, const struct burst *b);

/*
 * In timed polls: functions are charged per packet that counts as theirs, whether they saw it or
 * not, so that theirs and the fast path's cycles add up to what a packet costs.
 */
void fastpath_spared(struct replica *r, const struct fast_hits *hits);

/* Count what was taken at the functions that would have seen it. */
void fastpath_credit(struct replica *r);

json_t *fastpath_json(const struct fastpath *fp);
