/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

/*
 * How long one load takes, which tells where its line was: own caches, last-level cache, another
 * core's cache, memory (Zheng et al. 2019, Sieber et al. 2017). The engine times packets with it, and
 * headrace-calibrate times lines that it has put somewhere on purpose, with the very same code.
 *
 * A TSC may advance in steps far longer than a cache hit (22 cycles at once on AMD Zen 3), as long
 * as what lies between the second-level cache and the last. The mean of several reads on each side
 * resolves less than a step, as a vernier does, provided that they fall on different parts of it.
 * Reads with nothing between them do: they are 25 cycles apart there, so that nine of them cross a
 * step from one end to the other. (With a fence before each they are two steps apart, and all of
 * them see the same part.)
 */
#define LOCATE_READS 9
#define LOCATE_DISTURBED 4096 /* cycles; a longer load was interrupted and says nothing */

static __rte_always_inline void locate_fence(void)
{
#if defined(__x86_64__)
	/* Loads before it have completed; none behind it has begun (Intel SDM 8.2.5, AMD
	 * APM 7.4.2). */
	__asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb ld; isb" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static __rte_always_inline uint64_t locate_reads(void)
{
	uint64_t sum = 0;

#pragma GCC unroll 9
	for (unsigned int i = 0; i < LOCATE_READS; i++)
		sum += rte_rdtsc();
	return sum;
}

/*
 * TSC cycles of a load of the byte at `p` beyond those of a hit in the first-level cache. Loading
 * it a second time says what a hit, the fences and the reads cost, at the frequency that the core
 * has just now: that part is ten times a second-level hit and changes with the frequency.
 */
static __rte_always_inline uint32_t locate_load(const volatile uint8_t *p)
{
	uint64_t before, between, after;
	int64_t cycles;

	locate_fence();
	before = locate_reads();
	locate_fence();
	(void)*p;
	locate_fence();
	between = locate_reads();
	locate_fence();
	(void)*p;
	locate_fence();
	after = locate_reads();
	cycles = (int64_t)(2 * between - before - after) / LOCATE_READS;
	if (cycles < 0)
		return 0;
	return cycles < LOCATE_DISTURBED ? (uint32_t)cycles : LOCATE_DISTURBED;
}
