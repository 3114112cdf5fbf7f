/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets of an elastic segment go to other replicas while packets come (docs/design/elastic.md):
 *
 * 1. Nobody has them. Every writer says that it steers by that: their packets wait with it.
 * 2. Who had them takes from its queues what was put there before, and ends that poll: by then all of it
 *    has left the segment, and what is kept of those flows is written.
 * 3. The others have them. Writers let go what waits, and then what comes.
 *
 * What is kept of a flow stays where it is. Each step is seen by the next one's threads, as it
 * begins with an acquire of what the one before released.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include "elastic_move.h"
#include "engine.h"

#define SPINS 200        /* before the control thread lets go of its CPU, which may be an lcore's */
#define NAP_NS 10000

struct move {
	struct engine *e;
	unsigned int segment;
	struct elastic *elastic;
	const uint8_t *to;
	uint64_t end; /* TSC until which others are waited for, in all of its steps together */
	bool from[ELASTIC_REPLICAS_MAX]; /* replicas that give some away */
	uint32_t marks[ELASTIC_REPLICAS_MAX][ELASTIC_INPUTS_MAX];
	uint64_t turns[ELASTIC_REPLICAS_MAX];
};

static unsigned int n_replicas(const struct move *m)
{
	return m->e->plan->segments[m->segment].n_replicas;
}

static bool until(struct move *m, bool (*done)(struct move *m))
{
	const struct timespec nap = {0, NAP_NS};

	for (unsigned int i = 0; !done(m); i++) {
		if (rte_rdtsc() > m->end || (m->e->ends && atomic_load(m->e->ends)))
			return false;
		if (m->e->idle)
			m->e->idle(m->e);
		else if (i % SPINS)
			rte_pause();
		else
			nanosleep(&nap, NULL);
	}
	return true;
}

static bool writer_follows(const struct replica *r, const struct elastic *elastic)
{
	uint32_t generation = atomic_load_explicit(&elastic->generation, memory_order_relaxed);

	for (unsigned int i = 0; i < r->n_outlets; i++) {
		const struct elastic_way *way = r->outlets[i].way;

		if (way && elastic_of(way) == elastic && !r->rests &&
		    atomic_load_explicit(&way->seen, memory_order_acquire) != generation)
			return false;
	}
	return true;
}

bool elastic_followed(const struct engine *e, const struct elastic *elastic)
{
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++)
			if (!writer_follows(e->replicas[s][i], elastic))
				return false;
	return true;
}

static bool writers_follow(struct move *m)
{
	return elastic_followed(m->e, m->elastic);
}

static void note_marks(struct move *m)
{
	for (unsigned int i = 0; i < n_replicas(m); i++) {
		const struct replica *r = m->e->replicas[m->segment][i];

		for (unsigned int k = 0; m->from[i] && k < r->n_inlets; k++)
			m->marks[i][k] = r->inlets[k].q.link->ops->written(r->inlets[k].q.link, r->index);
	}
}

static bool queues_taken(struct move *m)
{
	for (unsigned int i = 0; i < n_replicas(m); i++) {
		const struct replica *r = m->e->replicas[m->segment][i];

		for (unsigned int k = 0; m->from[i] && k < r->n_inlets; k++)
			if (!r->inlets[k].q.link->ops->taken(r->inlets[k].q.link, r->index, m->marks[i][k]))
				return false;
	}
	return true;
}

static uint64_t turns_of(const struct move *m, unsigned int i)
{
	return atomic_load_explicit(&m->e->replicas[m->segment][i]->turns, memory_order_acquire);
}

static bool turns_ended(struct move *m)
{
	for (unsigned int i = 0; i < n_replicas(m); i++)
		if (m->from[i] && turns_of(m, i) == m->turns[i])
			return false;
	return true;
}

static void publish(struct elastic *elastic)
{
	atomic_fetch_add_explicit(&elastic->generation, 1, memory_order_release);
}

void elastic_tell(struct engine *e, unsigned int nf)
{
	const struct elastic *elastic = e->elastic[e->plan->nfs[nf].segment];

	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		atomic_store_explicit(&e->owners[nf][b],
				      atomic_load_explicit(&elastic->owners[b], memory_order_relaxed),
				      memory_order_release);
}

/* Those that move to `to`, or, where that is NULL, to nobody; how many. */
static unsigned int give(struct move *m, const uint8_t *now, const uint8_t *to)
{
	unsigned int n = 0;

	for (unsigned int b = 0; b < PKT_BUCKETS; b++) {
		if (m->to[b] == now[b])
			continue;
		n++;
		atomic_store_explicit(&m->elastic->owners[b], to ? to[b] : ELASTIC_NOBODY,
				      memory_order_release);
	}
	for (unsigned int i = 0; i < m->e->n_nfs; i++)
		if (m->e->plan->nfs[i].segment == (int)m->segment)
			elastic_tell(m->e, i);
	publish(m->elastic);
	return n;
}

