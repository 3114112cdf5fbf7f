/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that keeps the lines to itself which the host looks at for packets has each look wait for
 * them, though there is nothing: a store of what is there already will do, or CLFLUSH. It took a tenth of
 * another VNF's lcore. A client that has no packets leaves the line alone, so that such a look is one of the
 * nearest cache. So one part in LOOK_SHARE of an lcore's time is for what looks that found nothing
 * waited, after the first LOOK_AT_ONCE_NS; beyond it the link is passed by for some turns, LOOK_SHARE
 * times as long as the last look took: some 20 us. Looks are timed one in 128, at random, as who could
 * foresee them would leave the line alone then; timing one takes 150 cycles.
 */
#include <rte_cycles.h>

#include "shm.h"

#define LOOK_DEAR_NS 20 /* beyond a line of the own core's cache */
#define LOOK_MOST_NS 300 /* longer is an interrupt, or a hypervisor */
#define LOOK_SHARE 128
#define LOOK_AT_ONCE_NS 64000
#define LOOKS 256 /* after 1 to so many one is timed */
#define PASSED_MOST 1024 /* turns, which may become longer */

static uint64_t cycles_of(const struct shm_state *s, double ns)
{
	return (uint64_t)(ns / s->ns_per_cycle);
}

static uint32_t random_of(struct shm_looks *l)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 17;
	l->random ^= l->random << 5;
	return l->random;
}

void shm_looks_begin(struct shm_looks *l)
{
	l->random = (uint32_t)rte_rdtsc() | 1;
	l->turns = l->left = LOOKS;
}

struct shm_look shm_look_start(void)
{
	struct shm_look look = {.clock = rte_rdtsc_precise()};

	rte_rmb();
	look.start = rte_rdtsc();
	rte_rmb();
	return look;
}

/* What is beyond the budget, in turns in which the link is passed by. */
static uint64_t beyond(const struct shm_state *s, uint64_t now)
{
	const struct shm_looks *l = &s->looks;
	uint64_t ahead = cycles_of(s, LOOK_AT_ONCE_NS) * LOOK_SHARE;
	uint64_t turn = (now - l->last) / l->turns;

	return l->paid_until > now + ahead ? (l->paid_until - now - ahead) / RTE_MAX(turn, 1u) : 0;
}

void shm_look_end(struct shm_state *s, const struct shm_look *look, bool found)
{
	struct shm_looks *l = &s->looks;
	uint64_t now, own = look->start - look->clock, took, most, passed;

	rte_rmb();
	now = rte_rdtsc();
	took = now - look->start > own ? now - look->start - own : 0;
	if (!found && took > cycles_of(s, LOOK_DEAR_NS)) {
		took = RTE_MIN(now - look->clock, cycles_of(s, LOOK_MOST_NS));
		most = now + (cycles_of(s, LOOK_AT_ONCE_NS) + took) * LOOK_SHARE;
		took *= (l->passing ? 1 : LOOKS / 2) * LOOK_SHARE;
		l->paid_until = RTE_MIN(RTE_MAX(l->paid_until, look->start) + took, most);
	}
	passed = beyond(s, now);
	passed = RTE_MIN(passed, (uint64_t)PASSED_MOST);
	l->passing = passed > 0;
	l->passed += passed;
	l->turns = l->left = passed ? (uint32_t)passed + 1 : 1 + random_of(l) % LOOKS;
	l->last = now;
}
