/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packets.h"
#include "tests/virtual_tsc.h"

/*
 * A NIC with limits, in virtual time: chains of VNFs on its virtual functions, which send what they get
 * to the next one at once. What each hop takes is enumerated in docs/design/nic.md.
 */

#define FRAME 60
#define BYTES (FRAME + 24) /* as limits count */
#define LIMIT 5e6	   /* bit/s: 7440 frames/s */
#define DEPTH 32
#define TESTER 99
#define VF(k) ((uint8_t)(10 + (k)))
#define STEP_NS 20000
#define FRAMES_MAX 40000

static void station(uint8_t *addr, uint8_t number)
{
	memset(addr, 0, 6);
	addr[0] = 2;
	addr[5] = number;
}

static void build(uint8_t *frame, uint8_t from, uint8_t to, uint32_t number)
{
	memset(frame, 0, FRAME);
	station(frame, to);
	station(frame + 6, from);
	frame[12] = 0x88;
	frame[13] = 0xb5;
	memcpy(frame + 14, &number, sizeof(number));
}

struct nic {
	struct harness *h;
	unsigned int vnfs;
	bool vepa;
	uint64_t sent, arrived, lost_at; /* lost_at: the longest delay before the first loss, in ns */
	double delay_sum, delay_max;	 /* ns */
	uint64_t sent_at[FRAMES_MAX];
};

static struct nic *make(unsigned int vnfs, bool vepa, const char *limits, const char *uplink,
			const char *vf)
{
	struct nic *nic = calloc(1, sizeof(*nic));
	char params[4096];
	struct err err = {0};

	assert_non_null(nic);
	snprintf(params, sizeof(params),
		 "{\"learning\": false, \"unknown\": \"uplink\", \"mode\": \"%s\", \"queue_packets\": %d%s, "
		 "\"ports\": [{\"uplink\": true%s}", vepa ? "vepa" : "veb", DEPTH, limits, uplink);
	for (unsigned int k = 1; k <= vnfs; k++)
		sprintf(params + strlen(params),
			", {\"macs\": [\"02:00:00:00:00:%02x\"], \"spoof_check\": true%s}", VF(k), vf);
	strcat(params, "]}");
	nic->vnfs = vnfs;
	nic->vepa = vepa;
	nic->h = harness_new("veb", params, NULL, &err);
	if (!nic->h)
		fail_msg("%s: %s", err.path, err.msg);
	if (!virtual_tsc_start()) {
		print_message("skipped: this kernel cannot make RDTSC fault (PR_SET_TSC)\n");
		skip();
	}
	nic->h->now = virtual_tsc;
	return nic;
}

/* Assertions stand behind this: cmocka reads clocks. */
static void stop(struct nic *nic)
{
	(void)nic;
	virtual_tsc_stop();
}

static void end(struct nic *nic)
{
	harness_free(nic->h);
	free(nic);
}

static void put(struct nic *nic, uint16_t port, const uint8_t *frame)
{
	struct harness_packet p = {frame, FRAME, port};

	harness_run(nic->h, NF_FORWARD, 1, &p, 1);
}

static uint64_t lost(const struct nic *nic)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < NF_DROPS_MAX; i++)
		n += nic->h->counts.dropped[i];
	return n;
}

static void arrive(struct nic *nic, const uint8_t *frame)
{
	uint32_t number;
	double ns;

	memcpy(&number, frame + 14, sizeof(number));
	ns = (double)(nic->h->now - nic->sent_at[number]) * 1e9 / (double)rte_get_tsc_hz();
	nic->arrived++;
	nic->delay_sum += ns;
	if (ns > nic->delay_max)
		nic->delay_max = ns;
	if (!lost(nic))
		nic->lost_at = (uint64_t)nic->delay_max;
}

/* What has left the NIC: to a VNF, which sends it on; by the wire, to the tester or the bridge outside. */
static void deliver(struct nic *nic)
{
	for (size_t i = 0; i < nic->h->n_out; i++) {
		uint8_t frame[FRAME];
		unsigned int edge = nic->h->out[i].edge;
		uint32_t number;

		memcpy(frame, nic->h->out[i].data, FRAME);
		memcpy(&number, frame + 14, sizeof(number));
		if (edge) {
			build(frame, VF(edge), edge < nic->vnfs ? VF(edge + 1) : TESTER, number);
			put(nic, (uint16_t)edge, frame);
		} else if (frame[5] == TESTER) {
			arrive(nic, frame);
		} else {
			put(nic, 0, frame);
		}
	}
	harness_forget(nic->h);
}

static void run_by(struct nic *nic, double bps, double seconds, uint64_t step_ns)
{
	double due = 0, gap_ns = BYTES * 8 / bps * 1e9;
	unsigned int steps = (unsigned int)(seconds * 1e9 / (double)step_ns);

	for (unsigned int i = 0; i < steps; i++) {
		nic->h->now += step_ns * rte_get_tsc_hz() / 1000000000;
		virtual_tsc = nic->h->now;
		harness_poll(nic->h);
		for (due += (double)step_ns; due >= gap_ns && nic->sent < FRAMES_MAX; due -= gap_ns) {
			uint8_t frame[FRAME];

			build(frame, TESTER, VF(1), (uint32_t)nic->sent);
			nic->sent_at[nic->sent++] = nic->h->now;
			put(nic, 0, frame);
		}
		deliver(nic);
	}
}

