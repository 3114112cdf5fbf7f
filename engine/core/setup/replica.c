/* SPDX-License-Identifier: Apache-2.0 */
/* Building and taking down the replicas of segments. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "core/checkpoint/checkpoint.h"
#include "engine.h"

/* In pairs of lines, as processors fetch them: the next one may be another lcore's. */
static void *hot_alloc(size_t size)
{
	const size_t pair = 2 * RTE_CACHE_LINE_SIZE;

	return rte_zmalloc("replica", RTE_ALIGN_CEIL(size, pair), pair);
}

/* Kahn's algorithm for one direction; the plan has been checked to be acyclic. */
static void sort_nodes(const struct plan_segment *s, int d, uint16_t *order, uint16_t *position)
{
	unsigned int blockers[256] = {0}, n = 0;

	for (unsigned int i = 0; i < s->n_nodes; i++)
		for (unsigned int e = 0; e < s->nodes[i].n_edges; e++)
			if (s->nodes[i].next[d][e].kind == TO_NODE)
				blockers[s->nodes[i].next[d][e].index]++;
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (!blockers[i])
			order[n++] = i;
	for (unsigned int at = 0; at < n; at++) {
		const struct plan_node *node = &s->nodes[order[at]];

		position[order[at]] = at;
		for (unsigned int e = 0; e < node->n_edges; e++) {
			const struct target *t = &node->next[d][e];

			if (t->kind == TO_NODE && !--blockers[t->index])
				order[n++] = t->index;
		}
	}
}

/* The replica's outlet for a plan link, made at first use. */
static uint16_t outlet_of(struct replica *r, unsigned int link)
{
	for (unsigned int i = 0; i < r->n_outlets; i++)
		if (r->outlets[i].link == link)
			return i;
	r->outlets[r->n_outlets].link = link;
	return r->n_outlets++;
}

static struct target localise(struct replica *r, struct target t)
{
	if (t.kind == TO_LINK)
		t.index = outlet_of(r, t.index);
	return t;
}

void replica_aim(const struct engine *e, const struct replica *r, const struct outlet *o)
{
	const struct plan_segment *reader = &e->plan->segments[plan_reader(e->plan, o->link)];
	struct elastic_way *way = o->way;
	int asks;

	for (unsigned int i = 0; i < reader->n_inputs; i++)
		if (reader->inputs[i].link == o->link)
			way->direction = (uint8_t)reader->inputs[i].direction;
	/* What comes forward begins flows: its tuple tells, and nobody is asked for each packet. */
	asks = way->direction == NF_REVERSE ? plan_bucket_teller(e->plan, reader) : -1;
	way->asks = asks < 0 ? NULL : &e->nfs[asks];
	way->by = (uint8_t)plan_buckets_by(e->plan, reader);
	way->keeps = r->elastic;
}

static int open_way(struct engine *e, struct replica *r, struct outlet *o, unsigned int reader,
		    struct err *err)
{
	o->way = elastic_way_create(e->elastic[reader]);
	if (!o->way)
		return err_set(err, ENOMEM, e->links[o->link].name, "out of memory");
	replica_aim(e, r, o);
	r->steers = true;
	return 0;
}

static int open_outlet(struct engine *e, struct replica *r, struct outlet *o, struct err *err)
{
	struct link *l = &e->links[o->link];
	int reader = plan_reader(e->plan, o->link), rc;

	o->tx = l->ops->tx;
	o->n_dests = l->ops->writer_steers ? (uint16_t)e->plan->segments[reader].n_replicas : 1;
	o->wait = l->wait;
	o->queues = hot_alloc(o->n_dests * sizeof(*o->queues));
	if (!o->queues)
		return err_set(err, ENOMEM, l->name, "out of memory");
	if (o->n_dests > 1) {
		r->classify = true;
		o->steer = e->plan->segments[reader].steer;
		o->even = e->even[reader];
		rc = e->elastic[reader] ? open_way(e, r, o, (unsigned int)reader, err) : 0;
		if (rc)
			return rc;
	}
	o->q = (struct link_txq){.link = l, .index = l->opened_txq, .state = l->state};
	rc = l->ops->tx_open ? l->ops->tx_open(&o->q, err) : 0;
	if (!rc)
		l->opened_txq++;
	else
		o->q.link = NULL;
	return rc;
}

static int open_inlet(struct engine *e, struct replica *r, struct inlet *in, struct err *err)
{
	struct link *l = &e->links[in->link];
	int rc;

	in->rx = l->ops->rx;
	in->unclassified = l->ops->unclassified;
	/* Rings, which are written here, keep the mark. */
	in->marks_reverse = !l->ops->writer_steers && in->direction == NF_REVERSE;
	in->q = (struct link_rxq){.link = l, .index = r->index, .state = l->state};
	rc = l->ops->rx_open ? l->ops->rx_open(&in->q, err) : 0;
	if (rc)
		in->q.link = NULL;
	return rc;
}

