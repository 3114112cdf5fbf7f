/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a line costs that another core has: clean, as after it read it, or modified (Zheng et al. 2019).
 * Each ordered pair of CPUs; Zheng et al.'s point is that a pipeline pays this for every packet.
 */
#include <errno.h>
#include <stdlib.h>

#include "calibrate.h"
#include "place.h"

#define PAIRS_MAX 256 /* of more CPUs than 16 a part: the first ones with each other */

struct pair {
	struct sample clean, modified, own;
};

static double walk(const struct placed *placed)
{
	uint64_t start = rte_rdtsc_precise();

	lines_walk(placed->lines[0], PLACED_LINES);
	return (double)(rte_rdtsc_precise() - start) / PLACED_LINES;
}

static void measure_pair(struct partner *p, struct placed *placed, struct pair *pair)
{
	partner_run(p, placed_modify, placed);
	sample_add(&pair->modified, walk(placed));
	sample_add(&pair->own, walk(placed));
	if (placed_flush(placed)) {
		partner_run(p, placed_read, placed);
		sample_add(&pair->clean, walk(placed));
	}
}

static json_t *pair_json(const struct pair *pair, unsigned int from, unsigned int to)
{
	json_t *o = json_pack("{s:i, s:i, s:o, s:o}", "from", (int)from, "to", (int)to, "modified",
			      sample_json(&pair->modified), "own", sample_json(&pair->own));

	json_object_set_new(o, "clean", pair->clean.n ? sample_json(&pair->clean) : json_null());
	return o;
}

/* Lines go from the CPU `from` to the CPU `to`, which this thread is on. */
static int measure_to(const struct options *o, unsigned int to, unsigned int n, struct placed *placed,
		      json_t *list, struct err *err)
{
	struct partner p;
	int rc = pin_to(o->cpus[to], err);

	for (unsigned int from = 0; !rc && from < n; from++) {
		struct pair pair = {0};

		if (from == to)
			continue;
		rc = partner_start(&p, o->cpus[from], err);
		if (rc)
			break;
		for (unsigned int i = 0; i < ROUNDS_MAX; i++)
			measure_pair(&p, placed, &pair);
		partner_stop(&p);
		json_array_append_new(list, pair_json(&pair, o->cpus[from], o->cpus[to]));
	}
	return rc;
}

json_t *measure_transfer(const struct options *o, struct err *err)
{
	unsigned int n = o->n_cpus;
	json_t *list = json_array();
	struct placed placed = {0};
	int rc = placed_map(&placed, -1, err);

	while (n * (n - 1) > PAIRS_MAX)
		n--;
	for (unsigned int to = 0; !rc && to < n; to++)
		rc = measure_to(o, to, n, &placed, list, err);
	region_unmap(&placed.region);
	if (!rc)
		return list;
	json_decref(list);
	return NULL;
}
