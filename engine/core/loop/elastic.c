/* SPDX-License-Identifier: Apache-2.0 */
/* The packet path's part of elastic segments; who moves buckets is setup/elastic_move.c. */
#include "elastic.h"

#include <stdlib.h>

#include <rte_malloc.h>

#include "core/ends.h"
#include "segment.h"

#define RUN_MAX 32

struct elastic *elastic_create(unsigned int replicas, unsigned int running)
{
	struct elastic *e = rte_zmalloc("elastic", sizeof(*e), 2 * RTE_CACHE_LINE_SIZE);

	if (!e)
		return NULL;
	e->replicas = replicas;
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		atomic_init(&e->owners[b], (uint8_t)(b * running / PKT_BUCKETS));
	return e;
}

void elastic_free(struct elastic *e)
{
	rte_free(e);
}

static void take_owners(struct elastic_way *way, const struct elastic *e)
{
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		way->to[b] = atomic_load_explicit(&e->owners[b], memory_order_relaxed);
}

struct elastic_way *elastic_way_create(const struct elastic *e)
{
	struct elastic_way *way = rte_zmalloc("way", sizeof(*way), 2 * RTE_CACHE_LINE_SIZE);

	if (!way)
		return NULL;
	atomic_init(&way->elastic, e);
	way->seen = atomic_load(&e->generation);
	take_owners(way, e);
	return way;
}

static struct rte_mbuf **place(struct elastic_way *way, uint32_t i)
{
	return &way->waiting[(way->first + i) % ELASTIC_WAITING];
}

void elastic_way_free(struct elastic_way *way)
{
	for (uint32_t i = 0; way && i < way->n; i++)
		rte_pktmbuf_free(*place(way, i));
	rte_free(way);
}

static inline uint8_t bucket_of(const struct elastic_way *way, const struct rte_mbuf *m)
{
	uint8_t bucket;

	if (unlikely(way->keeps))
		return pkt_bucket(m);
	if (way->asks && way->asks->ops->bucket_of(way->asks, m, way->direction, &bucket))
		return bucket;
	if (unlikely(way->by != NF_STATE_FLOW))
		return (uint8_t)(pkt_address_hash(m, (way->by == NF_STATE_DST) ^
							     (way->direction == NF_REVERSE)) >> 24);
	return (uint8_t)(pkt_flow_hash(m) >> 24);
}

static __rte_noinline void wait_for_owner(struct outlet *o, struct rte_mbuf *m)
{
	struct elastic_way *way = o->way;

	if (unlikely(way->n == ELASTIC_WAITING)) {
		o->count.full++;
		ends_add(&o->count.full_ends, m, 1);
		rte_pktmbuf_free(m);
		return;
	}
	*place(way, way->n++) = m;
	way->waited++;
	way->most = RTE_MAX(way->most, way->n);
}

void elastic_steer(struct outlet *o, struct rte_mbuf **pkts, uint16_t n)
{
	struct elastic_way *way = o->way;

	for (uint16_t i = 0; i < n; i++) {
		uint8_t bucket = bucket_of(way, pkts[i]), dest = way->to[bucket];
		struct out_queue *q;

		pkt_set_bucket(pkts[i], bucket);
		way->packets[bucket]++;
		if (unlikely(dest == ELASTIC_NOBODY)) {
			wait_for_owner(o, pkts[i]);
			continue;
		}
		q = &o->queues[dest];
		q->pkts[q->n++] = pkts[i];
	}
}

static uint8_t owner_now(struct elastic_way *way, const struct elastic *e, uint32_t i)
{
	return atomic_load_explicit(&e->owners[pkt_bucket(*place(way, i))], memory_order_relaxed);
}

/* In their order, to whom their buckets are by now; false: not all found room yet. */
static bool let_go(struct outlet *o, const struct elastic *e)
{
	struct elastic_way *way = o->way;

	while (way->n) {
		struct rte_mbuf *run[RUN_MAX];
		uint8_t dest = owner_now(way, e, 0);
		uint16_t n = 0, sent;

		if (dest == ELASTIC_NOBODY)
			return false;
		while (n < RUN_MAX && n < way->n && owner_now(way, e, n) == dest) {
			run[n] = *place(way, n);
			n++;
		}
		sent = o->tx(&o->q, dest, run, n);
		o->count.packets += sent;
		way->first = (way->first + sent) % ELASTIC_WAITING;
		way->n -= sent;
		if (sent < n)
			return false;
	}
	return true;
}

static __rte_noinline void adopt(struct outlet *o, const struct elastic *e, uint32_t generation)
{
	for (uint16_t d = 0; d < o->n_dests; d++)
		if (o->queues[d].n)
			return;
	/* What waits goes before what comes: until all has gone the former owners count. */
	if (!let_go(o, e))
		return;
	take_owners(o->way, e);
	atomic_store_explicit(&o->way->seen, generation, memory_order_release);
}

void elastic_adopt(struct replica *r)
{
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		struct outlet *o = &r->outlets[i];
		const struct elastic *e;
		uint32_t generation;

		if (!o->way)
			continue;
		e = elastic_of(o->way);
		generation = atomic_load_explicit(&e->generation, memory_order_acquire);
		if (unlikely(generation != atomic_load_explicit(&o->way->seen, memory_order_relaxed)))
			adopt(o, e, generation);
	}
}

bool elastic_waits(const struct replica *r)
{
	for (unsigned int i = 0; i < r->n_outlets; i++)
		if (r->outlets[i].way && r->outlets[i].way->n)
			return true;
	return false;
}
