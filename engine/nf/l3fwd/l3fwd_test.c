/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "tests/packets.h"
#include "tests/csum_check.h"

/* Next hop i leaves on edge i with i as the last byte of both MACs. */
#define NEXT_HOPS                                                                                  \
	"\"next_hops\": ["                                                                         \
	"{\"dst_mac\": \"02:00:00:00:01:00\", \"src_mac\": \"02:00:00:00:02:00\"},"                 \
	"{\"edge\": 1, \"dst_mac\": \"02:00:00:00:01:01\", \"src_mac\": \"02:00:00:00:02:01\"},"   \
	"{\"edge\": 2, \"dst_mac\": \"02:00:00:00:01:02\", \"src_mac\": \"02:00:00:00:02:02\"}]"
#define ROUTES                                                                                     \
	"\"routes\": [{\"prefix\": \"10.0.0.0/8\", \"next_hop\": 0},"                              \
	"{\"prefix\": \"10.1.0.0/16\", \"next_hop\": 1},"                                          \
	"{\"prefix\": \"10.1.2.3/32\", \"next_hop\": 2},"                                          \
	"{\"prefix\": \"2001:db8::/32\", \"next_hop\": 1},"                                        \
	"{\"prefix\": \"2001:db8:1::/48\", \"next_hop\": 2}]"
#define PARAMS "{" NEXT_HOPS ", " ROUTES
#define NOT_SENT UINT32_MAX

static struct harness *make(const char *params)
{
	struct err err = {0};
	struct harness *h = harness_new("l3fwd", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static struct craft to(const char *dst)
{
	struct craft c = {.family = strchr(dst, ':') ? 6 : 4, .proto = IPPROTO_UDP, .sport = 1, .dport = 2,
			  .payload = 30};

	craft_addrs(&c, c.family == 4 ? "198.51.100.7" : "2001:db8:ff::7", dst);
	return c;
}

static uint32_t send_bytes(struct harness *h, const uint8_t *buf, uint32_t len)
{
	struct harness_packet p = {buf, len};

	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	return h->n_out ? h->out[0].edge : NOT_SENT;
}

static uint32_t send_one(struct harness *h, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];

	return send_bytes(h, buf, craft_build(c, buf));
}

static uint32_t edge_to(struct harness *h, const char *dst)
{
	struct craft c = to(dst);

	return send_one(h, &c);
}

/* All that a router changes, and nothing else: MACs, TTL, checksum. */
static void check_forwarded(const struct craft *c, const struct harness_out *out, uint8_t hop)
{
	const uint8_t macs[12] = {2, 0, 0, 0, 1, hop, 2, 0, 0, 0, 2, hop};
	uint8_t want[CRAFT_MAX];
	struct craft less = *c;
	uint32_t len;

	less.ttl = (c->ttl ? c->ttl : 64) - 1;
	len = craft_build(&less, want);
	assert_int_equal(out->len, len);
	memcpy(want, macs, sizeof(macs));
	assert_memory_equal(out->data, want, len);
	assert_int_equal(out->edge, hop);
}

/* Built anew with one TTL less, so the checksum is compared with a full computation. */
static void test_forwards(void **state)
{
	static const struct {
		const char *dst;
		uint8_t hop;
	} cases[] = {{"10.200.0.1", 0}, {"10.1.0.1", 1}, {"10.1.2.3", 2}, {"10.1.2.4", 1},
		     {"2001:db8:2::1", 1}, {"2001:db8:1::1", 2}};
	struct harness *h = make(PARAMS "}");

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned int ttl = 2; ttl < 256; ttl++) {
			struct craft c = to(cases[i].dst);

			c.ttl = (uint8_t)ttl;
			c.sport = (uint16_t)(ttl * 251);
			c.src[3] = (uint8_t)ttl;
			c.vlans = ttl % 3;
			c.options = ttl % 4;
			c.tos = (uint8_t)(ttl * 7);
			send_one(h, &c);
			assert_int_equal(h->n_out, 1);
			check_forwarded(&c, &h->out[0], cases[i].hop);
		}
	}
	harness_free(h);
}

