/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

#include "core/tsc.h"

/*
 * What an lcore's time is spent on (Sieber et al. 2017, algorithm 1: OPS of REF cycles). A turn is one
 * replica's poll with all that comes of it. The TSC is read at the end of each, and the time from reading
 * to reading is that turn's: so turns neither overlap nor leave anything out, and OPS can never be more
 * than REF. A reading holds the processor up by some 70 cycles, so that one after each full burst would
 * cost a forwarder 10 %. After a full burst there is none: the next reading is of several turns. All of
 * them but the last were busy, so that OPS stays exact but for what the empty turn took that may end them,
 * which is taken to be as long as the last. Where replicas share the lcore, these cycles are divided among
 * those that had these turns, by what their packets usually take.
 *
 * A turn that takes far longer than its packets should, was interrupted: by the kernel, or by a host that
 * lends the CPU to others. The packets' usual cost stays theirs; the rest is a pause, and told apart.
 */
#define BUSY_PAUSE_HZ 10000     /* turns shorter than this are not doubted */
#define BUSY_STANDSTILL_HZ 1000 /* pauses longer than this are a standstill */
/* Classes of gaps by powers of two of cycles: the first are of BUSY_GAP and up to twice that. */
#define BUSY_GAP_BITS 13
#define BUSY_GAP (1u << BUSY_GAP_BITS)
#define BUSY_GAPS 16
#define BUSY_LONG 4             /* times what so many packets usually take */
#define BUSY_USUAL 16           /* `usual` counts in so many parts of a cycle */
#define BUSY_SLOW 8             /* and changes by so much of what a turn differs from it */

/*
 * Turns in which an lcore looked for packets, found none, and was away for far longer than that takes: the
 * kernel's ticks, a host's interrupts. An lcore with work has them, too, but they cannot be told from it.
 */
struct busy_gaps {
	uint64_t n[BUSY_GAPS], cycles[BUSY_GAPS];
};

/* A worker's. */
struct busy_clock {
	uint64_t mark;       /* TSC up to which all time has been told apart */
	uint64_t pause;      /* cycles; BUSY_PAUSE_HZ */
	uint64_t still;      /* cycles; BUSY_STANDSTILL_HZ */
	uint64_t idle;       /* cycles of turns without packets */
	uint64_t idle_turn;  /* what the last of them took, when it was timed alone */
	uint64_t unread;     /* what the full bursts since `mark` should have taken, in BUSY_USUALths */
	struct busy *batch;  /* the replicas that had them */
	uint32_t armed;      /* replicas whose next turn with packets is to be timed: from a fresh reading */
	uint64_t read;       /* cycles that reading the TSC takes; parts of a timed turn have one in them */
	uint64_t pauses;     /* cycles of interruptions, found in turns of either kind */
	uint64_t standstill; /* of which in pauses of over a millisecond */
	uint64_t slept;      /* cycles: let go of the CPU, as there was nothing to do */
	struct busy_gaps gaps;
};

/* The time in which a trial's senders are to send; end 0: no trial yet. The control thread's. */
struct busy_window {
	_Atomic uint64_t start, end; /* TSC */
};

/* What was counted at the first and at the last look within it, some hundredths of a second from its ends. */
struct busy_within {
	uint64_t window; /* its start: whose looks these are */
	const struct busy_clock *clock; /* the lcore's whose pauses these are: a replica may go to another */
	uint64_t first_tsc, first_ops, first_pauses;
	uint64_t last_tsc, last_ops, last_pauses;
};

/* What another thread is told of an lcore's time: its parts are up to the same moment. */
struct busy_told {
	uint64_t until; /* TSC */
	uint64_t pauses, standstill, slept;
};

/*
 * Sums over turns that were read alone and not timed part by part: what a turn takes, and each of its
 * packets, is a line through them. A turn's own cost is why an lcore can be busy all the time at half of the
 * load that it can carry: with more packets to be had it takes more at a time.
 */
struct busy_turns {
	uint64_t n, packets, packets_squared, cycles, cycles_by_packets;
};

/* A replica's. */
struct busy {
	struct busy_turns turns;
	struct busy_within within;
	uint64_t ops;   /* cycles of turns with packets, pauses taken off: OPS */
	uint64_t usual; /* cycles of a packet, in BUSY_USUALths; 0: none was timed yet */
	uint64_t unread; /* its part of its lcore's; 0: it is not in the batch */
	struct busy *next; /* in the batch */
};

static inline void busy_begin(struct busy_clock *c)
{
	c->read = tsc_read_cycles();
	c->pause = rte_get_tsc_hz() / BUSY_PAUSE_HZ;
	c->still = rte_get_tsc_hz() / BUSY_STANDSTILL_HZ;
	c->unread = 0;
	c->mark = rte_rdtsc();
}

/* What n packets usually take, in BUSY_USUALths of a cycle. */
static inline uint64_t busy_usual(const struct busy *b, uint32_t n)
{
	return n * b->usual;
}

/* Cycles of `took` that packets which usually take so much cannot have been the cause of; mostly 0. */
static inline uint64_t busy_paused(const struct busy_clock *c, uint64_t took, uint64_t usual)
{
	usual /= BUSY_USUAL;
	return unlikely(took > c->pause) && took > BUSY_LONG * usual ? took - usual : 0;
}

static inline void busy_note_pause(struct busy_clock *c, uint64_t paused)
{
	c->pauses += paused;
	if (paused > c->still)
		c->standstill += paused;
}

