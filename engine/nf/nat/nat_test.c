/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pkt.h"
#include "nf/lib/siphash.h"
#include "nf/nat/nat.h"
#include "tests/packets.h"
#include "tests/csum_check.h"

#define SYN 2
#define RST 4
#define ACK 16

#define POOL "{\"pool\": [\"203.0.113.1\"]"

static struct harness *make_with(const char *params, const struct harness_config *config)
{
	struct err err = {0};
	struct harness *h = harness_new("nat", params, config, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static struct harness *make(const char *params)
{
	return make_with(params, NULL);
}

static struct craft outward(uint8_t proto, uint16_t sport, uint16_t dport)
{
	struct craft c = {.family = 4, .proto = proto, .sport = sport, .dport = dport, .payload = 21,
			  .tcp_flags = SYN, .icmp_type = 8};

	craft_addrs(&c, "10.0.0.5", "198.51.100.9");
	return c;
}

static struct craft answer(const struct craft *c, uint8_t flags)
{
	struct craft r = *c;

	memcpy(r.src, c->dst, 16);
	memcpy(r.dst, c->src, 16);
	r.sport = c->dport;
	r.dport = c->sport;
	r.tcp_flags = flags;
	return r;
}

static const uint8_t *feed_bytes(struct harness *h, enum nf_direction dir, const uint8_t *buf,
				 uint32_t len)
{
	struct harness_packet p = {buf, len};

	harness_forget(h);
	harness_run(h, dir, 1, &p, 1);
	if (h->n_out && !csum_check(h->out[0].data))
		fail_msg("wrong checksum");
	return h->n_out ? h->out[0].data : NULL;
}

static const uint8_t *feed(struct harness *h, enum nf_direction dir, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];

	return feed_bytes(h, dir, buf, craft_build(c, buf));
}

static uint16_t word(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* Sends *c out and makes *c what it looks like outside. False when it was dropped. */
static bool translate(struct harness *h, struct craft *c)
{
	const uint8_t *out = feed(h, NF_FORWARD, c);

	if (!out)
		return false;
	assert_memory_equal(out + 30, c->dst, 4);
	assert_int_equal(word(out + 36), c->dport);
	memcpy(c->src, out + 26, 4);
	c->sport = word(out + 34);
	return true;
}

/* An answer to *outside must arrive at inside:port. */
static void check_answer(struct harness *h, const struct craft *outside, const char *inside,
			 uint16_t port)
{
	struct craft r = answer(outside, SYN | ACK), want = r;
	const uint8_t *out = feed(h, NF_REVERSE, &r);
	uint8_t buf[CRAFT_MAX];
	uint32_t len;

	assert_non_null(out);
	craft_addrs(&want, "198.51.100.9", inside);
	memcpy(want.src, r.src, 4);
	want.dport = port;
	len = craft_build(&want, buf);
	assert_int_equal(h->out[0].len, len);
	assert_memory_equal(out, buf, len);
}

/* Out and back, every byte compared with a packet built anew. */
static void test_there_and_back(void **state)
{
	struct harness *h = make(POOL "}");

	(void)state;
	for (unsigned int i = 0; i < 4000; i++) {
		struct craft c = outward(i % 2 ? IPPROTO_TCP : IPPROTO_UDP, (uint16_t)(i + 1), 80);

		c.payload = (uint16_t)(i % 50);
		assert_true(translate(h, &c));
		assert_memory_equal(c.src, ((uint8_t[]){203, 0, 113, 1}), 4);
		assert_true(c.sport >= 1024);
		check_answer(h, &c, "10.0.0.5", (uint16_t)(i + 1));
	}
	assert_int_equal(harness_counter(h, "new-sessions"), 4000);
	harness_free(h);
}

static void test_udp_without_checksum(void **state)
{
	struct harness *h = make(POOL "}");
	struct craft c = outward(IPPROTO_UDP, 1, 2);
	uint8_t buf[CRAFT_MAX];
	uint32_t len = craft_build(&c, buf);

	(void)state;
	buf[40] = buf[41] = 0;
	assert_int_equal(word(feed_bytes(h, NF_FORWARD, buf, len) + 40), 0);
	harness_free(h);
}

static void put_id(uint8_t *frame, uint16_t id)
{
	uint32_t sum = (uint16_t)~word(frame + 36) + (uint16_t)~word(frame + 38) + id;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (uint16_t)~((sum & 0xffff) + (sum >> 16));
	frame[38] = (uint8_t)(id >> 8);
	frame[39] = (uint8_t)id;
	frame[36] = (uint8_t)(sum >> 8);
	frame[37] = (uint8_t)sum;
}

static void test_echo(void **state)
{
	struct harness *h = make(POOL "}");
	uint16_t used[20];

	(void)state;
	for (uint16_t id = 0; id < 20; id++) {
		struct craft c = outward(IPPROTO_ICMP, 0, 0), r;
		uint8_t buf[CRAFT_MAX];
		const uint8_t *out;
		uint32_t len = craft_build(&c, buf);

		put_id(buf, id);
		out = feed_bytes(h, NF_FORWARD, buf, len);
		assert_non_null(out);
		assert_memory_equal(out + 26, ((uint8_t[]){203, 0, 113, 1}), 4);
		used[id] = word(out + 38);
		for (uint16_t i = 0; i < id; i++)
			assert_int_not_equal(used[i], used[id]);
		memcpy(c.src, out + 26, 4);
		r = answer(&c, 0);
		r.icmp_type = 0;
		len = craft_build(&r, buf);
		put_id(buf, used[id]);
		out = feed_bytes(h, NF_REVERSE, buf, len);
		assert_memory_equal(out + 30, ((uint8_t[]){10, 0, 0, 5}), 4);
		assert_int_equal(word(out + 38), id);
	}
	harness_free(h);
}

/* An error about the packet `about`, as seen where the error arises; built with right checksums. */
static uint32_t build_error(const char *src, const uint8_t *dst, const struct craft *about,
			    uint32_t keep, uint8_t *buf)
{
	struct craft c = {.family = 4, .proto = IPPROTO_ICMP, .icmp_type = 3, .icmp_code = 4,
			  .payload = (uint16_t)keep};
	uint8_t inner[CRAFT_MAX];
	uint32_t len, sum = 0;

	craft_addrs(&c, src, "1.1.1.1");
	memcpy(c.dst, dst, 4);
	craft_build(about, inner);
	len = craft_build(&c, buf);
	memcpy(buf + 42, inner + 14, keep);
	buf[36] = buf[37] = 0;
	sum = csum_check_sum(buf + 34, len - 34, 0);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (uint16_t)~((sum & 0xffff) + (sum >> 16));
	buf[36] = (uint8_t)(sum >> 8);
	buf[37] = (uint8_t)sum;
	return len;
}

/* RFC 5508: the carried head is translated back, and all three checksums are right. */
static void test_icmp_errors(void **state)
{
	(void)state;
	for (int tcp = 0; tcp < 2; tcp++) {
		struct harness *h = make(POOL "}");
		struct craft c = outward(tcp ? IPPROTO_TCP : IPPROTO_UDP, 4000, 80), in = c, wrong;
		uint8_t buf[CRAFT_MAX], want[CRAFT_MAX];
		const uint8_t *out;
		uint32_t len;

		assert_true(translate(h, &c));
		len = build_error("192.0.2.77", c.src, &c, 40, buf);
		out = feed_bytes(h, NF_REVERSE, buf, len);
		assert_non_null(out);
		build_error("192.0.2.77", in.src, &in, 40, want);
		/* TCP's checksum is not translated: it need not have been carried. */
		assert_memory_equal(out + 14, want + 14, 10);
		assert_memory_equal(out + 26, want + 26, tcp ? 10 : 56);
		assert_memory_equal(out + 42, want + 42, 28);
		assert_true(csum_check_is_whole(csum_check_sum(out + 42, 20, 0)));
		for (uint32_t keep = 0; keep < 28; keep++) {
			len = build_error("192.0.2.77", c.src, &c, keep, buf);
			assert_null(feed_bytes(h, NF_REVERSE, buf, len));
		}
		wrong = c;
		wrong.dport++;
		len = build_error("192.0.2.77", c.src, &wrong, 40, buf);
		assert_null(feed_bytes(h, NF_REVERSE, buf, len));
		assert_int_equal(harness_dropped(h, "icmp-unrelated"), 29);
		/* The other way round: inside complains about an answer. */
		wrong = answer(&in, ACK);
		len = build_error("10.0.0.5", wrong.src, &wrong, 28, buf);
		out = feed_bytes(h, NF_FORWARD, buf, len);
		assert_memory_equal(out + 26, c.src, 4);
		assert_memory_equal(out + 42 + 16, c.src, 4);
		assert_int_equal(word(out + 42 + 22), c.sport);
		assert_int_equal(harness_counter(h, "related"), 2);
		harness_free(h);
	}
}

static void test_endpoint_dependent(void **state)
{
	struct harness *h = make(POOL ", \"port_min\": 2000, \"port_max\": 2009}");
	struct craft stranger, kept[10];

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		kept[i] = outward(IPPROTO_UDP, (uint16_t)(1 + i), 53);
		assert_true(translate(h, &kept[i]));
	}
	/* To one remote endpoint all ports are used; to another, all are free. */
	stranger = outward(IPPROTO_UDP, 99, 53);
	assert_false(translate(h, &stranger));
	assert_int_equal(harness_dropped(h, "ports-exhausted"), 1);
	stranger = outward(IPPROTO_UDP, 99, 54);
	assert_true(translate(h, &stranger));
	for (unsigned int i = 0; i < 10; i++)
		check_answer(h, &kept[i], "10.0.0.5", (uint16_t)(1 + i));
	stranger = answer(&kept[0], 0);
	stranger.sport++;
	assert_null(feed(h, NF_REVERSE, &stranger));
	assert_int_equal(harness_dropped(h, "no-mapping"), 1);
	harness_free(h);
}

/* SipHash's own published vector, of the bytes 0, 1, ... 23 with the key 0, 1, ... 15. */
static void test_keyed_hash(void **state)
{
	const uint64_t key[] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
	const uint64_t words[] = {key[0], key[1], 0x1716151413121110u};

	(void)state;
	assert_int_equal(siphash(key, words, 3), 0xb8ad50c6f649af94u);
}

/* However large the pool is: what a flood of new flows costs when its ports are used up is bounded. */
static void test_exhausted_costs_little(void **state)
{
	struct harness *h = make("{\"pool\": [\"203.0.113.1\", \"203.0.113.2\", \"203.0.113.3\", "
				 "\"203.0.113.4\"], \"port_min\": 2000, \"port_max\": 2063}");
	uint64_t tried;
	struct craft c;

	(void)state;
	for (unsigned int i = 0; i < 256; i++) {
		c = outward(IPPROTO_UDP, (uint16_t)(1 + i), 53);
		assert_true(translate(h, &c));
	}
	tried = harness_counter(h, "ports-tried");
	for (unsigned int i = 0; i < 10000; i++) {
		c = outward(IPPROTO_UDP, (uint16_t)(1000 + i), 53);
		assert_false(translate(h, &c));
	}
	assert_int_equal(harness_dropped(h, "ports-exhausted"), 10000);
	assert_true(harness_counter(h, "ports-tried") - tried <= 512);
	/* Another remote endpoint has nothing to do with it, and a while later it is tried again. */
	c = outward(IPPROTO_UDP, 999, 54);
	assert_true(translate(h, &c));
	tried = harness_counter(h, "ports-tried");
	for (unsigned int i = 0; i < 110; i++)
		harness_advance(h, 1000000);
	c = outward(IPPROTO_UDP, 999, 53);
	assert_false(translate(h, &c));
	assert_in_range(harness_counter(h, "ports-tried") - tried, 1, 512);
	harness_free(h);
}

/* 32 bits of time are 20 days; what was full ten days ago says nothing of today. */
static void test_exhausted_long_ago(void **state)
{
	struct harness *h = make(POOL ", \"port_min\": 2000, \"port_max\": 2009}");
	struct craft c;

	(void)state;
	for (unsigned int i = 0; i < 11; i++) {
		c = outward(IPPROTO_UDP, (uint16_t)(1 + i), 53);
		assert_true(translate(h, &c) == (i < 10));
	}
	for (unsigned int s = 0; s < 400; s++)
		harness_advance(h, 1000000000);
	assert_int_equal(harness_counter(h, "sessions"), 0);
	h->now += 1ull << (20 + 31);
	c = outward(IPPROTO_UDP, 99, 53);
	assert_true(translate(h, &c));
	harness_free(h);
}

/* RFC 6056: who does not know the key cannot tell ports; with a seed they are the same each time. */
static void test_ports_are_keyed(void **state)
{
	const char *params[] = {POOL ", \"seed\": 0}", POOL ", \"seed\": 0}",
				POOL ", \"seed\": 7}", POOL ", \"seed\": 7}"};
	uint16_t ports[RTE_DIM(params)][8];

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(params); i++) {
		struct harness *h = make(params[i]);

		for (unsigned int j = 0; j < 8; j++) {
			struct craft c = outward(IPPROTO_UDP, 5000, (uint16_t)(53 + j));

			assert_true(translate(h, &c));
			ports[i][j] = c.sport;
		}
		harness_free(h);
	}
	assert_memory_not_equal(ports[0], ports[1], sizeof(ports[0]));
	assert_memory_equal(ports[2], ports[3], sizeof(ports[2]));
	for (unsigned int j = 1; j < 8; j++) /* not one after the other */
		assert_int_not_equal(ports[2][j], (uint16_t)(ports[2][j - 1] + 1));
}

