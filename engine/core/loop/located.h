/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>

#include "core/locate.h"
#include "core/plan/plan.h"

/*
 * Where packets were when a segment first touched them: on one packet in `every` the first header
 * load is timed, before anything prefetches it, and put into a class by the calibrated limits.
 * Nothing of the packet is touched before, its mbuf neither: a prefetcher that has seen mbufs and
 * headers at one distance, packet by packet, brings the header as soon as the mbuf is read.
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

static inline void located_note(struct located *l, const struct plan_engine *plan, uint32_t cycles)
{
	const struct plan_class *classes = plan->locate.classes.items;
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

/* Cycles of the first load of the packet's header; `offset`: from its mbuf, where it mostly is. */
static inline uint32_t located_time(const struct rte_mbuf *m, size_t offset)
{
	const uint8_t *usual = (const uint8_t *)m + offset, *header;
	uint32_t cycles = locate_load(usual);
	uintptr_t apart;

	header = rte_pktmbuf_mtod(m, const uint8_t *);
	apart = (uintptr_t)header ^ (uintptr_t)usual;
	if (likely(apart < RTE_CACHE_LINE_SIZE))
		return cycles;
	/* Moved by a header put on or taken off, or in a buffer of its own. */
	return locate_load(header);
}

/* {"samples", "disturbed", "mean_cycles", "classes": {name: n}, "cycles": {"lower bound": n}} */
json_t *located_json(const struct located *l, const struct plan_engine *plan);
