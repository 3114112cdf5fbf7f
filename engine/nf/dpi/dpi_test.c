/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_ip.h>

#include "table/flow.h"
#include "tests/packets.h"

#define RULE(action, options, sid)                                                                 \
	"\"" action " tcp any any -> any any (" options " sid:" sid ";)\""
#define TEXT(text) "content:\\\"" text "\\\";"
#define PARAMS(more, rules) "{\"rules\": [" rules "]" more "}"
#define EVIL(action) RULE(action, TEXT("evilword"), "1")
#define SYN 0x02
#define RST 0x04
#define FIN 0x01
#define ACK 0x10

#define THREE 3 /* workers, of one elastic segment */

static struct craft_list zoo;
static bool moving; /* each packet comes to another worker, to which its flow's bucket went before it */

static int setup(void **state)
{
	craft_zoo(&zoo);
	return 0;
}

static int teardown(void **state)
{
	craft_list_free(&zoo);
	return 0;
}

static int setup_moving(void **state)
{
	moving = true;
	return setup(state);
}

static struct harness *make(const char *params, const struct harness_config *given)
{
	struct harness_config config = given ? *given : (struct harness_config){0};
	struct err err = {0};
	struct harness *h;

	config.elastic = moving;
	config.workers = moving ? THREE : 1;
	h = harness_new("dpi", params, &config, &err);

	if (!h)
		fail_msg("%s: %s: %s", params, err.path, err.msg);
	return h;
}

/* A connection's end: where its next segment begins. */
struct end {
	struct craft c;
	uint32_t seq, ack;
};

static void connection(struct end *client, struct end *server, uint8_t family, uint16_t port)
{
	*client = (struct end){.c = {.proto = IPPROTO_TCP, .sport = port, .dport = 80},
			       .seq = 0xfffffff0};
	*server = (struct end){.c = {.proto = IPPROTO_TCP, .sport = 80, .dport = port}, .seq = 77};
	craft_addrs(&client->c, family == 4 ? "10.0.0.1" : "2001:db8::1",
		    family == 4 ? "192.0.2.1" : "2001:db8:1::2");
	craft_addrs(&server->c, family == 4 ? "192.0.2.1" : "2001:db8:1::2",
		    family == 4 ? "10.0.0.1" : "2001:db8::1");
}

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* A segment at `seq`; the end's own sequence number stays as it is. */
static uint32_t segment(struct end *e, uint32_t seq, uint8_t flags, const char *text, uint8_t *buf)
{
	uint32_t len, size = (uint32_t)strlen(text);
	uint8_t *l4;

	e->c.tcp_flags = flags;
	e->c.payload = (uint16_t)size;
	len = craft_build(&e->c, buf);
	l4 = buf + len - size - 20;
	put32(l4 + 4, seq);
	put32(l4 + 8, e->ack);
	memcpy(l4 + 20, text, size);
	return len;
}

static uint8_t feed(struct harness *h, const uint8_t *buf, uint32_t len)
{
	struct harness_packet p = {buf, len};

	h->worker = (h->worker + 1) % h->nf.workers;
	harness_run(h, NF_FORWARD, 1, &p, 1);
	return h->verdicts[h->n_verdicts - 1];
}

/* Feed a segment; its verdict. */
static uint8_t put(struct harness *h, struct end *e, uint32_t seq, uint8_t flags, const char *text)
{
	uint8_t buf[CRAFT_MAX];

	return feed(h, buf, segment(e, seq, flags, text, buf));
}

/* The next bytes in order. */
static uint8_t send_text(struct harness *h, struct end *e, const char *text)
{
	uint8_t verdict = put(h, e, e->seq, ACK, text);

	e->seq += (uint32_t)strlen(text);
	return verdict;
}

static void handshake(struct harness *h, struct end *client, struct end *server)
{
	put(h, client, client->seq++, SYN, "");
	server->ack = client->seq;
	put(h, server, server->seq++, SYN | ACK, "");
	client->ack = server->seq;
	put(h, client, client->seq, ACK, "");
}

static void expect(const struct harness *h, const char *counter, uint64_t value)
{
	if (harness_counter(h, counter) != value)
		fail_msg("%s: %lu, not %lu", counter, harness_counter(h, counter), value);
}

