/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "nf.h"
#include "pkt.h"

/*
 * Packets of flows whose way is known: which they may be (nf.h says what a function may be spared),
 * how their flow is told, and what is written into them. For the fast path, and for hosts that
 * apply what a VNF has decided.
 */

enum fast_family {
	FAST_IPV4,
	FAST_IPV6,
	FAST_FAMILIES,
};

#define FAST_KEY4_WORDS 2
#define FAST_KEY6_WORDS 5
#define FAST_L2_BYTES 14u
#define FAST_L3_BYTES 20u
#define FAST_L3_BYTES6 40u

static __rte_always_inline unsigned int fast_words(enum fast_family family)
{
	return family == FAST_IPV4 ? FAST_KEY4_WORDS : FAST_KEY6_WORDS;
}

#define TCP_FIN_SYN_RST_ACK 0x17
#define TCP_ACK 0x10
#define TCP_FLAGS_AT 13
#define TCP_CSUM_AT 16
#define UDP_CSUM_AT 6

/* -1: none that has ports, in a header that is whole. */
static inline int fast_family(const struct rte_mbuf *m)
{
	uint32_t l4 = pkt_l4(m);

	if (unlikely(pkt_malformed(m) || (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP)))
		return -1;
	return pkt_is_ipv4(m) ? FAST_IPV4 : pkt_is_ipv6(m) ? FAST_IPV6 : -1;
}

/* Addresses, then the rest in a last word; the zone tells runs and directions apart. */
static __rte_always_inline void fast_key(uint64_t *key, const struct rte_mbuf *m, uint64_t zone,
					 enum fast_family family)
{
	const uint8_t *l3 = pkt_l3_hdr(m);
	unsigned int last = fast_words(family) - 1;
	uint32_t ports;

	if (family == FAST_IPV4)
		memcpy(key, l3 + offsetof(struct rte_ipv4_hdr, src_addr), 8);
	else
		memcpy(key, l3 + offsetof(struct rte_ipv6_hdr, src_addr), 32);
	memcpy(&ports, pkt_l4_hdr(m), sizeof(ports));
	key[last] = ports |
		    (uint64_t)(pkt_l4(m) == RTE_PTYPE_L4_TCP ? IPPROTO_TCP : IPPROTO_UDP) << 32 |
		    zone << 48;
}

/* The key of the flow the other way. */
static inline void fast_swap_key(uint64_t *swapped, const uint64_t *key, enum fast_family family)
{
	unsigned int at = fast_words(family) - 1;
	uint64_t last = key[at];

	if (family == FAST_IPV4) {
		swapped[0] = key[0] << 32 | key[0] >> 32;
	} else {
		memcpy(swapped, key + 2, 16);
		memcpy(swapped + 2, key, 16);
	}
	swapped[at] = (last & ~(uint64_t)UINT32_MAX) | (last & 0xffff) << 16 |
		      (last >> 16 & 0xffff);
}

/* RFC 1071, of a header without options. A sum written as 0xffff is right, but is not how we write
 * it. */
static inline bool header_sum_ok(const uint8_t *ip, uint16_t csum)
{
	uint64_t a, b, sum;
	uint32_t c;

	memcpy(&a, ip, sizeof(a));
	memcpy(&b, ip + 8, sizeof(b));
	memcpy(&c, ip + 16, sizeof(c));
	sum = (a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c;
	/* Five words: what a multiple of 2^16 - 1 is can be asked at once, and 0 it cannot be. */
	return !(sum % 0xffff) && csum != 0xffff;
}

static inline bool plain_l4(const uint8_t *l4, bool tcp)
{
	uint16_t csum;

	if (!tcp)
		return true;
	memcpy(&csum, l4 + TCP_CSUM_AT, sizeof(csum));
	return (l4[TCP_FLAGS_AT] & TCP_FIN_SYN_RST_ACK) == TCP_ACK && csum != 0xffff;
}

static inline bool plain4(const uint8_t *ip, unsigned int ttl_needed)
{
	uint16_t csum;

	memcpy(&csum, ip + offsetof(struct rte_ipv4_hdr, hdr_checksum), sizeof(csum));
	return ip[offsetof(struct rte_ipv4_hdr, time_to_live)] > ttl_needed &&
	       header_sum_ok(ip, csum);
}

/* What nf.h promises of packets that functions are spared. */
static __rte_always_inline bool fast_plain(const struct rte_mbuf *m, unsigned int ttl_needed,
					   enum fast_family family)
{
	const uint32_t l3_bytes = family == FAST_IPV4 ? FAST_L3_BYTES : FAST_L3_BYTES6;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *), *ip = frame + FAST_L2_BYTES;

	if (unlikely(!pkt_lens_are(m, FAST_L2_BYTES, l3_bytes) || frame[0] & 1))
		return false;
	return (family == FAST_IPV4 ? plain4(ip, ttl_needed)
				    : ip[offsetof(struct rte_ipv6_hdr, hop_limits)] > ttl_needed) &&
	       plain_l4(ip + l3_bytes, pkt_l4(m) == RTE_PTYPE_L4_TCP);
}

static inline uint16_t add_delta(uint16_t csum, uint16_t delta)
{
	uint32_t sum = (uint16_t)~csum + (uint32_t)delta;

	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static inline void rewrite_l4(uint8_t *l4, uint32_t ports, uint16_t delta, bool tcp)
{
	uint16_t *csum = (uint16_t *)(l4 + (tcp ? TCP_CSUM_AT : UDP_CSUM_AT)), sum;

	memcpy(l4, &ports, sizeof(ports));
	if (!tcp && !*csum) /* there is none, RFC 768 */
		return;
	sum = add_delta(*csum, delta);
	*csum = !tcp && !sum ? 0xffff : sum;
}

static inline void rewrite_macs(uint8_t *frame, const uint8_t macs[12], uint8_t sets)
{
	if (likely(sets == (NF_SETS_DST_MAC | NF_SETS_SRC_MAC)))
		memcpy(frame, macs, 12);
	else if (sets)
		memcpy(frame + (sets == NF_SETS_DST_MAC ? 0 : 6),
		       macs + (sets == NF_SETS_DST_MAC ? 0 : 6), 6);
}

/* As they leave; of IPv4 the first 8 bytes of `addrs`. `l4` 0: neither addresses nor ports change.
 */
struct flow_rewrite {
	const uint8_t *addrs;
	uint32_t ports;
	uint16_t l3_delta, l4_delta;
	uint8_t ttl; /* taken off */
};

static __rte_always_inline void rewrite_ip(struct rte_mbuf *m, uint8_t *frame,
					   const struct flow_rewrite *to, enum fast_family family)
{
	bool tcp = pkt_l4(m) == RTE_PTYPE_L4_TCP;
	uint8_t *l3 = frame + FAST_L2_BYTES;

	if (family == FAST_IPV4) {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)l3;

		ip->time_to_live -= to->ttl;
		ip->hdr_checksum = add_delta(ip->hdr_checksum, to->l3_delta);
		if (!to->l4_delta)
			return;
		memcpy(&ip->src_addr, to->addrs, 8);
		rewrite_l4((uint8_t *)(ip + 1), to->ports, to->l4_delta, tcp);
	} else {
		struct rte_ipv6_hdr *ip = (struct rte_ipv6_hdr *)l3;

		ip->hop_limits -= to->ttl;
		if (!to->l4_delta)
			return;
		memcpy(l3 + offsetof(struct rte_ipv6_hdr, src_addr), to->addrs, 32);
		rewrite_l4((uint8_t *)(ip + 1), to->ports, to->l4_delta, tcp);
	}
}
