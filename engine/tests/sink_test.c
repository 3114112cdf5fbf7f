// SPDX-License-Identifier: Apache-2.0
/* What a sink says of loss, order and duplicates, against a model that remembers every number. */
#include "core/link.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "core/ends.h"
#include "link_stats.h"
#include "test_eal.h"
#include "link/stamp.h"
#include "virtual_tsc.h"

#define FLOWS 3
#define NUMBERS 200000u
#define EPOCH 7
#define FRAME 128 /* with FCS */

static struct rte_mempool *pool;

struct rig {
	struct link link;
	struct link_txq q;
	void *conf;
	struct trial run;
};

static void rig_open(struct rig *r, uint64_t flows, const char *params)
{
	json_t *given = json_loads(params, 0, NULL);
	struct err err = {0};

	memset(r, 0, sizeof(*r));
	r->link.ops = link_find("sink");
	snprintf(r->link.name, sizeof(r->link.name), "meas");
	r->link.n_txq = 1;
	r->conf = calloc(1, r->link.ops->conf_size);
	assert_int_equal(param_parse(r->link.ops->params, given, "params", r->conf, &err), 0);
	json_decref(given);
	r->link.conf = r->conf;
	assert_int_equal(r->link.ops->init(&r->link, &err), 0);
	r->q = (struct link_txq){.link = &r->link};
	assert_int_equal(r->link.ops->tx_open(&r->q, &err), 0);
	r->run = (struct trial){.epoch = EPOCH, .duration = UINT64_MAX, .n_flows = flows};
	assert_int_equal(r->link.ops->measures->start(&r->link, &r->run, &err), 0);
}

static void rig_close(struct rig *r)
{
	r->link.ops->fini(&r->link);
	free(r->conf);
}

static struct rte_mbuf *delayed(uint32_t flow, uint32_t number, uint32_t frame, uint64_t cycles)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *data;

	assert_non_null(m);
	data = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(frame - RTE_ETHER_CRC_LEN));
	stamp_write(data + m->data_len, stamp_magic(EPOCH) | ((rte_rdtsc() - cycles) & STAMP_TIME_MASK),
		    (uint64_t)flow << 32 | number);
	return m;
}

static struct rte_mbuf *packet(uint32_t flow, uint32_t number, uint32_t frame)
{
	return delayed(flow, number, frame, 0);
}

static void give(struct rig *r, struct rte_mbuf *m)
{
	assert_int_equal(r->link.ops->tx(&r->q, 0, &m, 1), 1);
}

struct model {
	bool came[FLOWS][NUMBERS];
	uint32_t highest[FLOWS]; /* one above */
	int64_t unique, duplicated, reordered;
};

static void model_see(struct model *m, uint32_t flow, uint32_t number)
{
	if (m->came[flow][number]) {
		m->duplicated++;
		return;
	}
	m->came[flow][number] = true;
	m->unique++;
	if (number < m->highest[flow])
		m->reordered++;
	else
		m->highest[flow] = number + 1;
}

static int64_t model_lost(const struct model *m)
{
	int64_t lost = 0;

	for (unsigned int f = 0; f < FLOWS; f++)
		for (uint32_t i = 0; i < m->highest[f]; i++)
			lost += !m->came[f][i];
	return lost;
}

