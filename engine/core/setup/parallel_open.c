/* SPDX-License-Identifier: Apache-2.0 */
/* Building and taking down a segment's functions side by side. */
#include <errno.h>

#include <rte_malloc.h>

#include "core/loop/parallel.h"
#include "engine.h"

static void *hot_alloc(size_t size)
{
	return rte_zmalloc("parallel", size, RTE_CACHE_LINE_SIZE);
}

static int open_member(struct engine *e, struct parallel *p, unsigned int k,
		       const struct plan_segment *s)
{
	struct parallel_member *m = &p->members[k];
	const struct plan_parallel *g = &s->parallel;
	const struct nf_ops *ops;

	m->node = g->nodes[k];
	m->pkts = p->pkts;
	if (!g->copies[k])
		return 0;
	ops = e->nfs[s->nodes[m->node].nf].ops;
	/* Where nobody told the headers' lengths, all is copied. */
	m->whole = ops->reads & NF_F_PAYLOAD || !ops->wants_headers;
	m->copies = hot_alloc(PARALLEL_SLOTS * sizeof(*m->copies));
	if (!m->copies)
		return -ENOMEM;
	m->pkts = m->copies;
	if (!rte_pktmbuf_alloc_bulk(e->pool, m->copies, PARALLEL_SLOTS))
		return 0;
	rte_free(m->copies);
	m->copies = NULL;
	return -ENOBUFS;
}

static int open_side(struct parallel *p, unsigned int k, const struct replica *lead,
		     const struct plan_segment *s)
{
	struct replica *r = hot_alloc(sizeof(*r));
	struct parallel_side *side = hot_alloc(sizeof(*side));

	p->sides[k] = r;
	if (!r || !side) {
		rte_free(side);
		return -ENOMEM;
	}
	r->side = side;
	r->segment = lead->segment;
	r->index = lead->index;
	r->cpu = s->cpus[k * s->n_cpus + lead->index];
	r->burst = lead->burst;
	r->rng = lead->rng + k;
	r->window = lead->window;
	r->clock = &r->own_clock;
	r->own_clock.pause = r->own_clock.still = UINT64_MAX;
	r->own_clock.armed = 1;
	side->group = p;
	side->member = &p->members[k];
	side->worker = lead->nodes[side->member->node].worker;
	r->has_tick = side->worker->nf->ops->tick != NULL;
	return 0;
}

int parallel_open(struct engine *e, struct replica *r, const struct plan_segment *s,
		  struct err *err)
{
	struct parallel *p;
	int rc = 0;

	if (!s->parallel.n)
		return 0;
	p = r->parallel = hot_alloc(sizeof(*p));
	if (!p)
		return err_set(err, ENOMEM, s->name, "out of memory for functions side by side");
	for (; p->n < s->parallel.n && !rc; p->n++) {
		rc = open_member(e, p, p->n, s);
		if (!rc && p->n)
			rc = open_side(p, p->n, r, s);
	}
	if (rc == -ENOBUFS)
		return err_set(
			err, ENOBUFS, s->name,
			"too few packet buffers: copies for functions side by side take %d for each function "
			"that needs them; allowed: more engine.mbufs",
			PARALLEL_SLOTS);
	if (rc)
		return err_set(err, -rc, s->name, "out of memory for functions side by side");
	for (unsigned int k = 0; k < p->n; k++)
		r->nodes[p->members[k].node].beside = p->sides[k] ? p->sides[k]->side : NULL;
	r->nodes[p->members[0].node].forks = true;
	return 0;
}

void parallel_close(struct parallel *p)
{
	if (!p)
		return;
	while (parallel_used(p))
		rte_pktmbuf_free(p->pkts[p->joined++ & (PARALLEL_SLOTS - 1)]);
	for (unsigned int k = 0; k < p->n; k++) {
		if (p->members[k].copies)
			rte_pktmbuf_free_bulk(p->members[k].copies, PARALLEL_SLOTS);
		rte_free(p->members[k].copies);
		if (p->sides[k])
			rte_free(p->sides[k]->side);
		rte_free(p->sides[k]);
	}
	rte_free(p);
}