static void test_fragments_forwarded(void **state)
{
	struct harness *h = make(PARAMS "}");
	struct craft c = to("10.1.2.3");

	(void)state;
	c.fragment = true;
	c.fragment_offset = 100;
	send_one(h, &c);
	assert_int_equal(h->n_out, 1);
	check_forwarded(&c, &h->out[0], 2);
	harness_free(h);
}

static void dropped(const char *more, const struct craft *c, const char *reason)
{
	char params[2048];
	struct harness *h;

	snprintf(params, sizeof(params), PARAMS "%s}", more);
	h = make(params);
	if (send_one(h, c) != NOT_SENT)
		fail_msg("sent, and not dropped for %s", reason);
	assert_int_equal(harness_dropped(h, reason), 1);
	harness_free(h);
}

static void dropped_from(const char *src, const char *dst, const char *reason)
{
	struct craft c = to(dst);

	craft_addrs(&c, src, dst);
	dropped("", &c, reason);
}

static void test_drops(void **state)
{
	struct craft c = to("11.0.0.1");

	(void)state;
	dropped("", &c, "no-route");
	c = to("2002::1");
	dropped("", &c, "no-route");
	c = to("10.0.0.1");
	c.ttl = 1;
	dropped("", &c, "ttl-expired");
	c = to("2001:db8::1");
	c.ttl = 1;
	dropped("", &c, "ttl-expired");
	dropped_from("127.0.0.1", "10.0.0.1", "martian");
	dropped_from("0.1.2.3", "10.0.0.1", "martian");
	dropped_from("224.0.0.1", "10.0.0.1", "martian");
	dropped_from("255.255.255.255", "10.0.0.1", "martian");
	dropped_from("169.254.1.1", "10.0.0.1", "martian");
	dropped_from("10.0.0.1", "127.0.0.1", "martian");
	dropped_from("10.0.0.1", "255.255.255.255", "martian");
	dropped_from("10.0.0.1", "239.1.1.1", "multicast");
	dropped_from("::1", "2001:db8::1", "martian");
	dropped_from("fe80::1", "2001:db8::1", "martian");
	dropped_from("2001:db8::1", "fe80::1", "martian");
	dropped_from("ff02::1", "2001:db8::1", "martian");
	dropped_from("2001:db8::1", "ff02::1", "multicast");
}

static void test_martians_forwarded(void **state)
{
	struct harness *h = make(PARAMS ", \"martians\": \"forward\"}");
	struct craft c = to("10.0.0.1");

	(void)state;
	craft_addrs(&c, "127.0.0.1", "10.0.0.1");
	assert_int_equal(send_one(h, &c), 0);
	craft_addrs(&c, "169.255.0.1", "10.0.0.1"); /* no martian at all */
	assert_int_equal(send_one(h, &c), 0);
	harness_free(h);
}

static void test_header_checks(void **state)
{
	struct harness *h = make(PARAMS "}");
	struct craft c = to("10.0.0.1");
	uint8_t buf[CRAFT_MAX], arp[60] = {[12] = 8, [13] = 6};
	uint32_t len;

	(void)state;
	for (unsigned int options = 0; options < 3; options++) {
		c.options = options;
		len = craft_build(&c, buf);
		for (unsigned int byte = 14; byte < 34 + 4 * options; byte++) {
			if (byte < 18 || (byte >= 20 && byte < 24) || byte >= 26) {
				buf[byte] ^= 0x08; /* lengths and versions may make it malformed */
				assert_int_equal(send_bytes(h, buf, len), NOT_SENT);
				buf[byte] ^= 0x08;
			}
		}
	}
	assert_true(harness_dropped(h, "bad-checksum") > 20);
	buf[0] = 0xff;
	assert_int_equal(send_bytes(h, buf, len), NOT_SENT);
	assert_int_equal(harness_dropped(h, "link-multicast"), 1);
	assert_int_equal(send_bytes(h, arp, sizeof(arp)), NOT_SENT);
	assert_int_equal(harness_dropped(h, "not-ip"), 1);
	harness_free(h);
	h = make(PARAMS ", \"not_ip\": \"pass\", \"verify_checksum\": false}");
	assert_int_equal(send_bytes(h, arp, sizeof(arp)), 0);
	assert_memory_equal(h->out[0].data, arp, sizeof(arp));
	buf[0] = 2;
	buf[24] ^= 1;
	assert_int_equal(send_bytes(h, buf, len), 0);
	harness_free(h);
}