/* Losses one by one and in long runs; what comes late or twice does so by up to `reach` numbers. */
static void run(unsigned int lost_of_256, uint32_t reach)
{
	struct model *m = calloc(1, sizeof(*m));
	uint32_t next[FLOWS] = {0};
	struct rig r;

	rig_open(&r, FLOWS, "{}");
	srand(lost_of_256 * 31 + reach);
	for (unsigned int i = 0; i < 400000; i++) {
		uint32_t flow = (uint32_t)rand() % FLOWS, number;

		if (rand() % 8 == 0 && next[flow]) { /* again, or late */
			uint32_t back = (uint32_t)rand() % reach + 1;

			number = next[flow] > back ? next[flow] - back : 0;
		} else {
			if (rand() % 20000 == 0)
				next[flow] += (uint32_t)rand() % 3000;
			while ((unsigned int)rand() % 256 < lost_of_256)
				next[flow]++;
			number = next[flow]++;
		}
		if (number >= NUMBERS)
			break;
		model_see(m, flow, number);
		give(&r, packet(flow, number, FRAME));
	}
	assert_true(m->duplicated > 1000 && m->reordered >= (lost_of_256 ? 100 : 0));
	assert_int_equal(link_count(&r.link, NULL, "duplicated"), m->duplicated);
	assert_int_equal(link_count(&r.link, NULL, "reordered"), m->reordered);
	assert_int_equal(link_count(&r.link, NULL, "lost"), model_lost(m));
	assert_int_equal(link_count(&r.link, NULL, "undecided"), 0);
	assert_int_equal(link_count(&r.link, "own", "packets"), m->unique);
	assert_int_equal(link_count(&r.link, "own", "bytes"), m->unique * FRAME);
	rig_close(&r);
	free(m);
}

static void test_against_a_model(void **state)
{
	static const unsigned int lost[] = {0, 3, 64, 200};
	static const uint32_t reaches[] = {40, 64, 65, 500, 100000};

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(lost); i++)
		for (unsigned int k = 0; k < RTE_DIM(reaches); k++)
			run(lost[i], reaches[k]);
}

/* 1 MB holds 16383 lines: isolated losses far apart. */
static void test_full_memory_is_said(void **state)
{
	const uint32_t apart = 448, lost = 20000;
	struct rig r;

	(void)state;
	rig_open(&r, 1, "{\"missing_mb\": 1}");
	for (uint32_t i = 0; i < lost; i++)
		give(&r, packet(0, i * apart + 1, FRAME));
	assert_int_equal(link_count(&r.link, NULL, "undecided"), 0);
	/* Early numbers are still known: one is late, one comes twice. */
	give(&r, packet(0, 0, FRAME));
	give(&r, packet(0, 1, FRAME));
	assert_int_equal(link_count(&r.link, NULL, "reordered"), 1);
	/* Of the last ones nothing is known: neither counts. */
	give(&r, packet(0, (lost - 10) * apart, FRAME));
	assert_int_equal(link_count(&r.link, NULL, "reordered"), 1);
	assert_true(link_count(&r.link, NULL, "undecided") >= 1);
	assert_int_equal(link_count(&r.link, "own", "packets"), lost + 1);
	rig_close(&r);
}

static void test_what_functions_made_is_apart(void **state)
{
	static const uint32_t frames[] = {64, 65, 127, 128, 1023, 1024, 1518, 1519};
	struct rte_mbuf *copy;
	struct rig r;
	json_t *stats, *sizes;

	(void)state;
	rig_open(&r, 1, "{}");
	for (uint32_t i = 0; i < RTE_DIM(frames); i++)
		give(&r, packet(0, i, frames[i]));
	/* A copy overtakes what it is a copy of: that is no duplicate. */
	copy = packet(0, 8, FRAME);
	copy->ol_flags |= PKT_CREATED;
	give(&r, copy);
	give(&r, packet(0, 8, 64));
	assert_int_equal(link_count(&r.link, NULL, "received"), 10);
	assert_int_equal(link_count(&r.link, NULL, "created"), 1);
	assert_int_equal(link_count(&r.link, NULL, "duplicated"), 0);
	assert_int_equal(link_count(&r.link, "own", "packets"), 9);
	stats = r.link.ops->stats(&r.link);
	sizes = json_object_get(json_object_get(stats, "own"), "sizes");
	assert_int_equal(json_integer_value(json_object_get(sizes, "64")), 2);
	assert_int_equal(json_integer_value(json_object_get(sizes, "65-127")), 2);
	assert_int_equal(json_integer_value(json_object_get(sizes, "128-255")), 1);
	assert_int_equal(json_integer_value(json_object_get(sizes, "512-1023")), 1);
	assert_int_equal(json_integer_value(json_object_get(sizes, "1024-1518")), 2);
	assert_int_equal(json_integer_value(json_object_get(sizes, "1519-")), 1);
	json_decref(stats);
	rig_close(&r);
}

