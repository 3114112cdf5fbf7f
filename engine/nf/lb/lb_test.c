/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packets.h"
#include "tests/csum_check.h"

/* Two VIPs, one of each family; the first changes ports, the second is for all ports. */
#define PARAMS                                                                                     \
	"{\"vips\": ["                                                                             \
	"{\"address\": \"192.0.2.1\", \"port\": 80, \"protocol\": \"tcp\", \"backends\": ["        \
	"{\"address\": \"10.0.0.1\", \"port\": 8080}, {\"address\": \"10.0.0.2\", \"port\": 8081}," \
	"{\"address\": \"10.0.0.3\"}]},"                                                           \
	"{\"address\": \"2001:db8::1\", \"backends\": ["                                           \
	"{\"address\": \"2001:db8:1::1\"}, {\"address\": \"2001:db8:1::2\"}]}]"

static struct craft client(unsigned int flow, uint8_t family, uint8_t proto)
{
	struct craft c = {.family = family, .proto = proto, .dport = 80, .payload = 26};

	craft_addrs(&c, family == 4 ? "198.51.100.0" : "2001:db8:2::",
		    family == 4 ? "192.0.2.1" : "2001:db8::1");
	c.src[family == 4 ? 3 : 15] = (uint8_t)(flow % 250 + 1);
	c.sport = (uint16_t)(1024 + flow / 250);
	return c;
}

static struct harness *new_lb(const char *more)
{
	char params[2048];
	struct err err = {0};
	struct harness *h;

	snprintf(params, sizeof(params), PARAMS "%s}", more);
	h = harness_new("lb", params, NULL, &err);
	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

/* Feed one packet; its bytes as they came out, NULL when it did not. */
static const uint8_t *one(struct harness *h, enum nf_direction dir, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};

	harness_forget(h);
	harness_run(h, dir, 1, &p, 1);
	if (h->n_out)
		assert_int_equal(h->out[0].len, p.len);
	return h->n_out ? h->out[0].data : NULL;
}

/* The last byte of the backend's IPv4 address. */
static unsigned int backend4(struct harness *h, unsigned int flow)
{
	struct craft c = client(flow, 4, IPPROTO_TCP);
	const uint8_t *out = one(h, NF_FORWARD, &c);

	if (!out)
		return 0;
	assert_true(csum_check(out));
	assert_int_equal(out[30], 10);
	return out[33];
}

static void update(struct harness *h, const char *op, json_t **reply)
{
	struct err err = {0};

	if (harness_update(h, op, reply, &err))
		fail_msg("%s: %s", err.path, err.msg);
}

/* Address, port and both checksums, there and back, TCP and UDP, IPv4 and IPv6. */
static void test_rewrites(void **state)
{
	static const uint16_t ports[] = {0, 8080, 8081, 80};
	struct harness *h = new_lb("");

	(void)state;
	for (unsigned int flow = 0; flow < 2000; flow++) {
		struct craft c = client(flow, 4, IPPROTO_TCP);
		struct craft reply = c;
		const uint8_t *out;
		unsigned int be;

		c.payload = (uint16_t)(flow % 60);
		out = one(h, NF_FORWARD, &c);
		assert_non_null(out);
		assert_true(csum_check(out));
		be = out[33];
		assert_in_range(be, 1, 3);
		assert_int_equal(out[36] << 8 | out[37], ports[be]);
		assert_memory_equal(out + 26, c.src, 4);

		memcpy(reply.src, out + 30, 4);
		memcpy(reply.dst, c.src, 4);
		reply.sport = ports[be];
		reply.dport = c.sport;
		out = one(h, NF_REVERSE, &reply);
		assert_true(csum_check(out));
		assert_memory_equal(out + 26, c.dst, 4);
		assert_int_equal(out[34] << 8 | out[35], 80);
		assert_memory_equal(out + 30, c.src, 4);
	}
	harness_free(h);
}