static void test_exact(void **state)
{
	struct harness *h = make("{" NEXT_HOPS ", \"fib\": \"exact\", \"routes\": ["
				 "{\"prefix\": \"10.0.0.1\", \"next_hop\": 1},"
				 "{\"prefix\": \"2001:db8::1\", \"next_hop\": 2}]}");

	(void)state;
	assert_int_equal(edge_to(h, "10.0.0.1"), 1);
	assert_int_equal(edge_to(h, "10.0.0.2"), NOT_SENT);
	assert_int_equal(edge_to(h, "2001:db8::1"), 2);
	assert_int_equal(edge_to(h, "2001:db8::2"), NOT_SENT);
	harness_free(h);
}

static void update(struct harness *h, const char *op, bool ok, const char *path)
{
	struct err err = {0};

	assert_int_equal(harness_update(h, op, NULL, &err) == 0, ok);
	if (!ok)
		assert_string_equal(err.path, path);
}

static void expect_error(const char *params, const char *path, const char *msg)
{
	struct err err = {0};

	assert_null(harness_new("l3fwd", params, NULL, &err));
	assert_string_equal(err.path, path);
	assert_non_null(strstr(err.msg, msg));
}

static void test_ranges(void **state)
{
	struct harness *h = make("{\"fib\": \"exact\", " NEXT_HOPS
				 ", \"routes\": [{\"prefix\": \"10.1.0.0\", \"next_hop\": 2}],"
				 "\"ranges\": [{\"first\": \"10.0.0.254\", \"count\": 7},"
				 "{\"first\": \"2001:db8::ffff:ffff\", \"count\": 300000}]}");

	(void)state;
	assert_int_equal(edge_to(h, "10.0.0.253"), NOT_SENT);
	assert_int_equal(edge_to(h, "10.0.0.254"), 0);
	assert_int_equal(edge_to(h, "10.0.0.255"), 1);
	assert_int_equal(edge_to(h, "10.0.1.0"), 2);
	assert_int_equal(edge_to(h, "10.0.1.4"), 0);
	assert_int_equal(edge_to(h, "10.0.1.5"), NOT_SENT);
	assert_int_equal(edge_to(h, "10.1.0.0"), 2);
	assert_int_equal(edge_to(h, "2001:db8::ffff:ffff"), 0);
	assert_int_equal(edge_to(h, "2001:db8::1:0:1"), 2);
	assert_int_equal(edge_to(h, "2001:db8::1:4:93de"), 2); /* the last of them */
	assert_int_equal(edge_to(h, "2001:db8::1:4:93df"), NOT_SENT);
	harness_free(h);
	expect_error("{\"fib\": \"exact\", \"ranges\": [{\"first\": \"255.255.255.0\", \"count\": 257}]}",
		     "params.ranges[0]", "address 256 of it: is past the last one");
	expect_error("{\"fib\": \"exact\", \"ranges\": [{\"first\": \"10.0.0.0\", \"count\": 9},"
		     "{\"first\": \"10.0.0.8\", \"count\": 2}]}",
		     "params.ranges[1]", "address 0 of it is in ranges[0], too");
	expect_error("{\"fib\": \"exact\", \"routes\": [{\"prefix\": \"2001:db8::7\"}],"
		     "\"ranges\": [{\"first\": \"2001:db8::\", \"count\": 8}]}",
		     "params.ranges[0]", "address 7 of it has a route of its own");
	expect_error("{\"fib\": \"exact\", \"ranges\": [{\"first\": "
		     "\"2001:db8::ffff:ffff:ffff:ffff\", \"count\": 2}]}",
		     "params.ranges[0]", "address 1 of it: is past the last one");
	expect_error("{\"ranges\": [{\"first\": \"10.0.0.0\", \"count\": 9}]}", "params.ranges[0]",
		     "only with fib \"exact\"");
	expect_error("{\"fib\": \"exact\", \"ranges\": [{\"first\": \"10.0.0.0/8\", \"count\": 9}]}",
		     "params.ranges[0]", "allowed: an address");
	expect_error("{\"fib\": \"exact\", \"ipv4_capacity\": 8,"
		     "\"ranges\": [{\"first\": \"10.0.0.0\", \"count\": 9}]}",
		     "params.ipv4_capacity", "less than the 9 routes");
}

