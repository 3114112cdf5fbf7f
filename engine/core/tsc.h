/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

#define TSC_TRIES 64

/* The TSC and CLOCK_MONOTONIC_RAW, read together. */
void clock_pair(uint64_t *tsc, uint64_t *ns);

/* Cycles from one reading of the TSC to the next: the least of several. */
static inline uint64_t tsc_read_cycles(void)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < TSC_TRIES; i++) {
		uint64_t start = rte_rdtsc();

		least = RTE_MIN(least, rte_rdtsc() - start);
	}
	return least;
}
