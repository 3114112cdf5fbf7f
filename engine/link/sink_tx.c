/* SPDX-License-Identifier: Apache-2.0 */
/* The sink's packet path: what one burst adds to a trial's measurements. */
#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "core/mbuf_util.h"
#include "core/nf.h"
#include "sink.h"
#include "stamp.h"

#define AHEAD 8

static __rte_noinline void missing_leaves(struct sink_trial *t, struct flow_seen *f)
{
	holes_add(&t->holes, &f->holes, f->next - 64, 1);
}

/* Some were left out, for now or for good: the window moves past them. */
static void skip(struct sink_trial *t, struct flow_seen *f, uint32_t seq)
{
	uint32_t ahead = seq - f->next, moved = ahead + 1;

	t->lost += ahead;
	if (moved < 64) {
		holes_add_bits(&t->holes, &f->holes, f->next - 64, f->missing & ((1ull << moved) - 1));
		/* The new highest is bit 63, and those left out are below it. */
		f->missing = f->missing >> moved | ((1ull << ahead) - 1) << (63 - ahead);
	} else {
		holes_add_bits(&t->holes, &f->holes, f->next - 64, f->missing);
		holes_add(&t->holes, &f->holes, f->next, moved - 64);
		f->missing = UINT64_MAX >> 1;
	}
	f->next = seq + 1;
}

/* RFC 4737: reordered if below the highest seen. False: it came before, or nobody can tell. */
static bool late(struct sink_trial *t, struct flow_seen *f, uint32_t seq)
{
	uint32_t behind = f->next - 1 - seq;
	uint64_t bit = behind < 64 ? 1ull << (63 - behind) : 0;

	if (f->missing & bit) {
		f->missing &= ~bit;
	} else if (bit || !holes_take(&t->holes, f->holes, seq)) {
		t->undecided += !bit && t->holes.untold;
		t->duplicated++;
		f->duplicated++;
		return false;
	}
	t->lost--;
	t->reordered++;
	f->reordered++;
	return true;
}

static __rte_noinline void out_of_order(struct sink_trial *t, struct flow_seen *f, uint32_t seq,
					const struct rte_mbuf *m, uint32_t delay)
{
	if (seq - f->next < UINT32_MAX / 2) {
		skip(t, f, seq);
		f->last_delay = delay;
		return;
	}
	if (!late(t, f, seq))
		sink_see_other(t, m);
	f->last_delay = DELAY_LATE;
}

/* RFC 5481: IPDV is between packets that were sent one after the other. */
static inline void see_packet(struct sink_trial *t, struct flow_seen *f, uint32_t seq,
			      const struct rte_mbuf *m, uint64_t ns)
{
	uint32_t delay = ns < DELAY_LATE ? (uint32_t)ns : DELAY_LATE - 1;
	int64_t diff = (int64_t)delay - f->last_delay;

	t->flows += !f->received;
	f->received++;
	if (likely(seq == f->next)) {
		if (unlikely(f->missing & 1))
			missing_leaves(t, f);
		f->next = seq + 1;
		f->missing >>= 1;
		if (likely(f->received > 1 && f->last_delay != DELAY_LATE)) {
			t->ipdv_sum += diff < 0 ? -diff : diff;
			t->ipdv_count++;
		}
		f->last_delay = delay;
		return;
	}
	out_of_order(t, f, seq, m, delay);
}

struct seen_burst {
	struct stamp stamp[BURST_MAX];
	uint64_t bytes;
	uint32_t differ; /* 0: all are as long as the first */
};

/*
 * First pass: all that is read of the mbufs, while their lines are here, and the state of the stamps'
 * flows is fetched. What is to be looked at closely gets a stamp of nobody's.
 */
