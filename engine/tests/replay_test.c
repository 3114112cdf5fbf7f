// SPDX-License-Identifier: Apache-2.0
/* Captures that are replayed, and what sinks say of their packets: those of one digest, sent both ways. */
#include "core/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pcap/pcap.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "core/nf.h"
#include "link_stats.h"
#include "test_eal.h"

#define PACKETS 6 /* of one digest: what makes it is the same in all */
#define ROUNDS 20u
#define FRAME 60u
#define WAIT_US 2000u /* of one packet that is under way by itself */

static struct rte_mempool *pool;
static char capture[] = "/tmp/headrace-replay-XXXXXX";

/* A source and the sink that its packets come to. */
struct way {
	struct link source, sink;
	struct link_rxq from;
	struct link_txq to;
};

static void link_open(struct link *l, const char *type, const char *name, const char *params)
{
	json_t *given = json_loads(params, 0, NULL);
	struct err err = {0};
	void *conf;

	memset(l, 0, sizeof(*l));
	l->ops = link_find(type);
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->n_rxq = l->ops->reads;
	l->n_txq = l->ops->writes;
	l->pool = pool;
	l->socket_id = SOCKET_ID_ANY;
	conf = calloc(1, l->ops->conf_size);
	assert_int_equal(param_parse(l->ops->params, given, "params", conf, &err), 0);
	json_decref(given);
	l->conf = conf;
	assert_int_equal(l->ops->init(l, &err), 0);
}

static void link_shut(struct link *l)
{
	l->ops->fini(l);
	param_free(l->ops->params, (void *)(uintptr_t)l->conf);
	free((void *)(uintptr_t)l->conf);
}

static void way_open(struct way *w, const char *source, bool named)
{
	struct err err = {0};
	char params[128];

	snprintf(params, sizeof(params), "{\"pcap_file\": \"%s\", \"stamp\": false}", capture);
	link_open(&w->source, "source", source, params);
	snprintf(params, sizeof(params), named ? "{\"sources\": [\"%s\"]}" : "{}", source);
	link_open(&w->sink, "sink", "meas", params);
	w->from = (struct link_rxq){.link = &w->source};
	w->to = (struct link_txq){.link = &w->sink};
	assert_int_equal(w->source.ops->rx_open(&w->from, &err), 0);
	assert_int_equal(w->sink.ops->tx_open(&w->to, &err), 0);
}

static void ways_close(struct way *ways)
{
	for (unsigned int i = 0; i < 2; i++) {
		link_shut(&ways[i].source);
		link_shut(&ways[i].sink);
	}
}

/* Both begin, as the control thread has it (core/control/trial.c). */
static int begin(struct way *ways, unsigned int epoch, struct err *err)
{
	const struct link links[] = {ways[0].source, ways[1].source};
	struct trial t = {.epoch = epoch, .duration = UINT64_MAX, .blind = true,
			  .links = links, .n_links = 2};
	const struct send_run run = {.packets = ROUNDS * PACKETS, .counted = true, .epoch = epoch,
				     .duration = 3600 * rte_get_tsc_hz(), .start_tsc = rte_rdtsc()};
	int rc = 0;

	for (unsigned int i = 0; i < 2; i++)
		ways[i].source.ops->sends->prepare(&ways[i].source);
	for (unsigned int i = 0; i < 2; i++)
		ways[i].source.ops->sends->announce(&ways[i].source, &t);
	for (unsigned int i = 0; i < 2 && !rc; i++)
		rc = ways[i].sink.ops->measures->start(&ways[i].sink, &t, err);
	for (unsigned int i = 0; i < 2 && !rc; i++)
		ways[i].source.ops->sends->start(&ways[i].source, &run);
	return rc;
}

static struct rte_mbuf *sent(struct way *w)
{
	struct rte_mbuf *m;

	assert_int_equal(w->source.ops->rx(&w->from, &m, 1), 1);
	return m;
}

static void came(struct way *w, struct rte_mbuf *m)
{
	assert_int_equal(w->sink.ops->tx(&w->to, 0, &m, 1), 1);
}