static void test_endpoint_independent(void **state)
{
	struct harness *h = make(POOL ", \"mapping\": \"endpoint-independent\", "
				 "\"filtering\": \"endpoint-independent\", \"udp_timeout_s\": 2}");
	struct craft a = outward(IPPROTO_UDP, 5000, 53), b = outward(IPPROTO_UDP, 5000, 99), other;

	(void)state;
	craft_addrs(&b, "10.0.0.5", "198.51.100.77");
	assert_true(translate(h, &a));
	assert_true(translate(h, &b));
	assert_int_equal(a.sport, b.sport);
	/* Anybody may send to it. */
	other = a;
	craft_addrs(&other, "203.0.113.1", "192.0.2.200");
	other.dport = 7;
	check_answer(h, &other, "10.0.0.5", 5000);
	harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "sessions"), 3);
	assert_int_equal(harness_counter(h, "mappings"), 1);
	for (int i = 0; i < 3300; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "sessions"), 0);
	assert_int_equal(harness_counter(h, "mappings"), 0);
	other = answer(&a, 0);
	assert_null(feed(h, NF_REVERSE, &other));
	harness_free(h);
}

static void test_static(void **state)
{
	struct harness *h = make(POOL ", \"static\": [{\"protocol\": \"tcp\", \"inside\": \"10.0.0.80\","
				      "\"inside_port\": 8080, \"outside\": \"203.0.113.1\", "
				      "\"outside_port\": 80}]}");
	struct craft in = outward(IPPROTO_TCP, 33333, 80), out;
	const uint8_t *seen;

	(void)state;
	craft_addrs(&in, "198.51.100.9", "203.0.113.1");
	seen = feed(h, NF_REVERSE, &in);
	assert_non_null(seen);
	assert_memory_equal(seen + 30, ((uint8_t[]){10, 0, 0, 80}), 4);
	assert_int_equal(word(seen + 36), 8080);
	craft_addrs(&in, "198.51.100.9", "10.0.0.80");
	in.dport = 8080;
	out = answer(&in, SYN | ACK);
	seen = feed(h, NF_FORWARD, &out);
	assert_memory_equal(seen + 26, ((uint8_t[]){203, 0, 113, 1}), 4);
	assert_int_equal(word(seen + 34), 80);
	assert_int_equal(harness_counter(h, "new-sessions"), 1);
	harness_free(h);
}

