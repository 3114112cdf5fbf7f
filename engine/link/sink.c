/* SPDX-License-Identifier: Apache-2.0 */
/* A sink measures and ends packets: loss, order, duplication, delay and its variation. */
#include "sink.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ether.h>
#include <rte_prefetch.h>

#include "hist.h"
#include "mbuf_util.h"
#include "nf.h"
#include "stamp.h"

#define NS_SHIFT 32 /* cycles -> ns: multiply and shift */
#define AHEAD 8
#define FLOWS_TOP_MAX 1000u

/*
 * What is known of a flow. `window` has a bit for each of the last 64 sequence numbers below
 * `next` (the anti-replay window of RFC 4303 section 3.4.3), which tells a late packet from a
 * duplicate without storing more.
 */
struct flow_seen {
	uint32_t next; /* one above the highest sequence seen */
	uint32_t received;
	uint64_t window;
	uint32_t last_seq, last_delay; /* of the packet before; delay in ns, saturating */
	uint32_t reordered, duplicated;
};

static_assert(sizeof(struct flow_seen) == 32, "two flows per cache line");

/* All a trial's measurements of one writer; replaced as a whole at the next trial. */
struct sink_trial {
	unsigned int epoch;
	uint64_t magic;
	uint64_t n_flows;
	struct replay *replays[SINK_REPLAYS_MAX];
	uint64_t received, bytes, stamped, unknown, matched, ambiguous, late, foreign;
	uint64_t lost, reordered, duplicated, flows;
	uint64_t first_tsc, last_tsc;
	uint64_t ipdv_sum, ipdv_count;
	struct hist latency;
	struct flow_seen *seen;
};

struct sink_queue {
	struct link *link;
	uint64_t ns_mult;
	_Atomic(struct sink_trial *) trial; /* in use */
	struct sink_trial *spare;           /* control thread's, to prepare the next in */
} __rte_cache_aligned;

struct sink {
	uint16_t n;
	struct sink_queue *queues;
};

static const struct param sink_params[] = {{0}};

static inline uint64_t cycles_to_ns(uint64_t cycles, uint64_t mult)
{
	return (uint64_t)((unsigned __int128)cycles * mult >> NS_SHIFT);
}

/* A packet that is not the next of its flow. RFC 4737: reordered if below the highest seen. */
static __rte_noinline void out_of_order(struct sink_trial *t, struct flow_seen *f, uint32_t seq)
{
	uint32_t ahead = seq - f->next, behind = f->next - 1 - seq;

	if (ahead < UINT32_MAX / 2) {
		t->lost += ahead;
		f->window = ahead + 1 < 64 ? f->window << (ahead + 1) | 1 : 1;
		f->next = seq + 1;
		return;
	}
	if (behind < 64 && f->window >> behind & 1) {
		t->duplicated++;
		f->duplicated++;
		return;
	}
	if (behind < 64)
		f->window |= 1ull << behind;
	t->lost--;
	t->reordered++;
	f->reordered++;
}

static inline void see_sequence(struct sink_trial *t, struct flow_seen *f, uint32_t seq)
{
	t->flows += !f->received;
	f->received++;
	if (likely(seq == f->next)) {
		f->next = seq + 1;
		f->window = f->window << 1 | 1;
		return;
	}
	out_of_order(t, f, seq);
}

/* RFC 5481: IPDV is between packets that were sent one after the other. */
static inline void see_delay(struct sink_trial *t, struct flow_seen *f, uint32_t seq, uint64_t ns)
{
	uint32_t delay = ns < UINT32_MAX ? ns : UINT32_MAX;
	int64_t diff = (int64_t)delay - f->last_delay;

	if (seq == f->last_seq + 1 && f->received > 1) {
		t->ipdv_sum += diff < 0 ? -diff : diff;
		t->ipdv_count++;
	}
	f->last_seq = seq;
	f->last_delay = delay;
}

