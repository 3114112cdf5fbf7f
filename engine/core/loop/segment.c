/* SPDX-License-Identifier: Apache-2.0 */
/* The segment loop: what happens to a burst between two links. */
#include <rte_cycles.h>
#include <rte_prefetch.h>

#include "core/checkpoint/checkpoint.h"
#include "core/pkt.h"
#include "outlet.h"
#include "run.h"
#include "timing.h"

#define PREFETCH_AHEAD 6
#define TICK_HZ 1000
#define LOCATE_AGAIN 4096 /* packets after which one that locates none looks whether it shall again */

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

/* What packets are from here on, whatever their mbufs said. */
static __rte_always_inline void mark_burst(const struct replica *r, const struct inlet *in,
					   struct rte_mbuf **pkts, uint16_t n)
{
	if (unlikely(r->trails))
		for (uint16_t i = 0; i < n; i++)
			pkt_set_trail(pkts[i], NULL);
	if (unlikely(in->marks_port))
		for (uint16_t i = 0; i < n; i++)
			pkts[i]->port = in->port;
	if (unlikely(in->marks_reverse))
		for (uint16_t i = 0; i < n; i++)
			pkts[i]->ol_flags |= PKT_REVERSE;
}

/* In random intervals, as for timed polls; at the next of the segment's functions each time. */
static __rte_noinline void locate_packet(struct replica *r, struct inlet *in,
					 struct rte_mbuf **pkts, uint16_t n)
{
	uint32_t drawn, every = (uint32_t)atomic_load_explicit(r->locate_every, memory_order_relaxed);
	uint16_t at;

	/* A segment without functions is the tester's: where packets are for it is nobody's question. */
	if (!every || !r->n_nodes) {
		r->locate_left = LOCATE_AGAIN;
		return;
	}
	drawn = replica_draw(r);
	at = (drawn >> 16) % n;
	r->locate_left = 1 + every / 2 + drawn % every;
	if (++r->locate_turn < r->n_nodes) {
		r->locating = at;
		return;
	}
	r->locate_turn = 0;
	located_note(in->located, r->locate, located_time(pkts[at], r->locate_offset));
}

/* No room for another burst: packets that `wait` outlets hold, or that functions side by side work on. */
static inline bool blocked(const struct replica *r)
{
	return r->pending || (unlikely(r->parallel != NULL) && parallel_full(r->parallel));
}

static __rte_always_inline uint16_t poll_inlet(struct replica *r, struct inlet *in, uint64_t *t)
{
	struct rte_mbuf **pkts;
	struct out_queue *straight = NULL;
	struct burst *b = NULL;
	uint64_t link = 0, headers = 0;
	bool locate, whole;
	uint16_t n;

	/*
	 * Packets are received where they will be needed: no copy for the straight way through, other than
	 * out of an elastic segment, where push takes the bucket off them.
	 */
	if (in->to.kind == TO_NODE) {
		b = &r->nodes[in->to.index].in;
		pkts = b->pkts;
	} else if (in->to.kind == TO_LINK && r->outlets[in->to.index].n_dests == 1 && !r->elastic) {
		straight = r->outlets[in->to.index].queues;
		pkts = straight->pkts + straight->n;
	} else {
		pkts = r->nodes[r->n_nodes].in.pkts; /* spare */
	}
	/*
	 * Decided before there are packets: a branch that had to wait for them would let the processor run
	 * ahead on the usual path, where headers are prefetched. Not in timed polls: they time functions.
	 */
	locate = !t && r->locate_left <= 0;
	n = atomic_load_explicit(&in->rx, memory_order_acquire)(&in->q, pkts, r->burst);
	if (!n)
		return 0;
	in->count.packets += n;
	r->locate_left -= n;
	whole = part_ends(r, t, &link, n);
	if (unlikely(locate))
		locate_packet(r, in, pkts, n);
	if (r->classify)
		classify_burst(pkts, n, in->unclassified);
	mark_burst(r, in, pkts, n);
	/* Where one part was interrupted the other is no sample either: both are of the same packets. */
	if (part_ends(r, t, &headers, n) && whole) {
		in->count.cycles += link + headers;
		in->count.headers_cycles += headers;
		in->count.timed_packets += n;
	}
	if (b) {
		b->n = n;
		run_nodes(r, in->to.index, in->direction, t);
	} else if (straight) {
		straight->n += n;
	} else {
		push(r, in->to, pkts, n);
	}
	r->locating = -1;
	return n;
}

