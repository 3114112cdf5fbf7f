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

#define FIN 1
#define SYN 2
#define RST 4
#define PSH 8
#define ACK 16

/* Inside may open TCP 80 and 443, UDP 53 and echo; outside may open TCP 22 only. */
#define PARAMS                                                                                     \
	"{\"rules\": ["                                                                            \
	"{\"action\": \"deny\", \"dst\": \"203.0.113.66\"},"                                       \
	"{\"action\": \"permit\", \"proto\": \"tcp\", \"dport\": [80]},"                           \
	"{\"action\": \"permit\", \"proto\": \"tcp\", \"dport\": [443]},"                          \
	"{\"action\": \"permit\", \"proto\": \"udp\", \"dport\": [53]},"                           \
	"{\"action\": \"permit\", \"proto\": \"gre\"},"                                            \
	"{\"action\": \"permit\", \"proto\": \"icmp\"},"                                           \
	"{\"action\": \"permit\", \"proto\": \"icmp6\"}],"                                         \
	"\"reverse_rules\": [{\"action\": \"permit\", \"proto\": \"tcp\", \"dport\": [22]}]"

static struct harness *make(const char *more)
{
	char params[4096];
	struct err err = {0};
	struct harness *h;

	snprintf(params, sizeof(params), PARAMS "%s}", more);
	h = harness_new("firewall", params, NULL, &err);
	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

/* From inside to outside. */
static struct craft outward(uint8_t family, uint8_t proto, uint16_t sport, uint16_t dport)
{
	struct craft c = {.family = family, .proto = proto, .sport = sport, .dport = dport, .payload = 10,
			  .tcp_flags = SYN};

	craft_addrs(&c, family == 4 ? "10.0.0.5" : "2001:db8::5",
		    family == 4 ? "203.0.113.9" : "2001:db8:9::9");
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

#define PASS "pass"

/* Feed one packet and see what becomes of it. */
static void feed(struct harness *h, enum nf_direction dir, const struct craft *c, const char *want)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};
	uint8_t verdict;

	harness_forget(h);
	harness_run(h, dir, 1, &p, 1);
	verdict = !strcmp(want, PASS) ? 0 : harness_drop(h, want);
	if (h->verdicts[0] != verdict)
		fail_msg("verdict %#x, wanted %s (%#x)", h->verdicts[0], want, verdict);
	if (h->n_out)
		assert_memory_equal(h->out[0].data, buf, p.len);
}

static void feed_tcp(struct harness *h, struct craft c, bool reply, uint8_t flags, const char *want)
{
	struct craft r = answer(&c, flags);

	c.tcp_flags = flags;
	feed(h, reply ? NF_REVERSE : NF_FORWARD, reply ? &r : &c, want);
}

static void handshake(struct harness *h, struct craft c)
{
	feed_tcp(h, c, false, SYN, PASS);
	feed_tcp(h, c, true, SYN | ACK, PASS);
	feed_tcp(h, c, false, ACK, PASS);
}

static void test_tcp_life(void **state)
{
	(void)state;
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct harness *h = make("");
		struct craft c = outward(family, IPPROTO_TCP, 40000, 80);

		handshake(h, c);
		for (int i = 0; i < 10; i++) {
			feed_tcp(h, c, false, ACK | PSH, PASS);
			feed_tcp(h, c, true, ACK, PASS);
		}
		feed_tcp(h, c, true, FIN | ACK, PASS);
		feed_tcp(h, c, false, ACK, PASS);
		feed_tcp(h, c, false, FIN | ACK, PASS);
		feed_tcp(h, c, true, ACK, PASS);
		/* The same tuple anew: asked of the rules again. */
		handshake(h, c);
		assert_int_equal(harness_counter(h, "new-flows"), 2);
		harness_advance(h, 1000000);
		assert_int_equal(harness_counter(h, "flows"), 1);
		assert_int_equal(harness_counter(h, "half-open"), 0);
		harness_free(h);
	}
}