#define WEB                                                                                        \
	"{\"op\": \"%s\", \"protocol\": \"tcp\", \"inside\": \"10.0.0.%u\", \"inside_port\": 8080, "      \
	"\"outside\": \"%s\", \"outside_port\": %u}"

static int change(struct harness *h, const char *op, unsigned int host, const char *outside,
		  unsigned int port, struct err *err)
{
	char text[256];

	snprintf(text, sizeof(text), WEB, op, host, outside, port);
	return harness_update(h, text, NULL, err);
}

/* Static mappings come and go at run time; the sessions that they began outlive them. */
static void test_updates(void **state)
{
	struct harness *h = make(POOL "}");
	struct craft in = outward(IPPROTO_TCP, 33333, 81);
	struct err err = {0};
	const uint8_t *seen;

	(void)state;
	craft_addrs(&in, "198.51.100.9", "203.0.113.7");
	/* Not ours yet: it passes as it is. */
	assert_memory_equal(feed(h, NF_REVERSE, &in) + 30, ((uint8_t[]){203, 0, 113, 7}), 4);
	assert_int_equal(change(h, "add", 80, "203.0.113.7", 81, &err), 0);
	seen = feed(h, NF_REVERSE, &in);
	assert_non_null(seen);
	assert_memory_equal(seen + 30, ((uint8_t[]){10, 0, 0, 80}), 4);
	assert_true(change(h, "add", 80, "203.0.113.1", 99, &err) < 0);
	assert_string_equal(err.path, "op.inside");
	assert_true(change(h, "add", 81, "203.0.113.7", 81, &err) < 0);
	assert_string_equal(err.path, "op.outside");
	assert_true(change(h, "remove", 80, "203.0.113.7", 82, &err) < 0);
	assert_string_equal(err.path, "op");
	assert_true(change(h, "add", 82, "203.0.113.0/24", 81, &err) < 0);
	assert_string_equal(err.path, "op.outside");
	assert_int_equal(change(h, "add", 81, "203.0.113.1", 81, &err), 0);
	assert_int_equal(change(h, "remove", 80, "203.0.113.7", 81, &err), 0);
	craft_addrs(&in, "198.51.100.9", "203.0.113.1");
	seen = feed(h, NF_REVERSE, &in);
	assert_memory_equal(seen + 30, ((uint8_t[]){10, 0, 0, 81}), 4);
	assert_int_equal(change(h, "remove", 81, "203.0.113.1", 81, &err), 0);
	assert_non_null(feed(h, NF_REVERSE, &in)); /* known */
	in.sport++;
	assert_null(feed(h, NF_REVERSE, &in));
	assert_int_equal(harness_dropped(h, "no-mapping"), 1);
	harness_free(h);
}

