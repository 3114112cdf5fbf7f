/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new version of the plan, taken by a running engine: replicas go on on other CPUs, or functions in other
 * segments (repartition.c). Tables have `update`; whatever else differs is refused, and named.
 *
 * All workers end their poll and stop, which is the quiescent point: what is on its way lies in links,
 * in replicas' output queues or with functions, all of which stay as they are. Then each begins
 * again with the replicas that are its own now.
 */
#include "replan.h"
#include "elastic_move.h"
#include "repartition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

static json_t *without_cpus(const json_t *segment)
{
	json_t *copy = json_deep_copy(segment);

	json_object_del(copy, "cpus");
	json_object_del(json_object_get(copy, "parallel"), "cpus");
	return copy;
}

bool segments_alike(const json_t *was, const json_t *is)
{
	json_t *a = without_cpus(was), *b = without_cpus(is);
	bool same = json_equal(a, b);

	json_decref(a);
	json_decref(b);
	return same;
}

/* The same functions in the same segments, in the same order. */
static bool same_partition(const json_t *was, const json_t *is)
{
	if (json_array_size(was) != json_array_size(is))
		return false;
	for (size_t i = 0; i < json_array_size(was); i++)
		if (!segments_alike(json_array_get(was, i), json_array_get(is, i)))
			return false;
	return true;
}

static int same_but_segments(const json_t *was, const json_t *is, struct err *err)
{
	static const char *const parts[] = {"engine", "links", "nfs"};
	char path[32];

	for (unsigned int i = 0; i < RTE_DIM(parts); i++) {
		const json_t *a = json_object_get(was, parts[i]), *b = json_object_get(is, parts[i]);

		snprintf(path, sizeof(path), "plan.%s", parts[i]);
		if (a == b || json_equal(a, b))
			continue;
		return err_set(err, ENOTSUP, path,
			       "differs from the running plan's; allowed: the same%s",
			       strcmp(parts[i], "nfs") ? "" : ", as tables have `update`");
	}
	return 0;
}

static struct worker *worker_on(const struct engine *e, unsigned int cpu)
{
	for (unsigned int i = 0; i < e->n_workers; i++)
		if (e->workers[i].cpu == cpu)
			return &e->workers[i];
	return NULL;
}

/* Workers are lcores, and those are made when the engine starts. */
int engine_has_cpus(const struct engine *e, const struct plan_segment *s, const char *path,
		    struct err *err)
{
	for (unsigned int j = 0; j < s->n_all_cpus; j++) {
		char have[128] = "";

		if (worker_on(e, s->cpus[j]))
			continue;
		for (unsigned int w = 0; w < e->n_workers && strlen(have) < 100; w++)
			snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%u", w ? ", " : "",
				 e->workers[w].cpu);
		return err_set(err, EINVAL, path,
			       "CPU %u; allowed: those that the engine was started with: %s", s->cpus[j],
			       have);
	}
	return 0;
}

