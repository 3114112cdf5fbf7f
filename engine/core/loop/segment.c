/* SPDX-License-Identifier: Apache-2.0 */
/* The segment loop: what happens to a burst between two links. */
#include <string.h>

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include "core/mbuf_util.h"
#include "core/pkt.h"
#include "segment.h"

#define PREFETCH_AHEAD 6
#define TICK_HZ 1000
#define LOCATE_AGAIN 4096 /* packets after which one that locates none looks whether it shall again */

/* A part of a timed poll, from reading to reading; one that was interrupted is no sample. */
static inline bool part_took(const struct replica *r, uint64_t *cycles, uint64_t took, uint32_t n)
{
	if (unlikely(busy_paused(r->clock, took, busy_usual(&r->busy, n))) && r->busy.usual)
		return false;
	*cycles += took - RTE_MIN(took, r->clock->read);
	return true;
}

static inline void classify_burst(struct rte_mbuf **pkts, uint16_t n, bool all)
{
	uint16_t i;

	/*
	 * The mbufs of all, as they may come from another core one after the other otherwise: where the data
	 * is has to be read from them. To be written: a line that is only read first is fetched twice. With
	 * each, what its first header line is if nothing was put before it or taken off.
	 */
	for (i = 0; i < n; i++) {
		__builtin_prefetch(pkts[i], 1);
		rte_prefetch0((const char *)(pkts[i] + 1) + RTE_PKTMBUF_HEADROOM);
	}
	for (i = 0; i < n && i < PREFETCH_AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], void *));
	for (i = 0; i < n; i++) {
		if (i + PREFETCH_AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + PREFETCH_AHEAD], void *));
		if (all || !(pkts[i]->packet_type & PKT_CLASSIFIED))
			pkt_classify(pkts[i]);
	}
}

/* Send what an outlet holds for one destination; the rest is kept (wait) or dropped. */
static inline void flush_queue(struct replica *r, struct outlet *o, uint16_t dest)
{
	struct out_queue *q = &o->queues[dest];
	uint16_t sent, left;

	sent = o->tx(&o->q, dest, q->pkts, q->n);
	o->packets += sent;
	left = q->n - sent;
	if (likely(!left)) {
		q->n = 0;
		return;
	}
	if (o->wait) {
		memmove(q->pkts, q->pkts + sent, left * sizeof(q->pkts[0]));
		q->n = left;
		r->pending += left;
		return;
	}
	o->full += left;
	ends_add_burst(&o->full_ends, q->pkts + sent, left);
	mbuf_free_burst(q->pkts + sent, left);
	q->n = 0;
}

static inline void flush_outlets(struct replica *r)
{
	r->pending = 0;
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		struct outlet *o = &r->outlets[i];

		for (uint16_t d = 0; d < o->n_dests; d++)
			if (o->queues[d].n)
				flush_queue(r, o, d);
	}
}

static void steer_burst(struct outlet *o, struct rte_mbuf **pkts, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		uint32_t hash = pkt_flow_hash(pkts[i]);
		uint16_t dest = o->steer == STEER_EVEN ? even_table_assign(o->even, hash)
						       : (uint64_t)hash * o->n_dests >> 32;
		struct out_queue *q = &o->queues[dest];

		q->pkts[q->n++] = pkts[i];
	}
}

static inline void push(struct replica *r, struct target t, struct rte_mbuf **pkts, uint16_t n)
{
	if (t.kind == TO_NODE) {
		struct burst *b = &r->nodes[t.index].in;

		memcpy(b->pkts + b->n, pkts, n * sizeof(pkts[0]));
		b->n += n;
		return;
	}
	if (t.kind == TO_LINK) {
		struct outlet *o = &r->outlets[t.index];

		if (unlikely(o->n_dests > 1)) {
			steer_burst(o, pkts, n);
			return;
		}
		memcpy(o->queues->pkts + o->queues->n, pkts, n * sizeof(pkts[0]));
		o->queues->n += n;
		return;
	}
	mbuf_free_burst(pkts, n);
}