static void test_rewrites_v6(void **state)
{
	struct harness *h = new_lb("");
	unsigned int seen[3] = {0};

	(void)state;
	for (unsigned int flow = 0; flow < 1000; flow++) {
		struct craft c = client(flow, 6, flow % 2 ? IPPROTO_UDP : IPPROTO_TCP), reply = c;
		const uint8_t *out = one(h, NF_FORWARD, &c);

		assert_true(csum_check(out));
		assert_in_range(out[53], 1, 2);
		assert_int_equal(out[43], 1);
		seen[out[53]]++;
		memcpy(reply.src, out + 38, 16);
		memcpy(reply.dst, c.src, 16);
		reply.sport = 80;
		reply.dport = c.sport;
		out = one(h, NF_REVERSE, &reply);
		assert_true(csum_check(out));
		assert_memory_equal(out + 22, c.dst, 16);
	}
	assert_true(seen[1] > 400 && seen[2] > 400);
	harness_free(h);
}

/* RFC 768: no checksum stays none. */
static void test_udp_without_checksum(void **state)
{
	struct harness *h = new_lb("");
	struct craft c = client(1, 4, IPPROTO_UDP);
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p;
	struct err err;

	(void)state;
	harness_free(h);
	h = harness_new("lb",
			"{\"vips\": [{\"address\": \"192.0.2.1\", \"protocol\": \"udp\","
			"\"backends\": [{\"address\": \"10.0.0.1\"}]}]}", NULL, &err);
	assert_non_null(h);
	p = (struct harness_packet){buf, craft_build(&c, buf)};
	buf[40] = buf[41] = 0;
	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->out[0].data[33], 1);
	assert_int_equal(h->out[0].data[40] | h->out[0].data[41], 0);
	harness_free(h);
}

/* New flows are spread as Maglev's table is: 3 backends, a third each, within 4 sigma. */
static void test_spread(void **state)
{
	struct harness *h = new_lb("");
	unsigned int seen[4] = {0};

	(void)state;
	for (unsigned int flow = 0; flow < 30000; flow++)
		seen[backend4(h, flow)]++;
	for (unsigned int i = 1; i <= 3; i++)
		assert_in_range(seen[i], 10000 - 330, 10000 + 330);
	assert_int_equal(harness_counter(h, "new-flows"), 30000);
	harness_free(h);
}

/* Backends of one entry: 300 addresses from 10.0.0.250 on, so that the third byte counts, too. */
static void test_count(void **state)
{
	bool seen[300] = {false};
	unsigned int all = 0;
	struct harness *h;
	struct err err;

	(void)state;
	h = harness_new("lb",
			"{\"vips\": [{\"address\": \"192.0.2.1\", \"backends\":"
			"[{\"address\": \"10.0.0.250\", \"count\": 300}]}]}", NULL, &err);
	assert_non_null(h);
	for (unsigned int flow = 0; flow < 30000; flow++) {
		struct craft c = client(flow, 4, IPPROTO_TCP);
		const uint8_t *out = one(h, NF_FORWARD, &c);
		unsigned int at;

		assert_non_null(out);
		assert_int_equal(out[30] << 8 | out[31], 10 << 8);
		at = (unsigned int)(out[32] << 8 | out[33]) - 250;
		assert_in_range(at, 0, 299);
		all += !seen[at];
		seen[at] = true;
	}
	assert_int_equal(all, 300);
	harness_free(h);
}

