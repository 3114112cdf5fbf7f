/* SPDX-License-Identifier: Apache-2.0 */
/* Slices as JSON: rows of numbers, as there are thousands of them. */
#include <stddef.h>
#include <stdlib.h>

#include <rte_cycles.h>

#include "control.h"

struct column {
	const char *name;
	size_t offset;
	bool wide; /* uint64_t; otherwise uint32_t */
};

#define WIDE(field) {#field, offsetof(struct slice, field), true}
#define NARROW(field) {#field, offsetof(struct slice, field), false}

static const struct column columns[] = {
	WIDE(end), WIDE(ref), WIDE(ops), WIDE(pauses), WIDE(turn_cycles),
	WIDE(turn_cycles_by_packets), NARROW(kept_us), NARROW(packets), NARROW(found),
	NARROW(turns), NARROW(turn_packets), NARROW(turn_packets_squared), NARROW(pace),
	NARROW(wide), NARROW(line),
};

static json_t *row(const struct slice *s)
{
	json_t *values = json_array();

	for (unsigned int i = 0; i < RTE_DIM(columns); i++) {
		const char *at = (const char *)s + columns[i].offset;
		uint64_t v = columns[i].wide ? *(const uint64_t *)at : *(const uint32_t *)at;

		json_array_append_new(values, json_integer((json_int_t)v));
	}
	return values;
}

static json_t *of_replica(const struct replica *r, uint64_t since, uint64_t until,
			  struct slice *room, unsigned int most)
{
	unsigned int n = slices_between(r->slices, since, until, room, most);
	json_t *rows = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(rows, row(&room[i]));
	return json_pack("{s:i, s:o}", "cpu", (int)r->cpu, "rows", rows);
}

json_t *stats_slices(struct engine *e, uint64_t since, uint64_t until, unsigned int most)
{
	struct slice *room = calloc(most, sizeof(*room));
	json_t *segments = json_object(), *names = json_array(), *delays = json_object();

	if (!room) {
		json_decref(segments);
		json_decref(names);
		json_decref(delays);
		return NULL;
	}
	for (unsigned int i = 0; i < RTE_DIM(columns); i++)
		json_array_append_new(names, json_string(columns[i].name));
	for (unsigned int s = 0; s < e->plan->n_segments; s++) {
		json_t *list = json_array();

		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++)
			json_array_append_new(list, of_replica(e->replicas[s][i], since, until,
							       room, most));
		json_object_set_new(segments, e->plan->segments[s].name, list);
	}
	free(room);
	for (unsigned int i = 0; i < e->n_links; i++)
		if (e->links[i].ops->measures && e->links[i].ops->measures->slices)
			json_object_set_new(delays, e->links[i].name,
					    e->links[i].ops->measures->slices(&e->links[i], since, until));
	return json_pack("{s:b, s:I, s:I, s:i, s:o, s:o, s:o}", "ok", 1, "tsc", (json_int_t)rte_rdtsc(),
			 "tsc_hz", (json_int_t)rte_get_tsc_hz(), "additions", PACE_ADDITIONS,
			 "columns", names, "segments", segments, "delays", delays);
}
