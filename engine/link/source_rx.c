/* SPDX-License-Identifier: Apache-2.0 */
/* The source's packet path: when packets are due, and making them. */
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "core/nf.h"
#include "source.h"

#define PREFETCH_MBUF 8
#define PREFETCH_DATA 4
/* A source may run over its time by this share to make up for a stall; then it gives up. */
#define OVERTIME_DIV 50
#define OVERTIME_MIN_HZ 100 /* at least 1/100 s */

static uint32_t draw(struct source_queue *q)
{
	q->rng = q->rng * 6364136223846793005ull + 1442695040888963407ull;
	return q->rng >> 32;
}

static uint64_t next_flow(struct source_queue *q, const struct flows *f)
{
	uint64_t i;

	if (f->order == ORDER_ROUND_ROBIN) {
		i = q->flow;
		q->flow = i + 1 == q->n_flows ? 0 : i + 1;
	} else if (f->order == ORDER_RANDOM) {
		i = (uint64_t)draw(q) * q->n_flows >> 32;
	} else {
		i = (uint64_t)draw(q) * f->n_alias >> 32;
		i = draw(q) <= f->alias[i].threshold ? i : f->alias[i].other;
	}
	return q->first_flow + i;
}

bool source_timed(const struct source *s, const struct send_run *run)
{
	return s->replay && s->conf->timing == TIMING_CAPTURE && run->rate_pps > 0;
}

/* Cycles for each ns of the capture, at the run's mean rate. */
static double stretch(const struct source *s, const struct send_run *run)
{
	const struct replay *r = s->replay;

	return (double)rte_get_tsc_hz() * r->n_packets / run->rate_pps / (double)r->period_ns;
}

uint64_t source_timed_packets(const struct source *s, const struct send_run *run)
{
	const struct replay *r = s->replay;
	double ns = (double)run->duration / stretch(s, run);
	uint64_t rounds = (uint64_t)(ns / (double)r->period_ns), low = 0, high = r->n_packets;
	uint64_t rest = (uint64_t)(ns - (double)rounds * (double)r->period_ns);

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (r->packets[middle].at_ns < rest)
			low = middle + 1;
		else
			high = middle;
	}
	return RTE_MAX(rounds * r->n_packets + low, 1u);
}

/* When the packet `ahead` places behind the next one is due: cycles since start. */
static inline int64_t timed_at(const struct source_queue *q, uint32_t ahead)
{
	const struct replay *r = q->source->replay;
	uint64_t i = q->flow + ahead;
	uint64_t ns = (q->rounds + i / r->n_packets) * r->period_ns +
		      r->packets[i % r->n_packets].at_ns;

	return q->began + (int64_t)((double)ns * q->per_ns);
}

/* As pace_due, in the capture's own distances; what a stall held back goes at once, as it is due. */
static uint16_t timed_due(struct source_queue *q, uint64_t now, uint16_t n)
{
	int64_t rel = (int64_t)(now - q->pace.start_tsc);
	uint64_t most = RTE_MIN((uint64_t)n, q->pace.left);
	uint16_t due = 0;

	while (due < most && timed_at(q, due) <= rel)
		due++;
	if (due)
		q->pace.behind_max = RTE_MAX(q->pace.behind_max, (uint64_t)(rel - timed_at(q, 0)));
	return due;
}

static void begin(struct source_queue *q)
{
	const struct source *s = q->source;
	const struct send_run *r = &q->run;
	double interval = r->rate_pps > 0 ? (double)rte_get_tsc_hz() * s->n_queues / r->rate_pps : 0;

	q->epoch = r->epoch;
	q->magic = stamp_magic(r->epoch);
	q->flow = q->mac = q->frame = q->seq = 0;
	q->rng = s->conf->flows.seed * 0x9e3779b97f4a7c15ull + q->index;
	memset(q->sizes, 0, sizeof(q->sizes));
	q->sent = q->sent_bytes = q->no_mbuf = q->first_tsc = q->last_tsc = 0;
	q->pace = (struct pace){.start_tsc = r->start_tsc};
	pace_set_interval(&q->pace, interval);
	q->pace.next = q->pace.soft_next = q->pace.interval / s->n_queues * q->index;
	q->intended = r->packets == UINT64_MAX
			      ? UINT64_MAX
			      : r->packets / s->n_queues + (q->index < r->packets % s->n_queues);
	q->pace.left = q->intended;
	q->pace.deadline = r->duration;
	if (r->rate_pps > 0)
		q->pace.deadline += RTE_MAX(r->duration / OVERTIME_DIV,
					    rte_get_tsc_hz() / OVERTIME_MIN_HZ);
	q->per_ns = source_timed(s, r) ? stretch(s, r) : 0;
	q->began = 0;
	q->rounds = 0;
	q->running = true;
}

