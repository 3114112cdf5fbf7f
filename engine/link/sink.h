/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between sink.c (control thread) and sink_tx.c (worker lcores). */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/ends.h"
#include "core/hist.h"
#include "core/link.h"
#include "core/nf.h"
#include "core/trial.h"
#include "holes.h"
#include "replay.h"

#define NS_SHIFT 32 /* cycles -> ns: multiply and shift */

/*
 * What is known of a flow. `missing` has a bit for each of the last 64 sequence numbers below
 * `next`, bit 63 for the highest: 1 if it has not come (the anti-replay window of RFC 4303 section
 * 3.4.3 turned round, so that a new flow is all zeros). What is still missing when it leaves the
 * window goes into the trial's holes: a late packet is told from a duplicate over the whole trial.
 */
#define DELAY_LATE UINT32_MAX /* it was none that another one follows */

struct flow_seen {
	uint32_t next; /* one above the highest sequence seen */
	uint32_t received;
	uint64_t missing;
	uint32_t holes;      /* its newest line, holes.h */
	uint32_t last_delay; /* of the packet before, in ns; or DELAY_LATE */
	uint32_t reordered, duplicated;
};

static_assert(sizeof(struct flow_seen) == 32, "two flows per cache line");

/* By which packets are counted as the source's, and those that are none or come again. */
struct sink_counts {
	uint64_t received, stamped, matched, duplicated;
	uint64_t own_packets, own_bytes;
};

struct tally {
	uint64_t packets, bytes; /* bytes: without FCS */
	uint64_t sizes[SIZE_CLASSES];
};

#define SINK_SLICE_HZ 100
#define SINK_SLICES 2048 /* of a writer are kept: 20 s */

/* The delays of packets that came within 10 ms of the grid that the first packet began, between two TSCs. */
struct sink_slice {
	uint64_t begin, end;
	uint32_t packets, p50_ns, p99_ns, max_ns; /* the latter at most UINT32_MAX */
};

/* The newest is ring[(n - 1) % SINK_SLICES]. */
struct sink_slices {
	uint64_t begin, next; /* TSC: of the one that goes on, and when it is over; 0: none */
	_Atomic uint64_t n;
	struct sink_slice ring[SINK_SLICES];
};

/* All a trial's measurements of one writer; replaced as a whole at the next trial. */
struct sink_trial {
	unsigned int epoch;
	uint64_t magic;
	uint64_t n_flows;
	unsigned int n_replays;
	struct replay *replays[TRIAL_REPLAYS_MAX]; /* whose packets may come here */
	bool blind; /* no source marks its packets: what comes is theirs */
	/* All that came, and of it what is none of the sources' packets, or has come before. */
	struct tally all, other;
	struct holes holes;
	uint64_t created, undecided;
	uint64_t stamped, unknown, matched, ambiguous, late, foreign;
	uint64_t lost, reordered, duplicated, flows;
	uint64_t first_tsc, last_tsc;
	/*
	 * The counts when a trial's duration had passed since the first arrival: throughput. What comes
	 * later was on its way, or waited in a queue, which would make a slow chain look faster.
	 */
	uint64_t window; /* cycles */
	bool over;
	struct sink_counts within;
	uint64_t ipdv_sum, ipdv_count;
	struct hist latency; /* of the slices that are over */
	struct hist slice;   /* of the one that goes on */
	struct sink_slices slices;
	struct flow_seen *seen;
};

struct sink_queue {
	struct link *link;
	uint64_t ns_mult;
	_Atomic(struct sink_trial *) trial; /* in use */
	struct sink_trial *spare;           /* control thread's, to prepare the next in */
} __rte_cache_aligned;

struct sink {
	uint16_t n;
	struct sink_queue *queues;
};

static inline struct sink_counts sink_counts_now(const struct sink_trial *t)
{
	uint64_t own = t->all.packets - t->other.packets;

	return (struct sink_counts){
		.received = t->all.packets,
		.stamped = t->stamped,
		.matched = t->matched,
		.duplicated = t->duplicated,
		.own_packets = own,
		.own_bytes = t->all.bytes - t->other.bytes + own * RTE_ETHER_CRC_LEN,
	};
}

static inline uint64_t sink_ns(uint64_t cycles, uint64_t mult)
{
	return (uint64_t)((unsigned __int128)cycles * mult >> NS_SHIFT);
}

/* None of the sources' packets, or one that has come before. */
static inline void sink_see_other(struct sink_trial *t, const struct rte_mbuf *m)
{
	t->other.packets++;
	t->other.bytes += m->pkt_len;
	t->other.sizes[pkt_size_class(m)]++;
}

int sink_check_sources(const struct link *l, const struct trial *trial, const struct param_list *sources,
		       struct err *err);
/* The captures among a trial's that these sources replay; none named: all. */
void sink_take_replays(struct sink_trial *t, const struct trial *trial, const struct param_list *sources);
void sink_see_unstamped(struct sink_trial *t, struct rte_mbuf *m, uint64_t magic, uint64_t now,
			uint64_t mult);

/* At the first packet after a slice's end, whose burst begins the next one. */
void sink_slice_over(struct sink_trial *t, uint64_t now);
/* For link_meter.slices. */
json_t *sink_slices_json(struct link *l, uint64_t since, uint64_t until);

/* The link's tx; txq->state is a struct sink_queue. Takes and frees every packet. */
uint16_t sink_tx(struct link_txq *txq, uint16_t dest, struct rte_mbuf **pkts, uint16_t n);
