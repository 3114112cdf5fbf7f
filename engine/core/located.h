/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "locate.h"
#include "plan.h"

/*
 * Where packets were when a segment first touched them: on one packet in `every` the first header
 * load is timed, before anything prefetches it, and put into a class by the calibrated limits.
 * Functions behind the first of a segment have samples of their own: each located packet is timed
 * at one of the functions, in turn, so that the cost does not grow with the chain.
 */
#define LOCATED_STEP                                                                               \
	4 /* cycles per bucket: a second-level hit is some five more than a first-level one */
#define LOCATED_BUCKETS (LOCATE_DISTURBED / LOCATED_STEP)

struct located {
	uint64_t samples, disturbed;
	uint64_t cycles; /* sum over samples, beyond a first-level hit */
	uint64_t classes[PLAN_CLASSES_MAX];
	uint32_t buckets[LOCATED_BUCKETS];
};

static inline void located_note(struct located *l, const struct plan_engine *plan,
				const void *header)
{
	const struct plan_class *classes = plan->locate.classes.items;
	uint32_t cycles = locate_load(header);
	size_t c = 0;

	if (cycles >= LOCATE_DISTURBED) {
		l->disturbed++;
		return;
	}
	l->samples++;
	l->cycles += cycles;
	l->buckets[cycles / LOCATED_STEP]++;
	while (c + 1 < plan->locate.classes.count && cycles >= classes[c].below_cycles)
		c++;
	l->classes[c]++;
}

/* {"samples", "disturbed", "mean_cycles", "classes": {name: n}, "cycles": {"lower bound": n}} */
json_t *located_json(const struct located *l, const struct plan_engine *plan);
