/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "segment.h"

/*
 * Of the polls that find packets, one in TIMED_BASE + TIMED_SPREAD/2 on average is timed part by part. The
 * interval is random, lest it fall into step with a period of the traffic. Nothing is done for it before it
 * looks for packets: a poll that takes longer before it looks finds more than others do.
 *
 * `t` is the TSC at the end of the part before; NULL: this poll is not timed. Callers of what is inlined
 * have it constant, so that nothing of this is left on the untimed way.
 */
#define TIMED_BASE 8
#define TIMED_SPREAD 16

/*
 * A part of a timed poll with n packets ends: from reading to reading, one of which is in it. One that
 * was interrupted is no sample; false. Where nobody knows yet what packets take, none is doubted.
 */
static __rte_always_inline bool part_ends(const struct replica *r, uint64_t *t, uint64_t *cycles,
					  uint32_t n)
{
	uint64_t took;

	if (!t)
		return false;
	took = rte_rdtsc() - *t;
	*t += took;
	if (unlikely(busy_paused(r->clock, took, busy_usual(&r->busy, n))) && r->busy.usual)
		return false;
	*cycles += took - RTE_MIN(took, r->clock->read);
	return true;
}

/* What was since the last one is no part's. */
static __rte_always_inline void part_begins(uint64_t *t)
{
	if (t)
		*t = rte_rdtsc();
}

/* The end of a poll with packets that was timed: until when none is. */
static inline void replica_timed(struct replica *r, uint64_t took, uint32_t n)
{
	r->until_timed = TIMED_BASE + (replica_draw(r) >> 16) % TIMED_SPREAD;
	r->clock->armed--;
	busy_learn(&r->busy, took, n);
}