/* Flows keep their backends over every change that does not take theirs. */
static void test_updates(void **state)
{
	enum { FLOWS = 3000 };
	struct harness *h = new_lb("");
	static uint8_t was[FLOWS];
	json_t *reply = NULL;

	(void)state;
	for (unsigned int f = 0; f < FLOWS; f++)
		was[f] = (uint8_t)backend4(h, f);
	update(h, "{\"op\": \"add\", \"vip\": 0, \"address\": \"10.0.0.4\"}", &reply);
	assert_in_range(json_integer_value(json_object_get(reply, "entries_changed")), 65537 / 4,
			65537 / 4 + 2000);
	json_decref(reply);
	update(h, "{\"op\": \"drain\", \"address\": \"10.0.0.1\", \"port\": 8080}", NULL);
	update(h, "{\"op\": \"weight\", \"address\": \"10.0.0.2\", \"port\": 8081, \"weight\": 9}", NULL);
	for (unsigned int f = 0; f < FLOWS; f++)
		assert_int_equal(backend4(h, f), was[f]);
	assert_int_equal(harness_counter(h, "reassigned"), 0);

	/* New flows: none to the drained one, and the new weights. */
	unsigned int seen[5] = {0};
	for (unsigned int f = FLOWS; f < 11 * FLOWS; f++)
		seen[backend4(h, f)]++;
	assert_int_equal(seen[1], 0);
	assert_in_range(seen[3], 10 * FLOWS / 11 - 300, 10 * FLOWS / 11 + 300);
	assert_in_range(seen[4], 10 * FLOWS / 11 - 300, 10 * FLOWS / 11 + 300);

	/* One down: only its flows move, and stay where they went when it is back. */
	update(h, "{\"op\": \"health\", \"address\": \"10.0.0.3\", \"up\": false}", NULL);
	for (unsigned int f = 0; f < FLOWS; f++) {
		unsigned int now = backend4(h, f);

		assert_int_not_equal(now, 3);
		assert_true(was[f] == 3 || now == was[f]);
		was[f] = (uint8_t)now;
	}
	update(h, "{\"op\": \"health\", \"address\": \"10.0.0.3\", \"up\": true}", NULL);
	for (unsigned int f = 0; f < FLOWS; f++)
		assert_int_equal(backend4(h, f), was[f]);

	/* All gone: dropped by reason; the removed one's late answers still become the VIP's. */
	update(h, "{\"op\": \"remove\", \"address\": \"10.0.0.1\", \"port\": 8080}", NULL);
	update(h, "{\"op\": \"remove\", \"address\": \"10.0.0.2\", \"port\": 8081}", NULL);
	update(h, "{\"op\": \"remove\", \"address\": \"10.0.0.3\"}", NULL);
	update(h, "{\"op\": \"remove\", \"address\": \"10.0.0.4\"}", NULL);
	assert_int_equal(backend4(h, 0), 0);
	assert_int_equal(harness_dropped(h, "no-backend"), 1);
	struct craft late = client(0, 4, IPPROTO_TCP);

	memcpy(late.dst, late.src, 4);
	memcpy(late.src, (uint8_t[]){10, 0, 0, 1}, 4);
	late.sport = 8080;
	assert_memory_equal(one(h, NF_REVERSE, &late) + 26, ((uint8_t[]){192, 0, 2, 1}), 4);
	harness_free(h);
}

static void refused(struct harness *h, const char *op, const char *path, const char *part)
{
	struct err err = {0};

	assert_int_not_equal(harness_update(h, op, NULL, &err), 0);
	assert_string_equal(err.path, path);
	if (!strstr(err.msg, part))
		fail_msg("%s", err.msg);
}

static void test_bad_updates(void **state)
{
	struct harness *h = new_lb("");

	(void)state;
	refused(h, "{\"op\": \"ad\", \"address\": \"10.0.0.9\"}", "op.op", "allowed: add, drain");
	refused(h, "{\"op\": \"add\", \"vip\": 2, \"address\": \"10.0.0.9\"}", "op.vip", "vips[1]");
	refused(h, "{\"op\": \"add\", \"address\": \"10.0.0.3\"}", "op.address", "already");
	refused(h, "{\"op\": \"drain\", \"address\": \"10.0.0.9\"}", "op.address", "no such backend");
	refused(h, "{\"op\": \"add\", \"address\": \"2001:db8::7\"}", "params.vips[0].backends",
		"both must be of one family");
	assert_in_range(backend4(h, 1), 1, 3);
	harness_free(h);
}

