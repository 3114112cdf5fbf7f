/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <rte_cycles.h>

/*
 * How fast a core really runs, beside its TSC. A chain of additions takes one core cycle each, and
 * an invariant TSC ticks at the base frequency, so that an addition takes at most one TSC cycle
 * where nothing holds the core back. More: power saving, or heat.
 *
 * What is added comes from a register that the compiler knows nothing of: since Golden Cove Intel's
 * cores add constants while they rename registers, several in a cycle and in no time of their own.
 *
 * Four such chains side by side take no longer than one where the core is ours alone (x86 and ARM
 * servers have had four adders for long). With a busy hyperthread beside they take twice that.
 */
#define PACE_HZ 100
#define PACE_ADDITIONS 256
#define PACE_TRIES 3 /* an interrupt in one of them is not the core's pace */

struct core_pace {
	uint64_t next;            /* TSC */
	uint64_t samples, cycles; /* cycles: TSC, of PACE_ADDITIONS each */
	uint64_t wide_cycles;     /* of PACE_ADDITIONS in each of four chains */
};

static inline uint64_t pace_once(void)
{
	uint64_t start, x = 0, one = 1;

	__asm__ volatile("" : "+r"(one));
	start = rte_rdtsc_precise();
	for (unsigned int i = 0; i < PACE_ADDITIONS / 16; i++) {
#pragma GCC unroll 16
		for (unsigned int j = 0; j < 16; j++) {
			x += one;
			__asm__ volatile("" : "+r"(x)); /* each waits for the one before */
		}
	}
	return rte_rdtsc_precise() - start;
}

static inline uint64_t pace_wide(void)
{
	uint64_t start, a = 0, b = 0, c = 0, d = 0, one = 1;

	__asm__ volatile("" : "+r"(one));
	start = rte_rdtsc_precise();
	for (unsigned int i = 0; i < PACE_ADDITIONS / 16; i++) {
#pragma GCC unroll 16
		for (unsigned int j = 0; j < 16; j++) {
			a += one;
			b += one;
			c += one;
			d += one;
			__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
		}
	}
	return rte_rdtsc_precise() - start;
}

/* Two empty readings of the clock, which a sample has in it, too. */
static inline uint64_t pace_clock(void)
{
	uint64_t start = rte_rdtsc_precise();

	return rte_rdtsc_precise() - start;
}

static inline void pace_take(struct core_pace *p, uint64_t now)
{
	uint64_t best = UINT64_MAX, wide = UINT64_MAX, clock = UINT64_MAX;

	for (unsigned int i = 0; i < PACE_TRIES; i++) {
		uint64_t c = pace_clock(), took = pace_once();

		clock = RTE_MIN(clock, c);
		best = RTE_MIN(best, took);
		took = pace_wide();
		wide = RTE_MIN(wide, took);
	}
	p->next = now + rte_get_tsc_hz() / PACE_HZ;
	p->samples++;
	p->cycles += best > clock ? best - clock : 0;
	p->wide_cycles += wide > clock ? wide - clock : 0;
}
