/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Before each source of a build for fuzzing (engine/meson.build): what reads the TSC reads a variable
 * instead, where a target has set one. A TSC that the kernel makes fault (tests/virtual_tsc.h) takes
 * microseconds each time, and a chain reads it a dozen times for every burst.
 */
#if __has_include(<rte_cycles.h>) /* not every source is compiled with DPDK's headers */
#include <rte_cycles.h>

extern uint64_t fuzz_tsc; /* 0: the machine's own */

static inline uint64_t fuzz_rdtsc(void)
{
	return fuzz_tsc ? fuzz_tsc : rte_rdtsc();
}

#define rte_rdtsc fuzz_rdtsc
#define rte_rdtsc_precise fuzz_rdtsc
#define rte_get_tsc_cycles fuzz_rdtsc
#define rte_get_timer_cycles fuzz_rdtsc
#endif
