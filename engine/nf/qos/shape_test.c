/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packets.h"
#include "tests/virtual_tsc.h"

#define STEP_NS 200000
#define STREAMS 4
#define FCS 4

/* A constant stream of packets, known by their DSCP; its pipe is the last bits of its source. */
struct stream {
	double offered_bps; /* with FCS, as the NF counts */
	uint8_t dscp, subscriber;
	uint16_t payload;
	double due_bits;
	uint64_t passed_bits, passed;
};

/*
 * Instead of EAL's, for rte_sched, too, which divides the frequency into whole cycles per byte: rates
 * must be right whatever it is, so that each test runs at several. The test's own is not among them.
 */
static uint64_t tsc_hz;

uint64_t rte_get_tsc_hz(void)
{
	return tsc_hz;
}

static struct harness *make_with(const char *params, const struct harness_config *config)
{
	struct err err = {0};
	struct harness *h = harness_new("qos", params, config, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	if (!virtual_tsc_start()) {
		print_message("skipped: this kernel cannot make RDTSC fault (PR_SET_TSC)\n");
		skip();
	}
	h->now = virtual_tsc;
	return h;
}

/* Assertions stand behind virtual_tsc_stop: a failed one leaves the test, and cmocka reads clocks. */
static void end(struct harness *h)
{
	virtual_tsc_stop();
	harness_free(h);
}

static void collect(struct harness *h, struct stream *streams, unsigned int n)
{
	for (size_t i = 0; i < h->n_out; i++)
		for (unsigned int s = 0; s < n; s++)
			if (h->out[i].data[15] >> 2 == streams[s].dscp &&
			    h->out[i].data[29] == streams[s].subscriber) {
				streams[s].passed_bits += (h->out[i].len + FCS) * 8;
				streams[s].passed++;
			}
	harness_forget(h);
}

static uint32_t build(const struct stream *s, uint8_t *buf)
{
	struct craft c = {.family = 4, .proto = IPPROTO_UDP, .sport = 1, .dport = 2,
			  .tos = (uint8_t)(s->dscp << 2), .payload = s->payload};

	craft_addrs(&c, "10.0.0.0", "198.51.100.9");
	c.src[3] = s->subscriber;
	return craft_build(&c, buf);
}

/* Each look at the clock is a fault, and so some microseconds: one poll is enough. */
static void step(struct harness *h)
{
	h->now += STEP_NS * tsc_hz / 1000000000;
	virtual_tsc = h->now;
	harness_poll(h);
}

/* Offers the streams for so long; what passed is counted from a quarter on. */
static void run(struct harness *h, struct stream *streams, unsigned int n, unsigned int ms)
{
	unsigned int steps = ms * 1000 / (STEP_NS / 1000);

	for (unsigned int i = 0; i < steps; i++) {
		if (i == steps / 4)
			for (unsigned int s = 0; s < n; s++)
				streams[s].passed_bits = streams[s].passed = 0;
		for (unsigned int s = 0; s < n; s++) {
			uint8_t buf[CRAFT_MAX];
			struct harness_packet p = {buf, build(&streams[s], buf), 0};
			double bits = (p.len + FCS) * 8;

			streams[s].due_bits += streams[s].offered_bps * STEP_NS / 1e9;
			for (; streams[s].due_bits >= bits; streams[s].due_bits -= bits)
				harness_run(h, NF_FORWARD, 1, &p, 1);
		}
		step(h);
		collect(h, streams, n);
	}
}

static double rate(const struct stream *s, unsigned int ms)
{
	return (double)s->passed_bits / (ms * 0.75 / 1000);
}

static void check(const struct stream *s, unsigned int ms, double want)
{
	double got = rate(s, ms);

	print_message("DSCP %u, subscriber %u: %.4g bit/s, %.2f %% of %.4g\n", s->dscp, s->subscriber,
		      got, got / want * 100, want);
	if (got < want * 0.98 || got > want * 1.02) {
		virtual_tsc_stop();
		fail_msg("more than 2 %% away");
	}
}

static void test_port_rate(void **state)
{
	static const double rates[] = {1e6, 20e6, 400e6};

	(void)state;
	for (size_t i = 0; i < RTE_DIM(rates); i++) {
		unsigned int ms = rates[i] < 2e6 ? 8000 : rates[i] < 100e6 ? 2000 : 300;
		struct stream streams[] = {{.offered_bps = rates[i] * 1.5, .payload = 1400},
					   {.offered_bps = rates[i] * 0.5, .payload = 18, .dscp = 1}};
		char params[128];
		struct harness *h;
		struct stream both = {0};

		snprintf(params, sizeof(params), "{\"classes\": [], \"shaper\": {\"direction\": \"forward\", "
			 "\"rate_bps\": %.0f}}",
			 rates[i]);
		h = make_with(params, NULL);
		run(h, streams, 2, ms);
		both.passed_bits = streams[0].passed_bits + streams[1].passed_bits;
		check(&both, ms, rates[i]);
		assert_true(harness_dropped(h, "queue-full") > 0);
		end(h);
	}
}

/* Two subports; what one does not use, the other does not get beyond its own limit. */
static void test_subports(void **state)
{
	struct harness *h = make_with(
		"{\"classes\": [{\"dscp\": [1], \"subport\": 1}], \"shaper\": {\"direction\": \"forward\", "
		"\"rate_bps\": 100000000, "
		"\"subports\": [{\"rate_bps\": 20000000}, {\"rate_bps\": 5000000}]}}", NULL);
	struct stream streams[] = {{.offered_bps = 50e6, .payload = 1000},
				   {.offered_bps = 50e6, .payload = 1000, .dscp = 1}};

	(void)state;
	run(h, streams, 2, 2000);
	check(&streams[0], 2000, 20e6);
	check(&streams[1], 2000, 5e6);
	end(h);
}

static void test_pipes(void **state)
{
	struct harness *h = make_with(
		"{\"classes\": [], \"shaper\": {\"direction\": \"forward\", "
		"\"rate_bps\": 100000000, \"pipe_by\": \"src\", "
		"\"subports\": [{\"pipes\": 8}], \"pipe_profiles\": [{\"rate_bps\": 2000000}]}}", NULL);
	struct stream streams[] = {{.offered_bps = 10e6, .payload = 700, .subscriber = 1},
				   {.offered_bps = 4e6, .payload = 1400, .subscriber = 2},
				   {.offered_bps = 1e6, .payload = 300, .subscriber = 3}};

	(void)state;
	run(h, streams, 3, 4000);
	check(&streams[0], 4000, 2e6);
	check(&streams[1], 4000, 2e6);
	check(&streams[2], 4000, 1e6);
	end(h);
}

/* Strict priority, and a limit on a class of its own. */
static void test_traffic_classes(void **state)
{
	struct harness *h = make_with(
		"{\"classes\": [{\"dscp\": [46], \"tc\": 0}, {\"dscp\": [10], \"tc\": 3}], \"shaper\": "
		"{\"direction\": \"forward\", \"rate_bps\": 20000000, \"pipe_profiles\": [{\"tc_rate_bps\": "
		"[20000000, 20000000, 20000000, 3000000], \"period_ms\": 50}]}}", NULL);
	struct stream streams[] = {{.offered_bps = 8e6, .payload = 200, .dscp = 46},
				   {.offered_bps = 10e6, .payload = 200, .dscp = 10},
				   {.offered_bps = 40e6, .payload = 1400}};

	(void)state;
	run(h, streams, 3, 8000);
	check(&streams[0], 8000, 8e6);
	check(&streams[1], 8000, 3e6);
	check(&streams[2], 8000, 9e6);
	end(h);
}

static void test_weights(void **state)
{
	struct harness *h = make_with(
		"{\"classes\": [{\"dscp\": [1], \"queue\": 1}, {\"dscp\": [2], \"queue\": 2}, "
		"{\"dscp\": [3], \"queue\": 3}], \"shaper\": {\"direction\": \"forward\", "
		"\"rate_bps\": 20000000, \"pipe_profiles\": "
		"[{\"weights\": [1, 2, 3, 4]}]}}", NULL);
	struct stream streams[STREAMS];

	(void)state;
	for (uint8_t i = 0; i < STREAMS; i++)
		streams[i] = (struct stream){.offered_bps = 20e6, .payload = 500, .dscp = i};
	run(h, streams, STREAMS, 4000);
	for (uint8_t i = 0; i < STREAMS; i++)
		check(&streams[i], 4000, 2e6 * (i + 1));
	end(h);
}

/* What came in a burst leaves by itself, in order and in time, although nothing else comes. */
static void test_idle_drain(void **state)
{
	const struct harness_config config = {.emit_room = 3};
	struct harness *h = make_with("{\"classes\": [], \"shaper\": {\"direction\": \"forward\", "
		"\"rate_bps\": 10000000, "
				      "\"subports\": [{\"burst_bytes\": 2000}]}}", &config);
	struct harness_packet in[60];
	uint8_t bufs[60][CRAFT_MAX];
	unsigned int left = 0, misplaced = 0, steps = 0;
	uint64_t held;

	(void)state;
	for (uint8_t i = 0; i < 60; i++) {
		struct stream s = {.payload = 958, .subscriber = i};

		in[i] = (struct harness_packet){bufs[i], build(&s, bufs[i]), 0};
	}
	harness_run(h, NF_FORWARD, 30, in, 60);
	held = h->counts.held;
	for (; h->counts.held && steps < 10000; steps++) {
		step(h);
		for (size_t i = 0; i < h->n_out; i++)
			misplaced += h->out[i].data[29] != left++;
		harness_forget(h);
	}
	virtual_tsc_stop();
	assert_int_equal(held, 60);
	assert_int_equal(left, 60);
	assert_int_equal(misplaced, 0);
	/* 60 frames of 1004 bytes at 10 Mbit/s: 48 ms, less what the bucket holds. */
	assert_in_range(steps * STEP_NS / 1000000, 42, 49);
	assert_int_equal(harness_counter(h, "shaped"), 60);
	harness_free(h);
}

/* Subports that together may send more than the port: it keeps its rate, and they share it. */
static void test_line(void **state)
{
	struct harness *h = make_with(
		"{\"classes\": [{\"dscp\": [1], \"subport\": 1}], \"shaper\": {\"direction\": \"forward\", "
		"\"rate_bps\": 50000000, "
		"\"subports\": [{\"rate_bps\": 40000000}, {\"rate_bps\": 40000000}]}}", NULL);
	struct stream streams[] = {{.offered_bps = 60e6, .payload = 1000},
				   {.offered_bps = 60e6, .payload = 1000, .dscp = 1}};
	struct stream both = {0};

	(void)state;
	run(h, streams, 2, 2000);
	both.passed_bits = streams[0].passed_bits + streams[1].passed_bits;
	check(&both, 2000, 50e6);
	check(&streams[0], 2000, 25e6);
	end(h);
}

/* A full queue drops, counted; what is held when it ends is given back. */
static void test_full_queue(void **state)
{
	struct harness *h = make_with("{\"classes\": [], \"shaper\": {\"rate_bps\": 1000000, "
				      "\"direction\": \"forward\"}}", NULL);
	struct stream s = {.payload = 1000};
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, build(&s, buf), 0};