static int known_cpus(struct engine *e, const struct plan *next, struct err *err)
{
	for (unsigned int i = 0; i < next->n_segments; i++) {
		const struct plan_segment *s = &next->segments[i], *was = &e->plan->segments[i];
		char path[32];
		int rc;

		snprintf(path, sizeof(path), "plan.segments[%u]", i);
		if (s->n_cpus != was->n_cpus && !was->elastic)
			return err_set(err, ENOTSUP, path,
				       "%u replicas; allowed: as many as there are, %u: each has flows of "
				       "its own, as the segment is not `elastic`", s->n_cpus, was->n_cpus);
		rc = engine_has_cpus(e, s, path, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Its own and those beside it, the latter in the order of the plan's CPUs. */
static struct replica *replica_at(struct engine *e, unsigned int segment, unsigned int j)
{
	unsigned int n = e->plan->segments[segment].n_cpus;
	struct replica *lead = e->replicas[segment][j % n];

	return j < n ? lead : lead->parallel->sides[j / n];
}

void engine_pause(struct engine *e)
{
	e->paused_at = rte_rdtsc();
	for (unsigned int i = 0; i < e->n_workers; i++)
		if (atomic_load(&e->workers[i].start_tsc))
			worker_hold(&e->workers[i]);
	for (unsigned int i = 0; i < e->n_workers; i++) {
		struct worker *w = &e->workers[i];
		uint64_t since = atomic_load(&w->start_tsc);

		if (!since)
			continue;
		worker_held(w);
		w->ref_before += w->clock.mark - since; /* where it ended */
		atomic_store(&w->start_tsc, 0);
		/* An lcore that has nothing to do from now on must not keep buffers to itself. */
		rte_mempool_cache_flush(rte_mempool_default_cache(e->pool, w->lcore), e->pool);
		for (unsigned int r = 0; r < w->n_replicas; r++)
			w->ops_before += w->replicas[r]->busy.ops - w->replicas[r]->ops_elsewhere;
	}
}

static void assign_rest(struct engine *e, unsigned int i, const struct plan_segment *s)
{
	struct plan_segment *own = &e->plan->segments[i];

	own->n_cpus = s->n_cpus;
	own->n_all_cpus = s->n_all_cpus;
	for (unsigned int j = 0; j < own->n_replicas && own->elastic; j++)
		replica_rest(e->replicas[i][j], j >= s->n_cpus);
}

void engine_assign(struct engine *e, const struct plan *next)
{
	for (unsigned int i = 0; i < e->n_workers; i++)
		e->workers[i].n_replicas = 0;
	for (unsigned int i = 0; i < next->n_segments; i++)
		assign_rest(e, i, &next->segments[i]);
	for (unsigned int i = 0; i < next->n_segments; i++)
		for (unsigned int j = 0; j < next->segments[i].n_all_cpus; j++) {
			struct replica *r = replica_at(e, i, j);
			struct worker *w = worker_on(e, next->segments[i].cpus[j]);

			r->cpu = e->plan->segments[i].cpus[j] = w->cpu;
			r->clock = &w->clock;
			r->slicer = &w->slicer;
			r->ops_elsewhere = r->busy.ops;
			w->replicas[w->n_replicas++] = r;
		}
}

/* Elastic segments' buckets to so many replicas as will run, of those that do so now. */
static int spread(struct engine *e, const struct plan *next, bool fewer, unsigned int within_ms,
		  json_t *moves, struct err *err)
{
	for (unsigned int i = 0; i < next->n_segments; i++) {
		unsigned int n = next->segments[i].n_cpus, was = e->plan->segments[i].n_cpus;
		struct elastic_moved moved;
		uint8_t to[PKT_BUCKETS];
		int rc;

		/* Before the pause, those that will rest lose theirs; after it, new ones are given some.
		 * Where none is new, buckets lie as somebody has moved them. */
		if (!e->elastic[i] || (fewer ? n >= was : !elastic_lacks(e->elastic[i], n)))
			continue;
		elastic_spread(e->elastic[i], n, to);
		rc = elastic_move(e, i, to, within_ms, &moved, err);
		if (rc)
			return rc;
		if (moved.buckets)
			json_array_append_new(moves, elastic_moved_json(next->segments[i].name, &moved));
	}
	return 0;
}

/* With the running plan's own links and functions, in their order, by which they are known. */
static int parse_next(struct engine *e, json_t *json, struct plan **next, struct err *err)
{
	json_t *own = json_copy(e->plan->json);
	int rc = plan_parse(json, next, err);

	if (!rc)
		rc = same_but_segments(e->plan->json, json, err);
	if (!rc) {
		plan_free(*next);
		*next = NULL;
		json_object_set(own, "segments", json_object_get(json, "segments"));
		rc = plan_parse(own, next, err);
	}
	json_decref(own);
	return rc;
}

/* The plan is in force: an answer that said no would be of one that is not. */
static json_t *replan_reply(uint64_t paused, json_t *moves, const struct err *late)
{
	json_t *reply = json_pack("{s:b, s:I, s:o}", "ok", 1, "paused_ns",
				  (json_int_t)((double)paused * 1e9 / (double)rte_get_tsc_hz()), "moves",
				  moves);

	if (late)
		json_object_set_new(reply, "late", json_sprintf("%s: %s", late->path, late->msg));
	return reply;
}

/* The same partition, on other CPUs. */
static int replace(struct engine *e, const struct plan *next, unsigned int within_ms, json_t **reply,
		   struct err *err)
{
	struct err late = {0};
	json_t *moves = json_array();
	int rc = known_cpus(e, next, err);

	if (!rc)
		rc = spread(e, next, true, within_ms, moves, err);
	if (rc) {
		json_decref(moves);
		return rc;
	}
	engine_pause(e);
	engine_assign(e, next);
	rc = engine_launch(e, err);
	if (rc)
		json_decref(moves);
	else
		*reply = replan_reply(engine_paused(e), moves,
				      spread(e, next, false, within_ms, moves, &late) ? &late : NULL);
	return rc;
}

int engine_replan(struct engine *e, json_t *json, unsigned int within_ms, json_t **reply,
		  struct err *err)
{
	struct plan *next = NULL;
	int rc = parse_next(e, json, &next, err);

	if (!rc && same_partition(json_object_get(e->plan->json, "segments"),
				  json_object_get(next->json, "segments")))
		rc = replace(e, next, within_ms, reply, err);
	else if (!rc)
		rc = engine_repartition(e, next, within_ms, reply, err);
	plan_free(next);
	return rc;
}