static __rte_noinline void see_unstamped(struct sink_trial *t, struct rte_mbuf *m, uint64_t magic,
					 uint64_t now, uint64_t mult)
{
	struct replay_slot *s = NULL;
	uint64_t digest, ns;

	/* Same mark, other trial: a straggler. */
	if (magic >> 56 == 'H' && magic != t->magic) {
		t->late++;
		return;
	}
	if (t->replays[0] && rte_pktmbuf_is_contiguous(m)) {
		digest = replay_digest(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
		for (int i = 0; !s && i < SINK_REPLAYS_MAX && t->replays[i]; i++)
			s = replay_find(t->replays[i], digest);
	}
	if (!s) {
		t->unknown++;
		return;
	}
	t->matched++;
	s->received++;
	if (s->received > s->sent) {
		t->duplicated++;
		return;
	}
	/* With more than one on its way nobody can tell which this is. */
	if (s->received != s->sent) {
		t->ambiguous++;
		return;
	}
	ns = cycles_to_ns(now - s->sent_tsc, mult);
	hist_record(&t->latency, ns < 1ull << HIST_MAX_BITS ? ns : (1ull << HIST_MAX_BITS) - 1);
	t->latency.count++;
	t->latency.sum += ns;
	t->latency.min = RTE_MIN(t->latency.min, ns);
	t->latency.max = RTE_MAX(t->latency.max, ns);
}

struct seen_burst {
	struct stamp stamp[BURST_MAX];
};

/* First pass: read stamps, and fetch the state of their flows. */
static inline void read_stamps(const struct sink_trial *t, struct rte_mbuf **pkts, uint16_t n,
			       struct seen_burst *b)
{
	for (uint16_t i = 0; i < RTE_MIN(n, AHEAD); i++)
		rte_prefetch0(rte_pktmbuf_mtod_offset(pkts[i], char *, pkts[i]->data_len - 1));
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];
		uint64_t flow;

		if (i + AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod_offset(pkts[i + AHEAD], char *,
							      pkts[i + AHEAD]->data_len - 1));
		if (unlikely(m->data_len < STAMP_BYTES || m->nb_segs != 1)) {
			b->stamp[i] = (struct stamp){0};
			continue;
		}
		b->stamp[i] = stamp_read(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len));
		flow = b->stamp[i].flow_seq >> 32;
		if (likely(flow < t->n_flows))
			rte_prefetch0(&t->seen[flow]);
	}
}

static inline void measure(struct sink_trial *t, struct rte_mbuf **pkts, uint16_t n, uint64_t now,
			   uint64_t mult)
{
	struct seen_burst b;
	uint64_t bytes = 0, sum = 0, stamped = 0, min = t->latency.min, max = t->latency.max;

	read_stamps(t, pkts, n, &b);
	for (uint16_t i = 0; i < n; i++) {
		struct stamp s = b.stamp[i];
		uint64_t flow = s.flow_seq >> 32, ns;

		bytes += pkts[i]->pkt_len;
		if (unlikely((s.magic_time & ~STAMP_TIME_MASK) != t->magic)) {
			see_unstamped(t, pkts[i], s.magic_time & ~STAMP_TIME_MASK, now, mult);
			continue;
		}
		ns = cycles_to_ns((now - s.magic_time) & STAMP_TIME_MASK, mult);
		if (unlikely(ns >= 1ull << HIST_MAX_BITS)) {
			ns = (1ull << HIST_MAX_BITS) - 1;
			t->latency.saturated++;
		}
		stamped++;
		hist_record(&t->latency, ns);
		sum += ns;
		min = RTE_MIN(min, ns);
		max = RTE_MAX(max, ns);
		if (unlikely(flow >= t->n_flows)) {
			t->foreign++;
			continue;
		}
		see_sequence(t, &t->seen[flow], (uint32_t)s.flow_seq);
		see_delay(t, &t->seen[flow], (uint32_t)s.flow_seq, ns);
	}
	t->received += n;
	t->stamped += stamped;
	t->bytes += bytes + (uint64_t)n * RTE_ETHER_CRC_LEN;
	t->latency.count += stamped;
	t->latency.sum += sum;
	t->latency.min = min;
	t->latency.max = max;
}