static void end(struct source_queue *q)
{
	q->running = false;
	atomic_store_explicit(&q->done_epoch, q->epoch, memory_order_release);
}

/*
 * A copy of what is wanted. A trial that ends by itself leaves a stop or a rate unseen, and the next
 * trial is written at the moment at which that is looked at; so neither is looked at half written. An
 * lcore does not wait for it.
 */
static bool copy_wanted(struct source_queue *q, bool *stopped)
{
	struct source *s = q->source;

	if (atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire))
		return false;
	q->version = atomic_load_explicit(&s->version, memory_order_relaxed);
	q->run = s->run;
	*stopped = s->stopped;
	atomic_flag_clear_explicit(&s->held, memory_order_release);
	return true;
}

/* A command of the control thread: a new trial, a stop, or another rate. */
static __rte_noinline void obey(struct source_queue *q)
{
	const struct source *s = q->source;
	const struct send_run *r = &q->run;
	bool stopped;

	if (!copy_wanted(q, &stopped))
		return; /* with the next burst */
	if (r->epoch != q->epoch)
		begin(q);
	else if (q->running && r->rate_pps > 0) {
		int64_t since = rte_rdtsc() - q->pace.start_tsc;
		uint64_t t = since > 0 ? (uint64_t)since << PACE_FRACTION : 0;

		if (q->per_ns > 0) {
			uint64_t ns = q->rounds * s->replay->period_ns + s->replay->packets[q->flow].at_ns;

			q->per_ns = stretch(s, r);
			q->began = since - (int64_t)((double)ns * q->per_ns);
		}
		pace_change(&q->pace, t, (double)rte_get_tsc_hz() * s->n_queues / r->rate_pps);
	}
	if (stopped && q->running)
		end(q);
}

static inline void mbuf_init(struct rte_mbuf *m, uint16_t len)
{
	/* As PMDs do: pool mbufs come with next NULL and nb_segs 1. */
	m->data_off = RTE_PKTMBUF_HEADROOM;
	rte_mbuf_refcnt_set(m, 1);
	m->nb_segs = 1;
	m->port = RTE_MBUF_PORT_INVALID;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = len;
	m->data_len = len;
}