static inline void leave(struct replica *r, struct node *node, unsigned int edge, uint8_t dir,
			 struct rte_mbuf **pkts, uint16_t n)
{
	struct target t = node->next[dir][edge];

	if (unlikely(t.kind == TO_DROP))
		ends_add_burst(&node->stats.no_route, pkts, n);
	else
		node->stats.out[edge] += n;
	push(r, t, pkts, n);
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
		} else if (v == NF_HOLD) {
			node->stats.held++;
			ends_add(&node->stats.held_ends, b->pkts[i], 1);
		} else {
			ends_add(node_end(node, v), b->pkts[i], 1);
			end[n_end++] = b->pkts[i];
		}
	}
	if (n_onward)
		leave(r, node, 0, b->direction, onward, n_onward);
	mbuf_free_burst(end, n_end);
}

static inline bool all_edge_0(const struct burst *b)
{
	const uint64_t *w = (const uint64_t *)b->verdict;
	uint64_t any = 0;

	for (unsigned int i = 0; i < BURST_MAX / sizeof(*w); i++)
		any |= w[i];
	return !any;
}

/* In random intervals, as for timed polls; at the next of the segment's functions each time. */
static __rte_noinline void locate_packet(struct replica *r, struct inlet *in,
					 struct rte_mbuf **pkts, uint16_t n)
{
	uint32_t every = (uint32_t)atomic_load_explicit(r->locate_every, memory_order_relaxed);
	uint16_t at;

	/* A segment without functions is the tester's: where packets are for it is nobody's question. */
	if (!every || !r->n_nodes) {
		r->locate_left = LOCATE_AGAIN;
		return;
	}
	r->rng = r->rng * 1664525u + 1013904223u;
	at = (r->rng >> 16) % n;
	r->locate_left = 1 + every / 2 + r->rng % every;
	if (++r->locate_turn < r->n_nodes) {
		r->locating = at;
		return;
	}
	r->locate_turn = 0;
	located_note(in->located, r->locate, located_time(pkts[at], r->locate_offset));
}

static __rte_noinline void locate_again(struct replica *r, struct node *node)
{
	struct burst *b = &node->in;

	/* It may have gone another way; what is here of its burst has been through the same. */
	located_note(node->located, r->locate,
		     located_time(b->pkts[RTE_MIN(r->locating, b->n - 1)], r->locate_offset));
}

