/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions go to other segments while packets come, with what they keep (docs/design/elastic.md):
 *
 * 1. What takes memory is made.
 * 2. Packets for segments that leave wait in front of them: in the ring, which its reader no longer looks
 *    into, or, where that is elastic, with who writes it. The segments go on until nothing is left in them.
 * 3. All workers pause. Functions are given to the new segments, with their workers, tables and counts.
 * 4. All go on. Packets that waited come first.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>

#include "repartition.h"
#include "elastic_move.h"
#include "replan.h"

#define NAP_NS 5000
#define NAP_MAX_NS 1000000

static uint16_t rx_nothing(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	(void)q;
	(void)pkts;
	(void)n;
	return 0;
}

static bool is_closed(const struct inlet *in)
{
	return atomic_load(&in->rx) == rx_nothing;
}

static void close_inlets(struct repartition *c, unsigned int s, bool close)
{
	const struct plan_segment *segment = &c->e->plan->segments[s];

	for (unsigned int j = 0; j < segment->n_replicas && !segment->elastic; j++) {
		struct replica *r = c->e->replicas[s][j];

		for (unsigned int k = 0; k < r->n_inlets; k++)
			if (repartition_enters(c, r->inlets[k].link))
				atomic_store(&r->inlets[k].rx,
					     close ? rx_nothing : r->inlets[k].q.link->ops->rx);
	}
}

/* Writers that stay: their ways into segments that leave. */
static void close_ways(struct repartition *c, unsigned int s, bool close)
{
	for (unsigned int j = 0; j < c->e->plan->segments[s].n_replicas; j++) {
		const struct replica *r = c->e->replicas[s][j];

		for (unsigned int k = 0; k < r->n_outlets; k++) {
			struct elastic_way *way = r->outlets[k].way;
			int reader = plan_reader(c->e->plan, r->outlets[k].link);

			if (way && c->leaves[reader])
				atomic_store(&way->elastic, close ? c->gate : c->e->elastic[reader]);
		}
	}
}

static void close_all(struct repartition *c, bool close)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++) {
		if (c->leaves[s])
			close_inlets(c, s, close);
		else
			close_ways(c, s, close);
	}
}

static bool rings_are_empty(const struct replica *r)
{
	for (unsigned int k = 0; k < r->n_inlets; k++) {
		const struct inlet *in = &r->inlets[k];
		const struct link *l = in->q.link;

		if (!is_closed(in) && !l->ops->taken(l, r->index, l->ops->written(l, r->index)))
			return false;
	}
	return true;
}

/* As far as it can be seen while workers run. */
static bool seems_empty(struct repartition *c)
{
	const struct engine *e = c->e;

	if (!elastic_followed(e, c->gate))
		return false;
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int j = 0; c->leaves[s] && j < e->plan->segments[s].n_replicas; j++)
			if (!rings_are_empty(e->replicas[s][j]))
				return false;
	return true;
}

static bool has_nothing(const struct replica *r)
{
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		const struct outlet *o = &r->outlets[i];

		for (uint16_t d = 0; d < o->n_dests; d++)
			if (o->queues[d].n)
				return false;
		if (o->way && o->way->n)
			return false;
	}
	return true;
}

/* While workers pause. */
static bool is_empty(struct repartition *c)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		for (unsigned int j = 0; c->leaves[s] && j < c->e->plan->segments[s].n_replicas; j++)
			if (!has_nothing(c->e->replicas[s][j]))
				return false;
	return seems_empty(c);
}

static bool is_over(const struct repartition *c)
{
	return rte_rdtsc() > c->end || (c->e->ends && atomic_load(c->e->ends));
}

static bool until(struct repartition *c, bool (*done)(struct repartition *c), long nap_ns)
{
	const struct timespec nap = {0, nap_ns};

	while (!done(c)) {
		if (is_over(c))
			return false;
		if (c->e->idle)
			c->e->idle(c->e);
		else
			nanosleep(&nap, NULL);
	}
	return true;
}

/* Former moves of buckets, which somebody did not follow in time. */
static bool moves_are_over(struct repartition *c)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		if (c->leaves[s] && c->e->elastic[s] && !elastic_followed(c->e, c->e->elastic[s]))
			return false;
	return true;
}