static int make_worker(struct engine *e, struct replica *r, unsigned int i, struct nf *nf,
		       struct err *err)
{
	struct nf_worker *w = hot_alloc(sizeof(*w));
	int rc;

	if (!w)
		return err_set(err, ENOMEM, nf->name, "out of memory");
	*w = (struct nf_worker){
		.nf = nf,
		.index = r->index,
		.count = nf->workers,
		.socket_id = nf->socket_id,
		.replica = r,
		.node = i,
		.owners = nf->owners,
		.first = r->index ? e->replicas[r->segment][0]->nodes[i].worker : w,
	};
	err->path[0] = '\0';
	rc = nf->ops->worker_init ? nf->ops->worker_init(w, err) : 0;
	if (rc) {
		rte_free(w);
		return engine_named(err, rc, "nfs", nf->name);
	}
	r->nodes[i].worker = w;
	return 0;
}

struct node *replica_node(const struct engine *e, unsigned int nf, unsigned int index)
{
	unsigned int si = (unsigned int)e->plan->nfs[nf].segment;
	const struct plan_segment *s = &e->plan->segments[si];
	unsigned int i = 0;

	while (s->nodes[i].nf != nf)
		i++;
	return &e->replicas[si][index]->nodes[i];
}

static int open_node(struct engine *e, struct replica *r, unsigned int i, unsigned int nf_index,
		     struct err *err)
{
	struct nf *nf = &e->nfs[nf_index];
	struct node *node = &r->nodes[i];
	int rc = 0;

	if (e->was)
		node->worker = replica_node(e->was, nf_index, r->index)->worker;
	else
		rc = make_worker(e, r, i, nf, err);
	if (rc)
		return rc;
	node->process = nf->ops->process;
	r->classify |= nf->ops->wants_headers;
	r->has_tick |= nf->ops->tick != NULL;
	r->has_poll |= nf->ops->poll != NULL;
	return 0;
}

static void wire_nodes(struct replica *r, const struct plan_segment *s)
{
	for (unsigned int i = 0; i < s->n_nodes; i++) {
		r->nodes[i].n_edges = s->nodes[i].n_edges;
		for (int d = 0; d < NF_DIRECTIONS; d++)
			for (unsigned int e = 0; e < s->nodes[i].n_edges; e++)
				r->nodes[i].next[d][e] = localise(r, s->nodes[i].next[d][e]);
	}
	for (unsigned int i = 0; i < s->n_inputs; i++) {
		r->inlets[i].link = s->inputs[i].link;
		r->inlets[i].direction = s->inputs[i].direction;
		r->inlets[i].marks_port = s->inputs[i].port >= 0;
		r->inlets[i].port = (uint16_t)s->inputs[i].port;
		r->inlets[i].to = localise(r, s->inputs[i].to);
	}
	for (int d = 0; d < NF_DIRECTIONS; d++)
		sort_nodes(s, d, r->order[d], r->position[d]);
}

static int locate_open(struct engine *e, struct replica *r)
{
	r->locating = -1;
	r->locate_left = INT64_MAX; /* never */
	if (!e->plan->engine.locate.every)
		return 0;
	atomic_store(&e->locate_every, e->plan->engine.locate.every);
	r->locate_left = (int64_t)e->plan->engine.locate.every;
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		r->inlets[i].located = hot_alloc(sizeof(struct located));
		if (!r->inlets[i].located)
			return -ENOMEM;
	}
	for (unsigned int i = 0; i < r->n_nodes; i++) {
		r->nodes[i].located = hot_alloc(sizeof(struct located));
		if (!r->nodes[i].located)
			return -ENOMEM;
	}
	r->locate = &e->plan->engine;
	r->locate_every = &e->locate_every;
	r->locate_offset = sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM;
	r->locate_offset += rte_pktmbuf_priv_size(r->pool);
	return 0;
}

static int allocate(struct engine *e, struct replica *r, const struct plan_segment *s)
{
	size_t order = RTE_MAX(s->n_nodes, 1u) * sizeof(uint16_t);

	/* One node more than there are: its burst is the spare buffer of poll_inlet. */
	r->nodes = hot_alloc((s->n_nodes + 1) * sizeof(*r->nodes));
	r->inlets = hot_alloc(s->n_inputs * sizeof(*r->inlets));
	r->outlets = hot_alloc(e->plan->n_links * sizeof(*r->outlets));
	for (int d = 0; d < NF_DIRECTIONS; d++) {
		r->order[d] = hot_alloc(order);
		r->position[d] = hot_alloc(order);
		if (!r->order[d] || !r->position[d])
			return -ENOMEM;
	}
	r->slices = slices_create();
	return r->nodes && r->inlets && r->outlets && r->slices ? 0 : -ENOMEM;
}