/* Drops of the fast path are counted here, and not with a path's packets: by whose they are. */
static __rte_noinline void end_fast(struct replica *r, const struct fast_hits *hits, unsigned int from,
				    unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		const struct fast_path *p = &r->fast->paths[hits->path[i]];
		const struct fast_step *last = &p->steps[p->n_steps - 1];
		struct node *node = &r->nodes[last->node];

		ends_add(last->verdict >= node->n_edges ? node_end(node, last->verdict)
							: &node->stats.no_route,
			 hits->pkts[i], 1);
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

static __rte_noinline void run_fast(struct replica *r, struct node *node, const bool timed,
				    uint64_t *t)
{
	struct fast_stats *stats = &r->fast->stats;
	uint16_t n = node->in.n;
	struct fast_hits hits;
	uint64_t end;

	fastpath_take(r, &node->in, (unsigned int)(node - r->nodes), &hits);
	if (likely(hits.n))
		leave_fast(r, &hits);
	if (!timed)
		return;
	end = rte_rdtsc();
	if (part_took(r, &stats->cycles, end - *t, n)) {
		stats->cycles_packets += n;
		fastpath_spared(r, &hits);
	}
	*t = rte_rdtsc();
}

static __rte_noinline void note_fast(struct replica *r, struct node *node, const bool timed, uint64_t *t)
{
	uint64_t end = timed ? rte_rdtsc() : 0;

	fastpath_note(r, (unsigned int)(node - r->nodes), &node->in);
	if (!timed)
		return;
	/* What learning costs is the fast path's, not the function's. */
	part_took(r, &node->stats.cycles, end - *t, node->in.n);
	*t = rte_rdtsc();
	part_took(r, &r->fast->stats.cycles, *t - end, node->in.n);
}

/* The first of functions side by side; what comes of it is merged later (run_joined). */
static __rte_noinline void run_fork(struct replica *r, struct node *node, const bool timed, uint64_t *t)
{
	struct burst *b = &node->in;
	uint64_t end;

	b->direction = NF_FORWARD;
	b->now = r->clock->mark;
	parallel_fork(r->parallel, b);
	memset(b->verdict, 0, sizeof(b->verdict));
	node->stats.batches++;
	node->process(node->worker, b);
	parallel_said(r->parallel, b);
	if (timed) {
		end = rte_rdtsc();
		if (part_took(r, &node->stats.cycles, end - *t, b->n))
			node->stats.cycles_packets += b->n;
		*t = end;
	}
	b->n = 0;
}

static inline void run_node(struct replica *r, struct node *node, uint8_t dir, const bool timed,
			    uint64_t *t)
{
	struct burst *b = &node->in;
	uint64_t end;

	b->direction = dir;
	b->now = r->clock->mark;
	if (unlikely(node->fast_head & 1 << dir)) {
		run_fast(r, node, timed, t);
		if (!b->n)
			return;
	}
	memset(b->verdict, 0, sizeof(b->verdict));
	node->stats.in += b->n;
	node->stats.batches++;
	node->process(node->worker, b);
	if (unlikely(r->fast && r->fast->n_records))
		note_fast(r, node, timed, t);
	if (likely(all_edge_0(b)))
		leave(r, node, 0, dir, b->pkts, b->n);
	else
		dispatch_mixed(r, node, b);
	if (timed) {
		end = rte_rdtsc();
		if (part_took(r, &node->stats.cycles, end - *t, b->n))
			node->stats.cycles_packets += b->n;
		*t = end;
	}
	b->n = 0;
}

static inline void run_nodes(struct replica *r, unsigned int first, uint8_t dir, const bool timed,
			     uint64_t *t)
{
	const uint16_t *order = r->order[dir];

	for (unsigned int i = r->position[dir][first]; i < r->n_nodes; i++) {
		struct node *node = &r->nodes[order[i]];

		if (!node->in.n)
			continue;
		if (unlikely(r->locating >= 0 && i - r->position[dir][first] == r->locate_turn))
			locate_again(r, node);
		if (unlikely(node->forks))
			run_fork(r, node, timed, t);
		else
			run_node(r, node, dir, timed, t);
	}
	if (unlikely(r->fast))
		r->fast->n_records = 0;
}

/* What NFs emitted goes on from where they were, in a run of its own. */
static __rte_noinline void run_emitted(struct replica *r)
{
	uint64_t t = 0;

	/* Further emissions of these runs are appended behind and taken up in turn. */
	for (unsigned int i = 0; i < r->n_emitted; i++) {
		struct emitted *e = &r->emitted[i];

		push(r, e->to, &e->pkt, 1);
		if (e->to.kind == TO_NODE)
			run_nodes(r, e->to.index, e->direction, false, &t);
	}
	r->n_emitted = 0;
}

/* No room for another burst: packets that `wait` outlets hold, or that functions side by side work on. */
static inline bool blocked(const struct replica *r)
{
	return r->pending || (unlikely(r->parallel != NULL) && parallel_full(r->parallel));
}

static __rte_always_inline uint16_t poll_inlet(struct replica *r, struct inlet *in, const bool timed,
					       uint64_t *t)
{
	struct rte_mbuf **pkts;
	struct out_queue *straight = NULL;
	struct burst *b = NULL;
	uint64_t end;
	bool locate;
	uint16_t n;

	/* Packets are received where they will be needed: no copy for the straight way through. */
	if (in->to.kind == TO_NODE) {
		b = &r->nodes[in->to.index].in;
		pkts = b->pkts;
	} else if (in->to.kind == TO_LINK && r->outlets[in->to.index].n_dests == 1) {
		straight = r->outlets[in->to.index].queues;
		pkts = straight->pkts + straight->n;
	} else {
		pkts = r->nodes[r->n_nodes].in.pkts; /* spare */
	}
	/*
	 * Decided before there are packets: a branch that had to wait for them would let the processor run
	 * ahead on the usual path, where headers are prefetched. Not in timed polls, whose cycles are the
	 * functions' own.
	 */
	locate = !timed && r->locate_left <= 0;
	n = in->rx(&in->q, pkts, r->burst);
	if (!n)
		return 0;
	in->packets += n;
	r->locate_left -= n;
	if (unlikely(locate))
		locate_packet(r, in, pkts, n);
	if (r->classify)
		classify_burst(pkts, n, in->unclassified);
	if (unlikely(in->marks_port))
		for (uint16_t i = 0; i < n; i++)
			pkts[i]->port = in->port;
	if (unlikely(in->marks_reverse))
		for (uint16_t i = 0; i < n; i++)
			pkts[i]->ol_flags |= PKT_REVERSE;
	if (timed) {
		end = rte_rdtsc();
		if (part_took(r, &in->cycles, end - *t, n)) {
			in->timed_packets += n;
			r->rx_cycles += end - *t;
			r->io_packets += n;
		}
		*t = end;
	}
	if (b) {
		b->n = n;
		run_nodes(r, in->to.index, in->direction, timed, t);
	} else if (straight) {
		straight->n += n;
	} else {
		push(r, in->to, pkts, n);
	}
	r->locating = -1;
	return n;
}

static __rte_always_inline uint32_t poll_inlets(struct replica *r, const bool timed, uint64_t *t)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < r->n_inlets; i++) {
		uint16_t got = poll_inlet(r, &r->inlets[i], timed, t);

		if (unlikely(r->n_emitted))
			run_emitted(r);
		/* Per input: the straight way's buffer holds one burst. */
		if (got) {
			uint64_t from = timed ? *t : 0;

			flush_outlets(r);
			if (timed) {
				*t = rte_rdtsc();
				part_took(r, &r->tx_cycles, *t - from, got);
			}
		}
		n += got;
		if (unlikely(blocked(r)))
			break;
	}
	return n;
}