static void test_tcp_wrong(void **state)
{
	static const uint8_t illegal[] = {0, FIN, PSH, SYN | FIN, SYN | RST, FIN | RST | ACK,
					  SYN | FIN | ACK};
	struct harness *h = make("");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 80);

	(void)state;
	feed_tcp(h, c, false, ACK, "not-syn");
	feed_tcp(h, c, false, SYN | ACK, "not-syn");
	feed_tcp(h, c, false, RST, "not-syn");
	feed_tcp(h, c, true, SYN | ACK, "not-syn");
	feed_tcp(h, c, false, SYN, PASS);
	feed_tcp(h, c, false, ACK, "invalid-state");
	feed_tcp(h, c, true, FIN | ACK, "invalid-state");
	feed_tcp(h, c, true, SYN | ACK, PASS);
	feed_tcp(h, c, false, ACK, PASS);
	for (size_t i = 0; i < sizeof(illegal); i++)
		feed_tcp(h, c, i % 2, illegal[i], "invalid-state");
	feed_tcp(h, c, false, ACK, PASS);
	feed_tcp(h, c, true, RST, PASS);
	/* An outsider cannot reopen what only an insider may open. */
	feed_tcp(h, c, true, SYN, "denied-by-default");
	feed_tcp(h, c, false, ACK, "not-syn");
	harness_free(h);
}

static void test_rules(void **state)
{
	struct harness *h = make("");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 81), in;

	(void)state;
	feed(h, NF_FORWARD, &c, "denied-by-default");
	c = outward(4, IPPROTO_TCP, 40000, 80);
	c.dst[3] = 66;
	feed(h, NF_FORWARD, &c, "denied");
	c = outward(4, IPPROTO_UDP, 40000, 53);
	feed(h, NF_FORWARD, &c, PASS);
	in = answer(&c, 0);
	feed(h, NF_REVERSE, &in, PASS);
	in.dport++;
	feed(h, NF_REVERSE, &in, "denied-by-default");
	/* Opened from outside, answered from inside. */
	c = outward(4, IPPROTO_TCP, 22, 50000);
	in = answer(&c, SYN);
	feed(h, NF_REVERSE, &in, PASS);
	c.tcp_flags = SYN | ACK;
	feed(h, NF_FORWARD, &c, PASS);
	harness_free(h);
}

/* Both ways of a connection through one port of the box. */
static void test_on_a_stick(void **state)
{
	struct harness *h = make("");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 80), r = answer(&c, SYN | ACK);

	(void)state;
	feed(h, NF_FORWARD, &c, PASS);
	feed(h, NF_FORWARD, &r, PASS);
	harness_free(h);
}

static struct craft icmp(uint8_t family, uint8_t type, bool out)
{
	struct craft c = outward(family, family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, 0, 0);

	c.icmp_type = type;
	return out ? c : answer(&c, 0);
}

static void test_echo(void **state)
{
	struct harness *h = make("");
	struct craft c;

	(void)state;
	c = icmp(4, 0, false);
	feed(h, NF_REVERSE, &c, "icmp-unrelated");
	c = icmp(4, 8, true);
	feed(h, NF_FORWARD, &c, PASS);
	c = icmp(4, 0, false);
	feed(h, NF_REVERSE, &c, PASS);
	c = icmp(6, 128, true);
	feed(h, NF_FORWARD, &c, PASS);
	c = icmp(6, 129, false);
	feed(h, NF_REVERSE, &c, PASS);
	c = icmp(4, 8, false);
	c.src[3] = 1;
	feed(h, NF_REVERSE, &c, "denied-by-default");
	c = icmp(6, 135, false);
	feed(h, NF_REVERSE, &c, PASS);
	harness_free(h);
}

/* An ICMP error from a router outside about `about`, with `keep` bytes of it from its IP header. */
static void feed_error(struct harness *h, const struct craft *about, uint8_t type, uint32_t keep,
		       const char *want)
{
	bool v6 = about->family == 6;
	struct craft c = icmp(about->family, type, false);
	uint8_t inner[CRAFT_MAX], buf[CRAFT_MAX];
	struct harness_packet p = {.data = buf};
	uint32_t l3 = v6 ? 40 : 20;

	craft_addrs(&c, v6 ? "2001:db8:77::1" : "192.0.2.77", v6 ? "2001:db8::5" : "10.0.0.5");
	c.payload = (uint16_t)keep;
	craft_build(about, inner);
	p.len = craft_build(&c, buf);
	memcpy(buf + 14 + l3 + 8, inner + 14, keep);
	harness_forget(h);
	harness_run(h, NF_REVERSE, 1, &p, 1);
	assert_int_equal(h->verdicts[0], strcmp(want, PASS) ? harness_drop(h, want) : 0);
}

