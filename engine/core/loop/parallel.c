/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel.h"

#include <errno.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "core/mbuf_util.h"
#include "core/pkt.h"
#include "timing.h"
#include "verdict.h"

#define MASK (PARALLEL_SLOTS - 1)
#define TICK_HZ 1000
/* What classification needs: the layers' lengths, and the longest TCP header. */
#define L4_MOST 60

bool parallel_full(const struct parallel *p)
{
	return PARALLEL_SLOTS - parallel_used(p) < OUT_MAX;
}

/*
 * Into the slot's own mbuf, which is used again and again: no pool can be empty at the wrong
 * moment. Headers only where the function reads no payload (NFP section 4.2): behind them is what
 * was there.
 */
static void copy_packet(const struct parallel_member *m, struct rte_mbuf *to,
			const struct rte_mbuf *from)
{
	uint32_t room = (uint32_t)to->buf_len - RTE_PKTMBUF_HEADROOM;
	uint32_t all = RTE_MIN(from->pkt_len, room), bytes = all;
	const void *data;
	void *dest;

	if (!m->whole)
		bytes = RTE_MIN(all, pkt_l2_len(from) + pkt_l3_len(from) + L4_MOST);
	rte_pktmbuf_reset(to);
	dest = rte_pktmbuf_append(to, (uint16_t)all);
	data = rte_pktmbuf_read(from, 0, bytes, dest);
	if (data != dest)
		memcpy(dest, data, bytes);
	pkt_set_class(to, from->packet_type, pkt_lens(from));
	to->port = from->port;
}

void parallel_fork(struct parallel *p, struct burst *b)
{
	uint32_t head = atomic_load_explicit(&p->head, memory_order_relaxed);

	for (uint16_t i = 0; i < b->n; i++)
		p->pkts[(head + i) & MASK] = b->pkts[i];
	/* Before anybody writes them. */
	for (unsigned int k = 0; k < p->n; k++) {
		struct parallel_member *m = &p->members[k];

		for (uint16_t i = 0; m->copies && i < b->n; i++)
			copy_packet(m, m->copies[(head + i) & MASK], b->pkts[i]);
	}
	for (uint16_t i = 0; p->members[0].copies && i < b->n; i++)
		b->pkts[i] = p->members[0].copies[(head + i) & MASK];
	atomic_store_explicit(&p->head, head + b->n, memory_order_release);
}

void parallel_said(struct parallel *p, const struct burst *b)
{
	struct parallel_member *m = &p->members[0];
	uint32_t done = atomic_load_explicit(&m->done, memory_order_relaxed);

	for (uint16_t i = 0; i < b->n; i++)
		m->verdicts[(done + i) & MASK] = b->verdict[i];
	atomic_store_explicit(&m->done, done + b->n, memory_order_relaxed);
}

/* What is done with a packet by the functions before the last; false: its way ends. */
static bool merge(struct parallel *p, struct replica *r, uint32_t slot)
{
	for (unsigned int k = 0; k + 1 < p->n; k++) {
		struct node *node = &r->nodes[p->members[k].node];

		node->stats.in++;
		if (unlikely(!count_verdict(node, NF_FORWARD, p->members[k].verdicts[slot], p->pkts[slot])))
			return false;
	}
	return true;
}

unsigned int parallel_join(struct parallel *p, struct replica *r, struct burst *b)
{
	const struct parallel_member *last = &p->members[p->n - 1];
	uint32_t n = parallel_used(p);
	struct rte_mbuf *end[BURST_MAX];
	uint16_t n_end = 0;

	for (unsigned int k = 0; k < p->n; k++)
		n = RTE_MIN(n, atomic_load_explicit(&p->members[k].done, memory_order_acquire) -
				       p->joined);
	n = RTE_MIN(n, (uint32_t)BURST_MAX);
	memset(b->verdict, 0, sizeof(b->verdict));
	b->n = 0;
	b->direction = NF_FORWARD;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = (p->joined + i) & MASK;

		if (unlikely(!merge(p, r, slot))) {
			end[n_end++] = p->pkts[slot];
			continue;
		}
		b->verdict[b->n] = last->verdicts[slot];
		b->pkts[b->n++] = p->pkts[slot];
	}
	mbuf_free_burst(end, n_end);
	p->joined += n;
	return n;
}

void parallel_side_tick(struct replica *r, uint64_t now)
{
	struct nf_worker *w = r->side->worker;

	r->next_tick = now + rte_get_tsc_hz() / TICK_HZ;
	w->nf->ops->tick(w, now);
}

static void side_work(struct parallel_side *s, uint16_t n, uint64_t now)
{
	struct parallel_member *m = s->member;
	struct burst *b = &s->burst;

	b->n = n;
	b->now = now;
	b->direction = NF_FORWARD;
	for (uint16_t i = 0; i < n; i++) {
		b->pkts[i] = m->pkts[(s->done + i) & MASK];
		rte_prefetch0(rte_pktmbuf_mtod(b->pkts[i], void *));
	}
	memset(b->verdict, 0, sizeof(b->verdict));
	s->worker->nf->ops->process(s->worker, b);
	for (uint16_t i = 0; i < n; i++)
		m->verdicts[(s->done + i) & MASK] = b->verdict[i];
	s->done += n;
	s->batches++;
	/* From here on the lead may hand them on or free them. */
	atomic_store_explicit(&m->done, s->done, memory_order_release);
}

uint32_t parallel_side_poll(struct replica *r, uint64_t *t)
{
	struct parallel_side *s = r->side;
	uint32_t waiting = atomic_load_explicit(&s->group->head, memory_order_acquire) - s->done;
	uint16_t n = (uint16_t)RTE_MIN(waiting, (uint32_t)r->burst);

	if (!n)
		return 0;
	side_work(s, n, r->clock->mark);
	if (part_ends(r, t, &s->cycles, n))
		s->cycles_packets += n;
	return n;
}

json_t *parallel_json(const struct parallel *p)
{
	json_t *sides = json_object();

	for (unsigned int k = 1; k < p->n; k++) {
		const struct replica *r = p->sides[k];

		json_object_set_new(sides, r->side->worker->nf->name,
				    json_pack("{s:i, s:I, s:I, s:I, s:b}", "cpu", (int)r->cpu,
					      "polls", (json_int_t)r->count.polls, "idle_polls",
					      (json_int_t)r->count.idle_polls, "ops_cycles",
					      (json_int_t)r->busy.ops, "copies",
					      r->side->member->copies != NULL));
	}
	return json_pack("{s:i, s:i, s:I, s:o}", "slots", PARALLEL_SLOTS, "used",
			 (int)parallel_used(p), "full_polls", (json_int_t)p->full_polls, "sides",
			 sides);
}
