/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packets.h"

#define FRAME 60
#define BROADCAST 0xff

/* Stations are numbered: 02:00:00:00:00:NN; BROADCAST is ff:ff:ff:ff:ff:ff. */
static void station(uint8_t *addr, uint8_t number)
{
	memset(addr, number == BROADCAST ? 0xff : 0, 6);
	if (number != BROADCAST) {
		addr[0] = 2;
		addr[5] = number;
	}
}

static struct harness *make(const char *params)
{
	struct err err = {0};
	struct harness *h = harness_new("veb", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

/* Feeds a frame; a bit for each port that it left by. */
static unsigned int feed_bytes(struct harness *h, uint16_t port, const uint8_t *frame, uint32_t len)
{
	struct harness_packet p = {frame, len, port};
	unsigned int ports = 0;

	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	for (size_t i = 0; i < h->n_out; i++) {
		assert_int_equal(h->out[i].len, len);
		assert_memory_equal(h->out[i].data, frame, len);
		assert_false(ports & 1u << h->out[i].edge);
		ports |= 1u << h->out[i].edge;
	}
	return ports;
}

static unsigned int feed(struct harness *h, uint16_t port, uint8_t from, uint8_t to)
{
	uint8_t frame[FRAME] = {[12] = 0x88, [13] = 0xb5, [14] = from, [15] = to};

	station(frame, to);
	station(frame + 6, from);
	return feed_bytes(h, port, frame, sizeof(frame));
}

/* Four ports, no uplink: an ordinary learning bridge. */
static void test_learning(void **state)
{
	struct harness *h = make("{\"ports\": [{}, {}, {}, {}], \"ageing_s\": 2}");

	(void)state;
	assert_int_equal(feed(h, 0, 1, 2), 0xe);
	assert_int_equal(feed(h, 1, 2, 1), 0x1);
	assert_int_equal(feed(h, 0, 1, 2), 0x2);
	assert_int_equal(feed(h, 2, 3, BROADCAST), 0xb);
	/* On the same port: everybody there has seen it. */
	assert_int_equal(feed(h, 0, 9, 1), 0);
	assert_int_equal(harness_dropped(h, "filtered"), 1);
	/* It moves. */
	assert_int_equal(feed(h, 3, 2, 1), 0x1);
	assert_int_equal(feed(h, 0, 1, 2), 0x8);
	assert_int_equal(harness_counter(h, "moved"), 1);
	for (int i = 0; i < 2500; i++)
		harness_advance(h, 1000000);
	assert_int_equal(feed(h, 0, 1, 2), 0xe);
	assert_int_equal(harness_counter(h, "expired"), 4);
	assert_int_equal(harness_counter(h, "copies-lost"), 0);
	harness_free(h);
}

/* A NIC: port 0 is the wire, 1 to 3 are VFs with addresses 11 to 13, nothing is learnt. */
#define NIC                                                                                        \
	"{\"ports\": [{\"uplink\": true}, {\"macs\": [\"02:00:00:00:00:0b\"], \"spoof_check\": true}, "    \
	"{\"macs\": [\"02:00:00:00:00:0c\"]}, {\"macs\": [\"02:00:00:00:00:0d\"]}], "                 \
	"\"learning\": false, \"unknown\": \"uplink\""

static void test_sriov(void **state)
{
	struct harness *h = make(NIC "}");

	(void)state;
	assert_int_equal(feed(h, 0, 99, 12), 0x4);
	assert_int_equal(feed(h, 1, 11, 13), 0x8);
	assert_int_equal(feed(h, 1, 11, 99), 0x1);
	assert_int_equal(feed(h, 0, 99, 98), 0);
	assert_int_equal(harness_dropped(h, "unknown-destination"), 1);
	assert_int_equal(feed(h, 0, 99, BROADCAST), 0xe);
	assert_int_equal(feed(h, 2, 12, BROADCAST), 0xb);
	assert_int_equal(feed(h, 1, 12, 13), 0);
	assert_int_equal(harness_dropped(h, "spoofed"), 1);
	harness_free(h);
}

static void test_vepa(void **state)
{
	struct harness *h = make(NIC ", \"mode\": \"vepa\"}");

	(void)state;
	/* Out by the wire, reflected, and in to whom it is for. */
	assert_int_equal(feed(h, 1, 11, 13), 0x1);
	assert_int_equal(feed(h, 0, 11, 13), 0x8);
	/* A reflected broadcast goes to all but its sender. */
	assert_int_equal(feed(h, 2, 12, BROADCAST), 0x1);
	assert_int_equal(feed(h, 0, 12, BROADCAST), 0xa);
	assert_int_equal(feed(h, 0, 99, BROADCAST), 0xe);
	assert_int_equal(feed(h, 0, 12, 12), 0);
	assert_int_equal(harness_dropped(h, "filtered"), 1);
	harness_free(h);
}

/* The bridge outside of a VEPA gives back what came from there, and to others what is theirs. */
static void test_reflective_relay(void **state)
{
	struct harness *h = make("{\"ports\": [{\"macs\": [\"02:00:00:00:00:0b\", \"02:00:00:00:00:0c\"], "
				 "\"reflect\": true}, {}], \"learning\": false}");

	(void)state;
	assert_int_equal(feed(h, 0, 11, 12), 0x1);
	assert_int_equal(feed(h, 1, 99, 12), 0x1);
	assert_int_equal(feed(h, 0, 11, BROADCAST), 0x3);
	assert_int_equal(feed(h, 1, 99, BROADCAST), 0x1);
	harness_free(h);
}

/* 63 virtual functions and the wire: the first, the last, and all of them at once. */
static void test_64_ports(void **state)
{
	char params[8192] = "{\"learning\": false, \"unknown\": \"uplink\", \"flood_burst\": 10, "
			    "\"ports\": [{\"uplink\": true}";
	uint8_t frame[FRAME] = {0};
	struct harness_packet p = {frame, FRAME, 0};
	struct harness *h;

	(void)state;
	for (unsigned int i = 1; i < 64; i++)
		sprintf(params + strlen(params), ", {\"macs\": [\"02:00:00:00:00:%02x\"]}", i);
	h = make(strcat(params, "]}"));
	station(frame + 6, 99);
	for (uint8_t i = 1; i < 64; i++) {
		station(frame, i);
		harness_forget(h);
		harness_run(h, NF_FORWARD, 1, &p, 1);
		assert_int_equal(h->n_out, 1);
		assert_int_equal(h->out[0].edge, i);
	}
	station(frame, BROADCAST);
	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->n_out, 63);
	p.port = 63;
	station(frame, 98);
	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->n_out, 1);
	assert_int_equal(h->out[0].edge, 0);
	harness_free(h);
}