static int64_t cell(const json_t *list, size_t at, size_t column)
{
	return json_integer_value(json_array_get(json_array_get(list, at), column));
}

struct burst {
	unsigned int at_ms, packets, delay_ms;
};

/*
 * Bursts at their times, and what the sink says of its slices since the first. Time is the test's own: it
 * stands still within a burst. Assertions come after, as cmocka reads clocks when one fails.
 */
static json_t *slices_of(struct rig *r, const struct burst *bursts, unsigned int n, uint64_t *began)
{
	uint64_t ms = rte_get_tsc_hz() / 1000;
	uint32_t number = 0;
	json_t *found;

	rig_open(r, 1, "{}");
	if (!virtual_tsc_start()) {
		print_message("skipped: this kernel cannot make RDTSC fault (PR_SET_TSC)\n");
		skip();
	}
	*began = virtual_tsc;
	for (unsigned int i = 0; i < n; i++) {
		virtual_tsc = *began + bursts[i].at_ms * ms;
		for (unsigned int k = 0; k < bursts[i].packets; k++)
			give(r, delayed(0, number++, FRAME, bursts[i].delay_ms * ms));
	}
	found = r->link.ops->measures->slices(&r->link, *began, UINT64_MAX);
	virtual_tsc_stop();
	return found;
}

/* Three slices, of 1, 20 and 1 ms: the first two are over. The trial's own delays have all of them. */
static void test_slices(void **state)
{
	static const struct burst bursts[] = {{0, 200, 1}, {25, 200, 20}, {50, 200, 1}};
	struct rig r;
	uint64_t began;
	json_t *found = slices_of(&r, bursts, RTE_DIM(bursts), &began), *list, *stats;

	(void)state;
	list = json_array_get(json_object_get(found, "queues"), 0);
	assert_int_equal(json_array_size(list), 2);
	for (unsigned int i = 0; i < 2; i++) {
		int64_t ns = bursts[i].delay_ms * 1000000;

		assert_int_equal(cell(list, i, 2), 200);
		for (unsigned int column = 3; column < 6; column++) /* in a histogram's bucket */
			assert_in_range(cell(list, i, column), ns - ns / 1000, ns + ns / 1000);
	}
	json_decref(found);
	found = r.link.ops->measures->slices(&r.link, began + 1, UINT64_MAX);
	assert_int_equal(json_array_size(json_array_get(json_object_get(found, "queues"), 0)), 1);
	json_decref(found);
	stats = r.link.ops->stats(&r.link);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "latency"),
							    "count")), 600);
	json_decref(stats);
	rig_close(&r);
}

/* Bursts at 0, 25 and 32 ms lie in three slices, of a grid that the first packet began: the second is from
 * 20 to 30 ms, wherever its own first packet was. */
static void test_slices_are_on_a_grid(void **state)
{
	static const struct burst bursts[] = {{0, 10, 0}, {25, 10, 0}, {32, 10, 0}};
	struct rig r;
	uint64_t began;
	json_t *found = slices_of(&r, bursts, RTE_DIM(bursts), &began), *list;

	(void)state;
	list = json_array_get(json_object_get(found, "queues"), 0);
	assert_int_equal(json_array_size(list), 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(cell(list, i, 2), 10);
	assert_int_equal(cell(list, 1, 0), began + 25 * (rte_get_tsc_hz() / 1000));
	json_decref(found);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_model),
		cmocka_unit_test(test_full_memory_is_said),
		cmocka_unit_test(test_what_functions_made_is_apart),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_slices_are_on_a_grid),
	};

	if (test_eal_start("256") < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("p", 1023, 0, 0, 2048, SOCKET_ID_ANY);
	return pool ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