static inline void read_stamps(const struct sink_trial *t, struct rte_mbuf **pkts, uint16_t n,
			       struct seen_burst *b)
{
	/*
	 * Another core has written the mbufs. They would come one after the other, as each has to be read for
	 * its data's address. To be written: they are freed here.
	 */
	for (uint16_t i = 0; i < n; i++)
		__builtin_prefetch(pkts[i], 1);
	for (uint16_t i = 0; i < RTE_MIN(n, AHEAD); i++)
		rte_prefetch0(rte_pktmbuf_mtod_offset(pkts[i], char *, pkts[i]->data_len - 1));
	b->bytes = b->differ = 0;
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];
		uint64_t flow;

		b->bytes += m->pkt_len;
		b->differ |= m->pkt_len ^ pkts[0]->pkt_len;
		if (i + AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod_offset(pkts[i + AHEAD], char *,
							      pkts[i + AHEAD]->data_len - 1));
		if (unlikely(m->data_len < STAMP_BYTES || m->nb_segs != 1 || m->ol_flags & PKT_CREATED)) {
			b->stamp[i] = (struct stamp){0};
			continue;
		}
		b->stamp[i] = stamp_read(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len));
		flow = b->stamp[i].flow_seq >> 32;
		if (likely(flow < t->n_flows))
			rte_prefetch0(&t->seen[flow]);
	}
}

static inline void count_sizes(struct sink_trial *t, struct rte_mbuf **pkts, uint16_t n, bool differ)
{
	if (likely(!differ)) {
		t->all.sizes[pkt_size_class(pkts[0])] += n;
		return;
	}
	for (uint16_t i = 0; i < n; i++)
		t->all.sizes[pkt_size_class(pkts[i])]++;
}

static inline void measure(struct sink_trial *t, struct rte_mbuf **pkts, uint16_t n, uint64_t now,
			   uint64_t mult)
{
	struct seen_burst b;
	uint64_t sum = 0, stamped = 0, min = t->slice.min, max = t->slice.max;

	read_stamps(t, pkts, n, &b);
	for (uint16_t i = 0; i < n; i++) {
		struct stamp s = b.stamp[i];
		uint64_t flow = s.flow_seq >> 32, ns;

		if (unlikely((s.magic_time & ~STAMP_TIME_MASK) != t->magic)) {
			sink_see_unstamped(t, pkts[i], s.magic_time & ~STAMP_TIME_MASK, now, mult);
			continue;
		}
		ns = sink_ns((now - s.magic_time) & STAMP_TIME_MASK, mult);
		if (unlikely(ns >= 1ull << HIST_MAX_BITS)) {
			ns = (1ull << HIST_MAX_BITS) - 1;
			t->slice.saturated++;
		}
		stamped++;
		hist_record(&t->slice, ns);
		sum += ns;
		min = RTE_MIN(min, ns);
		max = RTE_MAX(max, ns);
		if (unlikely(flow >= t->n_flows)) {
			t->foreign++;
			sink_see_other(t, pkts[i]);
			continue;
		}
		see_packet(t, &t->seen[flow], (uint32_t)s.flow_seq, pkts[i], ns);
	}
	t->all.packets += n;
	t->all.bytes += b.bytes;
	count_sizes(t, pkts, n, b.differ != 0);
	t->stamped += stamped;
	t->slice.count += stamped;
	t->slice.sum += sum;
	t->slice.min = RTE_MIN(t->slice.min, min); /* unstamped packets set it too */
	t->slice.max = RTE_MAX(t->slice.max, max);
}

static __rte_noinline void close_window(struct sink_trial *t)
{
	t->within = sink_counts_now(t);
	t->over = true;
}

uint16_t sink_tx(struct link_txq *txq, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct sink_queue *q = txq->state;
	struct sink_trial *t = atomic_load_explicit(&q->trial, memory_order_acquire);
	uint64_t now;

	(void)dest;
	if (likely(t)) {
		now = rte_rdtsc();
		if (!t->all.packets)
			t->first_tsc = now;
		else if (unlikely(now - t->first_tsc >= t->window && !t->over))
			close_window(t);
		if (unlikely(now >= t->slices.next))
			sink_slice_over(t, now);
		t->last_tsc = now;
		for (uint16_t i = 0; i < n; i += BURST_MAX)
			measure(t, pkts + i, RTE_MIN(n - i, BURST_MAX), now, q->ns_mult);
	}
	mbuf_free_burst(pkts, n);
	return n;
}