/* NULL: all of it has left; otherwise what did not happen in time. */
static const char *drain(struct move *m)
{
	if (!until(m, writers_follow))
		return "who writes into its queues has not let go of what it holds for them";
	note_marks(m);
	if (!until(m, queues_taken))
		return "a replica has not taken what was put into its queues";
	/* What was taken last may still be on its way through. */
	for (unsigned int i = 0; i < n_replicas(m); i++)
		m->turns[i] = turns_of(m, i);
	return until(m, turns_ended) ? NULL : "a replica has found no room in its outputs";
}

uint64_t elastic_waited(const struct engine *e, const struct elastic *elastic)
{
	uint64_t waited = 0;

	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++) {
			const struct replica *r = e->replicas[s][i];

			for (unsigned int o = 0; o < r->n_outlets; o++) {
				const struct elastic_way *way = r->outlets[o].way;

				if (way && (!elastic || elastic_of(way) == elastic))
					waited += way->waited;
			}
		}
	return waited;
}

int elastic_within(const json_t *req, unsigned int *within_ms, struct err *err)
{
	const json_t *v = json_object_get(req, "within_ms");

	*within_ms = v ? (unsigned int)json_integer_value(v) : ELASTIC_WITHIN_MS;
	if (v && (!json_is_integer(v) || json_integer_value(v) < 1 ||
		  json_integer_value(v) > ELASTIC_WITHIN_MAX_MS))
		return err_set(err, EINVAL, "within_ms", "must be a whole number, 1 to %d",
			       ELASTIC_WITHIN_MAX_MS);
	return 0;
}

int elastic_move(struct engine *e, unsigned int segment, const uint8_t to[PKT_BUCKETS],
		 unsigned int within_ms, struct elastic_moved *moved, struct err *err)
{
	uint64_t began = rte_rdtsc(), waited;
	struct move m = {.e = e, .segment = segment, .elastic = e->elastic[segment], .to = to,
			 .end = began + within_ms * rte_get_tsc_hz() / 1000};
	const char *name = e->plan->segments[segment].name;
	uint8_t now[PKT_BUCKETS];
	const char *late;

	for (unsigned int b = 0; b < PKT_BUCKETS; b++) {
		now[b] = atomic_load_explicit(&m.elastic->owners[b], memory_order_relaxed);
		m.from[now[b]] |= now[b] != to[b];
	}
	*moved = (struct elastic_moved){0};
	waited = elastic_waited(e, m.elastic);
	if (!memcmp(now, to, sizeof(now)))
		return 0;
	/* An earlier change that somebody did not follow in time. */
	if (!until(&m, writers_follow))
		return err_set(err, EBUSY, name, "its former change is not over within %u ms: packets wait "
			       "for room", within_ms);
	moved->buckets = give(&m, now, NULL);
	late = drain(&m);
	if (late) {
		/* Writers take that over when they come to it; the next move waits for it. */
		give(&m, now, now);
		moved->buckets = 0;
		return err_set(err, EBUSY, name, "%s within %u ms; its buckets stay where they are", late,
			       within_ms);
	}
	give(&m, now, to);
	moved->late = !until(&m, writers_follow);
	moved->waited = elastic_waited(e, m.elastic) - waited;
	moved->took_ns = (uint64_t)((double)(rte_rdtsc() - began) * 1e9 / (double)rte_get_tsc_hz());
	return 0;
}

json_t *elastic_moved_json(const char *segment, const struct elastic_moved *moved)
{
	json_t *json = json_pack("{s:s, s:i, s:I, s:I}", "segment", segment, "buckets", (int)moved->buckets,
				 "waited", (json_int_t)moved->waited, "took_ns",
				 (json_int_t)moved->took_ns);

	if (moved->late)
		json_object_set_new(json, "late", json_string("no room yet for packets that waited"));
	return json;
}

static void count_buckets(const struct elastic *elastic, unsigned int *have)
{
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		have[atomic_load_explicit(&elastic->owners[b], memory_order_relaxed)]++;
}

bool elastic_lacks(const struct elastic *elastic, unsigned int running)
{
	unsigned int have[ELASTIC_REPLICAS_MAX] = {0};

	count_buckets(elastic, have);
	for (unsigned int i = 0; i < running; i++)
		if (!have[i])
			return true;
	return false;
}

void elastic_spread(const struct elastic *elastic, unsigned int running, uint8_t to[PKT_BUCKETS])
{
	unsigned int have[ELASTIC_REPLICAS_MAX] = {0}, next = 0;

	count_buckets(elastic, have);
	for (unsigned int b = 0; b < PKT_BUCKETS; b++) {
		unsigned int owner = atomic_load_explicit(&elastic->owners[b], memory_order_relaxed);
		unsigned int fair = PKT_BUCKETS / running + (owner < PKT_BUCKETS % running);

		to[b] = (uint8_t)owner;
		if (owner < running && have[owner] <= fair)
			continue;
		/* The first that has less than its part. */
		while (have[next] >= PKT_BUCKETS / running + (next < PKT_BUCKETS % running))
			next++;
		have[owner]--;
		have[next]++;
		to[b] = (uint8_t)next;
	}
}
