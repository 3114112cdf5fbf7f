/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pkt.h"

/* A packet in a buffer of exactly its size, so that sanitizers see any read past it. */
static struct rte_mbuf classify(const uint8_t *bytes, uint16_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct rte_mbuf m = {.buf_addr = copy, .data_len = len, .pkt_len = len, .nb_segs = 1};

	memcpy(copy, bytes, len);
	pkt_classify(&m);
	if (!pkt_malformed(&m))
		pkt_flow_hash(&m);
	free(copy);
	return m;
}

static uint16_t ipv4(uint8_t *p, const char *fields, uint8_t proto, uint16_t payload)
{
	uint8_t ihl = 5 + (strstr(fields, "options") ? 2 : 0);
	uint16_t l2 = 12, total = ihl * 4 + payload;

	memset(p, 0, 256);
	if (strstr(fields, "qinq")) {
		memcpy(p + l2, (uint8_t[]){0x88, 0xa8, 0, 1}, 4);
		l2 += 4;
	}
	if (strstr(fields, "vlan")) {
		memcpy(p + l2, (uint8_t[]){0x81, 0, 0, 1}, 4);
		l2 += 4;
	}
	memcpy(p + l2, (uint8_t[]){8, 0}, 2);
	l2 += 2;
	p[l2] = 0x40 | ihl;
	p[l2 + 2] = total >> 8;
	p[l2 + 3] = total;
	if (strstr(fields, "frag"))
		p[l2 + 6] = 0x20;
	p[l2 + 9] = proto;
	if (proto == IPPROTO_TCP)
		p[l2 + ihl * 4 + 12] = 5 << 4;
	else
		p[l2 + ihl * 4 + 5] = (uint8_t)payload;
	return l2 + total;
}

static void test_ipv4(void **state)
{
	uint8_t p[256];
	struct rte_mbuf m = classify(p, ipv4(p, "", 17, 26));

	(void)state;
	assert_true(pkt_is_ipv4(&m));
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_UDP);
	assert_int_equal(pkt_l2_len(&m), 14);
	assert_int_equal(pkt_l3_len(&m), 20);
	m = classify(p, ipv4(p, "qinq vlan options", 6, 20));
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_TCP);
	assert_int_equal(pkt_l2_len(&m), 22);
	assert_int_equal(pkt_l3_len(&m), 28);
	m = classify(p, ipv4(p, "frag", 17, 26));
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_FRAG);
	/* Too short for its L4 header: an IP packet, but of no L4 kind. */
	m = classify(p, ipv4(p, "", 6, 19));
	assert_true(pkt_is_ipv4(&m));
	assert_int_equal(pkt_l4(&m), 0);
}

/* Every length up to the whole packet: no overread, and malformed until the header is there. */
static void test_truncated(void **state)
{
	static const char *const shapes[] = {"", "vlan", "qinq vlan options"};
	uint8_t p[256];

	(void)state;
	for (unsigned int s = 0; s < 3; s++) {
		uint16_t whole = ipv4(p, shapes[s], 17, 26);

		for (uint16_t len = 0; len < whole; len++) {
			struct rte_mbuf m = classify(p, len);

			assert_false(pkt_is_ipv4(&m));
			if (len >= 14)
				assert_true(pkt_malformed(&m));
		}
	}
}

static void test_ipv6(void **state)
{
	uint8_t p[256] = {0};
	struct rte_mbuf m;

	(void)state;
	memcpy(p + 12, (uint8_t[]){0x86, 0xdd, 0x60}, 3);
	p[14 + 5] = 8 + 8 + 8; /* hop-by-hop, destination options, UDP */
	p[14 + 6] = 0;
	p[54] = 60;
	p[62] = 17;
	p[70 + 5] = 8;
	m = classify(p, 14 + 40 + 24);
	assert_true(pkt_is_ipv6(&m));
	assert_int_equal(pkt_l3_len(&m), 56);
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_UDP);
	for (uint16_t len = 14; len < 14 + 40 + 24; len++) {
		m = classify(p, len);
		assert_true(pkt_malformed(&m));
	}
	/* An extension header that claims to reach past the packet. */
	p[63] = 200;
	p[54] = 60;
	m = classify(p, 14 + 40 + 24);
	assert_true(pkt_malformed(&m));
	/* A fragment with an offset; then an atomic one (RFC 6946), which is a whole packet. */
	p[14 + 6] = 44;
	p[54] = 17;
	p[55] = 0;
	p[57] = 8;
	m = classify(p, 14 + 40 + 24);
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_FRAG);
	p[57] = 0;
	p[62 + 5] = 16; /* the UDP header is where destination options were */
	m = classify(p, 14 + 40 + 24);
	assert_int_equal(pkt_l4(&m), RTE_PTYPE_L4_UDP);
}