/* One alone would leave them to nobody; of functions side by side, several would write a packet's. */
static bool leaves_trails(const struct replica *r)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->n_nodes; i++)
		n += r->nodes[i].worker->nf->ops->trails;
	return n > 1 && !r->elastic && !r->parallel;
}

int replica_create(struct engine *e, unsigned int si, unsigned int index, struct replica **out,
		   struct err *err)
{
	const struct plan_segment *s = &e->plan->segments[si];
	struct replica *r = hot_alloc(sizeof(*r));
	int rc;

	*out = r;
	if (!r || allocate(e, r, s))
		return err_set(err, ENOMEM, s->name, "out of memory for a replica");
	r->segment = si;
	r->index = index;
	r->cpu = s->cpus[index % s->n_cpus];
	r->elastic = e->elastic ? e->elastic[si] : NULL;
	r->burst = s->burst;
	r->pool = e->pool;
	r->rng = si * 7919 + index;
	r->window = &e->window;
	r->clock = &r->own_clock;
	r->own_clock.pause = r->own_clock.still = UINT64_MAX;
	r->own_clock.armed = 1;
	r->n_inlets = s->n_inputs;
	wire_nodes(r, s);
	for (unsigned int i = 0; i < s->n_nodes; i++) {
		rc = open_node(e, r, i, s->nodes[i].nf, err);
		if (rc)
			return rc;
		r->n_nodes++;
	}
	rc = fastpath_open(r, s, err);
	if (!rc)
		rc = parallel_open(e, r, s, err);
	if (rc)
		return rc;
	r->trails = leaves_trails(r);
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		rc = open_outlet(e, r, &r->outlets[i], err);
		if (rc)
			return rc;
	}
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		rc = open_inlet(e, r, &r->inlets[i], err);
		if (rc)
			return rc;
	}
	rc = fastpath_offer_open(r, s, err);
	if (!rc)
		rc = checkpoint_open(r, s, err);
	if (rc)
		return rc;
	return locate_open(e, r) ? err_set(err, ENOMEM, s->name, "out of memory for a replica") : 0;
}

void replica_rest(struct replica *r, bool rests)
{
	if (r->rests == rests)
		return;
	r->rests = rests;
	for (unsigned int i = 0; i < r->n_nodes; i++) {
		struct nf_worker *w = r->nodes[i].worker;

		if (w->nf->ops->rest)
			w->nf->ops->rest(w, rests);
	}
}

static void free_queue(struct out_queue *q)
{
	for (uint16_t i = 0; i < q->n; i++)
		rte_pktmbuf_free(q->pkts[i]);
	q->n = 0;
}

void replica_destroy(struct replica *r)
{
	if (!r)
		return;
	for (unsigned int i = 0; r->inlets && i < r->n_inlets; i++) {
		struct link_rxq *q = &r->inlets[i].q;

		if (q->link && q->link->ops->rx_close)
			q->link->ops->rx_close(q);
	}
	for (unsigned int i = 0; r->outlets && i < r->n_outlets; i++) {
		struct outlet *o = &r->outlets[i];

		for (unsigned int d = 0; o->queues && d < o->n_dests; d++)
			free_queue(&o->queues[d]);
		if (o->q.link && o->q.link->ops->tx_close)
			o->q.link->ops->tx_close(&o->q);
		elastic_way_free(o->way);
		rte_free(o->queues);
	}
	for (unsigned int i = 0; r->nodes && i < r->n_nodes; i++) {
		struct nf_worker *w = r->nodes[i].worker;

		if (w && w->nf->ops->worker_fini) /* NULL: another replica has it now */
			w->nf->ops->worker_fini(w);
		rte_free(w);
		rte_free(r->nodes[i].located);
	}
	for (unsigned int i = 0; r->inlets && i < r->n_inlets; i++)
		rte_free(r->inlets[i].located);
	for (int d = 0; d < NF_DIRECTIONS; d++) {
		rte_free(r->order[d]);
		rte_free(r->position[d]);
	}
	checkpoint_free(r->checkpoint);
	fastpath_close(r->fast);
	parallel_close(r->parallel);
	slices_free(r->slices);
	rte_free(r->nodes);
	rte_free(r->inlets);
	rte_free(r->outlets);
	rte_free(r);
}
