/* SPDX-License-Identifier: Apache-2.0 */
/* Which replica a flow is given. */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/pkt.h"
#include "outlet.h"

#define EVEN_SLOTS (1u << 16)
#define EVEN_PROBES 32

/*
 * Open addressing over 32-bit flow hashes; a slot is hash << 32 | replica + 1, written once by
 * compare-and-swap, so that writers on several lcores agree without a lock. Flows past what
 * it holds are spread by hash.
 */
struct even_table {
	unsigned int replicas;
	atomic_uint next;
	_Atomic uint64_t slots[EVEN_SLOTS];
};

struct even_table *even_table_create(unsigned int replicas)
{
	struct even_table *t = calloc(1, sizeof(*t));

	if (t)
		t->replicas = replicas;
	return t;
}

void even_table_free(struct even_table *t)
{
	free(t);
}

static uint64_t even_take(struct even_table *t, _Atomic uint64_t *slot, uint32_t hash)
{
	unsigned int replica = atomic_fetch_add(&t->next, 1) % t->replicas;
	uint64_t want = (uint64_t)hash << 32 | (replica + 1), seen = 0;

	/* Losing the race to another flow or the same one: what is there now decides. */
	return atomic_compare_exchange_strong(slot, &seen, want) ? want : seen;
}

unsigned int even_table_assign(struct even_table *t, uint32_t hash)
{
	for (unsigned int i = 0; i < EVEN_PROBES; i++) {
		_Atomic uint64_t *slot = &t->slots[(hash + i) % EVEN_SLOTS];
		uint64_t v = atomic_load_explicit(slot, memory_order_relaxed);

		if (!v)
			v = even_take(t, slot, hash);
		if (v >> 32 == hash)
			return (uint32_t)v - 1;
	}
	return (uint64_t)hash * t->replicas >> 32;
}

void steer_burst(struct outlet *o, struct rte_mbuf **pkts, uint16_t n)
{
	if (o->way) {
		elastic_steer(o, pkts, n);
		return;
	}
	for (uint16_t i = 0; i < n; i++) {
		uint32_t hash = pkt_flow_hash(pkts[i]);
		uint16_t dest = o->steer == STEER_EVEN ? even_table_assign(o->even, hash)
						       : (uint64_t)hash * o->n_dests >> 32;
		struct out_queue *q = &o->queues[dest];

		q->pkts[q->n++] = pkts[i];
	}
}
