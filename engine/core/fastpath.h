/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "nf.h"
#include "plan.h"

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
#define FAST_WAYS 4
#define FAST_REFRESH 64     /* flow_now units, some 30 ms: flows may live that much longer */
#define FAST_DECLINED 0     /* the path of flows that some function must see */

/* What a run did, as far as it is the same for many flows. */
struct fast_path {
	const uint32_t *epochs[FAST_FLOWS_MAX];
	_Alignas(8) uint8_t macs[12];
	uint8_t sets;    /* enum nf_flow_sets */
	uint8_t ttl;     /* taken off */
	uint8_t ttl_needed; /* more than that; the function that drops might have looked at it first */
	uint8_t n_steps;
	uint8_t direction;
	bool ends;       /* dropped by the last step */
	struct target to;
	struct fast_step {
		uint16_t node;
		uint8_t verdict;
		uint32_t counters;
	} steps[FAST_STEPS_MAX];
	uint32_t packets; /* not yet counted at the steps */
};

/* One flow in one direction. */
struct fast_entry {
	uint64_t key[2];     /* as struct flow_key4; zone: the run's first node, and the direction */
	uint32_t generation; /* of the cache: another one's entry is free */
	uint32_t refresh_at;
	uint32_t epochs;     /* sum over `flow`; each only grows, so equal means none changed */
	uint32_t flow[FAST_FLOWS_MAX];
	uint32_t src, dst, ports; /* as they leave */
	uint16_t l3_delta, l4_delta;
	uint16_t path;
	uint16_t pad;
};
static_assert(sizeof(struct fast_entry) == 64, "a hit reads one line of the cache");

/* Beside each entry, for the refreshing of what it stands for. */
struct fast_timers {
	uint32_t *expires[FAST_FLOWS_MAX];
	uint32_t timeout[FAST_FLOWS_MAX];
};

struct fast_stats {
	uint64_t hits, misses; /* misses: packets that went the plain way */
	uint64_t recorded, declined, evicted;
	uint64_t flushes;      /* whole cache void: some table changed */
	uint64_t cycles, cycles_packets; /* of the sampled polls */
};

/* A packet on its way through a run for the first time; what is seen of it. */
struct fast_record {
	struct rte_mbuf *m;
	uint64_t key[2];
	uint32_t hash;
	uint8_t before[54];
	uint8_t n_steps, n_flows, sets;
	bool open;
	struct nf_flow at; /* the tuple as the next step finds it */
	struct fast_step steps[FAST_STEPS_MAX];
	const uint32_t *epochs[FAST_FLOWS_MAX];
	uint32_t epoch_sum;
	uint32_t flow[FAST_FLOWS_MAX];
	struct fast_timers timers;
};

struct fastpath {
	struct fast_entry *entries;
	struct fast_timers *timers; /* as entries */
	struct fast_path *paths;
	uint32_t set_mask, seed, generation, victim;
	unsigned int n_paths, n_touched;
	uint16_t touched[FAST_PATHS_MAX];
	/* Sum of what each function's tables have seen of changes: it only grows. */
	unsigned int n_tables;
	const _Atomic uint64_t **tables;
	uint64_t tables_seen;
	/* Since it was judged: a cache that does not pay is left aside for most bursts. */
	uint32_t seen, gained, lost;
	bool aside;
	uint32_t bursts;
	unsigned int n_records;
	struct fast_stats stats;
	struct fast_record records[BURST_MAX];
};

struct fast_hits {
	unsigned int n;
	uint16_t path[BURST_MAX];
	struct rte_mbuf *pkts[BURST_MAX];
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
