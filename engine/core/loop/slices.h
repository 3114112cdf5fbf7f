/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "busy.h"

/*
 * What each replica did in slices of 10 ms, and what kept its lcore from working in each: so that figures
 * can be taken from those in which nothing did. All replicas of an lcore have the same slices. Nothing is
 * done for this on a packet's way: a slice is closed when a core's pace is taken (pace.h), and costs its
 * lcore one system call.
 */
#define SLICE_HZ 100
#define SLICES 6144 /* of a replica are kept: over a minute */
#define BEACON_HZ 10000
#define LOOK_HZ 500
#define LOOKS (LOOK_HZ / SLICE_HZ)

/*
 * A line of an lcore's own, for others to read. It is written so often that it stays in the core's own cache
 * whatever the packets bring there, and so seldom that no look meets a write: of a line that is written turn
 * by turn, as the lcore's clock is while it waits for room, a look takes up to ten times what lies between
 * the two lcores.
 */
struct beacon {
	uint64_t writes, slept; /* slept: the clock's */
} __rte_aligned(2 * RTE_CACHE_LINE_SIZE); /* a core fetches the line behind, too */

struct slice {
	uint64_t end, ref;	/* TSC; cycles since the end of the one before */
	uint64_t ops, pauses;	/* cycles: the replica's; the lcore's */
	uint64_t turn_cycles, turn_cycles_by_packets;
	uint32_t kept_us;	/* the lcore's thread was neither running nor asleep */
	uint32_t packets, found; /* found: polls with packets */
	uint32_t turns, turn_packets, turn_packets_squared; /* busy_turns */
	uint32_t pace, wide;	/* cycles that PACE_ADDITIONS took: one chain, four side by side */
	uint32_t line;		/* cycles of the beacon beside, the median of its looks; 0: not known */
};

/* A replica's. The newest is ring[(n - 1) % SLICES]. */
struct slices {
	_Atomic uint64_t n; /* so many were closed */
	uint64_t packets, found, ops; /* as of the end of the last one */
	uint64_t pace, wide;
	struct busy_turns turns;
	struct slice ring[SLICES];
};

struct replica;

/* A worker's. */
struct slicer {
	struct busy_clock *clock;
	struct beacon *own;
	const struct beacon *beside; /* another lcore's, or NULL */
	uint64_t beside_writes, beside_slept; /* what was read of it last */
	uint32_t looks[LOOKS], n_looks; /* cycles of each in this slice, the least first */
	uint64_t beacon_each, look_each, next_beacon, next_look; /* cycles; TSC */
	struct replica **replicas;
	unsigned int n_replicas;
	uint64_t next; /* TSC */
	uint64_t end, pauses, slept, ran_ns; /* as of the end of the last slice */
};

struct slices *slices_create(void);
void slices_free(struct slices *s);

/* By the worker itself, when it begins or begins again with other replicas. */
void slicer_begin(struct slicer *s, struct busy_clock *clock, struct beacon *own,
		  const struct beacon *beside, struct replica **replicas, unsigned int n);
/* By the first of its replicas, once `next_beacon` has come; what it takes is nobody's work. */
void slicer_beacon(struct slicer *s, uint64_t now);
/* So many cycles were seen; beyond LOOKS, as in a slice that is late, they are left out. */
void slicer_looked(struct slicer *s, uint32_t cycles);
/* `now` is the clock's mark: the end of a turn. */
void slicer_close(struct slicer *s, uint64_t now);

/* Slices that lie between two TSCs, at most so many evenly chosen from them; `out` has room. How many. */
unsigned int slices_between(const struct slices *s, uint64_t since, uint64_t until,
			    struct slice *out, unsigned int most);