/* Functions' own time: tables are aged, reports sent. */
static void tick(struct replica *r, uint64_t now)
{
	r->next_tick = now + rte_get_tsc_hz() / TICK_HZ;
	for (unsigned int i = 0; i < r->n_nodes; i++) {
		struct nf_worker *w = r->nodes[i].worker;

		/* A function beside has its ticks where it runs. */
		if (w->nf->ops->tick && !r->nodes[i].beside)
			w->nf->ops->tick(w, now);
		if (r->n_emitted)
			run_emitted(r);
		flush_outlets(r);
		if (blocked(r))
			return;
	}
}

void replica_upkeep(struct replica *r, uint64_t now)
{
	busy_look(&r->busy, r->clock, r->window, now);
	/* After the last packets no poll is timed any more. */
	if (r->fast)
		fastpath_credit(r);
	/* What a tick emits needs the room that packets still held for an output would take. */
	if (r->has_tick && (int64_t)(now - r->next_tick) >= 0 && !blocked(r)) {
		if (r->side)
			parallel_side_tick(r, now);
		else
			tick(r, now);
		busy_turn(&r->busy, r->clock, rte_rdtsc(), 1);
	}
	if ((int64_t)(now - r->pace.next) >= 0) {
		pace_take(&r->pace, now);
		r->clock->mark = rte_rdtsc(); /* measuring is nobody's work */
	}
	r->next_upkeep = r->pace.next;
	if (r->has_tick && (int64_t)(r->next_tick - r->next_upkeep) < 0)
		r->next_upkeep = r->next_tick;
}

/* NFs that hold packets may let some go; how many they did. */
static __rte_noinline uint32_t poll_holders(struct replica *r, const bool timed)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < r->n_nodes && !blocked(r); i++) {
		struct node *node = &r->nodes[i];
		struct nf_worker *w = node->worker;
		uint64_t start;

		if (!w->nf->ops->poll || node->stats.held <= 0)
			continue;
		start = timed ? rte_rdtsc() : 0;
		w->nf->ops->poll(w);
		if (timed)
			part_took(r, &node->stats.cycles, rte_rdtsc() - start, BURST_MAX);
		if (!r->n_emitted)
			continue;
		n += r->n_emitted;
		run_emitted(r);
		flush_outlets(r);
	}
	return n;
}

