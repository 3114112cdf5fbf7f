/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "core/mbuf_util.h"
#include "core/pkt.h"
#include "segment.h"

/* Packets on their way out of a function, and out of the replica. */

/* Send what an outlet holds for one destination; the rest is kept (wait) or dropped. */
static inline void flush_queue(struct replica *r, struct outlet *o, uint16_t dest)
{
	struct out_queue *q = &o->queues[dest];
	uint16_t sent, left;

	sent = o->tx(&o->q, dest, q->pkts, q->n);
	o->count.packets += sent;
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
	o->count.full += left;
	ends_add_burst(&o->count.full_ends, q->pkts + sent, left);
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
		if (unlikely(o->way != NULL) && o->wait && elastic_is_full(o->way, OUT_MAX))
			r->pending++;
	}
}

/* By flow, where the link has several readers. */
void steer_burst(struct outlet *o, struct rte_mbuf **pkts, uint16_t n);

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

		/* A bucket is of segments that share it: elsewhere it says nothing. */
		if (unlikely(r->elastic != NULL) && !o->way)
			for (uint16_t i = 0; i < n; i++)
				pkt_set_bucket(pkts[i], 0);
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