	(void)state;
	for (unsigned int i = 0; i < 200; i++)
		harness_run(h, NF_FORWARD, 1, &p, 1);
	virtual_tsc_stop();
	assert_int_equal(h->counts.held, 63);
	assert_int_equal(harness_dropped(h, "queue-full"), 137);
	harness_run(h, NF_REVERSE, 1, &p, 1);
	assert_int_equal(h->n_out, 1); /* the other way is not shaped */
	harness_free(h);
}

static void refused(const char *shaper, const char *path)
{
	char params[512];
	struct err err = {0};

	snprintf(params, sizeof(params), "{\"classes\": [], \"shaper\": {\"rate_bps\": 10000000, %s}}",
		 shaper);
	assert_null(harness_new("qos", params, NULL, &err));
	assert_string_equal(err.path, path);
}

static void test_bad_params(void **state)
{
	struct err err = {0};

	(void)state;
	refused("\"subports\": [{}, {}, {}]", "params.shaper");
	refused("\"subports\": [{\"pipes\": 3}]", "params.shaper.subports[0]");
	refused("\"subports\": [{\"profile\": 1}]", "params.shaper.subports[0]");
	refused("\"subports\": [{\"rate_bps\": 10000001000}]", "params.shaper.subports[0]");
	refused("\"queue_packets\": [48]", "params.shaper");
	refused("\"pipe_profiles\": [{\"burst_bytes\": 100}]", "params.shaper.pipe_profiles[0]");
	refused("\"pipe_profiles\": [{\"weights\": [1, 2]}]", "params.shaper.pipe_profiles[0]");
	refused("\"pipe_profiles\": [{\"tc_rate_bps\": [1000000], \"period_ms\": 10}]",
		"params.shaper.pipe_profiles[0]");
	refused("\"pipe_by\": \"mac\"", "params.shaper.pipe_by");
	/* The line needs to be polled more often than such frames last. */
	assert_null(harness_new("qos", "{\"classes\": [], \"shaper\": {\"rate_bps\": 1000000, "
				"\"subports\": [{}, {}]}}", NULL, &err));
	assert_string_equal(err.path, "params.shaper");
	assert_null(harness_new("qos", "{\"classes\": [{\"dscp\": [1], \"subport\": 1}]}", NULL, &err));
	assert_string_equal(err.path, "params.classes[0]");
	assert_null(harness_new("qos", "{\"classes\": [{\"dscp\": [1], \"tc\": 2, \"queue\": 1}]}", NULL,
				&err));
	assert_string_equal(err.path, "params.classes[0]");
}

/* A clock slower and one faster than any that is sold, and numbers that nothing divides. */
int main(void)
{
	static const uint64_t frequencies[] = {1000000000, 2294608393, 5200000001};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_port_rate),  cmocka_unit_test(test_subports),
		cmocka_unit_test(test_pipes),	   cmocka_unit_test(test_traffic_classes),
		cmocka_unit_test(test_weights),	   cmocka_unit_test(test_idle_drain),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_full_queue), cmocka_unit_test(test_bad_params),
	};
	int failed = 0;

	for (size_t i = 0; i < RTE_DIM(frequencies); i++) {
		tsc_hz = frequencies[i];
		print_message("TSC at %llu Hz\n", (unsigned long long)tsc_hz);
		failed += cmocka_run_group_tests(tests, NULL, NULL);
	}
	return failed;
}