static __rte_always_inline uint32_t poll_inlets(struct replica *r, uint64_t *t)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < r->n_inlets; i++) {
		uint16_t got = poll_inlet(r, &r->inlets[i], t);

		if (unlikely(r->n_emitted))
			run_emitted(r);
		/* Per input: the straight way's buffer holds one burst. */
		if (got) {
			flush_outlets(r);
			part_ends(r, t, &r->count.tx_cycles, got);
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

/* Where to is looked at each time: a peer that was started anew keeps other memory. */
static __rte_noinline void write_checkpoint(struct replica *r, uint64_t now)
{
	size_t bytes;
	void *memory = r->keeper->ops->kept(r->keeper, &bytes);

	if (memory != checkpoint_memory(r->checkpoint))
		checkpoint_attach(r->checkpoint, memory, bytes, false, now);
	checkpoint_tick(r->checkpoint, now);
}

/* Some hundred times a second. */
static void upkeep_due(struct replica *r, uint64_t now)
{
	busy_look(&r->busy, r->clock, r->window, now);
	if (r->slicer && (int64_t)(now - r->slicer->next) >= 0)
		slicer_close(r->slicer, now);
	if (unlikely(r->fast && r->fast->offer))
		fastpath_offer_before_tick(r, now);
	/* After the last packets no poll is timed any more. */
	if (r->fast)
		fastpath_credit(r);
	/* What a tick emits needs the room that packets still held for an output would take. */
	if (r->has_tick && (int64_t)(now - r->next_tick) >= 0 && !blocked(r)) {
		if (unlikely(r->checkpoint))
			write_checkpoint(r, now);
		if (r->side)
			parallel_side_tick(r, now);
		else
			tick(r, now);
		if (unlikely(r->fast && r->fast->offer))
			fastpath_offer_behind_tick(r);
		busy_turn(&r->busy, r->clock, rte_rdtsc(), 1);
	}
	if ((int64_t)(now - r->pace.next) >= 0) {
		pace_take(&r->pace, now);
		busy_measured(r->clock, rte_rdtsc());
	}
	r->next_due = r->pace.next;
	if (r->has_tick && (int64_t)(r->next_tick - r->next_due) < 0)
		r->next_due = r->next_tick;
}

void replica_upkeep(struct replica *r, uint64_t now)
{
	struct slicer *s = r->slicer;

	if ((int64_t)(now - r->next_due) >= 0)
		upkeep_due(r, now);
	r->next_upkeep = r->next_due;
	if (!s || s->replicas[0] != r)
		return;
	if ((int64_t)(now - s->next_beacon) >= 0)
		slicer_beacon(s, now);
	if ((int64_t)(s->next_beacon - r->next_upkeep) < 0)
		r->next_upkeep = s->next_beacon;
}

/* NFs that hold packets may let some go; how many they did. */
static __rte_noinline uint32_t poll_holders(struct replica *r, uint64_t *t)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < r->n_nodes && !blocked(r); i++) {
		struct node *node = &r->nodes[i];
		struct nf_worker *w = node->worker;

		if (!w->nf->ops->poll || node->stats.held <= 0)
			continue;
		part_begins(t);
		w->nf->ops->poll(w);
		part_ends(r, t, &node->stats.cycles, BURST_MAX);
		if (!r->n_emitted)
			continue;
		n += r->n_emitted;
		run_emitted(r);
		flush_outlets(r);
	}
	return n;
}

/* What functions side by side are through with goes on behind the last of them; how many packets. */
static uint32_t run_joined(struct replica *r, uint64_t *t)
{
	struct parallel *p = r->parallel;
	uint16_t last = p->members[p->n - 1].node;
	struct node *node = &r->nodes[last];
	uint32_t all = 0, n;

	while (!r->pending && (n = parallel_join(p, r, &node->in))) {
		struct burst *b = &node->in;

		all += n;
		node->stats.in += b->n;
		dispatch(r, node, b);
		b->n = 0;
		part_begins(t); /* merging is the loop's, not a function's */
		run_nodes(r, last, NF_FORWARD, t);
		if (r->n_emitted)
			run_emitted(r);
		flush_outlets(r);
	}
	return all;
}

/* Everything that there is to do in a turn; how many packets there were. */
static __rte_always_inline uint32_t poll_all(struct replica *r, uint64_t *t)
{
	uint32_t n = 0;

	if (unlikely(r->side))
		return parallel_side_poll(r, t);
	if (unlikely(r->parallel)) {
		/* Before the inputs: it may make the room for what they give. */
		n = run_joined(r, t);
		if (unlikely(blocked(r))) {
			r->parallel->full_polls++;
			return n;
		}
		part_begins(t);
	}
	n += poll_inlets(r, t);
	/* After the inputs: what came in now may leave now. */
	if (unlikely(r->has_poll))
		n += poll_holders(r, t);
	return n;
}

/* Until it finds packets it is as any other poll, lest it find more of them. */
static __rte_noinline void poll_timed(struct replica *r)
{
	uint64_t start = r->clock->mark, t = start, now;
	uint32_t n = poll_all(r, &t);

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

	if (unlikely(r->steers))
		elastic_adopt(r);
	if (unlikely(r->pending)) {
		flush_outlets(r);
		if (r->pending) {
			/* There is work, but no room for it: the reader's fault, and no use of this core. */
			busy_turn(&r->busy, r->clock, rte_rdtsc(), 0);
			return;
		}
		/* Where its reader is always behind, a writer has nothing queued at this moment alone. */
		if (unlikely(r->steers))
			elastic_adopt(r);
	}
	/* What waits for buckets that move is left of those before, too: who rests takes none along. */
	if (unlikely(r->elastic != NULL) && !(r->steers && elastic_waits(r)))
		atomic_store_explicit(&r->turns, r->turns + 1, memory_order_release);
	if (unlikely(!r->until_timed)) {
		poll_timed(r);
		return;
	}
	n = poll_all(r, NULL);
	replica_turn(r, n);
}
