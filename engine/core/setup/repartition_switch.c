/* SPDX-License-Identifier: Apache-2.0 */
/* Functions are in other segments from now on: nobody runs, and none of their packets is under way. */
#include <stdio.h>

#include "elastic_move.h"
#include "repartition.h"

/* Its worker, with all that it keeps and has counted. */
static void take_node(const struct repartition *c, struct replica *r, unsigned int k)
{
	const struct plan_segment *s = &c->next->segments[r->segment];
	struct node *is = &r->nodes[k], *was = replica_node(c->e, s->nodes[k].nf, r->index);
	struct located *located = is->located;
	struct nf_worker *w = is->worker;
	const struct replica *former = w->replica;

	is->stats = was->stats;
	is->located = was->located;
	was->located = located;
	w->replica = r;
	w->node = k;
	/* Its ticks are due as they were. */
	if ((int64_t)(former->next_tick - r->next_tick) > 0 || !r->next_tick)
		r->next_tick = former->next_tick;
	if (former->rests != r->rests && w->nf->ops->rest)
		w->nf->ops->rest(w, r->rests);
}

static void leave_own(struct engine *e, const char *name, const struct replica *r)
{
	struct replica_past *past = replica_past(e, name, r->index);

	if (!past) { /* repartition_make has seen to it that there is room */
		past = &e->replicas_past[e->n_replicas_past++];
		snprintf(past->name, sizeof(past->name), "%s", name);
		past->index = r->index;
	}
	past->count = r->count;
	past->ops = r->busy.ops;
	past->turns = r->busy.turns;
}

static void take_own(struct engine *e, const char *name, struct replica *r)
{
	const struct replica_past *past = replica_past(e, name, r->index);

	if (!past)
		return;
	r->count = past->count;
	r->busy.ops = past->ops;
	r->busy.turns = past->turns;
}

/* What those that leave have counted of a link, once: it is the past's, until somebody else has it. */
static void leave_counts(struct repartition *c, const struct replica *r)
{
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		struct inlet_count *to = &c->e->past[r->inlets[i].link].in;
		const struct inlet_count *from = &r->inlets[i].count;

		to->packets += from->packets;
		to->cycles += from->cycles;
		to->timed_packets += from->timed_packets;
		to->headers_cycles += from->headers_cycles;
	}
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		struct outlet_count *to = &c->e->past[r->outlets[i].link].out;
		const struct outlet_count *from = &r->outlets[i].count;

		to->packets += from->packets;
		to->full += from->full;
		for (unsigned int k = 0; k < RTE_DIM(to->full_ends.n); k++)
			for (unsigned int size = 0; size < SIZE_CLASSES; size++)
				to->full_ends.n[k][size] += from->full_ends.n[k][size];
	}
}

static void take_counts(struct repartition *c, struct replica *r)
{
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		struct inlet_count *from = &c->e->past[r->inlets[i].link].in;

		r->inlets[i].count = *from;
		*from = (struct inlet_count){0};
	}
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		struct outlet_count *from = &c->e->past[r->outlets[i].link].out;

		r->outlets[i].count = *from;
		*from = (struct outlet_count){0};
	}
}

static void take_replicas(struct repartition *c)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		for (unsigned int j = 0; c->leaves[s] && j < c->e->plan->segments[s].n_replicas; j++) {
			leave_own(c->e, c->e->plan->segments[s].name, c->e->replicas[s][j]);
			leave_counts(c, c->e->replicas[s][j]);
		}
	for (unsigned int i = 0; i < c->next->n_segments; i++)
		for (unsigned int j = 0; j < c->next->segments[i].n_replicas; j++) {
			struct replica *r = c->to.replicas[i][j];

			r->segment = i;
			if (c->stays[i] >= 0)
				continue;
			r->window = &c->e->window;
			r->locate_every = &c->e->locate_every;
			for (unsigned int k = 0; k < r->n_nodes; k++)
				take_node(c, r, k);
			take_own(c->e, c->next->segments[i].name, r);
			take_counts(c, r);
		}
}

/* Writers that stay, and steered by the gate, steer by the new readers. */
static void aim_writers(struct repartition *c)
{
	for (unsigned int i = 0; i < c->next->n_segments; i++)
		for (unsigned int j = 0; c->stays[i] >= 0 && j < c->next->segments[i].n_replicas; j++) {
			const struct replica *r = c->to.replicas[i][j];

			for (unsigned int k = 0; k < r->n_outlets; k++) {
				const struct outlet *o = &r->outlets[k];

				if (!o->way || elastic_of(o->way) != c->gate)
					continue;
				replica_aim(&c->to, r, o);
				atomic_store(&o->way->elastic, c->to.elastic[plan_reader(c->next, o->link)]);
			}
		}
}

static void exchange_segments(struct plan *a, struct plan *b)
{
	json_t *segments = json_incref(json_object_get(a->json, "segments"));
	struct plan was = *a;

	json_object_set(a->json, "segments", json_object_get(b->json, "segments"));
	json_object_set_new(b->json, "segments", segments);
	a->segments = b->segments;
	a->n_segments = b->n_segments;
	b->segments = was.segments;
	b->n_segments = was.n_segments;
	for (unsigned int i = 0; i < a->n_nfs; i++) {
		int segment = a->nfs[i].segment;

		a->nfs[i].segment = b->nfs[i].segment;
		b->nfs[i].segment = segment;
	}
}

static void exchange(struct engine *a, struct engine *b)
{
	struct replica ***replicas = a->replicas;
	struct elastic **elastic = a->elastic;
	struct even_table **even = a->even;

	a->replicas = b->replicas;
	a->elastic = b->elastic;
	a->even = b->even;
	b->replicas = replicas;
	b->elastic = elastic;
	b->even = even;
}

void repartition_switch(struct repartition *c)
{
	struct engine *e = c->e;

	take_replicas(c);
	aim_writers(c);
	exchange(e, &c->to);
	exchange_segments(e->plan, c->next);
	c->to.was = NULL;
	for (unsigned int i = 0; i < e->n_nfs; i++)
		if (e->nfs[i].owners)
			elastic_tell(e, i);
	for (unsigned int i = 0; i < e->n_workers; i++) {
		struct replica **list = e->workers[i].replicas;

		e->workers[i].replicas = c->lists[i];
		c->lists[i] = list;
	}
}
