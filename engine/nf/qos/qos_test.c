/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_cycles.h>

#include "tests/packets.h"
#include "tests/csum_check.h"

static struct harness *make(const char *params)
{
	struct err err = {0};
	struct harness *h = harness_new("qos", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static struct craft packet(uint8_t family, uint8_t tos, uint16_t payload)
{
	struct craft c = {.family = family, .proto = IPPROTO_UDP, .sport = 1, .dport = 2, .tos = tos,
			  .payload = payload};

	craft_addrs(&c, family == 4 ? "10.0.0.5" : "2001:db8::5",
		    family == 4 ? "198.51.100.9" : "2001:db8:1::9");
	return c;
}

static const uint8_t *feed(struct harness *h, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};

	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	return h->n_out ? h->out[0].data : NULL;
}

/* All that is written is the DSCP: compared with a packet built so. */
static void check_marked(struct harness *h, uint8_t family, uint8_t tos, uint8_t want_tos)
{
	struct craft c = packet(family, tos, 30), want = packet(family, want_tos, 30);
	uint8_t buf[CRAFT_MAX];
	uint32_t len = craft_build(&want, buf);
	const uint8_t *out = feed(h, &c);

	assert_non_null(out);
	assert_true(csum_check(out));
	assert_memory_equal(out, buf, len);
}

static void test_marks(void **state)
{
	struct harness *h = make("{\"classes\": [{\"dscp\": [46, 0], \"green_dscp\": 10},"
				 "{\"dscp\": [1, 46], \"green_dscp\": 63}]}");

	for (uint8_t family = 4; family <= 6; family += 2) {
		for (uint8_t ecn = 0; ecn < 4; ecn++) {
			check_marked(h, family, 46 << 2 | ecn, 10 << 2 | ecn);
			check_marked(h, family, ecn, 10 << 2 | ecn);
			check_marked(h, family, 1 << 2 | ecn, 63 << 2 | ecn);
			check_marked(h, family, 2 << 2 | ecn, 2 << 2 | ecn);
		}
	}
	assert_int_equal(harness_counter(h, "marked"), 24);
	assert_int_equal(harness_counter(h, "unclassified"), 8);
	harness_free(h);
}

static void test_rules(void **state)
{
	struct harness *h = make("{\"classes\": [{\"rules\": [{\"action\": \"permit\", \"proto\": \"udp\", "
				 "\"dport\": [2]}], \"green_dscp\": 1}, {\"dscp\": [0], "
				 "\"green_dscp\": 2}]}");
	struct craft other = packet(4, 0, 30);

	check_marked(h, 4, 0, 1 << 2);
	check_marked(h, 6, 0, 1 << 2);
	check_marked(h, 4, 8 << 2, 1 << 2);
	other.dport = 3;
	assert_int_equal(feed(h, &other)[15], 2 << 2);
	harness_free(h);
}

/* What passes of twice the rate, as bits per second of frames with FCS. */
static double passed_bps(const char *params, uint64_t offered_bps, unsigned int seconds)
{
	struct harness *h = make(params);
	struct craft c = packet(4, 0, 958); /* 1000 bytes, 1004 with FCS */
	uint64_t gap_ns = 1004 * 8 * 1000000000ull / offered_bps;
	uint64_t packets = seconds * 1000000000ull / gap_ns, passed = 0;

	/* The bucket is full at first: not counted. */
	for (uint64_t i = 0; i < packets / 4; i++, harness_advance(h, gap_ns))
		feed(h, &c);
	for (uint64_t i = 0; i < packets; i++, harness_advance(h, gap_ns))
		passed += feed(h, &c) != NULL;
	harness_free(h);
	return (double)(passed * 1004 * 8) / seconds;
}

static void test_rates(void **state)
{
	static const struct {
		const char *params;
		double rate;
	} cases[] = {
		{"{\"classes\": [{\"dscp\": [0], \"meter\": \"srtcm\", \"cir_bps\": 10000000}]}", 10e6},
		{"{\"classes\": [{\"dscp\": [0], \"meter\": \"trtcm\", \"cir_bps\": 5000000, "
		 "\"pir_bps\": 10000000}]}", 10e6},
		{"{\"classes\": [{\"dscp\": [0], \"meter\": \"trtcm\", \"cir_bps\": 5000000, "
		 "\"pir_bps\": 10000000, \"drop_yellow\": true}]}", 5e6},
		{"{\"classes\": [{\"dscp\": [0], \"meter\": \"trtcm-4115\", \"cir_bps\": 5000000, "
		 "\"pir_bps\": 3000000}]}", 8e6},
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		double passed = passed_bps(cases[i].params, 20000000, 4);

		if (passed < cases[i].rate * 0.98 || passed > cases[i].rate * 1.02)
			fail_msg("case %zu: %.0f bit/s passed, %.0f wanted", i, passed, cases[i].rate);
	}
}

static void test_below_rate(void **state)
{
	double passed = passed_bps("{\"classes\": [{\"dscp\": [0], \"meter\": \"srtcm\", "
				   "\"cir_bps\": 10000000}]}", 9000000, 2);

	assert_true(passed > 8.99e6 && passed < 9.01e6);
}

#define FOUR 4 /* workers, of one elastic segment */
#define PACKETS 20000
#define SOME 8 /* bursts of one time */

struct sum {
	uint64_t green, yellow, red, packets;
	double seconds;
};

/* Bursts of random lengths, each by any of the workers, and not in the order in which they were polled. */
static struct sum metered(const char *params, const struct harness_config *config, unsigned int seed)
{
	struct err err = {0};
	struct harness *h = harness_new("qos", params, config, &err);
	struct craft c = packet(4, 0, 958);
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p[32];
	uint32_t len = craft_build(&c, buf);
	struct sum sum = {0};
	uint64_t began = h ? h->now : 0, at = began;

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	for (unsigned int i = 0; i < RTE_DIM(p); i++)
		p[i] = (struct harness_packet){.data = buf, .len = len};
	for (; sum.packets < PACKETS; at += rte_get_tsc_hz() / 100) {
		for (unsigned int i = 0; i < SOME; i++) {
			unsigned int n = 1 + (unsigned int)rand_r(&seed) % RTE_DIM(p);

			h->now = at + (uint64_t)rand_r(&seed) % 1000000;
			h->worker = (unsigned int)rand_r(&seed) % h->nf.workers;
			harness_forget(h);
			harness_run(h, NF_FORWARD, 32, p, n);
			sum.packets += n;
		}
	}
	sum.seconds = (double)(at - began) / (double)rte_get_tsc_hz();
	sum.green = harness_counter(h, "green");
	sum.yellow = harness_counter(h, "yellow");
	sum.red = harness_counter(h, "red");
	harness_free(h);
	return sum;
}

/*
 * RFC 2697, 2698, 4115: whoever sees the packets, what is green in a time is what the committed rate brings
 * in it and the bucket had. A worker with a bucket of its own would let four times as much pass; one to
 * which time goes back, everything.
 */
static void test_one_meter_for_all(void **state)
{
	static const char *const params[] = {
		"{\"classes\": [{\"dscp\": [0], \"meter\": \"srtcm\", \"cir_bps\": 40000000, "
		"\"cbs_bytes\": 100000, \"pbs_bytes\": 50000}]}",
		"{\"classes\": [{\"dscp\": [0], \"meter\": \"trtcm\", \"cir_bps\": 40000000, "
		"\"pir_bps\": 80000000, \"cbs_bytes\": 100000, \"pbs_bytes\": 200000}]}",
		"{\"classes\": [{\"dscp\": [0], \"meter\": \"trtcm-4115\", \"cir_bps\": 40000000, "
		"\"pir_bps\": 40000000, \"cbs_bytes\": 100000, \"pbs_bytes\": 100000}]}",
	};
	const struct harness_config four = {.workers = FOUR, .elastic = true};

	for (size_t i = 0; i < RTE_DIM(params); i++) {
		struct sum one = metered(params[i], NULL, 1), many = metered(params[i], &four, 1);
		double green = 40e6 / 8 * one.seconds + 100000;

		assert_true(one.packets >= PACKETS && one.red > 1000);
		if (one.green * 1004.0 < green * 0.98 || one.green * 1004.0 > green * 1.01)
			fail_msg("%s: %lu green of %lu, not %.0f bytes", params[i], one.green, one.packets,
				 green);
		if (one.green != many.green || one.yellow != many.yellow || one.red != many.red)
			fail_msg("%s: %lu, %lu, %lu by one worker, %lu, %lu, %lu by four", params[i],
				 one.green, one.yellow, one.red, many.green, many.yellow, many.red);
	}
}

static void test_zoo(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	craft_zoo(&list);
	h = harness_run_all("qos", "{\"classes\": [{\"dscp\": [0], \"green_dscp\": 5, \"rules\": "
				   "[{\"action\": \"permit\", \"proto\": \"tcp\"}]}]}",
			    NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_int_equal(h->n_out + h->counts.aborted, list.n);
	harness_free(h);
	craft_list_free(&list);
}

static void refused(const char *params, const char *path)
{
	struct err err = {0};

	assert_null(harness_new("qos", params, NULL, &err));
	assert_string_equal(err.path, path);
}

static void test_bad_params(void **state)
{
	refused("{\"classes\": []}", "params.classes");
	refused("{\"classes\": [{}]}", "params.classes[0]");
	refused("{\"classes\": [{\"dscp\": [64]}]}", "params.classes[0].dscp[0]");
	refused("{\"classes\": [{\"dscp\": [1]}, {\"dscp\": [1], \"meter\": \"srtcm\"}]}",
		"params.classes[1]");
	refused("{\"classes\": [{\"dscp\": [1], \"meter\": \"trtcm\", \"cir_bps\": 1000000, "
		"\"pir_bps\": 900000}]}", "params.classes[0]");
	refused("{\"classes\": [{\"rules\": [{\"action\": \"permit\", \"proto\": \"tpc\"}]}]}",
		"params.classes[0].rules[0].proto");
}

static void test_no_shaper_in_elastic(void **state)
{
	const struct harness_config config = {.workers = 2, .elastic = true};
	struct err err = {0};

	assert_null(harness_new("qos", "{\"classes\": [], \"shaper\": {\"rate_bps\": 100000000}}", &config,
				&err));
	assert_string_equal(err.path, "params.shaper");
	assert_non_null(strstr(err.msg, "allowed: meters"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks),	   cmocka_unit_test(test_rules),
		cmocka_unit_test(test_rates),	   cmocka_unit_test(test_below_rate),
		cmocka_unit_test(test_zoo),	   cmocka_unit_test(test_bad_params),
		cmocka_unit_test(test_one_meter_for_all),
		cmocka_unit_test(test_no_shaper_in_elastic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