/* A length that the packet contradicts: not to be trusted as TCP or UDP, yet forwarded as IP. */
static void test_l4_lengths(void **state)
{
	uint8_t p[256];
	uint16_t len = ipv4(p, "", IPPROTO_TCP, 32);

	(void)state;
	for (unsigned int words = 0; words < 16; words++) {
		struct rte_mbuf m;

		p[34 + 12] = (uint8_t)(words << 4);
		m = classify(p, len);
		assert_true(pkt_is_ipv4(&m));
		assert_int_equal(pkt_l4(&m), words >= 5 && words <= 8 ? RTE_PTYPE_L4_TCP : 0);
	}
	len = ipv4(p, "", IPPROTO_UDP, 32);
	for (unsigned int bytes = 0; bytes < 256; bytes++) {
		struct rte_mbuf m;

		p[34 + 5] = (uint8_t)bytes;
		m = classify(p, len);
		assert_true(pkt_is_ipv4(&m));
		assert_int_equal(pkt_l4(&m), bytes >= 8 && bytes <= 32 ? RTE_PTYPE_L4_UDP : 0);
	}
}

static void test_hash_is_symmetric(void **state)
{
	uint8_t p[256];
	struct rte_mbuf m = {.buf_addr = p};

	(void)state;
	m.data_len = m.pkt_len = ipv4(p, "", 17, 26);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t a = i * 2654435761u, b = ~i * 40503u, forth;
		uint16_t sport = i, dport = 53;

		memcpy(p + 26, &a, 4);
		memcpy(p + 30, &b, 4);
		memcpy(p + 34, &sport, 2);
		memcpy(p + 36, &dport, 2);
		pkt_classify(&m);
		forth = pkt_flow_hash(&m);
		memcpy(p + 26, &b, 4);
		memcpy(p + 30, &a, 4);
		memcpy(p + 34, &dport, 2);
		memcpy(p + 36, &sport, 2);
		assert_int_equal(pkt_flow_hash(&m), forth);
	}
}

/* Flows as generators and clients make them, counted up from somewhere: each bucket gets some of them. */
static void test_hash_is_even(void **state)
{
	static const struct {
		const char *src, *dst;
		uint16_t at, bytes; /* of the frame, what counts up: in network order */
	} of[] = {
		{"10.0.0.0", "203.0.113.1", 26, 4},      {"10.0.0.0", "10.0.0.1", 26, 4},
		{"16.0.0.1", "48.0.0.1", 26, 4},         {"192.168.0.0", "192.0.2.1", 26, 4},
		{"198.51.100.1", "10.128.0.0", 30, 4},   {"198.18.0.1", "198.19.0.1", 34, 2},
		{"198.18.0.1", "198.19.0.1", 36, 2},
	};
	uint8_t p[256];
	struct rte_mbuf m = {.buf_addr = p};

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(of); i++) {
		unsigned int buckets[256] = {0};

		m.data_len = m.pkt_len = ipv4(p, "", 17, 26);
		inet_pton(AF_INET, of[i].src, p + 26);
		inet_pton(AF_INET, of[i].dst, p + 30);
		pkt_classify(&m);
		for (unsigned int flow = 0; flow < 65536; flow++) {
			buckets[pkt_flow_hash(&m) >> 24]++;
			for (unsigned int b = of[i].bytes; b-- && !++p[of[i].at + b];)
				;
		}
		for (unsigned int b = 0; b < 256; b++)
			assert_in_range(buckets[b], 200, 312); /* 256, and no more off than by chance */
	}
}

static void test_csum_update(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 100000; i += 7) {
		uint8_t h[20] = {0x45, 0, 0, 40, i, i >> 8, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, i, i >> 4, 3, 4};
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)h;
		uint32_t to = i * 2654435761u;

		ip->hdr_checksum = rte_ipv4_cksum(ip);
		ip->hdr_checksum = csum_update16(ip->hdr_checksum, (uint16_t)ip->dst_addr, (uint16_t)to);
		ip->hdr_checksum = csum_update16(ip->hdr_checksum, ip->dst_addr >> 16, to >> 16);
		ip->dst_addr = to;
		assert_int_equal(rte_ipv4_cksum(ip), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_l4_lengths),
		cmocka_unit_test(test_hash_is_symmetric),
		cmocka_unit_test(test_hash_is_even),
		cmocka_unit_test(test_csum_update),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