/* Several workers: an answer of a server may come by any of them. */
static void test_static_on_workers(void **state)
{
	const struct harness_config config = {.workers = 4};
	struct harness *h = make_with(POOL ", \"static\": [{\"protocol\": \"tcp\", \"inside\": "
				      "\"10.0.0.80\", \"inside_port\": 8080, \"outside\": "
				      "\"203.0.113.1\", \"outside_port\": 80}]}", &config);

	(void)state;
	for (uint16_t i = 0; i < 64; i++) {
		struct craft in = outward(IPPROTO_TCP, (uint16_t)(30000 + i), 80), out;
		const uint8_t *seen;

		craft_addrs(&in, "198.51.100.9", "203.0.113.1");
		h->worker = i % 4;
		assert_non_null(feed(h, NF_REVERSE, &in));
		craft_addrs(&in, "198.51.100.9", "10.0.0.80");
		in.dport = 8080;
		out = answer(&in, SYN | ACK);
		h->worker = i / 4 % 4;
		seen = feed(h, NF_FORWARD, &out);
		assert_non_null(seen);
		assert_memory_equal(seen + 26, ((uint8_t[]){203, 0, 113, 1}), 4);
		assert_int_equal(word(seen + 34), 80);
		assert_int_equal(word(seen + 36), 30000 + i);
	}
	harness_free(h);
}