static void run(struct nic *nic, double bps, double seconds)
{
	run_by(nic, bps, seconds, STEP_NS);
}

#define CAPACITY ", \"capacity_bps\": 5000000"
#define UPLINK ", \"rate_bps\": 5000000, \"in_rate_bps\": 5000000"

/* Of a frame's passages what the NIC and its wire carry, by hand (docs/design/nic.md). */
static const struct passage {
	const char *name;
	unsigned int vnfs;
	bool vepa;
	const char *limits, *uplink, *reason;
	unsigned int share; /* of the limit: 1/share of it is what the chain carries */
	unsigned int wire, host; /* times that a frame goes by it, each way */
} passages[] = {
	{"PVP, VEB, capacity", 1, false, CAPACITY, "", "capacity", 1, 1, 1},
	{"PVVP, VEB, capacity", 2, false, CAPACITY, "", "capacity", 2, 1, 2},
	{"three VNFs, VEB, capacity", 3, false, CAPACITY, "", "capacity", 3, 1, 3},
	{"PVP, VEB, uplink", 1, false, "", UPLINK, "uplink-in", 1, 1, 1},
	{"PVVP, VEB, uplink", 2, false, "", UPLINK, "uplink-in", 1, 1, 2},
	{"PVP, VEPA, uplink", 1, true, "", UPLINK, "uplink-in", 1, 1, 1},
	{"PVVP, VEPA, uplink", 2, true, "", UPLINK, "uplink-in", 2, 2, 2},
	{"PVVP, VEPA, capacity", 2, true, CAPACITY, "", "capacity", 2, 2, 2},
};

/* A hundredth below what the hand says nothing is lost; a fiftieth above something is, by that limit. */
static void check_passage(const struct passage *p)
{
	struct nic *below = make(p->vnfs, p->vepa, p->limits, p->uplink, "");
	uint64_t bytes, dropped;
	struct nic *above;

	run(below, LIMIT / p->share * 0.99, 1);
	dropped = lost(below);
	run(below, 1, 0.1); /* what still waits */
	stop(below);
	bytes = below->sent * BYTES;
	print_message("%s: %llu sent\n", p->name, (unsigned long long)below->sent);
	assert_int_equal(dropped, 0);
	assert_int_equal(below->arrived, below->sent);
	assert_int_equal(harness_counter(below->h, "uplink-in-bytes"), bytes * p->wire);
	assert_int_equal(harness_counter(below->h, "uplink-out-bytes"), bytes * p->wire);
	assert_int_equal(harness_counter(below->h, "to-host-bytes"), bytes * p->host);
	assert_int_equal(harness_counter(below->h, "from-host-bytes"), bytes * p->host);
	end(below);

	above = make(p->vnfs, p->vepa, p->limits, p->uplink, "");
	run(above, LIMIT / p->share * 1.02, 2);
	stop(above);
	assert_true(lost(above) > 0);
	assert_int_equal(harness_dropped(above->h, p->reason), lost(above));
	end(above);
}

static void test_passages(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(passages); i++)
		check_passage(&passages[i]);
}

/* Twice the limit is offered: what comes through is the hand's, and PVVP is half of PVP. */
static void test_overload(void **state)
{
	double rate[4] = {0};

	(void)state;
	for (unsigned int vnfs = 1; vnfs <= 3; vnfs++) {
		struct nic *nic = make(vnfs, false, CAPACITY, "", "");

		run(nic, 2 * LIMIT, 1);
		stop(nic);
		rate[vnfs] = (double)nic->arrived * BYTES * 8;
		print_message("%u VNFs: %.4g of %.4g bit/s\n", vnfs, rate[vnfs], LIMIT / vnfs);
		assert_true(rate[vnfs] > 0.98 * LIMIT / vnfs && rate[vnfs] < 1.02 * LIMIT / vnfs);
		end(nic);
	}
	assert_true(rate[2] / rate[1] > 0.50 - 0.01 && rate[2] / rate[1] < 0.52);
}

/* Below the limit nobody waits; at it frames wait, longer and longer; only then are some lost. */
static void test_delay_before_loss(void **state)
{
	const double one_ns = BYTES * 8 / LIMIT * 1e9;
	struct nic *low = make(1, false, CAPACITY, "", ""), *high;
	uint64_t waited;

	(void)state;
	run(low, 0.9 * LIMIT, 1);
	stop(low);
	waited = harness_counter(low->h, "waited-ns");
	assert_int_equal(lost(low), 0);
	assert_true(low->delay_sum / (double)low->arrived < one_ns);
	assert_true((double)waited / (double)low->arrived < one_ns);
	end(low);

	high = make(1, false, CAPACITY, "", "");
	run(high, 1.05 * LIMIT, 1);
	stop(high);
	print_message("first loss after a delay of %.1f frames' time\n", (double)high->lost_at / one_ns);
	assert_true(lost(high) > 0);
	assert_true((double)high->lost_at > 0.9 * DEPTH * one_ns);
	assert_true(high->delay_max < 1.2 * DEPTH * one_ns);
	assert_true(harness_counter(high->h, "waited-ns") > 0);
	end(high);
}