static void test_icmp_errors(void **state)
{
	struct harness *h = make("");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 80), other = c;

	(void)state;
	feed_error(h, &c, 3, 28, "icmp-unrelated");
	feed(h, NF_FORWARD, &c, PASS);
	feed_error(h, &c, 3, 28, PASS);
	feed_error(h, &c, 11, 28, PASS);
	for (uint32_t keep = 0; keep < 28; keep++)
		feed_error(h, &c, 3, keep, "icmp-unrelated");
	other.sport++;
	feed_error(h, &other, 3, 28, "icmp-unrelated");
	c = outward(6, IPPROTO_UDP, 40000, 53);
	feed(h, NF_FORWARD, &c, PASS);
	feed_error(h, &c, 2, 48, PASS); /* packet too big */
	for (uint32_t keep = 0; keep < 48; keep++)
		feed_error(h, &c, 2, keep, "icmp-unrelated");
	assert_int_equal(harness_counter(h, "related"), 3);
	harness_free(h);
}

static void wait_ms(struct harness *h, unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i++)
		harness_advance(h, 1000000);
}

static void test_timeouts(void **state)
{
	struct harness *h = make(", \"udp_timeout_s\": 2, \"udp_replied_timeout_s\": 6");
	struct craft one = outward(4, IPPROTO_UDP, 1, 53), two = outward(4, IPPROTO_UDP, 2, 53);
	struct craft answer_one = answer(&one, 0), answer_two = answer(&two, 0);

	(void)state;
	feed(h, NF_FORWARD, &one, PASS);
	feed(h, NF_FORWARD, &two, PASS);
	feed(h, NF_REVERSE, &answer_two, PASS);
	wait_ms(h, 3200);
	feed(h, NF_REVERSE, &answer_one, "denied-by-default");
	feed(h, NF_REVERSE, &answer_two, PASS);
	wait_ms(h, 7200);
	feed(h, NF_REVERSE, &answer_two, "denied-by-default");
	assert_int_equal(harness_counter(h, "expired"), 2);
	assert_int_equal(harness_counter(h, "flows"), 0);
	harness_free(h);
}

static void test_syn_flood(void **state)
{
	struct harness *h = make(", \"half_open\": 50, \"syn_timeout_s\": 1");
	struct craft known = outward(4, IPPROTO_TCP, 1, 80);

	(void)state;
	handshake(h, known);
	for (uint16_t i = 0; i < 200; i++) {
		struct craft c = outward(4, IPPROTO_TCP, (uint16_t)(1000 + i), 80);

		feed(h, NF_FORWARD, &c, i < 50 ? PASS : "syn-flood");
	}
	feed_tcp(h, known, true, ACK, PASS);
	wait_ms(h, 2200);
	assert_int_equal(harness_counter(h, "half-open"), 0);
	handshake(h, outward(4, IPPROTO_TCP, 2, 80));
	harness_free(h);
}

static void test_full_table(void **state)
{
	struct harness *h = make(", \"flows\": 20");

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uint16_t i = 0; i < 40; i++) {
			struct craft c = outward(4, IPPROTO_UDP, (uint16_t)(1000 + i), 53);

			feed(h, NF_FORWARD, &c, i < 20 ? PASS : "table-full");
		}
	}
	harness_free(h);
}

static void test_others(void **state)
{
	struct harness *h = make(""), *strict = make(", \"non_ip\": \"deny\"");
	struct craft gre = outward(4, IPPROTO_GRE, 0, 0), back = answer(&gre, 0);
	uint8_t arp[60] = {[12] = 8, [13] = 6};
	struct harness_packet p = {arp, sizeof(arp)};

	(void)state;
	feed(h, NF_REVERSE, &back, "denied-by-default");
	feed(h, NF_FORWARD, &gre, PASS);
	feed(h, NF_REVERSE, &back, PASS);
	harness_run(strict, NF_FORWARD, 1, &p, 1);
	assert_int_equal(harness_dropped(strict, "non-ip"), 1);
	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->n_out, 1);
	harness_free(h);
	harness_free(strict);
}

/* One fragment of a UDP datagram: `offset` in units of 8 bytes; the first has the ports. */
static struct craft fragment(uint8_t family, uint16_t dport, uint16_t offset, uint16_t bytes, bool more)
{
	struct craft c = outward(family, IPPROTO_UDP, 7000, dport);

	c.fragment = true;
	c.fragment_offset = offset;
	c.more_fragments = more;
	c.payload = bytes;
	return c;
}

