/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "core/nf.h"
#include "core/pkt.h"
#include "table/flow.h"

/* What NFs that keep and rewrite TCP and UDP flows share: the packet's key, and its checksums. */

/* IPPROTO_TCP or IPPROTO_UDP when pkt_classify found such a header whole, otherwise 0. */
static inline uint8_t tuple_proto(const struct rte_mbuf *m)
{
	uint32_t l4 = pkt_l4(m);

	return l4 == RTE_PTYPE_L4_TCP ? IPPROTO_TCP : l4 == RTE_PTYPE_L4_UDP ? IPPROTO_UDP : 0;
}

/* The key is written as two whole words: parts would be read back before they are there. */
static inline void tuple_key4_zone(struct flow_key4 *k, const struct rte_mbuf *m, uint8_t proto,
				   uint16_t zone)
{
	const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
	uint32_t ports;
	uint64_t word;

	memcpy(&word, (const uint8_t *)ip + offsetof(struct rte_ipv4_hdr, src_addr), sizeof(word));
	memcpy(k, &word, sizeof(word));
	memcpy(&ports, pkt_l4_hdr(m), sizeof(ports));
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
	word = ports | (uint64_t)proto << 32 | (uint64_t)pkt_bucket(m) << 40 | (uint64_t)zone << 48;
#else
	word = (uint64_t)ports << 32 | (uint64_t)proto << 24 | (uint64_t)pkt_bucket(m) << 16 | zone;
#endif
	memcpy((uint8_t *)k + sizeof(word), &word, sizeof(word));
}

static inline void tuple_key4(struct flow_key4 *k, const struct rte_mbuf *m, uint8_t proto)
{
	tuple_key4_zone(k, m, proto, 0);
}

/* The same of its parts, in network order. */
static inline void tuple_set4(struct flow_key4 *k, uint32_t src, uint32_t dst, uint16_t sport,
			      uint16_t dport, uint8_t proto)
{
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
	uint64_t words[2] = {src | (uint64_t)dst << 32,
			     sport | (uint64_t)dport << 16 | (uint64_t)proto << 32};
#else
	uint64_t words[2] = {(uint64_t)src << 32 | dst,
			     (uint64_t)sport << 48 | (uint64_t)dport << 32 | (uint64_t)proto << 24};
#endif
	memcpy(k, words, sizeof(words));
}

static inline void tuple_key6(struct flow_key6 *k, const struct rte_mbuf *m, uint8_t proto)
{
	const struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);

	memcpy(k->src, (const uint8_t *)ip + offsetof(struct rte_ipv6_hdr, src_addr), 32);
	memcpy(&k->sport, pkt_l4_hdr(m), 2 * sizeof(uint16_t));
	k->proto = proto;
	k->shard = pkt_bucket(m);
	k->zone = 0;
}

union tuple_key {
	struct flow_key4 v4;
	struct flow_key6 v6;
};

/* The key that a packet of this flow has. */
static inline void tuple_of_flow(union tuple_key *k, const struct nf_flow *flow)
{
	if (!flow->v6) {
		tuple_set4(&k->v4, flow->src, flow->dst, flow->sport, flow->dport, flow->proto);
		return;
	}
	memcpy(k->v6.src, flow->src6, 16);
	memcpy(k->v6.dst, flow->dst6, 16);
	k->v6.sport = flow->sport;
	k->v6.dport = flow->dport;
	k->v6.proto = flow->proto;
	k->v6.shard = 0;
	k->v6.zone = 0;
}

/*
 * RFC 1624 eqn. 3 in two steps: the sum of ~old + new over all words that change, which a flow can
 * keep, and its addition to a checksum. A delta fits in 16 bits once folded; two may be
 * added before use.
 */
static inline uint32_t csum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static inline uint32_t csum_delta(const void *old_words, const void *new_words, size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2) {
		uint16_t o, n;

		memcpy(&o, (const uint8_t *)old_words + i, 2);
		memcpy(&n, (const uint8_t *)new_words + i, 2);
		sum += (uint16_t)~o + (uint32_t)n;
	}
	return csum_fold(sum);
}

/* The delta of the opposite change. */
static inline uint32_t csum_negate(uint32_t delta)
{
	return (uint16_t)~csum_fold(delta);
}

static inline uint16_t csum_add(uint16_t csum, uint32_t delta)
{
	return (uint16_t)~csum_fold((uint16_t)~csum + delta);
}

/* TCP or UDP; a UDP checksum of 0 means that there is none, and stays (RFC 768). */
static inline void csum_add_l4(struct rte_mbuf *m, uint8_t proto, uint32_t delta)
{
	bool tcp = proto == IPPROTO_TCP;
	uint16_t *csum = (uint16_t *)((uint8_t *)pkt_l4_hdr(m) +
				      (tcp ? offsetof(struct rte_tcp_hdr, cksum)
					   : offsetof(struct rte_udp_hdr, dgram_cksum)));
	uint16_t sum;

	if (!tcp && !*csum)
		return;
	sum = csum_add(*csum, delta);
	*csum = !tcp && !sum ? 0xffff : sum;
}
