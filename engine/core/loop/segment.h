/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "busy.h"
#include "core/ends.h"
#include "core/fastpath/fastpath.h"
#include "core/link.h"
#include "elastic.h"
#include "located.h"
#include "core/nf.h"
#include "pace.h"
#include "parallel.h"
#include "core/plan/plan.h"
#include "slices.h"

/*
 * A segment runs its NFs to completion on one lcore per replica, between input links and
 * outlets. Everything in a replica is written by its own lcore only; other threads read the
 * counters as they are.
 */

#define EMIT_MAX 128 /* packets that NFs may emit in one poll */
#define OUT_MAX (BURST_MAX + EMIT_MAX)
/* Flow -> replica, each new flow to the next in turn; shared by all writers of a segment. */
struct even_table;

struct even_table *even_table_create(unsigned int replicas);
void even_table_free(struct even_table *t);
unsigned int even_table_assign(struct even_table *t, uint32_t hash);

struct out_queue {
	uint16_t n;
	struct rte_mbuf *pkts[OUT_MAX];
};

/* What a replica has counted of one link that it writes, of one that it reads, and of itself. */
struct outlet_count {
	uint64_t packets, full;
	struct ends full_ends; /* whose packets `full` were */
};

struct inlet_count {
	uint64_t packets, cycles, timed_packets;
	uint64_t headers_cycles; /* of the cycles, those for reading packets' headers */
};

struct replica_count {
	uint64_t polls, idle_polls;
	uint64_t tx_cycles; /* of the timed polls; receiving is the inlets' */
};

/* One replica's way into one link. */
struct outlet {
	uint16_t (*tx)(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n);
	struct out_queue *queues; /* one per destination */
	uint16_t n_dests;         /* reader queues to choose from; 1 when the link chooses */
	bool wait;                /* keep what the link does not take, rather than drop it */
	enum steer steer;
	struct even_table *even;
	struct elastic_way *way; /* NULL: its readers are no elastic segment */
	struct outlet_count count;
	struct link_txq q;
	unsigned int link; /* index in plan */
};

struct inlet {
	/* The control thread puts another one there that finds nothing, to have packets wait in the link. */
	uint16_t (*_Atomic rx)(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n);
	struct target to;
	uint8_t direction;
	bool unclassified;
	bool marks_port;
	bool marks_reverse; /* its packets come from outside, and are reverse traffic */
	uint16_t port; /* for nf_port */
	struct inlet_count count;
	struct link_rxq q;
	unsigned int link;
	struct located *located; /* NULL unless packets are located */
};

struct node_stats {
	uint64_t in, created, batches;
	int64_t held;
	uint64_t cycles, cycles_packets; /* of the sampled polls */
	uint64_t out[NF_EDGES_MAX];
	struct ends held_ends, consumed, aborted;
	struct ends no_route; /* sent to `drop` by the plan */
	struct ends dropped[NF_DROPS_MAX];
};

struct node {
	void (*process)(struct nf_worker *w, struct burst *b);
	uint16_t n_edges;
	bool fast_able;
	bool forks; /* the first of functions side by side */
	uint8_t fast_head; /* bit per direction: a run of the fast path begins here */
	struct target next[NF_DIRECTIONS][NF_EDGES_MAX];
	struct nf_worker *worker;
	struct node_stats stats;
	struct located *located; /* as of the segment's inputs, for functions behind the first */
	const struct parallel_side *beside; /* NULL: runs on the replica's own lcore */
	struct burst in;
};

struct emitted {
	struct rte_mbuf *pkt;
	struct target to;
	uint8_t direction;
};