/* 1: workers pause, and nothing is under way in segments that leave. 0: not in time, and they run. */
static int pause_empty(struct repartition *c, struct err *err)
{
	for (long nap_ns = NAP_NS; until(c, seems_empty, NAP_NS); nap_ns = RTE_MIN(2 * nap_ns, NAP_MAX_NS)) {
		const struct timespec nap = {0, nap_ns};

		engine_pause(c->e);
		c->pauses++;
		if (is_empty(c))
			return 1;
		if (engine_launch(c->e, err))
			return -EBUSY;
		c->paused += engine_paused(c->e);
		if (c->e->idle)
			c->e->idle(c->e);
		else
			nanosleep(&nap, NULL);
	}
	return 0;
}

/* Those in rings that nobody looks into just now; those with writers are counted by them. */
static uint64_t in_closed(const struct repartition *c)
{
	uint64_t n = 0;

	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		for (unsigned int k = 0; c->leaves[s] && k < c->e->replicas[s][0]->n_inlets; k++) {
			struct inlet *in = &c->e->replicas[s][0]->inlets[k];

			if (is_closed(in))
				n += in->q.link->ops->waiting(in->q.link, 0);
		}
	return n;
}

static json_t *said(const struct repartition *c, uint64_t began)
{
	double ns = 1e9 / (double)rte_get_tsc_hz();
	unsigned int made = 0, moved = 0;

	for (unsigned int i = 0; i < c->e->plan->n_segments; i++) {
		made += c->stays[i] < 0;
		moved += c->stays[i] < 0 ? c->e->plan->segments[i].n_nodes : 0;
	}
	return json_pack("{s:b, s:I, s:[], s:{s:i, s:i, s:I, s:i, s:I}}", "ok", 1, "paused_ns",
			 (json_int_t)((double)c->paused * ns), "moves", "partition", "segments", made,
			 "functions", moved, "waited", (json_int_t)c->waited, "pauses", (int)c->pauses,
			 "took_ns", (json_int_t)((double)(rte_rdtsc() - began) * ns));
}

/* Packets wait no longer; the plan is as it was. Workers pause, as one may look at the gate just now. */
static int give_up(struct repartition *c, unsigned int within_ms, struct err *err)
{
	engine_pause(c->e);
	close_all(c, false);
	if (engine_launch(c->e, err))
		return -EBUSY;
	return err_set(err, EBUSY, "plan.segments",
		       "packets are under way in segments that would change after %u ms: an output has no "
		       "room, or a writer of their rings waits; all is as it was", within_ms);
}

static int change(struct repartition *c, unsigned int within_ms, struct err *err)
{
	uint64_t waited;
	int rc;

	if (!until(c, moves_are_over, NAP_NS))
		return err_set(err, EBUSY, "plan.segments",
			       "a former move of buckets is not over within %u ms", within_ms);
	waited = elastic_waited(c->e, NULL);
	close_all(c, true);
	rc = pause_empty(c, err);
	if (rc < 1)
		return rc ? rc : give_up(c, within_ms, err);
	c->waited = in_closed(c) + elastic_waited(c->e, NULL) - waited;
	repartition_switch(c);
	engine_assign(c->e, c->e->plan);
	rc = engine_launch(c->e, err);
	c->paused += engine_paused(c->e);
	return rc;
}

int engine_repartition(struct engine *e, struct plan *next, unsigned int within_ms, json_t **reply,
		       struct err *err)
{
	uint64_t began = rte_rdtsc();
	struct repartition c = {.e = e, .next = next,
				.end = began + within_ms * rte_get_tsc_hz() / 1000};
	int rc;

	c.to.plan = next;
	c.leaves = calloc(e->plan->n_segments, sizeof(*c.leaves));
	c.stays = calloc(next->n_segments, sizeof(*c.stays));
	rc = c.leaves && c.stays ? repartition_check(&c, err)
				 : err_set(err, ENOMEM, "plan", "out of memory");
	if (!rc)
		rc = repartition_make(&c, err);
	if (!rc)
		rc = change(&c, within_ms, err);
	if (!rc)
		*reply = said(&c, began);
	repartition_free(&c);
	return rc;
}
