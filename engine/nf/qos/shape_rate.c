/* SPDX-License-Identifier: Apache-2.0 */
#include "shape_rate.h"

#include <math.h>

#include <rte_common.h>
#include <rte_cycles.h>

#define TIME_SHIFT 8	    /* rte_sched's fraction bits of cycles per byte */
#define CLOCK_MIN 100000000u /* bytes/s: so that a share in whole numbers is much closer than 2^-24 */
#define TOLERANCE 0.0005

uint64_t shape_clock_rate(uint64_t rate)
{
	uint64_t hz = rte_get_tsc_hz() << TIME_SHIFT;
	uint64_t times = RTE_MAX(2ull, (CLOCK_MIN + rate - 1) / rate);
	uint64_t cycles = RTE_MAX(hz / (rate * times), (uint64_t)1);

	return hz / cycles;
}

struct fraction {
	double p, q;
};

/* The one of least denominator in [low, high], 0 < low < high: by continued fractions. */
static struct fraction simplest(double low, double high)
{
	double whole = floor(low);
	struct fraction rest;

	if (whole == low) /* NOLINT: a whole number is exact */
		return (struct fraction){whole, 1};
	if (floor(high) > whole)
		return (struct fraction){whole + 1, 1};
	rest = simplest(1 / (high - whole), 1 / (low - whole));
	return (struct fraction){whole * rest.p + rest.q, rest.p};
}

uint64_t shape_bucket_rate(uint64_t rate, uint64_t clock)
{
	double share = (double)rate / (double)clock;
	struct fraction f = simplest(share * (1 - TOLERANCE), share * (1 + TOLERANCE));

	/* Upwards, as rte_sched cuts the share off behind its 24th bit. */
	return RTE_MAX((uint64_t)ceil((double)clock * f.p / f.q), (uint64_t)1);
}