static void test_across_segments(void **state)
{
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct harness_config config = {.first_segment = family == 4 ? 0 : 80};
		struct harness *h = make(PARAMS("", EVIL("alert")), &config);
		struct end c, s;

		connection(&c, &s, family, 1000);
		handshake(h, &c, &s);
		assert_int_equal(send_text(h, &c, "an ev"), 0);
		assert_int_equal(send_text(h, &s, "ilword from the other side"), 0);
		expect(h, "alerts", 0);
		/* Across the wrap of sequence numbers, byte by byte. */
		for (const char *p = "ilword and an evilword more"; *p; p++)
			send_text(h, &c, (char[]){*p, 0});
		expect(h, "alerts", 1); /* once for each direction of a connection */
		send_text(h, &s, "evilword");
		expect(h, "alerts", 2);
		expect(h, "new-flows", 1);
		harness_free(h);
	}
}

static void test_reordered(void **state)
{
	struct harness *h = make(PARAMS("", EVIL("drop")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	assert_int_equal(put(h, &c, c.seq + 6, ACK, "rd"), 0);
	assert_int_equal(put(h, &c, c.seq + 4, ACK, "wo"), 0);
	assert_int_equal(put(h, &c, c.seq + 4, ACK, "xx"), 0); /* the first copy counts */
	assert_int_equal(put(h, &c, c.seq, ACK, "ev"), 0);
	expect(h, "alerts", 0);
	expect(h, "reordered", 3);
	/* It fills the gap, and the receiver would read on. */
	assert_int_equal(put(h, &c, c.seq, ACK, "evil"), harness_drop(h, "matched"));
	assert_int_equal(put(h, &c, c.seq, ACK, "evil"), harness_drop(h, "matched"));
	assert_int_equal(put(h, &s, s.seq, ACK, "well"), harness_drop(h, "matched"));
	expect(h, "alerts", 1);
	expect(h, "gaps", 0);
	harness_free(h);
}

static void test_overlap(void **state)
{
	struct harness *h = make(PARAMS("", EVIL("alert")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	put(h, &c, c.seq, ACK, "evil");
	put(h, &c, c.seq, ACK, "evil");     /* sent again */
	put(h, &c, c.seq + 2, ACK, "XXwo"); /* half of it again, with other bytes */
	put(h, &c, c.seq + 6, ACK, "rd");
	expect(h, "alerts", 1);
	expect(h, "retransmitted", 1);
	harness_free(h);
}

/* What nobody sends again is given up: when the receiver has it, and when there is no room. */
static void test_gaps(void **state)
{
	struct harness *h = make(PARAMS(", \"reorder_per_stream\": 2", EVIL("alert")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	put(h, &c, c.seq + 10, ACK, "evilword");
	expect(h, "alerts", 0);
	s.ack = c.seq + 18;
	put(h, &s, s.seq, ACK, "");
	expect(h, "alerts", 1);
	expect(h, "gaps", 1);

	connection(&c, &s, 4, 1001);
	handshake(h, &c, &s);
	send_text(h, &c, "evil"); /* then bytes are missing: no match across them */
	put(h, &c, c.seq + 5, ACK, "word");
	put(h, &c, c.seq + 9, ACK, "evil");
	expect(h, "reorder-overflow", 0);
	put(h, &c, c.seq + 13, ACK, "word");
	expect(h, "reorder-overflow", 1);
	expect(h, "alerts", 2);
	expect(h, "gaps", 2);
	harness_free(h);
}

/* Others hold all segments there are. */
static void test_no_segments(void **state)
{
	struct harness *h = make(PARAMS(", \"reorder_segments\": 1", EVIL("alert")), NULL);
	struct end c, s, c2, s2;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	connection(&c2, &s2, 4, 1001);
	handshake(h, &c2, &s2);
	put(h, &c, c.seq + 1, ACK, "held");
	put(h, &c2, c2.seq + 1, ACK, "evil");
	put(h, &c2, c2.seq + 5, ACK, "word");
	expect(h, "reorder-overflow", 1);
	expect(h, "alerts", 1);
	/* The one held is scanned at the end of its flow. */
	harness_advance(h, 120000000000);
	for (unsigned int i = 0; i < 1200; i++)
		harness_advance(h, 1000000);
	expect(h, "flows", 0);
	expect(h, "streams", 0);
	put(h, &c, c.seq + 1, ACK, "held");
	harness_free(h);
}

static void test_mark(void **state)
{
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct harness *h = make(PARAMS(", \"dscp\": 46", EVIL("mark")), NULL);
		struct end c, s;
		const uint8_t *l3;

		connection(&c, &s, family, 1000);
		c.c.tos = s.c.tos = 0x29; /* DSCP 10, ECN 1 */
		handshake(h, &c, &s);
		harness_forget(h);
		send_text(h, &c, "fine");
		send_text(h, &c, "evilword");
		send_text(h, &s, "answer");
		expect(h, "marked", 2);
		assert_int_equal(h->n_out, 3);
		for (unsigned int i = 0; i < 3; i++) {
			l3 = h->out[i].data + 14;
			assert_int_equal(family == 4 ? l3[1] : (uint8_t)(l3[0] << 4 | l3[1] >> 4),
					 i ? 46 << 2 | 1 : 0x29);
			if (family == 4)
				assert_int_equal(rte_ipv4_cksum((const void *)l3), 0);
		}
		harness_free(h);
	}
}

/* FIN ends a direction, and the same ports begin anew with SYN. */
static void test_reuse(void **state)
{
	struct harness *h = make(
		PARAMS("", EVIL("alert") "," RULE("alert", "pcre:\\\"/last$/\\\";", "2")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	send_text(h, &c, "evilword");
	put(h, &c, c.seq + 4, FIN | ACK, ""); /* before its time */
	send_text(h, &c, "last");
	put(h, &c, c.seq, FIN | ACK, "");
	expect(h, "alerts", 2);
	put(h, &s, s.seq, FIN | ACK, "last");
	expect(h, "alerts", 3);
	harness_advance(h, 1000000);
	expect(h, "streams", 0);
	c.seq += 100000;
	handshake(h, &c, &s);
	send_text(h, &c, "evilword");
	expect(h, "alerts", 4);
	expect(h, "new-flows", 1);
	harness_free(h);
}

/* Who is refused by the server cannot move our place in the stream. */
static void test_false_restart(void **state)
{
	struct harness *h = make(PARAMS("", EVIL("alert")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	send_text(h, &c, "ev");
	put(h, &c, c.seq + 100, RST, "");
	put(h, &c, c.seq + 100000, SYN, "");
	put(h, &c, c.seq + 200000, SYN | ACK, ""); /* nobody answers himself */
	send_text(h, &c, "ilword");
	expect(h, "alerts", 1);
	/* The server has forgotten the connection, and agrees to a new one, further back. */
	c.seq -= 50000;
	handshake(h, &c, &s);
	put(h, &s, s.seq - 1, SYN | ACK, ""); /* sent again */
	send_text(h, &c, "evilword");
	expect(h, "alerts", 2);

	/* Two SYNs before the answer, which is to the first. */
	connection(&c, &s, 4, 1001);
	put(h, &c, c.seq++, SYN, "");
	put(h, &c, c.seq + 5000, SYN, "");
	s.ack = c.seq;
	put(h, &s, s.seq++, SYN | ACK, "");
	send_text(h, &c, "evilword");
	expect(h, "alerts", 3);
	harness_free(h);
}

/* A client that pretends to be the server is found out by the handshake. */
static void test_false_server(void **state)
{
	struct harness *h = make(
		PARAMS("", RULE("alert", "flow:to_server; " TEXT("evilword"), "1")), NULL);
	struct end c, s;

	connection(&c, &s, 4, 1000);
	put(h, &c, c.seq, SYN | ACK, "");
	handshake(h, &c, &s);
	send_text(h, &s, "evilword");
	expect(h, "alerts", 0);
	send_text(h, &c, "evilword");
	expect(h, "alerts", 1);
	harness_free(h);
}

struct piece {
	uint32_t at, len;
};

/* A text in pieces, some of them twice or overlapping, in any order: it is found once. */
static void test_any_order(void **state)
{
	struct harness *h = make(PARAMS("", EVIL("alert")), NULL);
	unsigned int random = 1;

	for (unsigned int round = 0; round < 3000; round++) {
		char text[101], part[101];
		struct piece pieces[40];
		unsigned int n = 0;
		struct end c, s;

		memset(text, 'e', 100);
		text[100] = '\0';
		memcpy(text + rand_r(&random) % 92, "evilword", 8);
		for (uint32_t at = 0; at < 100; n++) {
			pieces[n].at = at - (uint32_t)rand_r(&random) % 3 % (at + 1);
			at += 1 + (uint32_t)rand_r(&random) % 20;
			at = at > 100 || n == 30 ? 100 : at;
			pieces[n].len = at - pieces[n].at;
		}
		for (; rand_r(&random) % 4; n = n < 39 ? n + 1 : n)
			pieces[n] = pieces[(unsigned int)rand_r(&random) % n];
		connection(&c, &s, round & 1 ? 4 : 6, (uint16_t)round);
		handshake(h, &c, &s);
		while (n) {
			unsigned int i = (unsigned int)rand_r(&random) % n;

			memcpy(part, text + pieces[i].at, pieces[i].len);
			part[pieces[i].len] = '\0';
			put(h, &c, c.seq + pieces[i].at, ACK, part);
			pieces[i] = pieces[--n];
		}
		put(h, &c, c.seq + 100, FIN | ACK, "");
		expect(h, "alerts", round + 1);
		harness_forget(h);
	}
	expect(h, "gaps", 0);
	harness_advance(h, 1000000);
	expect(h, "streams", 0);
	harness_free(h);
}

static void test_streams_bound(void **state)
{
	struct harness *h = make(PARAMS(", \"streams\": 1, \"stream_bytes\": 10", EVIL("alert")),
				 NULL);
	struct end c, s, c2, s2;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	connection(&c2, &s2, 4, 1001);
	handshake(h, &c2, &s2);
	send_text(h, &c, "evil");
	/* No stream is left: segment by segment. */
	send_text(h, &c2, "evil");
	send_text(h, &c2, "word");
	expect(h, "alerts", 0);
	send_text(h, &c2, "evilword");
	expect(h, "alerts", 1);
	expect(h, "streams-exhausted", 3);
	send_text(h, &c, "word");
	expect(h, "alerts", 2);
	/* Ten bytes are inspected of a stream, which is free then. */
	send_text(h, &c, "12evilword");
	expect(h, "streams-cut", 1);
	send_text(h, &c, "evilword");
	expect(h, "alerts", 2);
	send_text(h, &s2, "evilword");
	expect(h, "alerts", 3);
	expect(h, "streams-exhausted", 3);
	harness_free(h);
}

/* Several contents are found in different segments; positions count from both beginnings. */
static void test_combination(void **state)
{
	struct harness *h = make(
		PARAMS("",
		       RULE("alert", TEXT("one") TEXT("two") "pcre:\\\"/thr[e]+/\\\";", "1") "," RULE(
			       "alert", TEXT("four") "offset:2; depth:4;",
			       "2") "," RULE("alert", TEXT("five") "dsize:5;",
					     "3") "," RULE("alert",
							   TEXT("a") TEXT(
								   "b") "distance:2; within:2;",
							   "4")),
		NULL);
	struct end c, s;
	json_t *reply = NULL;
	struct err err;

	connection(&c, &s, 4, 1000);
	handshake(h, &c, &s);
	send_text(h, &c, "tw");
	send_text(h, &c, "o three and");
	expect(h, "alerts", 0);
	send_text(h, &c, "one");
	expect(h, "alerts", 1);
	send_text(h, &c, "--four");
	expect(h, "alerts", 2);
	send_text(h, &c, "-five-");
	send_text(h, &c, "five-");
	expect(h, "alerts", 3);
	send_text(h, &s, "a-b a--");
	send_text(h, &s, "---b");
	expect(h, "alerts", 3);
	send_text(h, &s, "a---b"); /* within counts from the distance: at most three between them */
	expect(h, "alerts", 4);
	assert_int_equal(harness_update(h, "{\"show\": \"rules\"}", &reply, &err), 0);
	assert_int_equal(json_array_size(json_object_get(reply, "rules")), 4);
	json_decref(reply);
	assert_int_not_equal(harness_update(h, "{\"show\": \"me\"}", NULL, &err), 0);
	assert_string_equal(err.path, "op.show");
	harness_free(h);
}

/* In a PPPoE session, behind a VLAN tag: what passes is classified as it was before. */
static void test_pppoe(void **state)
{
	static const uint8_t pppoe[] = {0x11, 0, 0x12, 0x34, 0, 0, 0, 0x21};
	struct harness *h = make(PARAMS(", \"dscp\": 46", EVIL("mark")), NULL);
	uint8_t buf[CRAFT_MAX + 8], short_by[14 + 4 + 8 + 19];
	struct end c, s;
	uint32_t len;

	connection(&c, &s, 4, 1000);
	c.c.vlans = 1;
	len = segment(&c, c.seq, ACK, "an evilword", buf);
	memmove(buf + 18 + 8, buf + 18, len - 18);
	memcpy(buf + 18, pppoe, sizeof(pppoe));
	buf[16] = 0x88;
	buf[17] = 0x64;
	assert_int_equal(feed(h, buf, len + 8), 0);
	expect(h, "alerts", 1);
	assert_int_equal(h->out[0].data[18 + 8 + 1], 46 << 2);
	for (unsigned int i = 0; i < 200; i++)
		harness_advance(h, 1000000);
	expect(h, "flows", 1); /* of a bucket that somebody has */
	memcpy(short_by, buf, sizeof(short_by));
	assert_int_equal(feed(h, short_by, sizeof(short_by)), NF_ABORT);
	for (unsigned int n = 14; n < 26; n++)
		assert_int_equal(feed(h, short_by, n), n < 18 ? NF_ABORT : 0);
	buf[18 + 7] = 0x57; /* IPv6, says PPP */
	assert_int_equal(feed(h, buf, len + 8), NF_ABORT);
	buf[18 + 6] = 0xc0; /* link control */
	assert_int_equal(feed(h, buf, len + 8), 0);
	harness_free(h);
}

static uint8_t datagram(struct harness *h, uint16_t port, const char *text)
{
	struct craft c = {.proto = IPPROTO_UDP,
			  .sport = port,
			  .dport = 53,
			  .payload = (uint16_t)strlen(text)};
	uint8_t buf[CRAFT_MAX];
	uint32_t len;

	craft_addrs(&c, "10.0.0.1", "192.0.2.1");
	len = craft_build(&c, buf);
	memcpy(buf + len - c.payload, text, c.payload);
	return feed(h, buf, len);
}

static void test_udp(void **state)
{
	struct harness *h = make(
		"{\"rules\": [\"drop udp any any -> any 53 (content:\\\"evil\\\"; sid:1;)\"]}",
		NULL);

	assert_int_equal(datagram(h, 1, "ev"), 0);
	assert_int_equal(datagram(h, 1, "il"), 0);
	assert_int_equal(datagram(h, 1, "an evil one"), harness_drop(h, "matched"));
	assert_int_equal(datagram(h, 1, "fine, but of that flow"), harness_drop(h, "matched"));
	assert_int_equal(datagram(h, 2, "fine"), 0);
	harness_free(h);
}

/* New flows do without a table's memory: packet by packet, and old ones go on as before. */
static void test_full(void **state)
{
	struct harness *h = make(PARAMS(", \"flows\": 2", EVIL("drop")), NULL);
	struct end c[3], s[3];

	for (unsigned int i = 0; i < 3; i++) {
		connection(&c[i], &s[i], 4, (uint16_t)(1000 + i));
		handshake(h, &c[i], &s[i]);
	}
	expect(h, "new-flows", 2);
	expect(h, "flows-full", 3);
	assert_int_equal(send_text(h, &c[2], "evil"), 0);
	assert_int_equal(send_text(h, &c[2], "word"), 0);
	assert_int_equal(send_text(h, &c[2], "evilword"), harness_drop(h, "matched"));
	assert_int_equal(send_text(h, &c[2], "fine"), 0);
	assert_int_equal(send_text(h, &c[0], "evil"), 0);
	assert_int_equal(send_text(h, &c[0], "word"), harness_drop(h, "matched"));
	harness_free(h);
}

static void test_million_flows(void **state)
{
	struct harness *h = make(
		PARAMS(", \"flows\": 65536, \"streams\": 65536, \"idle_timeout_s\": 1",
		       EVIL("alert")),
		NULL);
	struct end c, s;
	uint8_t buf[CRAFT_MAX];

	for (unsigned int i = 0; i < 1000000; i++) {
		uint32_t len;

		connection(&c, &s, 4, (uint16_t)i);
		c.c.dport = (uint16_t)(i >> 16);
		len = segment(&c, i, ACK, i % 100 ? "a" : "evilword", buf);
		assert_int_equal(feed(h, buf, len), 0);
		if (i % 50000 == 49999)
			for (unsigned int k = 0; k < 2500; k++)
				harness_advance(h, 1000000);
		if (i % 64 == 0)
			harness_forget(h);
	}
	for (unsigned int k = 0; k < 3000; k++)
		harness_advance(h, 1000000);
	expect(h, "new-flows", 1000000);
	expect(h, "flows-full", 0);
	expect(h, "streams-exhausted", 0);
	expect(h, "alerts", 10000);
	expect(h, "flows", 0);
	expect(h, "streams", 0);
	harness_free(h);
}

#define LOOK                                                                                       \
	"\"alert ip any any -> any any (content:\\\"|00 01 02|\\\"; content:\\\"|04|\\\"; sid:1;)\""

static void check_zoo(const char *params, const struct harness_config *config)
{
	struct err err = {0};
	struct harness *h = harness_run_all("dpi", params, config, NF_FORWARD, zoo.packets, zoo.n,
					    &err);
	size_t next = 0;

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	assert_true(harness_counter(h, "alerts") > 0);
	assert_true(harness_counter(h, "fragments") > 0);
	assert_true(h->counts.aborted > 0);
	assert_true(h->counts.aborted + h->n_out == zoo.n);
	/* What comes out is what went in. */
	for (size_t i = 0; i < h->n_out; i++) {
		assert_true(h->out[i].origin >= (int64_t)next);
		next = (size_t)h->out[i].origin;
		assert_int_equal(h->out[i].len, zoo.packets[next].len);
		assert_memory_equal(h->out[i].data, zoo.packets[next].data, h->out[i].len);
	}
	harness_free(h);
}

static void test_zoo(void **state)
{
	const struct harness_config segments = {.first_segment = 90};

	check_zoo(PARAMS("", LOOK), NULL);
	check_zoo(PARAMS("", LOOK), &segments);
	check_zoo(PARAMS(", \"flows\": 1, \"streams\": 1, \"reorder_segments\": 1", LOOK), NULL);
}

static void test_fragments(void **state)
{
	struct harness *h = make(PARAMS(", \"fragments\": \"drop\"", LOOK), NULL);

	harness_run(h, NF_FORWARD, 32, zoo.packets, zoo.n);
	assert_int_equal(harness_dropped(h, "fragment"), harness_counter(h, "fragments"));
	harness_free(h);
}

/* Of the packet that came last; nobody has any other one. */
static unsigned int bucket_of_last(struct harness *h)
{
	unsigned int bucket = 0;

	while (atomic_load(&h->owners[bucket]) == UINT8_MAX)
		bucket++;
	memset(h->owners, UINT8_MAX, sizeof(h->owners));
	return bucket;
}

/* Streams are bounded by bucket: one whose streams are in use takes none of another one's. */
static void test_streams_of_a_bucket(void **state)
{
	const unsigned int room = flow_shard_capacity(1, PKT_BUCKETS);
	struct harness *h = make(PARAMS(", \"streams\": 1", EVIL("alert")), NULL);
	struct end s, same[64], other = {0};
	unsigned int n = 0, first = 0;

	assert_in_range(room, 2, RTE_DIM(same) - 1);
	for (uint16_t port = 1000; n <= room; port++) {
		connection(&same[n], &s, 4, port);
		put(h, &same[n], same[n].seq++, SYN, "");
		if (!n)
			first = bucket_of_last(h);
		else if (bucket_of_last(h) != first) {
			other = same[n];
			continue;
		}
		n++;
	}
	for (unsigned int i = 0; i < n; i++)
		send_text(h, &same[i], "evil");
	expect(h, "streams-exhausted", 1);
	send_text(h, &other, "evil");
	send_text(h, &other, "word");
	expect(h, "alerts", 1);
	for (unsigned int i = 0; i < n; i++)
		send_text(h, &same[i], "word");
	expect(h, "alerts", 1 + room);
	expect(h, "streams-exhausted", 2);
	harness_advance(h, 1000000);
	expect(h, "streams", room + 1);
	/* An RST in its place ends the flow, and its stream, after a while. */
	for (unsigned int i = 0; i < n; i++)
		put(h, &same[i], same[i].seq, RST, "");
	harness_advance(h, 6000000000);
	for (unsigned int i = 0; i < 1200; i++)
		harness_advance(h, 1000000);
	expect(h, "streams", 1);
	harness_free(h);
}

static void test_no_labels_in_elastic(void **state)
{
	const struct harness_config config = {.workers = 2, .elastic = true};
	struct err err = {0};

	assert_null(harness_new("dpi", "{\"labels\": true}", &config, &err));
	assert_string_equal(err.path, "params.labels");
}

static void check_bad(const char *params, const char *path, const char *message)
{
	struct err err = {0};

	assert_null(harness_new("dpi", params, NULL, &err));
	assert_string_equal(err.path, path);
	if (!strstr(err.msg, message))
		fail_msg("\"%s\" says nothing of \"%s\"", err.msg, message);
}

static void test_bad(void **state)
{
	check_bad("{}", "params", "nothing to look for");
	check_bad("{\"rules\": [\"alert tcp\"]}", "params.rules[0]", "not a rule");
	check_bad(PARAMS("", EVIL("alert") "," EVIL("alert")), "params.rules[1]", "taken already");
	check_bad(PARAMS("", RULE("alert", "pcre:\\\"/(a/\\\";", "5")), "params.rules[0]", "sid 5");
	check_bad(PARAMS("", RULE("alert", "pcre:\\\"/a*/\\\";", "5")), "params.rules[0]", "sid 5");
	check_bad(PARAMS("", RULE("alert", TEXT("a") "flags:S;", "5")), "params.rules[0]", "flags");
	check_bad(PARAMS(", \"unsupported\": \"skip\"", RULE("alert", TEXT("a") "flags:S;", "5")),
		  "params", "skipped");
	check_bad(PARAMS(", \"unsupported\": \"skip\"", RULE("alert", "pcre:\\\"/(a)\\\\1/\\\";", "5")),
		  "params", "skipped");
	check_bad(PARAMS(", \"streams\": 0", EVIL("alert")), "params.streams", "0");
	check_bad(PARAMS(", \"label_rules\": [{\"label\": \"DNS\", \"action\": \"drop\"}]",
			 EVIL("alert")),
		  "params.label_rules", "labels");
	check_bad(PARAMS(", \"eve_file\": \"/nonexistent/eve\"", EVIL("alert")), "params.eve_file",
		  "/nonexistent/eve");
	check_bad(PARAMS(", \"eve_flows\": true", EVIL("alert")), "params.eve_flows", "eve_file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_across_segments),
		cmocka_unit_test(test_reordered),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_no_segments),
		cmocka_unit_test(test_mark),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_false_restart),
		cmocka_unit_test(test_false_server),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_streams_bound),
		cmocka_unit_test(test_combination),
		cmocka_unit_test(test_udp),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_million_flows),
		cmocka_unit_test(test_zoo),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_pppoe),
		cmocka_unit_test(test_bad),
	};

	/* Without those of one table's bounds: there are a table and bounds for each bucket. */
	const struct CMUnitTest moves[] = {
		cmocka_unit_test(test_across_segments),
		cmocka_unit_test(test_reordered),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_mark),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_false_restart),
		cmocka_unit_test(test_false_server),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_combination),
		cmocka_unit_test(test_udp),
		cmocka_unit_test(test_pppoe),
		cmocka_unit_test(test_streams_of_a_bucket),
		cmocka_unit_test(test_no_labels_in_elastic),
	};

	return cmocka_run_group_tests(tests, setup, teardown) ||
	       cmocka_run_group_tests(moves, setup_moving, teardown);
}