struct replica {
	unsigned int n_inlets, n_outlets, n_nodes;
	struct inlet *inlets;
	struct outlet *outlets;
	struct node *nodes;
	uint16_t *order[NF_DIRECTIONS];    /* node indices, topologically */
	uint16_t *position[NF_DIRECTIONS]; /* inverse of order */
	uint16_t burst;
	uint16_t pending; /* packets that `wait` outlets still hold */
	bool classify;
	bool trails; /* packets have them from function to function (nf.h) */
	bool has_tick;
	bool has_poll;
	struct fastpath *fast; /* NULL: off */
	bool steers;             /* some of its outlets have a way */
	bool rests;              /* of an elastic segment: no worker has it */
	struct elastic *elastic; /* NULL: its segment is none */
	_Atomic uint64_t turns;  /* begun with nothing left of those before; of an elastic segment */
	struct checkpoint *checkpoint; /* NULL: none are written */
	struct link *keeper;           /* whose peer keeps them */
	struct parallel *parallel; /* NULL: all functions one after the other */
	struct parallel_side *side; /* this is no replica of its own, but another's function beside */
	uint32_t until_timed; /* polls with packets before the next one that is timed */
	uint32_t rng;
	const struct plan_engine *locate; /* NULL: packets are not located */
	const _Atomic uint64_t *locate_every; /* packets; 0: for now none */
	int64_t locate_left;              /* packets until the next that is */
	int32_t locating;                 /* index in its burst of the packet that is, -1: none */
	uint32_t locate_turn;             /* at which function, counted from the segment's first */
	size_t locate_offset;             /* where a packet begins that nobody moved, from its mbuf */
	unsigned int n_emitted;
	struct rte_mempool *pool;
	struct busy_clock *clock; /* its worker's; its own while it has none */
	struct busy_clock own_clock;
	struct busy busy;
	struct busy_window *window; /* the engine's */
	uint64_t next_tick, next_due; /* TSC; the latter the first of what is due beside polling */
	uint64_t next_upkeep; /* that, or its lcore's next beacon */
	struct replica_count count;
	uint64_t ops_elsewhere; /* busy.ops when it came to its worker */
	struct core_pace pace;
	struct emitted emitted[EMIT_MAX];
	unsigned int segment, index, cpu;
	/* Last, as no turn needs them. */
	struct slicer *slicer; /* its worker's; NULL while it has none */
	struct slices *slices; /* NULL: none are kept */
};

/* One turn: poll every input, run the packets through, send them on. */
void replica_poll(struct replica *r);

/* A function beside others has its batches and cycles where it runs. */
static inline uint64_t node_batches(const struct node *n)
{
	return n->stats.batches + (n->beside ? n->beside->batches : 0);
}

static inline uint64_t node_cycles(const struct node *n)
{
	return n->stats.cycles + (n->beside ? n->beside->cycles : 0);
}

static inline uint64_t node_cycles_packets(const struct node *n)
{
	return n->stats.cycles_packets + (n->beside ? n->beside->cycles_packets : 0);
}

/* For intervals that shall not fall into step with the traffic. */
static inline uint32_t replica_draw(struct replica *r)
{
	r->rng = r->rng * 1664525u + 1013904223u;
	return r->rng;
}

void replica_upkeep(struct replica *r, uint64_t now);

/* The end of a turn with n packets, at `now`: counted, and what is due beside polling is done. */
static inline void replica_turn_at(struct replica *r, uint64_t now, uint32_t n)
{
	busy_turn(&r->busy, r->clock, now, n);
	r->count.polls++;
	r->count.idle_polls += !n;
	if (unlikely((int64_t)(now - r->next_upkeep) >= 0))
		replica_upkeep(r, now);
}

/* The same, now; a turn that is to be timed begins with a reading that is fresh. */
static inline void replica_turn(struct replica *r, uint32_t n)
{
	uint64_t now;

	if (n)
		r->clock->armed += !--r->until_timed;
	if (n >= r->burst && !r->clock->armed) {
		busy_unread(&r->busy, r->clock, n);
		r->count.polls++;
		return;
	}
	now = rte_rdtsc();
	if (n)
		busy_count_turn(&r->busy, r->clock, now, n);
	replica_turn_at(r, now, n);
}
