/* SPDX-License-Identifier: Apache-2.0 */
/* Delays in slices of time, beside those of a whole trial: what a machine did to one of them shows. */
#include <rte_cycles.h>

#include "sink.h"

static uint32_t narrow(uint64_t ns)
{
	return (uint32_t)RTE_MIN(ns, UINT32_MAX);
}

void sink_slice_over(struct sink_trial *t, uint64_t now)
{
	static const double shares[] = {0.5, 0.99};
	struct sink_slices *s = &t->slices;
	struct hist *h = &t->slice;
	struct sink_slice one = {.begin = s->begin,
				 .end = t->last_tsc,
				 .packets = narrow(h->count),
				 .max_ns = narrow(h->max)};
	uint64_t n = atomic_load_explicit(&s->n, memory_order_relaxed), values[RTE_DIM(shares)],
		 step = rte_get_tsc_hz() / SINK_SLICE_HZ;

	hist_move(&t->latency, h, shares, values, RTE_DIM(shares));
	one.p50_ns = narrow(values[0]);
	one.p99_ns = narrow(values[1]);
	s->begin = now;
	/* On a grid from the first packet on: whoever looks on knows when each is over. */
	s->next = s->next ? s->next + ((now - s->next) / step + 1) * step : now + step;
	if (!one.packets) /* before the first, or none of them told when it was sent */
		return;
	s->ring[n % SINK_SLICES] = one;
	atomic_store_explicit(&s->n, n + 1, memory_order_release);
}

static json_t *rows(const struct sink_trial *t, uint64_t since, uint64_t until)
{
	const struct sink_slices *s = &t->slices;
	uint64_t n = atomic_load_explicit(&s->n, memory_order_acquire);
	json_t *list = json_array();

	/* The oldest few may be written over while they are read. */
	for (uint64_t i = n > SINK_SLICES - SINK_SLICE_HZ ? n - (SINK_SLICES - SINK_SLICE_HZ) : 0;
	     i < n; i++) {
		const struct sink_slice *one = &s->ring[i % SINK_SLICES];

		if (one->begin >= since && one->end <= until)
			json_array_append_new(list, json_pack("[I, I, I, I, I, I]", (json_int_t)one->begin,
							      (json_int_t)one->end,
							      (json_int_t)one->packets,
							      (json_int_t)one->p50_ns,
							      (json_int_t)one->p99_ns,
							      (json_int_t)one->max_ns));
	}
	return list;
}

json_t *sink_slices_json(struct link *l, uint64_t since, uint64_t until)
{
	const struct sink *s = l->state;
	json_t *queues = json_array();

	for (uint16_t i = 0; i < s->n; i++) {
		const struct sink_trial *t = atomic_load(&s->queues[i].trial);

		json_array_append_new(queues, t ? rows(t, since, until) : json_array());
	}
	return json_pack("{s:[s, s, s, s, s, s], s:o}", "columns", "begin", "end", "packets", "p50_ns",
			 "p99_ns", "max_ns", "queues", queues);
}
