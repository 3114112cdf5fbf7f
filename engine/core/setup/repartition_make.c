/* SPDX-License-Identifier: Apache-2.0 */
/* What another partition takes: made before packets wait, taken down after they go on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "repartition.h"

static int make_lists(struct repartition *c)
{
	unsigned int total = 0;

	for (unsigned int i = 0; i < c->next->n_segments; i++)
		total += RTE_MAX(c->next->segments[i].n_all_cpus, c->next->segments[i].n_replicas);
	c->lists = calloc(c->e->n_workers, sizeof(*c->lists));
	for (unsigned int i = 0; c->lists && i < c->e->n_workers; i++) {
		c->lists[i] = calloc(total, sizeof(*c->lists[i]));
		if (!c->lists[i])
			return -ENOMEM;
	}
	return c->lists ? 0 : -ENOMEM;
}

/* Writers that stay steer by it until the new segments are there. */
static int make_gate(struct repartition *c)
{
	c->gate = elastic_create(1, 1);
	if (!c->gate)
		return -ENOMEM;
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		atomic_store(&c->gate->owners[b], ELASTIC_NOBODY);
	atomic_store(&c->gate->generation, ELASTIC_CLOSED);
	return 0;
}

static int make_replicas(struct repartition *c, unsigned int i, struct err *err)
{
	const struct plan_segment *s = &c->next->segments[i];
	int rc = 0;

	c->to.replicas[i] = calloc(s->n_replicas, sizeof(*c->to.replicas[i]));
	if (!c->to.replicas[i])
		return err_set(err, ENOMEM, s->name, "out of memory");
	for (unsigned int j = 0; j < s->n_replicas && !rc; j++) {
		rc = replica_create(&c->to, i, j, &c->to.replicas[i][j], err);
		if (!rc)
			c->to.replicas[i][j]->rests = j >= s->n_cpus;
	}
	return rc;
}

struct replica_past *replica_past(struct engine *e, const char *name, unsigned int index)
{
	for (unsigned int i = 0; i < e->n_replicas_past; i++)
		if (!strcmp(e->replicas_past[i].name, name) && e->replicas_past[i].index == index)
			return &e->replicas_past[i];
	return NULL;
}

/* What those that leave have counted of themselves is kept for ever: there must be room. */
static int make_past(struct repartition *c, struct err *err)
{
	struct engine *e = c->e;
	unsigned int more = 0;

	if (!e->replicas_past)
		e->replicas_past = calloc(REPLICAS_PAST, sizeof(*e->replicas_past));
	if (!e->replicas_past)
		return err_set(err, ENOMEM, "plan", "out of memory");
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int j = 0; c->leaves[s] && j < e->plan->segments[s].n_replicas; j++)
			more += !replica_past(e, e->plan->segments[s].name, j);
	if (e->n_replicas_past + more > REPLICAS_PAST)
		return err_set(err, ENOSPC, "plan.segments",
			       "%u more replicas would leave, and what %u had counted is kept; "
			       "allowed: %u in all, under names that may come again",
			       more, e->n_replicas_past, REPLICAS_PAST);
	return 0;
}

int repartition_make(struct repartition *c, struct err *err)
{
	unsigned int n = c->next->n_segments;
	int rc = make_past(c, err);

	if (rc)
		return rc;
	c->to = *c->e;
	c->to.plan = c->next;
	c->to.was = c->e;
	c->to.replicas = calloc(n, sizeof(*c->to.replicas));
	c->to.elastic = calloc(n, sizeof(*c->to.elastic));
	c->to.even = calloc(n, sizeof(*c->to.even));
	if (!c->to.replicas || !c->to.elastic || !c->to.even || make_lists(c) || make_gate(c))
		return err_set(err, ENOMEM, "plan", "out of memory");
	for (unsigned int i = 0; i < n; i++) {
		const struct plan_segment *s = &c->next->segments[i];
		int was = c->stays[i];

		if (was >= 0) {
			c->to.replicas[i] = c->e->replicas[was];
			c->to.elastic[i] = c->e->elastic[was];
			c->to.even[i] = c->e->even[was];
			continue;
		}
		c->to.elastic[i] = s->elastic ? elastic_create(s->n_replicas, s->n_cpus) : NULL;
		if (s->elastic && !c->to.elastic[i])
			return err_set(err, ENOMEM, s->name, "out of memory");
	}
	for (unsigned int i = 0; i < n && !rc; i++)
		rc = c->stays[i] < 0 ? make_replicas(c, i, err) : 0;
	return rc;
}

/* Functions are others' by now, or still. */
static void replicas_free(struct replica **replicas, unsigned int n)
{
	for (unsigned int j = 0; replicas && j < n; j++) {
		for (unsigned int k = 0; replicas[j] && k < replicas[j]->n_nodes; k++)
			replicas[j]->nodes[k].worker = NULL;
		replica_destroy(replicas[j]);
	}
	free(replicas);
}

void repartition_free(struct repartition *c)
{
	for (unsigned int i = 0; c->to.replicas && i < c->to.plan->n_segments; i++) {
		bool own = c->to.was ? c->stays[i] < 0 : c->leaves[i];

		if (!own)
			continue;
		replicas_free(c->to.replicas[i], c->to.plan->segments[i].n_replicas);
		elastic_free(c->to.elastic[i]);
		even_table_free(c->to.even[i]);
	}
	free(c->to.replicas);
	free(c->to.elastic);
	free(c->to.even);
	for (unsigned int i = 0; c->lists && i < c->e->n_workers; i++)
		free(c->lists[i]);
	free(c->lists);
	elastic_free(c->gate);
	free(c->leaves);
	free(c->stays);
}