static uint16_t sink_tx(struct link_txq *txq, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct sink_queue *q = txq->state;
	struct sink_trial *t = atomic_load_explicit(&q->trial, memory_order_acquire);
	uint64_t now;

	(void)dest;
	if (likely(t)) {
		now = rte_rdtsc();
		if (!t->received)
			t->first_tsc = now;
		t->last_tsc = now;
		for (uint16_t i = 0; i < n; i += BURST_MAX)
			measure(t, pkts + i, RTE_MIN(n - i, BURST_MAX), now, q->ns_mult);
	}
	mbuf_free_burst(pkts, n);
	return n;
}

static void trial_free(struct sink_trial *t)
{
	if (!t)
		return;
	rte_free(t->seen);
	rte_free(t);
}

static void sink_fini(struct link *l)
{
	struct sink *s = l->state;

	if (!s)
		return;
	for (uint16_t i = 0; i < s->n; i++) {
		trial_free(atomic_load(&s->queues[i].trial));
		trial_free(s->queues[i].spare);
	}
	rte_free(s->queues);
	free(s);
	l->state = NULL;
}

static int sink_init(struct link *l, struct err *err)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	l->state = s;
	s->n = l->n_txq;
	s->queues = rte_zmalloc("sink", RTE_MAX(s->n, 1) * sizeof(*s->queues), RTE_CACHE_LINE_SIZE);
	if (!s->queues) {
		sink_fini(l);
		return err_set(err, ENOMEM, "", "out of memory");
	}
	for (uint16_t i = 0; i < s->n; i++) {
		s->queues[i].link = l;
		s->queues[i].ns_mult = (1e9 / (double)rte_get_tsc_hz()) * (1ull << NS_SHIFT) + 0.5;
	}
	return 0;
}

static int sink_tx_open(struct link_txq *q, struct err *err)
{
	struct sink *s = q->link->state;

	(void)err;
	q->state = &s->queues[q->index];
	return 0;
}

static struct sink_trial *trial_ready(struct sink_trial *t, uint64_t n_flows)
{
	struct flow_seen *seen;

	if (!t)
		t = rte_zmalloc("sink_trial", sizeof(*t), RTE_CACHE_LINE_SIZE);
	if (!t)
		return NULL;
	seen = t->seen;
	if (n_flows > t->n_flows || !seen) {
		rte_free(seen);
		seen = rte_zmalloc("sink_flows", RTE_MAX(n_flows, 1u) * sizeof(*seen),
				   RTE_CACHE_LINE_SIZE);
		if (!seen) {
			t->seen = NULL;
			trial_free(t);
			return NULL;
		}
	} else {
		memset(seen, 0, n_flows * sizeof(*seen));
	}
	memset(t, 0, sizeof(*t));
	hist_reset(&t->latency);
	t->seen = seen;
	t->n_flows = n_flows;
	return t;
}

int sink_start(struct link *l, unsigned int epoch, uint64_t n_flows,
	       struct replay *const replays[SINK_REPLAYS_MAX], struct err *err)
{
	struct sink *s = l->state;

	for (uint16_t i = 0; i < s->n; i++) {
		struct sink_queue *q = &s->queues[i];
		struct sink_trial *t = trial_ready(q->spare, n_flows);

		if (!t) {
			q->spare = NULL;
			return err_set(err, ENOMEM, l->name, "no memory to measure %llu flows",
				       (unsigned long long)n_flows);
		}
		t->epoch = epoch;
		t->magic = stamp_magic(epoch);
		memcpy(t->replays, replays, sizeof(t->replays));
		/* The worker is past the old one by the next trial: sources were idle. */
		q->spare = atomic_exchange_explicit(&q->trial, t, memory_order_acq_rel);
	}
	return 0;
}

static void add_trial(struct sink_trial *sum, const struct sink_trial *t)
{
	sum->received += t->received;
	sum->bytes += t->bytes;
	sum->stamped += t->stamped;
	sum->unknown += t->unknown;
	sum->matched += t->matched;
	sum->ambiguous += t->ambiguous;
	sum->late += t->late;
	sum->foreign += t->foreign;
	sum->lost += t->lost;
	sum->reordered += t->reordered;
	sum->duplicated += t->duplicated;
	sum->flows += t->flows;
	sum->ipdv_sum += t->ipdv_sum;
	sum->ipdv_count += t->ipdv_count;
	if (t->received && (!sum->first_tsc || t->first_tsc < sum->first_tsc))
		sum->first_tsc = t->first_tsc;
	sum->last_tsc = RTE_MAX(sum->last_tsc, t->last_tsc);
	hist_add(&sum->latency, &t->latency);
}