/* Feeds it; how many packets came out in all, held ones that were let go included. */
static size_t feed_fragment(struct harness *h, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};

	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	return h->n_out;
}

/* How long a first fragment of this payload is, without its IP headers. */
static uint16_t first_units(uint8_t family, uint16_t payload)
{
	struct craft c = fragment(family, 53, 0, payload, true);
	uint8_t buf[CRAFT_MAX];
	uint32_t len = craft_build(&c, buf) - (family == 4 ? 34 : 62);

	assert_int_equal(len % 8, 0);
	return (uint16_t)(len / 8);
}

static void test_fragments(void **state)
{
	(void)state;
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct harness *h = make(", \"fragment_timeout_s\": 2");
		uint16_t units = first_units(family, 32);
		struct craft first = fragment(family, 53, 0, 32, true);
		struct craft denied = fragment(family, 54, 0, 32, true);
		struct craft middle = fragment(family, 53, units, 32, true);
		struct craft last = middle;

		last.more_fragments = false;
		/* In order: each passes at once. */
		assert_int_equal(feed_fragment(h, &first), 1);
		assert_int_equal(feed_fragment(h, &last), 1);
		/* The other way round: held until the first comes. */
		assert_int_equal(feed_fragment(h, &last), 0);
		assert_int_equal(h->counts.held, 1);
		assert_int_equal(feed_fragment(h, &first), 2);
		assert_int_equal(h->counts.held, 0);
		/* What is held shares the fate of the first. */
		assert_int_equal(feed_fragment(h, &last), 0);
		assert_int_equal(feed_fragment(h, &denied), 0);
		assert_int_equal(harness_dropped(h, "denied-by-default"), 2);
		assert_int_equal(h->counts.held, 0);
		/* Never completed: dropped in time. */
		assert_int_equal(feed_fragment(h, &middle), 0);
		assert_int_equal(h->counts.held, 1);
		wait_ms(h, 3300);
		assert_int_equal(h->counts.held, 0);
		assert_int_equal(harness_dropped(h, "fragment-timeout"), 1);
		/* An overlap takes the rest of the datagram with it. */
		assert_int_equal(feed_fragment(h, &first), 1);
		middle.fragment_offset = (uint16_t)(units - 1);
		assert_int_equal(feed_fragment(h, &middle), 0);
		assert_int_equal(feed_fragment(h, &last), 0);
		assert_int_equal(harness_dropped(h, "fragment-overlap"), 2);
		harness_free(h);
	}
}

/* More than may leave at once: the rest leaves at the next ticks, and nothing waits for a timeout. */
static void test_fragments_blocked(void **state)
{
	const struct harness_config config = {.emit_room = 4};
	uint16_t units = first_units(4, 32);
	struct craft first = fragment(4, 53, 0, 32, true);
	struct err err;
	struct harness *h = harness_new("firewall", PARAMS "}", &config, &err);

	(void)state;
	for (uint16_t i = 1; i <= 10; i++) {
		struct craft c = fragment(4, 53, (uint16_t)(i * units), 32, i < 10);

		c.payload = (uint16_t)(units * 8 - (i == 10 ? 8 : 0));
		assert_int_equal(feed_fragment(h, &c), 0);
	}
	assert_int_equal(h->counts.held, 10);
	assert_int_equal(feed_fragment(h, &first), 5);
	harness_advance(h, 1000000);
	assert_int_equal(h->counts.held, 2);
	harness_advance(h, 1000000);
	assert_int_equal(h->counts.held, 0);
	harness_free(h);
}

/* Bounded: in packets held, and in datagrams. */
static void test_fragment_limits(void **state)
{
	struct harness *h = make(", \"held_fragments\": 3, \"datagrams\": 5");

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		struct craft c = fragment(4, 53, 100, 32, true);

		c.src[3] = (uint8_t)(10 + i);
		assert_int_equal(feed_fragment(h, &c), 0);
	}
	assert_int_equal(h->counts.held, 3);
	assert_int_equal(harness_dropped(h, "fragment-limit"), 7);
	harness_free(h); /* with what is held */
}

