/* SPDX-License-Identifier: Apache-2.0 */
#include "tsc.h"

#include <time.h>

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* One pair of readings, the tightest of several, so that a preemption between does not count. */
void clock_pair(uint64_t *tsc, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TSC_TRIES; i++) {
		uint64_t a = rte_rdtsc_precise(), n = monotonic_ns(), b = rte_rdtsc_precise();

		if (b - a < best) {
			best = b - a;
			*tsc = a + (b - a) / 2;
			*ns = n;
		}
	}
}