/* Two uplinks of one LAN: a broadcast goes out once and comes in once. */
static void test_two_uplinks(void **state)
{
	struct harness *h = make("{\"ports\": [{\"uplink\": true}, {\"uplink\": true}, {}, {}]}");

	(void)state;
	assert_int_equal(feed(h, 2, 20, BROADCAST), 0x9);
	assert_int_equal(feed(h, 3, 30, BROADCAST), 0x6);
	assert_int_equal(feed(h, 0, 99, BROADCAST), 0x4);
	assert_int_equal(feed(h, 1, 98, BROADCAST), 0x8);
	assert_int_equal(feed(h, 0, 97, 98), 0);
	assert_int_equal(feed(h, 2, 20, 98), 0x2);
	harness_free(h);
}

static void test_refused_frames(void **state)
{
	struct harness *h = make("{\"ports\": [{}, {}]}");
	uint8_t frame[FRAME] = {0x01, 0x80, 0xc2, 0, 0, 0x0e, 2};

	(void)state;
	assert_int_equal(feed_bytes(h, 0, frame, sizeof(frame)), 0);
	assert_int_equal(harness_dropped(h, "reserved-address"), 1);
	frame[5] = 0x10;
	assert_int_equal(feed_bytes(h, 0, frame, sizeof(frame)), 2);
	frame[6] = 3;
	assert_int_equal(feed_bytes(h, 0, frame, sizeof(frame)), 0);
	memset(frame + 6, 0, 6);
	assert_int_equal(feed_bytes(h, 0, frame, sizeof(frame)), 0);
	assert_int_equal(harness_dropped(h, "bad-source"), 2);
	assert_int_equal(feed(h, 2, 1, 2), 0);
	assert_int_equal(harness_dropped(h, "no-port"), 1);
	for (uint32_t len = 0; len < 14; len++)
		assert_int_equal(feed_bytes(h, 0, frame, len), 0);
	assert_int_equal(h->counts.aborted, 14);
	harness_free(h);
}

static void test_flood_limit(void **state)
{
	struct harness *h = make("{\"ports\": [{}, {}], \"flood_pps\": 1000, \"flood_burst\": 10}");
	unsigned int passed = 0;

	(void)state;
	for (unsigned int i = 0; i < 20; i++)
		passed += feed(h, 0, 1, BROADCAST) != 0;
	assert_in_range(passed, 10, 11);
	for (unsigned int i = 0; i < 20000; i++) {
		harness_advance(h, 100000);
		passed += feed(h, 0, 1, BROADCAST) != 0;
	}
	assert_in_range(passed, 1990, 2031);
	assert_int_equal(harness_dropped(h, "flood-limit"), 20020 - passed);
	harness_free(h);
}

static void test_updates(void **state)
{
	struct harness *h = make(NIC "}");
	struct err err = {0};
	json_t *reply = NULL;

	(void)state;
	assert_int_equal(harness_update(h, "{\"op\": \"add\", \"mac\": \"02:00:00:00:00:63\", \"port\": 2}",
					&reply, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(reply, "addresses")), 4);
	json_decref(reply);
	assert_int_equal(feed(h, 1, 11, 99), 0x4);
	assert_int_equal(harness_update(h, "{\"op\": \"flush\"}", NULL, &err), 0);
	assert_int_equal(feed(h, 1, 11, 99), 0x4);
	assert_int_equal(harness_update(h, "{\"op\": \"remove\", \"mac\": \"02:00:00:00:00:63\"}", NULL,
					&err), 0);
	assert_int_equal(feed(h, 1, 11, 99), 0x1);
	assert_true(harness_update(h, "{\"op\": \"remove\", \"mac\": \"02:00:00:00:00:63\"}", NULL,
				   &err) < 0);
	assert_string_equal(err.path, "op.mac");
	assert_true(harness_update(h, "{\"op\": \"add\", \"mac\": \"02:00:00:00:00:63\", \"port\": 4}", NULL,
				   &err) < 0);
	assert_string_equal(err.path, "op.port");
	assert_true(harness_update(h, "{\"op\": \"add\", \"mac\": \"02:00:00:00:00:0b\", \"port\": 3}", NULL,
				   &err) < 0);
	assert_string_equal(err.path, "op.mac");
	harness_free(h);
}

