/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

/*
 * How long one load takes, which tells where its line was: own caches, last-level cache, another
 * core's cache, memory (S3 table 1, S5 section 4). The engine times packets with it, and
 * headrace-calibrate times lines that it has put somewhere on purpose, with the very same code.
 *
 * A TSC may advance in steps far longer than a cache hit (22 cycles at once on AMD Zen 3). The
 * mean of several stamps on each side resolves less than a step, as a vernier does, provided that
 * the stamps fall on different parts of it: hence the pauses of unequal length between them.
 * More stamps than four resolve no more here: the machine's own jitter takes over.
 */
#define LOCATE_STAMPS 4
#define LOCATE_DISTURBED 4096 /* cycles; a longer load was interrupted and says nothing */

static __rte_always_inline void locate_fence(void)
{
#if defined(__x86_64__)
	/* Loads before it have completed; none behind it has begun (Intel SDM 8.2.5, AMD APM 7.4.2). */
	__asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb ld; isb" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static __rte_always_inline uint64_t locate_stamps(void)
{
	uint64_t sum = 0, pause = 3;

	for (unsigned int i = 0; i < LOCATE_STAMPS; i++) {
		locate_fence();
		sum += rte_rdtsc();
		for (unsigned int j = 0; j < i; j++) {
			pause *= pause;
			__asm__ volatile("" : "+r"(pause));
		}
	}
	return sum;
}

/* TSC cycles of a load of the byte at `p`, the method's own cost included. */
static __rte_always_inline uint32_t locate_load(const volatile uint8_t *p)
{
	uint64_t before = locate_stamps(), cycles;

	locate_fence();
	(void)*p;
	locate_fence();
	cycles = (locate_stamps() - before) / LOCATE_STAMPS;
	return cycles < LOCATE_DISTURBED ? (uint32_t)cycles : LOCATE_DISTURBED;
}