/* Each way has what it was sent, and the times of what was under way by itself there. */
static void test_both_ways(void **state)
{
	struct way ways[2];
	struct err err = {0};

	(void)state;
	way_open(&ways[0], "gen-forward", true);
	way_open(&ways[1], "gen-reverse", true);
	for (unsigned int epoch = 1; epoch < 3; epoch++) { /* and nothing is left of the trial before */
		assert_int_equal(begin(ways, epoch, &err), 0);
		for (unsigned int i = 0; i < ROUNDS * PACKETS; i++) {
			struct rte_mbuf *there = sent(&ways[0]), *back = sent(&ways[1]);

			came(&ways[1], back);
			rte_delay_us_block(i < 5 ? WAIT_US : 0);
			came(&ways[0], there);
		}
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(link_count(&ways[i].sink, NULL, "matched"), ROUNDS * PACKETS);
			assert_int_equal(link_count(&ways[i].sink, NULL, "duplicated"), 0);
			assert_int_equal(link_count(&ways[i].sink, NULL, "ambiguous"), 0);
			assert_int_equal(link_count(&ways[i].sink, "own", "packets"), ROUNDS * PACKETS);
			assert_int_equal(link_count(&ways[i].sink, "latency", "count"), ROUNDS * PACKETS);
		}
		assert_true(link_count(&ways[0].sink, "latency", "max_ns") >= WAIT_US * 1000);
	}
	ways_close(ways);
}

/* A duplicate is found in its own direction, though the other one lacks a packet. */
static void test_a_duplicate_one_way(void **state)
{
	struct way ways[2];
	struct err err = {0};
	struct rte_mbuf *copy;

	(void)state;
	way_open(&ways[0], "gen-forward", true);
	way_open(&ways[1], "gen-reverse", true);
	assert_int_equal(begin(ways, 1, &err), 0);
	rte_pktmbuf_free(sent(&ways[1]));
	for (unsigned int i = 0; i < PACKETS; i++)
		came(&ways[0], sent(&ways[0]));
	copy = sent(&ways[1]);
	came(&ways[0], copy);
	assert_int_equal(link_count(&ways[0].sink, NULL, "duplicated"), 1);
	assert_int_equal(link_count(&ways[0].sink, "own", "packets"), PACKETS);
	ways_close(ways);
}

/* Sinks that take all captures' packets count them together, and say that they know no times. */
static void test_unnamed(void **state)
{
	struct way ways[2];
	struct err err = {0};
	struct rte_mbuf *again;

	(void)state;
	way_open(&ways[0], "gen-forward", false);
	way_open(&ways[1], "gen-reverse", false);
	assert_int_equal(begin(ways, 1, &err), 0);
	for (unsigned int i = 0; i < ROUNDS; i++)
		for (unsigned int k = 0; k < 2; k++)
			came(&ways[1 - k], sent(&ways[k]));
	for (unsigned int k = 0; k < 2; k++) {
		assert_int_equal(link_count(&ways[k].sink, NULL, "duplicated"), 0);
		assert_int_equal(link_count(&ways[k].sink, NULL, "ambiguous"), ROUNDS);
		assert_int_equal(link_count(&ways[k].sink, "latency", "count"), 0);
	}
	again = sent(&ways[0]);
	came(&ways[0], rte_pktmbuf_copy(again, pool, 0, UINT32_MAX));
	came(&ways[0], again);
	assert_int_equal(link_count(&ways[0].sink, NULL, "duplicated"), 1);
	ways_close(ways);
}

static void test_a_name_of_no_source(void **state)
{
	struct way ways[2];
	struct err err = {0};

	(void)state;
	way_open(&ways[0], "gen-forward", true);
	way_open(&ways[1], "gen-reverse", true);
	snprintf(ways[1].source.name, sizeof(ways[1].source.name), "other");
	assert_true(begin(ways, 1, &err) < 0);
	assert_string_equal(err.path, "links.meas.params.sources");
	assert_string_equal(err.msg, "\"gen-reverse\" is no source of this plan");
	ways_close(ways);
}

/* Of Ethernet type 0x88b5 (for experiments), all alike. */
static void write_capture(void)
{
	const struct pcap_pkthdr h = {.caplen = FRAME, .len = FRAME};
	uint8_t frame[FRAME] = {[5] = 1, [11] = 2, [12] = 0x88, [13] = 0xb5, [20] = 7};
	pcap_t *dead = pcap_open_dead(DLT_EN10MB, FRAME);
	int fd = mkstemp(capture);
	pcap_dumper_t *to = fd < 0 ? NULL : pcap_dump_fopen(dead, fdopen(fd, "wb"));

	if (!to)
		abort();
	for (unsigned int i = 0; i < PACKETS; i++)
		pcap_dump((u_char *)to, &h, frame);
	pcap_dump_close(to);
	pcap_close(dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_a_duplicate_one_way),
		cmocka_unit_test(test_unnamed),
		cmocka_unit_test(test_a_name_of_no_source),
	};
	int rc = 1;

	if (test_eal_start("256") < 0)
		return 1;
	write_capture();
	pool = rte_pktmbuf_pool_create("p", 1023, 0, 0, 2048, SOCKET_ID_ANY);
	if (pool)
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(capture);
	return rc;
}