/* RFC 4787 REQ-9: a host inside reaches another by its outside endpoint, and is seen by its own. */
static void check_hairpin(struct harness *h, struct craft *c, uint16_t port_inside)
{
	uint16_t sport = c->sport, seen_port;
	const uint8_t *out = feed(h, NF_FORWARD, c);
	struct craft back;

	assert_non_null(out);
	assert_int_equal(h->out[0].direction, NF_REVERSE);
	assert_memory_equal(out + 26, ((uint8_t[]){203, 0, 113, 1}), 4);
	assert_memory_equal(out + 30, ((uint8_t[]){10, 0, 0, 80}), 4);
	assert_int_equal(word(out + 36), port_inside);
	seen_port = word(out + 34);
	/* The answer goes to the outside endpoint that was seen, and turns back too. */
	back = *c;
	craft_addrs(&back, "10.0.0.80", "203.0.113.1");
	back.sport = port_inside;
	back.dport = seen_port;
	back.tcp_flags = SYN | ACK;
	out = feed(h, NF_FORWARD, &back);
	assert_non_null(out);
	assert_int_equal(h->out[0].direction, NF_REVERSE);
	assert_memory_equal(out + 26, ((uint8_t[]){203, 0, 113, 1}), 4);
	assert_int_equal(word(out + 34), c->dport);
	assert_memory_equal(out + 30, ((uint8_t[]){10, 0, 0, 5}), 4);
	assert_int_equal(word(out + 36), sport);
}

static void test_hairpin_static(void **state)
{
	struct harness *h = make(POOL ", \"static\": [{\"protocol\": \"tcp\", \"inside\": \"10.0.0.80\","
				      "\"inside_port\": 8080, \"outside\": \"203.0.113.1\", "
				      "\"outside_port\": 80}]}");
	struct craft c = outward(IPPROTO_TCP, 4444, 80), none = outward(IPPROTO_TCP, 4444, 81);

	(void)state;
	craft_addrs(&c, "10.0.0.5", "203.0.113.1");
	craft_addrs(&none, "10.0.0.5", "203.0.113.1");
	check_hairpin(h, &c, 8080);
	assert_int_equal(harness_counter(h, "hairpinned"), 2);
	assert_null(feed(h, NF_FORWARD, &none));
	assert_int_equal(harness_dropped(h, "no-mapping"), 1);
	assert_int_equal(h->counts.held, 0);
	harness_free(h);
}

static void test_hairpin_mapped(void **state)
{
	const struct harness_config config = {.emit_room = 1};
	struct harness *h = make_with(POOL ", \"mapping\": \"endpoint-independent\", "
				      "\"filtering\": \"endpoint-independent\"}", &config);
	struct craft b = outward(IPPROTO_UDP, 7000, 53), a = outward(IPPROTO_UDP, 4444, 0);
	uint8_t buf[CRAFT_MAX];
	struct harness_packet two[2];

	(void)state;
	craft_addrs(&b, "10.0.0.80", "198.51.100.9");
	assert_true(translate(h, &b));
	craft_addrs(&a, "10.0.0.5", "203.0.113.1");
	a.dport = b.sport;
	check_hairpin(h, &a, 7000);
	/* No room to leave: counted, not lost. */
	two[0] = two[1] = (struct harness_packet){buf, craft_build(&a, buf), 0};
	harness_run(h, NF_FORWARD, 2, two, 2);
	assert_int_equal(harness_dropped(h, "hairpin-full"), 1);
	harness_free(h);
}

