/* SPDX-License-Identifier: Apache-2.0 */
/* Delay of one access and rate of many: a pointer chase, and prefetched gathers, over sizes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <rte_common.h>
#include <rte_prefetch.h>

#include "calibrate.h"

#define SIZE_FIRST ((size_t)8 << 10)
#define SIZES_MAX 64
#define CHUNK 2000 /* steps timed together: shorter than what lies between two interruptions */
#define CHUNKS_MAX 50
#define WARM_MAX 400000
#define POINT_S 0.05 /* at most, per point and round */
#define GATHER 32 /* lines per batch: a burst's worth */

struct point {
	size_t bytes;
	struct sample cycles;
};

struct curve {
	unsigned int n;
	struct point points[SIZES_MAX];
};

/* Half-octave steps up to what is far beyond the last-level cache. */
static void sizes(const struct options *o, struct curve *c, double factor)
{
	double bytes = SIZE_FIRST;

	for (c->n = 0; c->n < SIZES_MAX && bytes <= (double)o->memory_bytes * 1.01; bytes *= factor) {
		c->points[c->n] = (struct point){.bytes = (size_t)bytes / LINE * LINE};
		c->n++;
	}
}

static int chase_once(struct region *r, struct point *p, struct err *err)
{
	size_t n = p->bytes / LINE;
	struct line *at = (struct line *)r->addr;
	struct sample chunks = {0};
	uint64_t start, until;
	int rc = lines_shuffle(at, n, err);

	if (rc)
		return rc;
	/* What fits into a cache is there afterwards; of what does not, the end is. */
	at = lines_walk(at, RTE_MIN(2 * n, WARM_MAX));
	until = rte_rdtsc() + (uint64_t)(POINT_S * tsc_hz());
	while (chunks.n < CHUNKS_MAX && rte_rdtsc() < until) {
		start = rte_rdtsc_precise();
		at = lines_walk(at, CHUNK);
		sample_add(&chunks, (double)(rte_rdtsc_precise() - start) / CHUNK);
	}
	/* The median: chunks that were interrupted do not count. */
	sample_add(&p->cycles, sample_median(&chunks));
	return 0;
}

static uint64_t gather_chunk(struct line *lines, size_t n, uint64_t *random)
{
	struct line *batch[GATHER];
	uint64_t sum = 0;

	for (unsigned int b = 0; b < CHUNK / GATHER; b++) {
		for (unsigned int i = 0; i < GATHER; i++) {
			batch[i] = &lines[random_next(random) % n];
			rte_prefetch0(batch[i]);
		}
		for (unsigned int i = 0; i < GATHER; i++)
			sum += batch[i]->value;
	}
	return sum;
}

static int gather_once(struct region *r, struct point *p, struct err *err)
{
	size_t n = p->bytes / LINE;
	struct line *lines = (struct line *)r->addr;
	uint64_t random = 0x9e3779b97f4a7c15u, sum = 0, start;
	struct sample chunks = {0};

	(void)err;
	for (unsigned int i = 0; i < RTE_MIN(2 * n, WARM_MAX) / CHUNK; i++)
		sum += gather_chunk(lines, n, &random);
	while (chunks.n < CHUNKS_MAX) {
		start = rte_rdtsc_precise();
		sum += gather_chunk(lines, n, &random);
		sample_add(&chunks, (double)(rte_rdtsc_precise() - start) / (CHUNK / GATHER * GATHER));
	}
	__asm__ volatile("" : "+r"(sum));
	/* The median: chunks that were interrupted do not count. */
	sample_add(&p->cycles, sample_median(&chunks));
	return 0;
}

static json_t *curve_json(const struct curve *c)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < c->n; i++) {
		json_t *point = sample_json(&c->points[i].cycles);

		json_object_set_new(point, "bytes", json_integer((json_int_t)c->points[i].bytes));
		json_array_append_new(list, point);
	}
	return list;
}

static json_t *measure_node(const struct options *o, int node, double factor,
			    int (*once)(struct region *, struct point *, struct err *), struct err *err)
{
	struct curve *c = calloc(1, sizeof(*c));
	struct region r = {0};
	json_t *result = NULL;

	if (!c || region_map(&r, o->memory_bytes, node, err))
		goto out;
	sizes(o, c, factor);
	for (unsigned int round = 0; round < o->rounds; round++)
		for (unsigned int i = 0; i < c->n; i++)
			if (once(&r, &c->points[i], err))
				goto out;
	result = json_pack("{s:i, s:I, s:o}", "node", node, "page_bytes", (json_int_t)r.page_bytes,
			   "points", curve_json(c));
out:
	region_unmap(&r);
	free(c);
	return result;
}

static json_t *measure_nodes(const struct options *o, double factor,
			     int (*once)(struct region *, struct point *, struct err *),
			     struct err *err)
{
	json_t *list = json_array(), *one;

	if (pin_to(o->cpus[0], err))
		goto failed;
	for (unsigned int i = 0; i < RTE_MAX(o->n_nodes, 1u); i++) {
		one = measure_node(o, o->n_nodes ? (int)o->nodes[i] : -1, factor, once, err);
		if (!one)
			goto failed;
		json_array_append_new(list, one);
	}
	return list;
failed:
	json_decref(list);
	return NULL;
}

json_t *measure_chase(const struct options *o, struct err *err)
{
	return measure_nodes(o, M_SQRT2, chase_once, err);
}

json_t *measure_gather(const struct options *o, struct err *err)
{
	return measure_nodes(o, 4, gather_once, err);
}

int thrash(const struct options *o, struct err *err)
{
	struct region r = {0};
	uint64_t random = 88172645463325252u;
	int rc = pin_to(o->cpus[0], err);

	if (!rc)
		rc = region_map(&r, o->thrash_bytes, -1, err);
	if (rc)
		return rc;
	for (;;) {
		struct line *line = (struct line *)(r.addr + random_next(&random) % r.bytes / LINE * LINE);

		/* Writing makes neighbours' lines leave and costs write-backs, too. Never ends by itself. */
		line->value++;
	}
}
