/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/*
 * Log-linear histogram with the bucket layout of HdrHistogram at three significant digits:
 * 2048 linear sub-buckets, then 1024 per doubling, up to HIST_MAX. hist_encode writes HdrHistogram's
 * V2 compressed form, which its readers in every language take.
 */
#define HIST_HALF_BITS 10
#define HIST_HALF (1u << HIST_HALF_BITS)
#define HIST_MAX_BITS 37 /* values below 2^37: 137 s in ns */
#define HIST_SLOTS ((HIST_MAX_BITS - HIST_HALF_BITS) * HIST_HALF + HIST_HALF)

struct hist {
	uint64_t count, sum, min, max;
	uint64_t saturated; /* values above the largest, recorded as it */
	uint64_t slots[HIST_SLOTS];
};

static inline unsigned int hist_index(uint64_t v)
{
	unsigned int bucket = 64 - __builtin_clzll(v | (2 * HIST_HALF - 1)) - (HIST_HALF_BITS + 1);

	return (bucket << HIST_HALF_BITS) + (unsigned int)(v >> bucket);
}

/* sum, min and max are the caller's to keep: it has them in registers across a burst. */
static inline void hist_record(struct hist *h, uint64_t v)
{
	h->slots[hist_index(v)]++;
}

void hist_reset(struct hist *h);
void hist_add(struct hist *to, const struct hist *from);
/* Smallest value that at least `share` (0..1) of the recorded ones do not exceed; 0 if empty. */
uint64_t hist_percentile(const struct hist *h, double share);
/*
 * Empties `from` into `to`, in one walk over the slots that it uses. `values`: as hist_percentile's of
 * what was in it, for `n` shares that rise; all 0 where it was empty.
 */
void hist_move(struct hist *to, struct hist *from, const double *shares, uint64_t *values, unsigned int n);
/* malloc'ed base64 of the V2 compressed encoding; NULL when out of memory. */
char *hist_encode(const struct hist *h);
/* {hdr, count, min_ns, mean_ns, max_ns} */
json_t *hist_json(const struct hist *h);