static void test_update(void **state)
{
	struct harness *h = make(PARAMS "}");

	(void)state;
	update(h, "{\"routes\": [{\"op\": \"add\", \"prefix\": \"11.0.0.0/8\", \"next_hop\": 2},"
	       "{\"op\": \"replace\", \"prefix\": \"10.0.0.0/8\", \"next_hop\": 1},"
	       "{\"op\": \"del\", \"prefix\": \"2001:db8:1::/48\"}]}", true, NULL);
	assert_int_equal(edge_to(h, "11.0.0.1"), 2);
	assert_int_equal(edge_to(h, "10.200.0.1"), 1);
	assert_int_equal(edge_to(h, "2001:db8:1::1"), 1);
	/* Wholly or not at all: the last fails, so do the others. */
	update(h, "{\"routes\": [{\"op\": \"del\", \"prefix\": \"11.0.0.0/8\"},"
	       "{\"op\": \"replace\", \"prefix\": \"10.0.0.0/8\", \"next_hop\": 2},"
	       "{\"op\": \"add\", \"prefix\": \"12.0.0.0/8\", \"next_hop\": 0},"
	       "{\"op\": \"del\", \"prefix\": \"13.0.0.0/8\"}]}", false, "op.routes[3]");
	assert_int_equal(edge_to(h, "11.0.0.1"), 2);
	assert_int_equal(edge_to(h, "10.200.0.1"), 1);
	assert_int_equal(edge_to(h, "12.0.0.1"), NOT_SENT);
	update(h, "{\"routes\": [{\"op\": \"add\", \"prefix\": \"14.0.0.0/8\", \"next_hop\": 3}]}", false,
	       "op.routes[0]");
	update(h, "{\"routes\": [{\"op\": \"add\", \"prefix\": \"10.0.0.0/8\"}]}", false,
	       "op.routes[0]");
	update(h, "{\"routes\": [{\"op\": \"add\", \"prefix\": \"10.0.0.1/8\"}]}", false,
	       "op.routes[0]");
	harness_free(h);
}

static void refused(const char *params, const char *path, const char *part)
{
	struct err err = {0};

	assert_null(harness_new("l3fwd", params, NULL, &err));
	if (!strstr(err.path, path) || !strstr(err.msg, part))
		fail_msg("%s: %s", err.path, err.msg);
}