/* What functions side by side are through with goes on behind the last of them; how many packets. */
static uint32_t run_joined(struct replica *r, const bool timed, uint64_t *t)
{
	struct parallel *p = r->parallel;
	uint16_t last = p->members[p->n - 1].node;
	struct node *node = &r->nodes[last];
	uint32_t all = 0, n;

	while (!r->pending && (n = parallel_join(p, r, &node->in))) {
		struct burst *b = &node->in;

		all += n;
		node->stats.in += b->n;
		if (all_edge_0(b))
			leave(r, node, 0, NF_FORWARD, b->pkts, b->n);
		else
			dispatch_mixed(r, node, b);
		b->n = 0;
		if (timed)
			*t = rte_rdtsc(); /* merging is the loop's, not a function's */
		run_nodes(r, last, NF_FORWARD, timed, t);
		if (r->n_emitted)
			run_emitted(r);
		flush_outlets(r);
	}
	return all;
}

/* Everything that there is to do in a turn; how many packets there were. */
static __rte_always_inline uint32_t poll_all(struct replica *r, const bool timed, uint64_t *t)
{
	uint32_t n = 0;

	if (unlikely(r->parallel)) {
		/* Before the inputs: it may make the room for what they give. */
		n = run_joined(r, timed, t);
		if (unlikely(blocked(r))) {
			r->parallel->full_polls++;
			return n;
		}
		if (timed)
			*t = rte_rdtsc();
	}
	n += poll_inlets(r, timed, t);
	/* After the inputs: what came in now may leave now. */
	if (unlikely(r->has_poll))
		n += poll_holders(r, timed);
	return n;
}

/* Until it finds packets it is as any other poll, lest it find more of them. */
static __rte_noinline void poll_timed(struct replica *r)
{
	uint64_t start = r->clock->mark, t = start, now;
	uint32_t n = poll_all(r, true, &t);

	now = rte_rdtsc();
	if (n) {
		replica_timed(r, now - start, n);
		if (unlikely(r->fast))
			fastpath_credit(r);
	}
	replica_turn_at(r, now, n);
}

void replica_poll(struct replica *r)
{
	uint32_t n;

	if (unlikely(r->side)) {
		parallel_side_poll(r);
		return;
	}
	if (unlikely(r->pending)) {
		flush_outlets(r);
		if (r->pending) {
			/* There is work, but no room for it: the reader's fault, and no use of this core. */
			busy_turn(&r->busy, r->clock, rte_rdtsc(), 0);
			return;
		}
	}
	if (unlikely(!r->until_timed)) {
		poll_timed(r);
		return;
	}
	n = poll_all(r, false, NULL);
	replica_turn(r, n);
}

static int emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	struct replica *r = w->replica;
	struct node *node = &r->nodes[w->node];
	struct target t = node->next[dir][edge];

	/* The queue is the replica's lcore's. */
	if (r->n_emitted == EMIT_MAX || node->beside)
		return -ENOBUFS;
	if (t.kind == TO_DROP)
		ends_add(&node->stats.no_route, m, 1);
	else
		node->stats.out[edge]++;
	r->emitted[r->n_emitted++] = (struct emitted){.pkt = m, .to = t, .direction = dir};
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
	struct node_stats *s = &w->replica->nodes[w->node].stats;
	int rc = emit(w, m, edge, dir);

	if (rc)
		return rc;
	s->held--;
	ends_add(&s->held_ends, m, -1);
	return 0;
}

void nf_drop_held(struct nf_worker *w, struct rte_mbuf *m, unsigned int reason)
{
	struct node_stats *s = &w->replica->nodes[w->node].stats;

	s->held--;
	ends_add(&s->held_ends, m, -1);
	ends_add(&s->dropped[reason], m, 1);
	rte_pktmbuf_free(m);
}

struct rte_mbuf *nf_alloc(struct nf_worker *w)
{
	return rte_pktmbuf_alloc(w->replica->pool);
}