/* A full table floods what it does not know, and forgets nothing for it; then all of it ages. */
static void test_full_table(void **state)
{
	struct harness *h = make("{\"ports\": [{}, {}], \"addresses\": 64, \"ageing_s\": 5, "
				 "\"flood_pps\": 1000000000, \"flood_burst\": 1000000000}");
	uint8_t frame[FRAME] = {2, [6] = 2};

	(void)state;
	assert_int_equal(feed(h, 0, 1, BROADCAST), 2);
	for (unsigned int i = 0; i < 100000; i++) {
		frame[10] = (uint8_t)(i >> 8);
		frame[9] = (uint8_t)(i >> 16);
		frame[11] = (uint8_t)i;
		frame[8] = 1;
		assert_int_equal(feed_bytes(h, 1, frame, sizeof(frame)), 1);
	}
	assert_true(harness_counter(h, "learnt") >= 64);
	assert_int_equal(harness_counter(h, "learnt") + harness_counter(h, "table-full"), 100001);
	assert_int_equal(feed(h, 1, 2, 1), 1);
	for (unsigned int i = 0; i < 5200; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "expired"), harness_counter(h, "learnt"));
	harness_free(h);
}

/* A million stations, learnt and aged. */
static void test_million(void **state)
{
	struct harness *h = make("{\"ports\": [{}, {}], \"addresses\": 2000000, \"ageing_s\": 3, "
				 "\"flood_pps\": 1000000000, \"flood_burst\": 1000000000}");
	uint8_t frame[64][FRAME] = {{0}};
	struct harness_packet p[64];

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		uint8_t *f = frame[i % 64];

		f[0] = f[6] = 2;
		f[9] = (uint8_t)(i >> 16);
		f[10] = (uint8_t)(i >> 8);
		f[11] = (uint8_t)i;
		p[i % 64] = (struct harness_packet){f, FRAME, 1};
		if (i % 64 == 63) {
			harness_run(h, NF_FORWARD, 64, p, 64);
			harness_forget(h);
		}
	}
	assert_true(harness_counter(h, "learnt") > 990000);
	for (unsigned int i = 0; i < 4200; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "expired"), harness_counter(h, "learnt"));
	harness_free(h);
}

static void test_zoo(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	craft_zoo(&list);
	for (size_t i = 0; i < list.n; i++)
		list.packets[i].port = (uint16_t)(i % 3);
	h = harness_run_all("veb", "{\"ports\": [{}, {}, {\"uplink\": true}]}", NULL, NF_FORWARD,
			    list.packets, list.n, &err);
	assert_non_null(h);
	assert_true(h->counts.aborted > 0 && h->counts.out > 0);
	harness_free(h);
	craft_list_free(&list);
}

static void refused(const char *params, const char *path)
{
	struct err err = {0};

	assert_null(harness_new("veb", params, NULL, &err));
	assert_string_equal(err.path, path);
}

static void test_bad_params(void **state)
{
	(void)state;
	refused("{\"ports\": [{}]}", "params.ports");
	refused("{\"ports\": [{}, {}], \"mode\": \"vepa\"}", "params.ports");
	refused("{\"ports\": [{}, {}], \"unknown\": \"uplink\"}", "params.ports");
	refused("{\"ports\": [{\"uplink\": true}, {\"uplink\": true}]}", "params.ports");
	refused("{\"ports\": [{\"macs\": [\"01:00:00:00:00:01\"]}, {}]}", "params.ports[0].macs[0]");
	refused("{\"ports\": [{\"macs\": [\"02:00:00:00:00:01\"]}, "
		"{\"macs\": [\"02:00:00:00:00:01\"]}]}", "params.ports[1].macs[0]");
	refused("{\"ports\": [{}, {\"rate_bps\": -1}]}", "params.ports[1].rate_bps");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learning),       cmocka_unit_test(test_sriov),
		cmocka_unit_test(test_vepa),	       cmocka_unit_test(test_two_uplinks),
		cmocka_unit_test(test_refused_frames), cmocka_unit_test(test_flood_limit),
		cmocka_unit_test(test_updates),
		cmocka_unit_test(test_full_table),     cmocka_unit_test(test_million),
		cmocka_unit_test(test_zoo),	       cmocka_unit_test(test_bad_params),
		cmocka_unit_test(test_reflective_relay), cmocka_unit_test(test_64_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