static inline uint8_t *data_of(struct rte_mbuf *m)
{
	/* The same address as buf_addr + data_off, without reading the mbuf. */
	return (uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM;
}

static inline void prefetch_buffers(struct rte_mbuf **pkts, uint16_t i, uint16_t n)
{
	if (i + PREFETCH_MBUF < n)
		__builtin_prefetch(pkts[i + PREFETCH_MBUF], 1);
	if (i + PREFETCH_DATA < n)
		__builtin_prefetch(data_of(pkts[i + PREFETCH_DATA]), 1);
}

static inline const struct template *next_template(struct source_queue *q, const struct craft *c,
						   enum flow_kind kind)
{
	uint16_t size = 0;

	if (unlikely(c->n_frames > 1)) {
		size = c->frames[q->frame];
		q->frame = q->frame + 1 == c->n_frames ? 0 : q->frame + 1;
	}
	return &c->sizes[size * FLOW_KINDS + kind];
}

static inline void next_mac(struct source_queue *q, const struct craft *c, uint8_t *p)
{
	memcpy(p, &c->macs[q->mac], RTE_ETHER_ADDR_LEN);
	q->mac = q->mac + 1 == c->n_macs ? 0 : q->mac + 1;
}

/* Fill one packet for flow record f; returns its length without FCS. */
static inline uint16_t make_packet(struct source_queue *q, const struct craft *c,
				   const struct flow *f, uint64_t flow, uint32_t seq, uint64_t time,
				   struct rte_mbuf *m)
{
	const struct template *t = next_template(q, c, f->kind);
	uint8_t *p = data_of(m);

	craft_packet(c, t, f, p, q->magic | (time & STAMP_TIME_MASK), flow << 32 | seq);
	if (unlikely(c->n_macs > 1))
		next_mac(q, c, p);
	mbuf_init(m, t->len);
	return t->len;
}

static inline uint64_t fill_table(struct source_queue *q, struct rte_mbuf **pkts, uint16_t n,
				  uint64_t time)
{
	const struct source *s = q->source;
	uint64_t bytes = 0, idx[BURST_MAX], base = s->conf->flow_base;
	/* The schedule restarts at the burst's first packet: due times are exact to a cycle. */
	uint64_t step = q->pace.interval, frac = 0;

	for (uint16_t i = 0; i < n; i++) {
		idx[i] = next_flow(q, &s->flows);
		__builtin_prefetch(&s->flows.flow[idx[i]], 1);
	}
	for (uint16_t i = 0; i < n; i++) {
		struct flow *f = &s->flows.flow[idx[i]];

		prefetch_buffers(pkts, i, n);
		bytes += make_packet(q, &s->craft, f, base + idx[i], f->seq++,
				     time + (frac >> PACE_FRACTION), pkts[i]);
		frac += step;
	}
	return bytes;
}

static uint64_t fill_computed(struct source_queue *q, struct rte_mbuf **pkts, uint16_t n,
			      uint64_t time)
{
	const struct source *s = q->source;
	uint64_t bytes = 0, step = q->pace.interval, frac = 0;
	struct flow f;

	for (uint16_t i = 0; i < n; i++) {
		flows_compute(&s->flows, next_flow(q, &s->flows), &f);
		prefetch_buffers(pkts, i, n);
		bytes += make_packet(q, &s->craft, &f, s->conf->flow_base + q->index, q->seq++,
				     time + (frac >> PACE_FRACTION), pkts[i]);
		frac += step;
	}
	return bytes;
}

static uint64_t fill_replay(struct source_queue *q, struct rte_mbuf **pkts, uint16_t n, uint64_t time)
{
	struct replay *r = q->source->replay;
	uint64_t bytes = 0, step = q->pace.interval, frac = 0;

	for (uint16_t i = 0; i < n; i++) {
		const struct replay_packet *p = &r->packets[q->flow];
		struct replay_slot *slot = &r->slots[p->slot];

		replay_sent(slot, q->per_ns > 0 ? q->pace.start_tsc + (uint64_t)timed_at(q, 0)
						: time + (frac >> PACE_FRACTION));
		if (++q->flow == r->n_packets) {
			q->flow = 0;
			q->rounds++;
		}
		rte_memcpy(data_of(pkts[i]), r->data + p->offset, p->len);
		mbuf_init(pkts[i], p->len);
		bytes += p->len;
		frac += step;
	}
	return bytes;
}

static inline void count_sizes(struct source_queue *q, struct rte_mbuf **pkts, uint16_t n)
{
	const struct source *s = q->source;

	if (likely(!s->replay && s->craft.n_frames == 1)) {
		q->sizes[pkt_size_class(pkts[0])] += n;
		return;
	}
	for (uint16_t i = 0; i < n; i++)
		q->sizes[pkt_size_class(pkts[i])]++;
}

uint16_t source_rx(struct link_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	struct source_queue *q = rxq->state;
	struct source *s = q->source;
	uint64_t version = atomic_load_explicit(&s->version, memory_order_acquire);
	uint64_t now, time = 0, bytes;
	uint16_t due;

	if (unlikely(version != q->version))
		obey(q);
	if (!q->running)
		return 0;
	now = rte_rdtsc();
	if (unlikely((int64_t)(now - q->pace.start_tsc) > (int64_t)q->pace.deadline)) {
		end(q);
		return 0;
	}
	due = q->per_ns > 0 ? timed_due(q, now, n) : pace_due(&q->pace, now, n, &time);
	if (!due)
		return 0;
	if (unlikely(rte_mempool_get_bulk(s->link->pool, (void **)pkts, due))) {
		/* They stay due: not sending them in time is this side's failure. */
		if (!(q->per_ns > 0)) {
			q->pace.left += due;
			q->pace.next -= due * q->pace.interval;
		}
		q->no_mbuf++;
		return 0;
	}
	if (q->per_ns > 0)
		q->pace.left -= due;
	if (s->replay)
		bytes = fill_replay(q, pkts, due, time);
	else if (s->flows.table)
		bytes = fill_table(q, pkts, due, time);
	else
		bytes = fill_computed(q, pkts, due, time);
	count_sizes(q, pkts, due);
	if (!q->sent)
		q->first_tsc = now;
	q->last_tsc = now;
	q->sent += due;
	q->sent_bytes += bytes + (uint64_t)due * RTE_ETHER_CRC_LEN;
	if (unlikely(!q->pace.left))
		end(q);
	return due;
}
