/* SPDX-License-Identifier: Apache-2.0 */
/* A burst's way through the functions of a segment. */
#include "run.h"

#include <string.h>

#include "outlet.h"
#include "timing.h"
#include "verdict.h"

static inline void leave(struct replica *r, struct node *node, unsigned int edge, uint8_t dir,
			 struct rte_mbuf **pkts, uint16_t n)
{
	push(r, count_out(node, dir, edge, pkts, n), pkts, n);
}

static inline bool verdicts_all_0(const struct burst *b)
{
	const uint64_t *w = (const uint64_t *)b->verdict;
	uint64_t any = 0;

	for (unsigned int i = 0; i < BURST_MAX / sizeof(*w); i++)
		any |= w[i];
	return !any;
}

/* Packets of one burst that go different ways. */
static __rte_noinline void dispatch_mixed(struct replica *r, struct node *node, struct burst *b)
{
	struct rte_mbuf *end[BURST_MAX], *onward[BURST_MAX];
	uint16_t n_end = 0, n_onward = 0;

	for (uint16_t i = 0; i < b->n; i++) {
		uint8_t v = b->verdict[i];

		if (v == 0) {
			onward[n_onward++] = b->pkts[i];
		} else if (v < node->n_edges) {
			leave(r, node, v, b->direction, &b->pkts[i], 1);
		} else if (count_end(node, v, b->pkts[i])) {
			end[n_end++] = b->pkts[i];
		}
	}
	if (n_onward)
		leave(r, node, 0, b->direction, onward, n_onward);
	mbuf_free_burst(end, n_end);
}

void dispatch(struct replica *r, struct node *node, struct burst *b)
{
	if (likely(verdicts_all_0(b)))
		leave(r, node, 0, b->direction, b->pkts, b->n);
	else
		dispatch_mixed(r, node, b);
}

static __rte_noinline void locate_again(struct replica *r, struct node *node)
{
	struct burst *b = &node->in;

	/* It may have gone another way; what is here of its burst has been through the same. */
	located_note(node->located, r->locate,
		     located_time(b->pkts[RTE_MIN(r->locating, b->n - 1)], r->locate_offset));
}

/* Drops of the fast path are counted here, and not with a path's packets: by whose they are. */
static void end_fast(struct replica *r, const struct fast_hits *hits, unsigned int from,
				    unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		const struct fast_path *p = &r->fast->paths[hits->path[i]];
		const struct fast_step *last = &p->steps[p->n_steps - 1];

		count_verdict(&r->nodes[last->node], p->direction, last->verdict, hits->pkts[i]);
	}
}

/* What the fast path took leaves from the end of its run; neighbours with one target together. */
static void leave_fast(struct replica *r, struct fast_hits *hits)
{
	const struct fast_path *paths = r->fast->paths;
	unsigned int from = 0, i;

	if (likely(!hits->mixed)) {
		if (unlikely(hits->to.kind == TO_DROP))
			end_fast(r, hits, 0, hits->n);
		push(r, hits->to, hits->pkts, (uint16_t)hits->n);
		return;
	}
	for (i = 1; i <= hits->n; i++) {
		struct target a = paths[hits->path[from]].to, b;

		if (i < hits->n) {
			b = paths[hits->path[i]].to;
			if (a.kind == b.kind && a.index == b.index)
				continue;
		}
		if (unlikely(a.kind == TO_DROP))
			end_fast(r, hits, from, i);
		push(r, a, hits->pkts + from, (uint16_t)(i - from));
		from = i;
	}
}

/* Known flows take the fast path; what is left of the burst goes to the functions. */
static __rte_noinline void run_fast(struct replica *r, struct node *node, uint64_t *t)
{
	struct fast_stats *stats = &r->fast->stats;
	uint16_t n = node->in.n;
	struct fast_hits hits;

	if (r->fast->offer) {
		fastpath_offer_look(r, &node->in, (unsigned int)(node - r->nodes));
		part_ends(r, t, &stats->cycles, n);
		return;
	}
	fastpath_take(r, &node->in, (unsigned int)(node - r->nodes), &hits);
	if (likely(hits.n))
		leave_fast(r, &hits);
	if (part_ends(r, t, &stats->cycles, n)) {
		stats->cycles_packets += n;
		fastpath_spared(r, &hits);
	}
	part_begins(t);
}