static json_t *trial_json(const struct sink_trial *t)
{
	double per_ns = 1e9 / (double)rte_get_tsc_hz();

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:I, "
			 "s:I}",
			 "received", (json_int_t)t->received, "bytes", (json_int_t)t->bytes,
			 "stamped", (json_int_t)t->stamped, "matched", (json_int_t)t->matched,
			 "unknown", (json_int_t)t->unknown, "ambiguous", (json_int_t)t->ambiguous,
			 "late", (json_int_t)t->late, "foreign", (json_int_t)t->foreign, "lost",
			 (json_int_t)t->lost, "reordered", (json_int_t)t->reordered, "duplicated",
			 (json_int_t)t->duplicated, "flows", (json_int_t)t->flows, "latency",
			 hist_json(&t->latency), "ipdv_ns_mean",
			 t->ipdv_count ? (double)t->ipdv_sum / (double)t->ipdv_count : 0.0,
			 "ipdv_count", (json_int_t)t->ipdv_count, "duration_ns",
			 (json_int_t)((double)(t->last_tsc - t->first_tsc) * per_ns));
}

static json_t *sink_stats(struct link *l)
{
	const struct sink *s = l->state;
	struct sink_trial *sum = calloc(1, sizeof(*sum));
	json_t *j;

	if (!sum)
		return json_object();
	hist_reset(&sum->latency);
	for (uint16_t i = 0; i < s->n; i++) {
		const struct sink_trial *t = atomic_load(&s->queues[i].trial);

		if (t)
			add_trial(sum, t);
	}
	j = trial_json(sum);
	free(sum);
	return j;
}

static uint64_t badness(const struct flow_seen *f)
{
	return (uint64_t)(f->next - (f->received - f->duplicated)) + f->reordered + f->duplicated;
}

/* Insert into a list kept worst first. */
static void rank(json_t *list, unsigned int top, uint64_t flow, const struct flow_seen *f)
{
	size_t at = json_array_size(list);

	while (at && (uint64_t)json_integer_value(json_object_get(
			     json_array_get(list, at - 1), "badness")) < badness(f))
		at--;
	if (at >= top)
		return;
	json_array_insert_new(list, at,
			      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "flow", (json_int_t)flow,
					"received", (json_int_t)f->received, "lost",
					(json_int_t)(f->next - (f->received - f->duplicated)),
					"reordered", (json_int_t)f->reordered, "duplicated",
					(json_int_t)f->duplicated, "badness",
					(json_int_t)badness(f)));
	if (json_array_size(list) > top)
		json_array_remove(list, top);
}

json_t *sink_flows(struct link *l, unsigned int top)
{
	const struct sink *s = l->state;
	json_t *list = json_array();

	top = RTE_MIN(top, FLOWS_TOP_MAX);
	for (uint16_t i = 0; i < s->n; i++) {
		const struct sink_trial *t = atomic_load(&s->queues[i].trial);

		for (uint64_t f = 0; t && f < t->n_flows; f++)
			if (t->seen[f].received && badness(&t->seen[f]))
				rank(list, top, f, &t->seen[f]);
	}
	return list;
}

static const struct link_ops sink_ops = {
	.name = "sink",
	.doc = "Measures packets and frees them: received, lost, reordered and duplicated per flow, "
	       "delay histogram and IPDV from stamps; unstamped packets of a replayed capture are "
	       "matched by digest.",
	.params = sink_params,
	.writes = true,
	.init = sink_init,
	.fini = sink_fini,
	.tx_open = sink_tx_open,
	.tx = sink_tx,
	.stats = sink_stats,
};
LINK_REGISTER(sink_ops)

bool link_is_sink(const struct link *l)
{
	return l->ops == &sink_ops;
}