/* A million flows, begun and aged. */
static void test_million(void **state)
{
	static uint8_t bufs[64][CRAFT_MAX];
	struct harness *h = make(", \"flows\": 1000000, \"udp_timeout_s\": 2");
	struct harness_packet p[64];

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		struct craft c = outward(4, IPPROTO_UDP, (uint16_t)(1 + i % 20000), 53);

		c.payload = 4;
		c.src[3] = (uint8_t)(i / 20000);
		p[i % 64] = (struct harness_packet){bufs[i % 64], craft_build(&c, bufs[i % 64]), 0};
		if (i % 64 == 63) {
			harness_run(h, NF_FORWARD, 64, p, 64);
			harness_forget(h);
		}
	}
	assert_int_equal(harness_counter(h, "new-flows"), 1000000);
	wait_ms(h, 4500);
	assert_int_equal(harness_counter(h, "flows"), 0);
	assert_int_equal(harness_counter(h, "expired"), 1000000);
	harness_free(h);
}

static void test_loose(void **state)
{
	struct harness *h = make(", \"tcp_loose\": true");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 80);

	(void)state;
	feed_tcp(h, c, false, ACK, PASS);
	feed_tcp(h, c, true, ACK, PASS);
	harness_free(h);
}

static void test_update(void **state)
{
	struct harness *h = make("");
	struct craft c = outward(4, IPPROTO_TCP, 40000, 80), d = outward(4, IPPROTO_TCP, 40001, 80);
	struct err err = {0};
	json_t *reply = NULL;

	(void)state;
	handshake(h, c);
	assert_int_equal(harness_update(h, "{\"rules\": [{\"action\": \"permit\", \"proto\": \"udp\"}]}",
					&reply, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(reply, "rules")), 1);
	json_decref(reply);
	feed_tcp(h, c, true, ACK, PASS);
	feed(h, NF_FORWARD, &d, "denied-by-default");
	assert_int_not_equal(harness_update(h, "{\"rules\": [{\"action\": \"maybe\"}]}", NULL, &err), 0);
	assert_string_equal(err.path, "op.rules[0].action");
	feed_tcp(h, c, false, ACK, PASS);
	harness_free(h);
}

/* Many flows, both ways of each in the same bursts, reopened ones among them. */
static void test_bursts(void **state)
{
	static const uint8_t script[][2] = {{0, SYN}, {1, SYN | ACK}, {0, ACK}, {0, RST}, {0, SYN},
					    {1, SYN | ACK}, {1, FIN | ACK}, {0, SYN | FIN}};
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	for (unsigned int i = 0; i < 160; i++) {
		struct craft c = outward(i % 3 ? 4 : 6, IPPROTO_TCP, (uint16_t)(1 + i / 24), 80);
		const uint8_t *step = script[i % 8];
		struct craft r = answer(&c, step[1]);

		c.tcp_flags = step[1];
		craft_add(&list, step[0] ? &r : &c);
	}
	h = harness_run_all("firewall", PARAMS "}", NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_true(h->n_out > 40);
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
		struct harness *h = harness_run_all("firewall",
						    "{\"default\": \"permit\", \"reverse_default\": "
						    "\"permit\", \"tcp_loose\": true}",
						    NULL, dir, list.packets, list.n, &err);

		assert_non_null(h);
		assert_true(h->counts.aborted > 0 && h->counts.out > 0);
		harness_free(h);
	}
	craft_list_free(&list);
}

static void test_bad_params(void **state)
{
	struct err err = {0};

	(void)state;
	assert_null(harness_new("firewall", "{\"flows\": 0}", NULL, &err));
	assert_string_equal(err.path, "params.flows");
	assert_null(harness_new(
		"firewall", "{\"reverse_rules\": [{\"action\": \"permit\", \"sport\": [2, 1]}]}",
		NULL, &err));
	assert_string_equal(err.path, "params.reverse_rules[0].sport");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp_life),   cmocka_unit_test(test_tcp_wrong),
		cmocka_unit_test(test_rules),	   cmocka_unit_test(test_on_a_stick),
		cmocka_unit_test(test_echo),	   cmocka_unit_test(test_icmp_errors),
		cmocka_unit_test(test_timeouts),   cmocka_unit_test(test_syn_flood),
		cmocka_unit_test(test_full_table), cmocka_unit_test(test_others),
		cmocka_unit_test(test_fragments),  cmocka_unit_test(test_fragment_limits),
		cmocka_unit_test(test_fragments_blocked),
		cmocka_unit_test(test_million),
		cmocka_unit_test(test_loose),	   cmocka_unit_test(test_update),
		cmocka_unit_test(test_bursts),	   cmocka_unit_test(test_zoo),
		cmocka_unit_test(test_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