/* A full table: known flows stay, new ones go where Maglev sends them, without state. */
static void test_full_table(void **state)
{
	struct harness *h = new_lb(", \"flows\": 100"), *big = new_lb("");
	uint8_t was[300];

	(void)state;
	for (unsigned int f = 0; f < 300; f++) {
		was[f] = (uint8_t)backend4(h, f);
		assert_int_equal(was[f], backend4(big, f));
	}
	assert_int_equal(harness_counter(h, "new-flows"), 100);
	assert_int_equal(harness_counter(h, "table-full"), 200);
	update(h, "{\"op\": \"drain\", \"address\": \"10.0.0.1\", \"port\": 8080}", NULL);
	for (unsigned int f = 0; f < 100; f++)
		assert_int_equal(backend4(h, f), was[f]);
	for (unsigned int f = 100; f < 300; f++)
		assert_int_not_equal(backend4(h, f), 1);
	harness_free(h);
	harness_free(big);
}

static void test_ageing(void **state)
{
	struct harness *h = new_lb(", \"idle_timeout_s\": 2");

	(void)state;
	for (unsigned int f = 0; f < 1000; f++)
		backend4(h, f);
	for (unsigned int ms = 0; ms < 1500; ms++)
		harness_advance(h, 1000000);
	for (unsigned int f = 0; f < 10; f++)
		backend4(h, f);
	assert_int_equal(harness_counter(h, "flows"), 1000);
	for (unsigned int ms = 0; ms < 1900; ms++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "flows"), 10);
	assert_int_equal(harness_counter(h, "expired"), 990);
	assert_int_equal(harness_counter(h, "hits"), 10);
	harness_free(h);
}

/* A million flows, begun and aged, in a table that has room for no more. */
static void test_million(void **state)
{
	static uint8_t bufs[BURST_MAX][CRAFT_MAX];
	struct harness *h = new_lb(", \"flows\": 1000000, \"idle_timeout_s\": 2");
	struct harness_packet p[BURST_MAX];

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		struct craft c = client(i, 4, IPPROTO_TCP);
		unsigned int at = i % BURST_MAX;

		p[at] = (struct harness_packet){bufs[at], craft_build(&c, bufs[at]), 0};
		if (at == BURST_MAX - 1) {
			harness_run(h, NF_FORWARD, BURST_MAX, p, BURST_MAX);
			harness_forget(h);
		}
	}
	assert_int_equal(harness_counter(h, "new-flows"), 1000000);
	assert_int_equal(harness_counter(h, "table-full"), 0);
	for (unsigned int ms = 0; ms < 4500; ms++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "flows"), 0);
	assert_int_equal(harness_counter(h, "expired"), 1000000);
	/* All records are there again. */
	assert_in_range(backend4(h, 7), 1, 3);
	assert_int_equal(harness_counter(h, "table-full"), 0);
	harness_free(h);
}

static void test_not_for_vip(void **state)
{
	struct harness *pass = new_lb(""), *drop = new_lb(", \"other\": \"drop\"");
	struct craft c = client(1, 4, IPPROTO_TCP), fragment = c;
	uint8_t before[CRAFT_MAX];

	(void)state;
	c.dport = 81;
	craft_build(&c, before);
	assert_memory_equal(one(pass, NF_FORWARD, &c), before, 80);
	assert_null(one(drop, NF_FORWARD, &c));
	assert_int_equal(harness_dropped(drop, "not-for-vip"), 1);
	c.dport = 80;
	c.proto = IPPROTO_UDP;
	assert_null(one(drop, NF_FORWARD, &c));
	fragment.fragment = true;
	fragment.more_fragments = true;
	assert_null(one(pass, NF_FORWARD, &fragment));
	assert_int_equal(harness_dropped(pass, "fragment"), 1);
	fragment.dst[3] = 99;
	assert_non_null(one(pass, NF_FORWARD, &fragment));
	harness_free(pass);
	harness_free(drop);
}

