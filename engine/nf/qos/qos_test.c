/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks),	   cmocka_unit_test(test_rules),
		cmocka_unit_test(test_rates),	   cmocka_unit_test(test_below_rate),
		cmocka_unit_test(test_zoo),	   cmocka_unit_test(test_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
