// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_random.h>
#include <rte_ring.h>

#define POOL_CACHE 512

struct tiers {
	struct rte_ring *hot;
	struct rte_ring *rest;
};

static void tiers_free(struct rte_mempool *mp)
{
	struct tiers *t = mp->pool_data;

	if (!t)
		return;
	rte_ring_free(t->hot);
	rte_ring_free(t->rest);
	free(t);
	mp->pool_data = NULL;
}

static int tiers_alloc(struct rte_mempool *mp)
{
	const unsigned int *hot = mp->pool_config;
	struct tiers *t = calloc(1, sizeof(*t));
	char name[RTE_RING_NAMESIZE];

	if (!t)
		return -ENOMEM;
	mp->pool_data = t;
	snprintf(name, sizeof(name), "hot_%.20s", mp->name);
	t->hot = rte_ring_create(name, *hot, mp->socket_id, RING_F_EXACT_SZ);
	snprintf(name, sizeof(name), "rest_%.20s", mp->name);
	t->rest = rte_ring_create(name, mp->size, mp->socket_id, RING_F_EXACT_SZ);
	if (!t->hot || !t->rest) {
		int rc = rte_errno ? rte_errno : ENOMEM;

		tiers_free(mp);
		return -rc;
	}
	return 0;
}

static int tiers_enqueue(struct rte_mempool *mp, void *const *objs, unsigned int n)
{
	struct tiers *t = mp->pool_data;
	unsigned int done = rte_ring_mp_enqueue_burst(t->hot, objs, n, NULL);

	/* It has room for all there are. */
	if (unlikely(done < n))
		rte_ring_mp_enqueue_bulk(t->rest, objs + done, n - done, NULL);
	return 0;
}

/*
 * All or none, and where it is none nothing is written: what DPDK has filled may be an lcore's
 * cache, of which it takes for granted that it is as it was (rte_mempool_do_generic_get). Buffers
 * that are in there and in the pool, too, would each become two packets. More than a cache holds
 * are asked for past it.
 */
static int dequeue_both(struct rte_mempool *mp, void **objs, unsigned int n)
{
	struct tiers *t = mp->pool_data;
	void *some[2 * RTE_MEMPOOL_CACHE_MAX_SIZE], **taken = n <= RTE_DIM(some) ? some : objs;
	unsigned int done = rte_ring_mc_dequeue_burst(t->hot, taken, n, NULL);

	if (done < n && !rte_ring_mc_dequeue_bulk(t->rest, taken + done, n - done, NULL)) {
		if (done)
			tiers_enqueue(mp, taken, done);
		return -ENOBUFS;
	}
	if (taken != objs)
		memcpy(objs, taken, n * sizeof(*objs));
	return 0;
}

static int tiers_dequeue(struct rte_mempool *mp, void **objs, unsigned int n)
{
	struct tiers *t = mp->pool_data;

	if (likely(rte_ring_mc_dequeue_bulk(t->hot, objs, n, NULL)))
		return 0;
	return dequeue_both(mp, objs, n);
}

static unsigned int tiers_count(const struct rte_mempool *mp)
{
	const struct tiers *t = mp->pool_data;

	return rte_ring_count(t->hot) + rte_ring_count(t->rest);
}

static const struct rte_mempool_ops tiers_ops = {
	.name = "tiers",
	.alloc = tiers_alloc,
	.free = tiers_free,
	.enqueue = tiers_enqueue,
	.dequeue = tiers_dequeue,
	.get_count = tiers_count,
};
RTE_MEMPOOL_REGISTER_OPS(tiers_ops);

/*
 * A new pool gives buffers in the order of their addresses, and a prefetcher that follows equal
 * distances then knows the next packet before it has come. Where packets are located no buffer may
 * tell where the next one is, as in a pool that has been used for long.
 */
static int shuffle(struct rte_mempool *pool)
{
	unsigned int n = rte_mempool_avail_count(pool);
	void **all = malloc(n * sizeof(*all));

	/* Past the cache of this thread, where nobody else would find them. */
	if (!all || rte_mempool_generic_get(pool, all, n, NULL)) {
		free(all);
		return -ENOMEM;
	}
	for (unsigned int i = n - 1; i; i--) {
		unsigned int j = (unsigned int)(rte_rand() % (i + 1));
		void *other = all[j];

		all[j] = all[i];
		all[i] = other;
	}
	rte_mempool_generic_put(pool, all, n, NULL);
	free(all);
	return 0;
}

/* DPDK knows the nodes of hugepages only. */
static int socket_of(const struct plan_engine *conf)
{
	return conf->hugepages && conf->packets_node < POOL_ANY_NODE ? (int)conf->packets_node
								     : SOCKET_ID_ANY;
}

/* As rte_pktmbuf_pool_create, which knows no operations with a configuration. */
static struct rte_mempool *tiered(const struct plan_engine *conf)
{
	unsigned int hot = (unsigned int)conf->mbufs_hot;
	struct rte_pktmbuf_pool_private room = {
		.mbuf_data_room_size = (uint16_t)(RTE_PKTMBUF_HEADROOM + conf->mbuf_data_bytes),
	};
	struct rte_mempool *pool = rte_mempool_create_empty(
		"packets", (unsigned int)conf->mbufs,
		(unsigned int)sizeof(struct rte_mbuf) + room.mbuf_data_room_size, POOL_CACHE,
		sizeof(room), socket_of(conf), 0);
	int rc;

	if (!pool)
		return NULL;
	rc = rte_mempool_set_ops_byname(pool, "tiers", &hot);
	if (!rc) {
		rte_pktmbuf_pool_init(pool, &room);
		rc = rte_mempool_populate_default(pool);
		pool->pool_config = NULL;
	}
	if (rc < 0) {
		rte_mempool_free(pool);
		rte_errno = -rc;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct rte_mempool *pool_make(const struct plan_engine *conf, struct err *err)
{
	bool one = !conf->mbufs_hot || conf->mbufs_hot >= conf->mbufs;
	struct rte_mempool *pool = one ? rte_pktmbuf_pool_create(
						 "packets", (unsigned int)conf->mbufs, POOL_CACHE,
						 0, RTE_PKTMBUF_HEADROOM + conf->mbuf_data_bytes,
						 socket_of(conf))
				       : tiered(conf);

	if (!pool) {
		err_set(err, rte_errno ? rte_errno : ENOMEM, "engine.mbufs",
			"no memory for %lu packet buffers of %lu bytes: %s",
			(unsigned long)conf->mbufs, (unsigned long)conf->mbuf_data_bytes,
			rte_strerror(rte_errno));
		return NULL;
	}
	if (conf->packets_node < POOL_ANY_NODE && pool_settle(pool, conf, err)) {
		rte_mempool_free(pool);
		return NULL;
	}
	if (conf->locate.every && shuffle(pool)) {
		err_set(err, ENOMEM, "engine.mbufs", "out of memory");
		rte_mempool_free(pool);
		return NULL;
	}
	return pool;
}