/* A datagram in three fragments: built whole, then cut, so that its checksum is that of the whole. */
struct cut {
	uint8_t frame[3][CRAFT_MAX];
	uint32_t len[3];
};

static void cut(struct cut *to, const struct craft *c)
{
	uint8_t whole[CRAFT_MAX];
	uint32_t len = craft_build(c, whole), l4 = len - 34, part = 64;

	for (unsigned int i = 0; i < 3; i++) {
		uint32_t bytes = i < 2 ? part : l4 - 2 * part, sum;
		uint16_t offset = (uint16_t)(i * part / 8);
		uint8_t *f = to->frame[i];

		memcpy(f, whole, 34);
		memcpy(f + 34, whole + 34 + i * part, bytes);
		f[16] = (uint8_t)((bytes + 20) >> 8);
		f[17] = (uint8_t)(bytes + 20);
		f[18] = 0x12;
		f[19] = 0x34;
		f[20] = (uint8_t)((i < 2 ? 0x20 : 0) | offset >> 8);
		f[21] = (uint8_t)offset;
		f[24] = f[25] = 0;
		sum = csum_check_sum(f + 14, 20, 0);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (uint16_t)~((sum & 0xffff) + (sum >> 16));
		f[24] = (uint8_t)(sum >> 8);
		f[25] = (uint8_t)sum;
		to->len[i] = 34 + bytes;
	}
}

/* What the fragments that came out make together must be *want, checksums included. */
static void check_joined(const struct harness *h, const struct craft *want)
{
	uint8_t whole[CRAFT_MAX] = {0}, buf[CRAFT_MAX];
	uint32_t len = craft_build(want, buf);

	assert_int_equal(h->n_out, 3);
	for (size_t i = 0; i < 3; i++) {
		const uint8_t *f = h->out[i].data;
		uint32_t offset = (word(f + 20) & 0x1fffu) * 8;

		assert_true(csum_check(f));
		assert_memory_equal(f + 26, want->src, 4);
		assert_memory_equal(f + 30, want->dst, 4);
		memcpy(whole + 34 + offset, f + 34, h->out[i].len - 34);
	}
	assert_memory_equal(whole + 34, buf + 34, len - 34);
}

/* RFC 4787 REQ-14: in order and out of order, both ways. */
static void test_fragments(void **state)
{
	static const uint8_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}};
	struct harness *h = make(POOL ", \"fragment_timeout_s\": 2}");

	(void)state;
	for (size_t o = 0; o < RTE_DIM(orders); o++) {
		struct craft c = outward(IPPROTO_UDP, (uint16_t)(100 + o), 53), out = c, back;
		struct harness_packet p[3];
		struct cut pieces;

		c.payload = out.payload = 200;
		assert_true(translate(h, &out));
		for (int dir = 0; dir < NF_DIRECTIONS; dir++) {
			back = answer(&out, 0);
			cut(&pieces, dir == NF_FORWARD ? &c : &back);
			for (unsigned int i = 0; i < 3; i++)
				p[i] = (struct harness_packet){pieces.frame[orders[o][i]],
							       pieces.len[orders[o][i]], 0};
			harness_forget(h);
			harness_run(h, dir, 2, p, 3);
			back = answer(&c, 0);
			check_joined(h, dir == NF_FORWARD ? &out : &back);
		}
	}
	assert_int_equal(harness_counter(h, "new-sessions"), RTE_DIM(orders));
	harness_free(h);
}

/* Incomplete ones are given up; what has no mapping is dropped with all that waited for it. */
static void test_fragments_lost(void **state)
{
	struct harness *h = make(POOL ", \"fragment_timeout_s\": 2, \"held_fragments\": 2}");
	struct craft c = outward(IPPROTO_UDP, 100, 53), stranger = answer(&c, 0);
	struct harness_packet p[3];
	struct cut pieces;

	(void)state;
	c.payload = stranger.payload = 200;
	memcpy(stranger.dst, ((uint8_t[]){203, 0, 113, 1}), 4);
	cut(&pieces, &stranger);
	for (unsigned int i = 0; i < 3; i++)
		p[2 - i] = (struct harness_packet){pieces.frame[i], pieces.len[i], 0};
	harness_run(h, NF_REVERSE, 3, p, 3);
	assert_int_equal(harness_dropped(h, "no-mapping"), 3);
	cut(&pieces, &c);
	p[0] = (struct harness_packet){pieces.frame[1], pieces.len[1], 0};
	harness_run(h, NF_FORWARD, 1, p, 1);
	assert_int_equal(h->counts.held, 1);
	for (int i = 0; i < 3300; i++)
		harness_advance(h, 1000000);
	assert_int_equal(h->counts.held, 0);
	assert_int_equal(harness_dropped(h, "fragment-timeout"), 1);
	for (uint8_t i = 0; i < 5; i++) {
		pieces.frame[1][19] = i; /* another datagram; the header's checksum is not looked at */
		harness_run(h, NF_FORWARD, 1, p, 1);
	}
	assert_int_equal(harness_dropped(h, "fragment-limit"), 3);
	assert_int_equal(h->counts.held, 2);
	harness_free(h); /* with what is held */
}

