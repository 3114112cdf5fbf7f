// SPDX-License-Identifier: Apache-2.0
/* The two tiers of the packet pool: nothing lost, all or none, and few buffers go round. */
#include "core/setup/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "test_eal.h"

#define MBUFS 8191
#define HOT 1024
#define BURST 32

static struct rte_mempool *made(uint64_t hot)
{
	struct plan_engine conf = {.mbufs = MBUFS,
				   .mbufs_hot = hot,
				   .mbuf_data_bytes = 512,
				   .packets_node = POOL_ANY_NODE};
	struct err err = {0};
	struct rte_mempool *pool = pool_make(&conf, &err);

	assert_non_null(pool);
	assert_int_equal(rte_mempool_avail_count(pool), MBUFS);
	return pool;
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static void test_every_buffer_once(void **state)
{
	struct rte_mempool *pool = made(HOT);
	void *all[MBUFS], *more[2];

	(void)state;
	assert_int_equal(rte_mempool_generic_get(pool, all, MBUFS - 1, NULL), 0);
	/* One is left: two are refused, and the one stays. */
	assert_int_not_equal(rte_mempool_generic_get(pool, more, 2, NULL), 0);
	assert_int_equal(rte_mempool_avail_count(pool), 1);
	assert_int_equal(rte_mempool_generic_get(pool, &all[MBUFS - 1], 1, NULL), 0);
	qsort(all, MBUFS, sizeof(*all), compare);
	for (unsigned int i = 1; i < MBUFS; i++)
		assert_ptr_not_equal(all[i - 1], all[i]);
	for (unsigned int i = 0; i < MBUFS; i++) {
		const struct rte_mbuf *m = all[i];

		assert_ptr_equal(m->pool, pool);
		assert_int_equal(m->buf_len, RTE_PKTMBUF_HEADROOM + 512);
	}
	rte_mempool_generic_put(pool, all, MBUFS, NULL);
	assert_int_equal(rte_mempool_avail_count(pool), MBUFS);
	rte_mempool_free(pool);
}

/* An lcore asks for more than there is, while its cache has a part of it. */
static void test_a_refusal_leaves_the_cache_as_it_was(void **state)
{
	struct rte_mempool *pool = made(HOT);
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());
	void *all[MBUFS], *more[64];
	unsigned int n = 32, left = 10;

	(void)state;
	assert_non_null(cache);
	assert_int_equal(rte_mempool_get_bulk(pool, all, n), 0);
	assert_int_equal(rte_mempool_generic_get(pool, all + n, MBUFS - n - cache->len, NULL), 0);
	/* A few come back, as from another lcore: they are in the hot tier. */
	n = MBUFS - cache->len - left;
	rte_mempool_generic_put(pool, all + n, left, NULL);
	while (cache->len > 40) {
		assert_int_equal(rte_mempool_get_bulk(pool, all + n, 8), 0);
		n += 8;
	}
	assert_int_not_equal(rte_mempool_get_bulk(pool, more, cache->len + left + 1), 0);
	assert_int_equal(rte_mempool_avail_count(pool), MBUFS - n);
	assert_int_equal(rte_mempool_get_bulk(pool, all + n, cache->len), 0);
	assert_int_equal(rte_mempool_generic_get(pool, all + MBUFS - left, left, NULL), 0);
	qsort(all, MBUFS, sizeof(*all), compare);
	for (unsigned int i = 1; i < MBUFS; i++)
		assert_ptr_not_equal(all[i - 1], all[i]);
	rte_mempool_generic_put(pool, all, MBUFS, NULL);
	rte_mempool_free(pool);
}

/* Buffers seen while bursts are taken and given back, as another lcore would: past the cache. */
static unsigned int seen(uint64_t hot)
{
	struct rte_mempool *pool = made(hot);
	void **all = calloc((size_t)4 * MBUFS, sizeof(*all));
	unsigned int n, distinct = 1;

	assert_non_null(all);
	for (n = 0; n + BURST <= 4 * MBUFS; n += BURST) {
		assert_int_equal(rte_mempool_generic_get(pool, all + n, BURST, NULL), 0);
		rte_mempool_generic_put(pool, all + n, BURST, NULL);
	}
	qsort(all, n, sizeof(*all), compare);
	for (unsigned int i = 1; i < n; i++)
		distinct += all[i] != all[i - 1];
	free(all);
	rte_mempool_free(pool);
	return distinct;
}

static void test_few_go_round(void **state)
{
	(void)state;
	assert_int_equal(seen(0), MBUFS);
	assert_int_equal(seen(HOT), HOT);
}

static void test_hot_ones_first_after_a_long_queue(void **state)
{
	struct rte_mempool *pool = made(HOT);
	void *queue[4096], *again[HOT];

	(void)state;
	assert_int_equal(rte_mempool_generic_get(pool, queue, 4096, NULL), 0);
	rte_mempool_generic_put(pool, queue, 4096, NULL);
	/* Of what came back first the tier is full again. */
	assert_int_equal(rte_mempool_generic_get(pool, again, HOT, NULL), 0);
	assert_memory_equal(again, queue, sizeof(again));
	rte_mempool_generic_put(pool, again, HOT, NULL);
	rte_mempool_free(pool);
}

/* Node 0 is there; node 1000 is not, and is named. (On two nodes: tests/vm.) */
static void test_on_a_node(void **state)
{
	struct plan_engine conf = {.mbufs = MBUFS, .mbufs_hot = HOT, .mbuf_data_bytes = 512};
	struct err err = {0};
	struct rte_mempool *pool = pool_make(&conf, &err);

	(void)state;
	assert_non_null(pool);
	rte_mempool_free(pool);
	conf.packets_node = 1000;
	assert_null(pool_make(&conf, &err));
	assert_string_equal(err.path, "engine.packets_node");
	assert_non_null(strstr(err.msg, "NUMA node 1000"));
}

static int start(void **state)
{
	(void)state;
	return test_eal_start("128") < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_buffer_once),
		cmocka_unit_test(test_a_refusal_leaves_the_cache_as_it_was),
		cmocka_unit_test(test_few_go_round),
		cmocka_unit_test(test_hot_ones_first_after_a_long_queue),
		cmocka_unit_test(test_on_a_node),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