/* An lcore that looks every 10 ms finds 67 frames at once, for which a device would have had the time. */
static void test_away(void **state)
{
	static const char *const makes_up[] = {CAPACITY ", \"burst_bytes\": 0",
					       CAPACITY ", \"burst_bytes\": 100000"};
	uint64_t gone[2];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct nic *nic = make(1, false, makes_up[i], "", "");

		run_by(nic, 0.9 * LIMIT, 1, 10000000);
		stop(nic);
		gone[i] = lost(nic);
		end(nic);
	}
	assert_true(gone[0] > 100);
	assert_int_equal(gone[1], 0);
}

/* A VNF's own limits, in and out. */
static void test_own_limits(void **state)
{
	static const char *const limits[] = {", \"in_rate_bps\": 5000000", ", \"rate_bps\": 5000000"};
	static const char *const reasons[] = {"in-rate-limit", "rate-limit"};

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(limits); i++) {
		struct nic *nic = make(1, false, "", "", limits[i]);
		double bps;

		run(nic, 2 * LIMIT, 1);
		stop(nic);
		bps = (double)nic->arrived * BYTES * 8;
		assert_true(bps > 0.98 * LIMIT && bps < 1.02 * LIMIT);
		assert_int_equal(harness_dropped(nic->h, reasons[i]), lost(nic));
		end(nic);
	}
}

/* Two VNFs send frames of 60 and of 1000 bytes by a limit that they share: they get the same bytes. */
static void test_turns_are_of_bytes(void **state)
{
	struct nic *nic = make(2, false, CAPACITY, "", "");
	uint8_t small[FRAME], large[1000] = {0};
	uint64_t bytes[2] = {0};

	(void)state;
	build(small, VF(1), TESTER, 0);
	memcpy(large, small, FRAME);
	station(large + 6, VF(2));
	for (unsigned int i = 0; i < 2000; i++) {
		struct harness_packet p[] = {{small, FRAME, 1}, {large, sizeof(large), 2}};

		nic->h->now += rte_get_tsc_hz() / 1000;
		virtual_tsc = nic->h->now;
		harness_poll(nic->h);
		for (unsigned int j = 0; j < 20; j++)
			harness_run(nic->h, NF_FORWARD, 1, &p[0], 1);
		for (unsigned int j = 0; j < 2; j++)
			harness_run(nic->h, NF_FORWARD, 1, &p[1], 1);
		for (size_t j = 0; j < nic->h->n_out; j++)
			bytes[nic->h->out[j].len > FRAME] += nic->h->out[j].len + 24;
		harness_forget(nic->h);
	}
	stop(nic);
	print_message("%llu and %llu bytes\n", (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
	assert_true((double)bytes[0] > 0.97 * LIMIT / 8 && (double)bytes[0] < 1.03 * LIMIT / 8);
	assert_true((double)bytes[1] > 0.97 * LIMIT / 8 && (double)bytes[1] < 1.03 * LIMIT / 8);
	end(nic);
}

/* Broadcasts wait as well, and what waits at the end is not lost track of. */
static void test_floods_wait(void **state)
{
	struct nic *nic = make(3, false, CAPACITY ", \"flood_burst\": 1000, \"burst_bytes\": 0", "", "");
	uint8_t frame[FRAME];
	uint64_t copies;

	(void)state;
	build(frame, TESTER, 0, 0);
	memset(frame, 0xff, 6);
	for (unsigned int i = 0; i < 20; i++)
		put(nic, 0, frame);
	copies = harness_counter(nic->h, "copies");
	nic->h->now += rte_get_tsc_hz();
	virtual_tsc = nic->h->now;
	harness_poll(nic->h);
	stop(nic);
	assert_int_equal(copies, 40);
	assert_int_equal(nic->h->counts.out, 60);
	assert_int_equal(nic->h->counts.held, 0);
	assert_in_range(harness_counter(nic->h, "waited"), 40, 60);
	virtual_tsc_start();
	for (unsigned int i = 0; i < 20; i++)
		put(nic, 0, frame);
	stop(nic);
	assert_true(nic->h->counts.held > 0);
	end(nic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passages),	   cmocka_unit_test(test_overload),
		cmocka_unit_test(test_delay_before_loss),  cmocka_unit_test(test_own_limits),
		cmocka_unit_test(test_turns_are_of_bytes), cmocka_unit_test(test_floods_wait),
		cmocka_unit_test(test_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