/* A session lives as long as either way is used; TCP's states have their timeouts. */
static void test_timeouts(void **state)
{
	struct harness *h = make(POOL ", \"transitory_timeout_s\": 2, \"established_timeout_s\": 10}");
	struct craft open = outward(IPPROTO_TCP, 1, 80), half = outward(IPPROTO_TCP, 2, 80);
	struct craft sent = open;

	(void)state;
	assert_true(translate(h, &open));
	assert_true(translate(h, &half));
	check_answer(h, &open, "10.0.0.5", 1);
	sent.tcp_flags = ACK;
	assert_true(translate(h, &sent));
	assert_int_equal(sent.sport, open.sport);
	for (int i = 0; i < 6000; i++) {
		harness_advance(h, 1000000);
		if (i % 1000 == 0)
			check_answer(h, &open, "10.0.0.5", 1);
	}
	assert_int_equal(harness_counter(h, "sessions"), 1);
	for (int i = 0; i < 8000; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "sessions"), 1);
	sent = outward(IPPROTO_TCP, 1, 80);
	sent.tcp_flags = RST;
	assert_true(translate(h, &sent));
	for (int i = 0; i < 3300; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "sessions"), 0);
	assert_int_equal(harness_counter(h, "expired"), 2);
	harness_free(h);
}

static void test_full_table(void **state)
{
	struct harness *h = make(POOL ", \"sessions\": 50}");
	struct craft kept[50], c;

	(void)state;
	for (uint16_t i = 0; i < 100; i++) {
		c = outward(IPPROTO_UDP, (uint16_t)(1 + i), 53);
		assert_int_equal(translate(h, &c), i < 50);
		if (i < 50)
			kept[i] = c;
	}
	assert_int_equal(harness_dropped(h, "table-full"), 50);
	for (uint16_t i = 0; i < 50; i++)
		check_answer(h, &kept[i], "10.0.0.5", (uint16_t)(1 + i));
	harness_free(h);
}

/* Workers share nothing: the answer's hash names the worker that has the session. */
static void test_way_back_to_worker(void **state)
{
	const struct harness_config config = {.workers = 4};
	struct harness *h = make_with(POOL "}", &config);
	unsigned int served[4] = {0};

	(void)state;
	for (unsigned int i = 0; i < 2000; i++) {
		struct craft c = outward(i % 2 ? IPPROTO_TCP : IPPROTO_UDP, (uint16_t)(i + 1), 80), r;
		uint8_t buf[CRAFT_MAX];
		struct rte_mbuf m = {.buf_addr = buf, .nb_segs = 1};

		c.dst[3] = (uint8_t)i;
		h->worker = i % 4;
		assert_true(translate(h, &c));
		r = answer(&c, SYN | ACK);
		m.pkt_len = m.data_len = (uint16_t)craft_build(&r, buf);
		pkt_classify(&m);
		assert_int_equal((uint64_t)pkt_flow_hash(&m) * 4 >> 32, i % 4);
		check_answer(h, &c, "10.0.0.5", (uint16_t)(i + 1));
		served[i % 4]++;
	}
	assert_int_equal(served[3], 500);
	harness_free(h);
}

/* A million sessions, begun and aged. */
static void test_million(void **state)
{
	static uint8_t bufs[64][CRAFT_MAX];
	struct harness *h = make(POOL ", \"sessions\": 1000000, \"udp_timeout_s\": 2}");
	struct harness_packet p[64];

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		struct craft c = outward(IPPROTO_UDP, (uint16_t)(1 + i % 20000), 53);

		c.payload = 4;
		c.dst[3] = (uint8_t)(i / 20000);
		p[i % 64] = (struct harness_packet){bufs[i % 64], craft_build(&c, bufs[i % 64]), 0};
		if (i % 64 == 63) {
			harness_run(h, NF_FORWARD, 64, p, 64);
			harness_forget(h);
		}
	}
	assert_int_equal(harness_counter(h, "new-sessions"), 1000000);
	for (int i = 0; i < 4500; i++)
		harness_advance(h, 1000000);
	assert_int_equal(harness_counter(h, "sessions"), 0);
	assert_int_equal(harness_counter(h, "expired"), 1000000);
	harness_free(h);
}