static void test_dsr(void **state)
{
	struct err err;
	struct harness *h = harness_new(
		"lb",
		"{\"mode\": \"dsr\", \"vips\": [{\"address\": \"192.0.2.1\", \"port\": 80, \"backends\":"
		"[{\"address\": \"10.0.0.1\", \"mac\": \"02:00:00:00:00:77\"}]}]}", NULL, &err);
	struct craft c = client(1, 4, IPPROTO_TCP);
	uint8_t before[CRAFT_MAX];
	const uint8_t *out;

	(void)state;
	assert_non_null(h);
	craft_build(&c, before);
	out = one(h, NF_FORWARD, &c);
	assert_memory_equal(out, "\x02\0\0\0\0\x77", 6);
	assert_memory_equal(out + 6, before + 6, 74);
	harness_free(h);
}

/* Same answers at all burst sizes, also when a burst begins the same flow several times. */
static void test_bursts(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	for (unsigned int i = 0; i < 500; i++) {
		struct craft c = client(i % 90, i % 3 ? 4 : 6, IPPROTO_TCP);

		craft_add(&list, &c);
	}
	h = harness_run_all("lb", PARAMS "}", NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_int_equal(h->n_out, 500);
	assert_int_equal(harness_counter(h, "new-flows"), 90);
	assert_int_equal(harness_counter(h, "hits"), 410);
	harness_free(h);
	craft_list_free(&list);
}

static void test_zoo(void **state)
{
	struct craft_list list = {0};

	(void)state;
	craft_zoo(&list);
	for (int dir = 0; dir < NF_DIRECTIONS; dir++) {
		struct err err;
		struct harness *h = harness_run_all("lb", PARAMS ", \"other\": \"drop\"}", NULL, dir,
						    list.packets, list.n, &err);

		assert_non_null(h);
		assert_true(h->counts.aborted > 0);
		harness_free(h);
	}
	craft_list_free(&list);
}

static void bad(const char *params, const char *path, const char *part)
{
	struct err err = {0};

	assert_null(harness_new("lb", params, NULL, &err));
	if (!strstr(err.path, path) || !strstr(err.msg, part))
		fail_msg("%s: %s", err.path, err.msg);
}

static void test_bad_params(void **state)
{
	(void)state;
	bad("{}", "", "vips");
	bad("{\"vips\": []}", "params.vips", "at least one");
	bad("{\"vips\": [{\"address\": \"10.0.0.0/8\"}]}", "params.vips[0].address", "host address");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\"}], \"table_size\": 65536}", "params.table_size",
	    "not prime");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\"}, {\"address\": \"10.0.0.1\"}]}",
	    "params.vips[1]", "the same address");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\", \"backends\": [{\"address\": \"10.1.0.1\"}]},"
	    "{\"address\": \"10.0.0.2\", \"backends\": [{\"address\": \"10.1.0.1\"}]}]}",
	    "params.vips[1].backends", "already a backend of vips[0]");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\", \"backends\": [{\"address\": \"10.1.0.1\","
	    "\"port\": 5}]}]}", "params.vips[0].backends", "all ports");
	bad("{\"mode\": \"dsr\", \"vips\": [{\"address\": \"10.0.0.1\", \"backends\":"
	    "[{\"address\": \"10.1.0.1\"}]}]}", "params.vips[0].backends", "mac");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\", \"backends\":"
	    "[{\"address\": \"255.255.255.254\", \"count\": 3}]}]}",
	    "params.vips[0].backends[0].count", "address 2 of it is past the last one");
	bad("{\"vips\": [{\"address\": \"10.0.0.1\", \"backends\":"
	    "[{\"address\": \"10.1.0.1\", \"count\": 65534}, {\"address\": \"10.3.0.1\"}]}]}",
	    "params.vips", "65535 backends; at most 65534");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rewrites),    cmocka_unit_test(test_rewrites_v6),
		cmocka_unit_test(test_udp_without_checksum),
		cmocka_unit_test(test_spread),      cmocka_unit_test(test_updates),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_bad_updates), cmocka_unit_test(test_full_table),
		cmocka_unit_test(test_ageing),
		cmocka_unit_test(test_million),      cmocka_unit_test(test_not_for_vip),
		cmocka_unit_test(test_dsr),         cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_zoo),         cmocka_unit_test(test_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
