/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "core/dpdk.h"

/*
 * Header knowledge shared by NFs through the mbuf: packet_type (RTE_PTYPE_*) and the lengths
 * of the L2 and L3 headers, read with pkt_l2_len and pkt_l3_len. The engine classifies each
 * packet once, on entry to the first segment whose NFs want headers; rings keep it.
 *
 * The lengths live in vlan_tci_outer (no link of ours strips tags in hardware), not in
 * m->l2_len and m->l3_len: those are in the mbuf's second cache line, which would then
 * travel between cores with every packet.
 *
 * After pkt_classify:
 * - L3 type set: that header is whole, in the first mbuf segment, and its lengths agree with
 *   the packet's (IPv4: version, IHL, total_length; IPv6: payload_length, extension headers
 *   walked). pkt_l3_len covers IPv4 options and IPv6 extension headers.
 * - L4 type TCP/UDP/ICMP/SCTP set: that header is whole, its length field (TCP data offset, UDP
 *   length) agrees with the packet's, and the packet is no fragment. A TCP or UDP packet without
 *   it is still one of IP: a router forwards it, a firewall must not.
 *   RTE_PTYPE_L4_FRAG: a fragment, first or not (pkt_is_first_fragment tells).
 * - PKT_MALFORMED: an EtherType of IP whose header fails the above. NFs answer NF_ABORT.
 * Checksums are not verified here.
 */
#define PKT_CLASSIFIED (1u << 30)
#define PKT_MALFORMED (1u << 31)

void pkt_classify(struct rte_mbuf *m);
/*
 * The same for an IP header known to begin at l2_len, behind an encapsulation that only its caller
 * looks into, and which therefore restores packet_type and vlan_tci_outer afterwards.
 */
void pkt_classify_at(struct rte_mbuf *m, uint32_t l2_len, bool ipv6);

/*
 * In an elastic segment (docs/design/elastic.md): the bucket that the packet was steered by, from where a
 * writer of the segment's links put it until it leaves; 0 elsewhere. It stands where packet_type has an
 * inner packet's types, which classification does not look for.
 */
#define PKT_BUCKETS 256
#define PKT_BUCKET_SHIFT 12
#define PKT_BUCKET_MASK ((PKT_BUCKETS - 1u) << PKT_BUCKET_SHIFT)

static inline uint8_t pkt_bucket(const struct rte_mbuf *m)
{
	return (uint8_t)(m->packet_type >> PKT_BUCKET_SHIFT);
}

static inline void pkt_set_bucket(struct rte_mbuf *m, uint8_t bucket)
{
	m->packet_type = (m->packet_type & ~PKT_BUCKET_MASK) | (uint32_t)bucket << PKT_BUCKET_SHIFT;
}

/*
 * Its trail through a segment whose functions leave them (table/flow.h): where the record that one found
 * for it keeps the number of the next one's. Nothing outside of a burst with `trails` is to read it: the
 * place may be gone. It is where a NIC puts its hash, which nobody asks for.
 */
static inline uint32_t *pkt_trail(const struct rte_mbuf *m)
{
	uint32_t *trail;

	memcpy(&trail, &m->hash, sizeof(trail));
	return trail;
}

static inline void pkt_set_trail(struct rte_mbuf *m, uint32_t *trail)
{
	memcpy(&m->hash, &trail, sizeof(trail));
}

static inline bool pkt_malformed(const struct rte_mbuf *m)
{
	return m->packet_type & PKT_MALFORMED;
}

static inline bool pkt_is_ipv4(const struct rte_mbuf *m)
{
	return RTE_ETH_IS_IPV4_HDR(m->packet_type);
}

static inline bool pkt_is_ipv6(const struct rte_mbuf *m)
{
	return RTE_ETH_IS_IPV6_HDR(m->packet_type);
}

static inline uint32_t pkt_l4(const struct rte_mbuf *m)
{
	return m->packet_type & RTE_PTYPE_L4_MASK;
}

static inline uint32_t pkt_l2_len(const struct rte_mbuf *m)
{
	return m->vlan_tci_outer & 0x7f;
}

static inline uint32_t pkt_l3_len(const struct rte_mbuf *m)
{
	return m->vlan_tci_outer >> 7;
}

/* What classification found, to be put back behind pkt_classify_at, or into a copy. */
static inline uint16_t pkt_lens(const struct rte_mbuf *m)
{
	return m->vlan_tci_outer;
}

static inline void pkt_set_class(struct rte_mbuf *m, uint32_t packet_type, uint16_t lens)
{
	m->packet_type = packet_type;
	m->vlan_tci_outer = lens;
}

/* Whether both are these, asked at once. */
static inline bool pkt_lens_are(const struct rte_mbuf *m, uint32_t l2_len, uint32_t l3_len)
{
	return m->vlan_tci_outer == (l2_len | l3_len << 7);
}

/* l2_len at most 127, l3_len at most 511: the widths of mbuf's own fields. */
static inline void pkt_set_lens(struct rte_mbuf *m, uint32_t l2_len, uint32_t l3_len)
{
	m->vlan_tci_outer = l2_len | l3_len << 7;
}

static inline struct rte_ether_hdr *pkt_eth(const struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
}

static inline void *pkt_l3_hdr(const struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod_offset(m, void *, pkt_l2_len(m));
}

static inline void *pkt_l4_hdr(const struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod_offset(m, void *, pkt_l2_len(m) + pkt_l3_len(m));
}

/* IPv6: the protocol after the extension headers, as pkt_classify found it. */
uint8_t pkt_ipv6_proto(const struct rte_mbuf *m);

/* Symmetric over (src, dst) and (sport, dport); fragments by addresses only. Never 0 for IP. */
uint32_t pkt_flow_hash(const struct rte_mbuf *m);

/* Of its source address alone, or its destination; of what is not IP as pkt_flow_hash. */
uint32_t pkt_address_hash(const struct rte_mbuf *m, bool destination);

/*
 * RFC 1624 eqn. 3: the checksum after a 16-bit word changed from old to new.
 * All in network byte order.
 */
static inline uint16_t csum_update16(uint16_t csum, uint16_t old_word, uint16_t new_word)
{
	uint32_t sum = (uint16_t)~csum + (uint16_t)~old_word + new_word;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}