static void test_not_ours(void **state)
{
	struct harness *h = make(POOL ", \"inside\": [\"10.0.0.0/24\"]}");
	struct craft c = outward(IPPROTO_UDP, 1, 2);
	uint8_t buf[CRAFT_MAX];
	uint32_t len;

	(void)state;
	c.src[2] = 1;
	len = craft_build(&c, buf);
	assert_memory_equal(feed(h, NF_FORWARD, &c), buf, len);
	c = answer(&c, 0);
	len = craft_build(&c, buf);
	assert_memory_equal(feed(h, NF_REVERSE, &c), buf, len);
	c = outward(IPPROTO_GRE, 0, 0);
	assert_null(feed(h, NF_FORWARD, &c));
	assert_int_equal(harness_dropped(h, "unsupported-protocol"), 1);
	c = outward(IPPROTO_UDP, 1, 2);
	c.family = 6;
	craft_addrs(&c, "2001:db8::1", "2001:db8::2");
	len = craft_build(&c, buf);
	assert_memory_equal(feed(h, NF_FORWARD, &c), buf, len);
	harness_free(h);
}

static void test_bursts(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	for (unsigned int i = 0; i < 400; i++) {
		struct craft c = outward(i % 2 ? IPPROTO_UDP : IPPROTO_TCP, (uint16_t)(1 + i / 5), 80);

		craft_add(&list, &c);
	}
	h = harness_run_all("nat", POOL "}", NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_int_equal(h->n_out, 400);
	assert_int_equal(harness_counter(h, "new-sessions"), 160);
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
		struct harness *h = harness_run_all("nat", POOL "}", NULL, dir, list.packets, list.n,
						    &err);

		assert_non_null(h);
		assert_true(h->counts.aborted > 0 && h->counts.out > 0);
		harness_free(h);
	}
	craft_list_free(&list);
}

static void refused(const char *params, const struct harness_config *config, const char *path)
{
	struct err err = {0};

	assert_null(harness_new("nat", params, config, &err));
	assert_string_equal(err.path, path);
}

#define MAPPING(inside, outside)                                                                   \
	"{\"protocol\": \"tcp\", \"inside\": \"" inside "\", \"inside_port\": 80, \"outside\": "       \
	"\"" outside "\", \"outside_port\": 80}"

static void test_static_once(void **state)
{
	(void)state;
	refused(POOL ", \"static\": [" MAPPING("10.0.0.80", "198.51.100.1") ","
		MAPPING("10.0.0.81", "198.51.100.1") "]}", NULL, "params.static[1].outside");
	refused(POOL ", \"static\": [" MAPPING("10.0.0.80", "198.51.100.1") ","
		MAPPING("10.0.0.80", "198.51.100.2") "]}", NULL, "params.static[1].inside");
	harness_free(make(POOL ", \"static\": [" MAPPING("10.0.0.80", "198.51.100.1") ","
			  MAPPING("10.0.0.81", "198.51.100.2") "]}"));
}

static void test_bad_params(void **state)
{
	const struct harness_config two = {.workers = 2};

	(void)state;
	refused("{\"pool\": []}", NULL, "params.pool");
	refused("{\"pool\": [\"10.0.0.0/24\"]}", NULL, "params.pool[0]");
	refused("{\"pool\": [\"::1\"]}", NULL, "params.pool[0]");
	refused(POOL ", \"port_min\": 9, \"port_max\": 8}", NULL, "params.port_min");
	refused(POOL ", \"filtering\": \"endpoint-independent\"}", NULL, "params.filtering");
	refused(POOL ", \"mapping\": \"endpoint-independent\"}", &two, "params.mapping");
	refused(POOL ", \"inside\": [\"::/0\"]}", NULL, "params.inside[0]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_updates),	       cmocka_unit_test(test_static_on_workers),
		cmocka_unit_test(test_hairpin_static), cmocka_unit_test(test_hairpin_mapped),
		cmocka_unit_test(test_fragments),      cmocka_unit_test(test_fragments_lost),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_udp_without_checksum),
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_icmp_errors),
		cmocka_unit_test(test_keyed_hash),
		cmocka_unit_test(test_exhausted_costs_little),
		cmocka_unit_test(test_exhausted_long_ago),
		cmocka_unit_test(test_ports_are_keyed),
		cmocka_unit_test(test_endpoint_dependent),
		cmocka_unit_test(test_endpoint_independent),
		cmocka_unit_test(test_static),
		cmocka_unit_test(test_static_once),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_full_table),
		cmocka_unit_test(test_way_back_to_worker),
		cmocka_unit_test(test_million),
		cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_zoo),
		cmocka_unit_test(test_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