static __rte_noinline void note_fast(struct replica *r, struct node *node, uint64_t *t)
{
	/* What learning costs is the fast path's, not the function's. */
	part_ends(r, t, &node->stats.cycles, node->in.n);
	fastpath_note(r, (unsigned int)(node - r->nodes), &node->in);
	part_ends(r, t, &r->fast->stats.cycles, node->in.n);
}

/* The first of functions side by side; what comes of it is merged later (run_joined). */
static __rte_noinline void run_fork(struct replica *r, struct node *node, uint64_t *t)
{
	struct burst *b = &node->in;

	b->direction = NF_FORWARD;
	b->now = r->clock->mark;
	parallel_fork(r->parallel, b);
	memset(b->verdict, 0, sizeof(b->verdict));
	node->stats.batches++;
	node->process(node->worker, b);
	parallel_said(r->parallel, b);
	if (part_ends(r, t, &node->stats.cycles, b->n))
		node->stats.cycles_packets += b->n;
	b->n = 0;
}

static inline void run_node(struct replica *r, struct node *node, uint8_t dir, uint64_t *t)
{
	struct burst *b = &node->in;

	b->direction = dir;
	b->trails = r->trails;
	b->now = r->clock->mark;
	if (unlikely(node->fast_head & 1 << dir)) {
		run_fast(r, node, t);
		if (!b->n)
			return;
	}
	memset(b->verdict, 0, sizeof(b->verdict));
	node->stats.in += b->n;
	node->stats.batches++;
	node->process(node->worker, b);
	if (unlikely(r->fast && r->fast->n_records))
		note_fast(r, node, t);
	dispatch(r, node, b);
	if (part_ends(r, t, &node->stats.cycles, b->n))
		node->stats.cycles_packets += b->n;
	b->n = 0;
}

void run_nodes(struct replica *r, unsigned int first, uint8_t dir, uint64_t *t)
{
	const uint16_t *order = r->order[dir];

	for (unsigned int i = r->position[dir][first]; i < r->n_nodes; i++) {
		struct node *node = &r->nodes[order[i]];

		if (!node->in.n)
			continue;
		if (unlikely(r->locating >= 0 && i - r->position[dir][first] == r->locate_turn))
			locate_again(r, node);
		if (unlikely(node->forks))
			run_fork(r, node, t);
		else
			run_node(r, node, dir, t);
	}
	if (unlikely(r->fast))
		r->fast->n_records = 0;
}

void run_emitted(struct replica *r)
{
	/* Further emissions of these runs are appended behind and taken up in turn. */
	for (unsigned int i = 0; i < r->n_emitted; i++) {
		struct emitted *e = &r->emitted[i];

		push(r, e->to, &e->pkt, 1);
		if (e->to.kind == TO_NODE)
			run_nodes(r, e->to.index, e->direction, NULL);
	}
	r->n_emitted = 0;
}

static int emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	struct replica *r = w->replica;
	struct node *node = &r->nodes[w->node];

	/* The queue is the replica's lcore's. */
	if (r->n_emitted == EMIT_MAX || node->beside)
		return -ENOBUFS;
	pkt_set_trail(m, NULL);
	r->emitted[r->n_emitted++] = (struct emitted){
		.pkt = m, .to = count_out(node, dir, edge, &m, 1), .direction = dir};
	return 0;
}

int nf_emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	int rc;

	m->ol_flags |= PKT_CREATED;
	rc = emit(w, m, edge, dir);
	if (!rc)
		w->replica->nodes[w->node].stats.created++;
	return rc;
}

int nf_release(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	int rc = emit(w, m, edge, dir);

	if (!rc)
		count_let_go(&w->replica->nodes[w->node], m);
	return rc;
}

void nf_drop_held(struct nf_worker *w, struct rte_mbuf *m, unsigned int reason)
{
	struct node *node = &w->replica->nodes[w->node];

	count_let_go(node, m);
	count_end(node, (uint8_t)NF_DROP(reason), m);
	rte_pktmbuf_free(m);
}

struct rte_mbuf *nf_alloc(struct nf_worker *w)
{
	return rte_pktmbuf_alloc(w->replica->pool);
}