static void write_bytes(char *name, const char *text, size_t len)
{
	int fd;

	strcpy(name, "/tmp/headrace-l3fwd-XXXXXX");
	fd = mkstemp(name);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

static void write_file(char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static void refused_bytes(const char *text, size_t len, const char *line, const char *part)
{
	char name[64], place[96], params[256];

	write_bytes(name, text, len);
	snprintf(params, sizeof(params), "{\"routes_file\": \"%s\"}", name);
	snprintf(place, sizeof(place), "%s:%s", name, line);
	refused(params, place, part);
	unlink(name);
}

static void refused_file(const char *text, const char *line, const char *part)
{
	refused_bytes(text, strlen(text), line, part);
}

/* What stands behind it must not be lost without a word, at the end of a file neither. */
static void test_nul_in_a_file(void **state)
{
	static const char middle[] = "10.0.0.0/8\n11.0.0.0/8\0 1\n12.0.0.0/8\n";
	static const char first[] = "10.0.0.0/8\n\0\n";
	static const char last[] = "10.0.0.0/8\n11.0.0.0/8\0";

	(void)state;
	refused_bytes(middle, sizeof(middle) - 1, "2", "a NUL byte");
	refused_bytes(first, sizeof(first) - 1, "2", "a NUL byte");
	refused_bytes(last, sizeof(last) - 1, "2", "a NUL byte");
}

static void test_bad_input(void **state)
{
	(void)state;
	refused("{\"fib\": \"trie\"}", "params.fib", "exact, lpm");
	refused("{\"next_hops\": []}", "params.next_hops", "allowed: 1 to");
	refused("{\"next_hops\": [{\"edge\": 16}]}", "params.next_hops[0].edge", "out of range");
	refused("{\"routes\": [{\"prefix\": \"10.0.0.0/8\", \"next_hop\": 1}]}", "params.routes[0]",
		"next_hops has 1, counted from 0");
	refused("{\"routes\": [{\"prefix\": \"10.0.0.1/8\"}]}", "params.routes[0]", "beyond");
	refused("{\"routes\": [{\"prefix\": \"10.0.0.0/8\"}, {\"prefix\": \"10.0.0.0/8\"}]}",
		"params.routes[1]", "");
	refused("{\"fib\": \"exact\", \"routes\": [{\"prefix\": \"10.0.0.0/8\"}]}", "params.routes[0]",
		"addresses only");
	refused("{\"routes_file\": \"/nonexistent\"}", "params.routes_file", "cannot read");
	refused_file("10.0.0.0/8\n\n# x\n10.0.0/8 0\n", "4", "not an IPv4 or IPv6 prefix");
	refused_file("10.0.0.0/8 0\n11.0.0.0/8 -1\n", "2", "not a next hop");
	refused_file("10.0.0.0/8 0 7\n", "1", "more than");
	refused_file("10.0.0.0/8 1\n", "1", "next_hops has 1, counted from 0");
	refused_file("10.0.0.0/8\n::/0\n10.0.0.0/8\n", "3", "");
	refused_file("10.0.0.0/8 99999999999999999999\n", "1", "next_hops has 1, counted from 0");
}

static void test_long_line(void **state)
{
	char line[700];

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	refused_file(line, "1", "line of more than");
}

static void write_gz(char *name, const char *text)
{
	gzFile f = gzdopen(mkstemp(strcpy(name, "/tmp/headrace-l3fwd-XXXXXX")), "wb");

	assert_int_equal(gzwrite(f, text, (unsigned int)strlen(text)), strlen(text));
	gzclose(f);
}

/* It would read as a shorter table. */
static void test_truncated_gzip(void **state)
{
	char *text = malloc(20 * 5000), *p = text, name[64], params[1024];

	(void)state;
	for (int i = 0; i < 5000; i++)
		p += sprintf(p, "10.%d.%d.1 %d\n", i / 256, i % 256, i * 7919 % 3);
	write_gz(name, text);
	assert_int_equal(truncate(name, 5000), 0);
	snprintf(params, sizeof(params), "{" NEXT_HOPS ", \"routes_file\": \"%s\"}", name);
	refused(params, name, "damaged or truncated");
	unlink(name);
	free(text);
}

static void test_file(void **state)
{
	static void (*const writes[])(char *name, const char *text) = {write_file, write_gz};
	char name[64], params[1024];
	struct harness *h;

	(void)state;
	for (size_t i = 0; i < RTE_DIM(writes); i++) {
		writes[i](name, "# two families, round-robin\n10.0.0.0/8\n11.0.0.0/8 # second\n\n"
				"12.0.0.0/8\n::/0\n13.0.0.0/8 2\n");
		snprintf(params, sizeof(params), "{" NEXT_HOPS ", \"routes_file\": \"%s\"}", name);
		h = make(params);
		assert_int_equal(edge_to(h, "10.0.0.1"), 0);
		assert_int_equal(edge_to(h, "11.0.0.1"), 1);
		assert_int_equal(edge_to(h, "12.0.0.1"), 2);
		assert_int_equal(edge_to(h, "2001:db8::1"), 0);
		assert_int_equal(edge_to(h, "13.0.0.1"), 2);
		harness_free(h);
		unlink(name);
	}
}

/* Random routes against the longest match found by looking at every one. */
struct model_route {
	uint32_t prefix;
	unsigned int len, hop;
};

static uint32_t model_lookup(const struct model_route *r, size_t n, uint32_t addr)
{
	uint32_t hop = NOT_SENT, best = 0;

	for (size_t i = 0; i < n; i++)
		if ((addr ^ r[i].prefix) >> (32 - r[i].len) == 0 && r[i].len >= best) {
			best = r[i].len;
			hop = r[i].hop;
		}
	return hop;
}

static size_t model_make(struct model_route *r, size_t n)
{
	size_t made = 0;

	while (made < n) {
		unsigned int len = 9 + (unsigned int)rand() % 24;
		uint32_t prefix = (20u << 24 | ((uint32_t)rand() & 0xfffff)) << (made % 2 ? 0 : 4);
		bool again = false;

		prefix &= ~0u << (32 - len);
		for (size_t i = 0; i < made; i++)
			again |= r[i].prefix == prefix && r[i].len == len;
		if (!again)
			r[made++] = (struct model_route){prefix, len, (unsigned int)rand() % 3};
	}
	return made;
}

static void test_model(void **state)
{
	static struct model_route routes[500];
	struct craft_list list = {0};
	char *params = malloc(100000), *p = params;
	static uint32_t want[3000];
	struct err err;
	struct harness *h;
	size_t n, sent = 0;

	(void)state;
	srand(7);
	n = model_make(routes, 500);
	p += sprintf(p, "{" NEXT_HOPS ", \"martians\": \"forward\", \"routes\": [");
	for (size_t i = 0; i < n; i++) {
		uint8_t a[4] = {(uint8_t)(routes[i].prefix >> 24), (uint8_t)(routes[i].prefix >> 16),
				(uint8_t)(routes[i].prefix >> 8), (uint8_t)routes[i].prefix};

		p += sprintf(p, "%s{\"prefix\": \"%u.%u.%u.%u/%u\", \"next_hop\": %u}",
			     i ? "," : "", a[0], a[1], a[2], a[3], routes[i].len, routes[i].hop);
	}
	sprintf(p, "]}");
	for (unsigned int i = 0; i < 3000; i++) {
		const struct model_route *r = &routes[(size_t)rand() % n];
		uint32_t addr = htonl(r->prefix ^ ((uint32_t)rand() & 0x1ff));
		struct craft c = to("20.0.0.0");

		memcpy(c.dst, &addr, 4);
		craft_add(&list, &c);
		want[i] = model_lookup(routes, n, ntohl(addr));
	}
	h = harness_run_all("l3fwd", params, NULL, NF_FORWARD, list.packets, list.n, &err);
	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	for (unsigned int i = 0; i < 3000; i++) {
		if (want[i] == NOT_SENT) {
			assert_int_equal(h->verdicts[i], harness_drop(h, "no-route"));
			continue;
		}
		assert_int_equal(h->verdicts[i], want[i]);
		sent++;
	}
	assert_true(sent > 1000 && h->n_out == sent);
	harness_free(h);
	craft_list_free(&list);
	free(params);
}

static void test_zoo(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	craft_zoo(&list);
	h = harness_run_all("l3fwd", "{\"routes\": [{\"prefix\": \"0.0.0.0/0\"}, {\"prefix\": \"::/0\"}]}",
			    NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_true(h->counts.aborted > 0 && h->counts.out > 0);
	harness_free(h);
	craft_list_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forwards),	 cmocka_unit_test(test_fragments_forwarded),
		cmocka_unit_test(test_drops),		 cmocka_unit_test(test_martians_forwarded),
		cmocka_unit_test(test_header_checks),	 cmocka_unit_test(test_exact),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_update),		 cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_nul_in_a_file),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_truncated_gzip),
		cmocka_unit_test(test_file),		 cmocka_unit_test(test_model),
		cmocka_unit_test(test_zoo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