/*
 * What measuring took is nobody's work; who took the lcore meanwhile is a pause as any other. There is a
 * system call in it, and beside busy processes a tenth of all time was lost here.
 */
static inline void busy_measured(struct busy_clock *c, uint64_t now)
{
	uint64_t took = now - c->mark;

	c->mark = now;
	if (unlikely(took > c->pause))
		busy_note_pause(c, took);
}

static inline void busy_note_gap(struct busy_gaps *g, uint64_t took)
{
	unsigned int bits = 63 - __builtin_clzll(took) - BUSY_GAP_BITS;

	bits = RTE_MIN(bits, BUSY_GAPS - 1u);
	g->n[bits]++;
	g->cycles[bits] += took;
}

/* A full burst that is not read: what it took is in the next reading. */
static inline void busy_unread(struct busy *b, struct busy_clock *c, uint32_t n)
{
	uint64_t usual = busy_usual(b, n);

	if (!b->unread) {
		b->next = c->batch;
		c->batch = b;
	}
	b->unread += usual;
	c->unread += usual;
}

/* Divides what the batch took; every cycle is somebody's. */
static inline void busy_divide(struct busy_clock *c, uint64_t took)
{
	for (struct busy *b = c->batch; b && c->unread; b = b->next) {
		double part = (double)took * ((double)b->unread / (double)c->unread);
		uint64_t own = b->unread == c->unread ? took : RTE_MIN((uint64_t)part, took);

		b->ops += own;
		took -= own;
		c->unread -= b->unread;
		b->unread = 0;
	}
	c->batch = NULL;
}

/* Its worker ends, or goes on with other replicas. */
static inline void busy_end(struct busy_clock *c, uint64_t now)
{
	busy_divide(c, now - c->mark);
	c->mark = now;
}

/* A turn with n packets ends at `now`, and with it the full bursts before it. */
static inline void busy_turn(struct busy *b, struct busy_clock *c, uint64_t now, uint32_t n)
{
	uint64_t took = now - c->mark, usual = busy_usual(b, n);
	/* Where nobody knows yet what packets take, no turn of theirs is doubted. */
	uint64_t paused = n && !b->usual ? 0 : busy_paused(c, took, usual + c->unread);

	c->mark = now;
	if (unlikely(!n && took >= BUSY_GAP && !c->unread))
		busy_note_gap(&c->gaps, took);
	took -= paused;
	if (unlikely(paused))
		busy_note_pause(c, paused);
	if (!n) {
		c->idle_turn = c->unread ? RTE_MIN(c->idle_turn, took) : took;
		c->idle += c->idle_turn;
		took -= c->idle_turn;
	}
	if (likely(!c->unread)) {
		b->ops += took;
		return;
	}
	if (usual)
		busy_unread(b, c, n);
	busy_divide(c, took);
}

/* Before busy_turn, of a turn that nothing but its packets was done in. */
static inline void busy_count_turn(struct busy *b, const struct busy_clock *c, uint64_t now, uint64_t n)
{
	uint64_t took = now - c->mark;

	if (c->unread || took > c->pause)
		return;
	b->turns.n++;
	b->turns.packets += n;
	b->turns.packets_squared += n * n;
	b->turns.cycles += took;
	b->turns.cycles_by_packets += took * n;
}

/*
 * A turn that goes on is nobody's yet, and no time that was told either: a pause that is told at its end,
 * of longer than the time between two looks, would be more than all of it. What it already takes over
 * `most`, that so many packets may take, is told as a pause, though, once it is a standstill; 0: nobody
 * knows what they take. `asleep`: since when it waits for packets; 0: it polls.
 */
static inline struct busy_told busy_so_far(const struct busy_clock *c, uint64_t asleep, uint64_t most,
					   uint64_t now)
{
	struct busy_told t = {c->mark, c->pauses, c->standstill, c->slept};
	uint64_t paused;

	if (asleep) {
		t.until += now - asleep;
		t.slept += now - asleep;
		return t;
	}
	paused = most && now > c->mark ? busy_paused(c, now - c->mark, most + c->unread) : 0;
	if (paused > c->still) { /* or it would be told in parts, before it is one and then */
		t.until += paused;
		t.pauses += paused;
		t.standstill += paused;
	}
	return t;
}

/* Some hundred times a second. */
static inline void busy_look(struct busy *b, const struct busy_clock *c, struct busy_window *w, uint64_t now)
{
	uint64_t start = atomic_load_explicit(&w->start, memory_order_acquire);
	struct busy_within *in = &b->within;

	if (now < start || now > atomic_load_explicit(&w->end, memory_order_relaxed))
		return;
	in->last_tsc = now;
	in->last_ops = b->ops;
	in->last_pauses = c->pauses;
	if (in->window == start && in->clock == c)
		return;
	in->window = start;
	in->clock = c;
	in->first_tsc = in->last_tsc;
	in->first_ops = in->last_ops;
	in->first_pauses = in->last_pauses;
}

/* Learns what a packet usually takes; a change for good is learnt whatever its size, in steps. */
static inline void busy_learn(struct busy *b, uint64_t took, uint32_t n)
{
	int64_t each = (int64_t)(took * BUSY_USUAL / n), usual = (int64_t)b->usual;

	if (usual)
		each = usual + (RTE_MIN(each, 2 * BUSY_LONG * usual) - usual) / BUSY_SLOW;
	b->usual = (uint64_t)RTE_MAX(each, (int64_t)1);
}
