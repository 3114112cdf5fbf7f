/* SPDX-License-Identifier: Apache-2.0 */
#include "pkt.h"

#define IPV6_EXT_MAX 8 /* extension headers walked before a packet counts as malformed */

/* RFC 9293 section 3.1: five words or more, and no more than there is. */
static inline bool tcp_fits(const uint8_t *tcp, uint32_t have, uint32_t whole)
{
	return have >= sizeof(struct rte_tcp_hdr) && tcp[12] >= 5 << 4 &&
	       (uint32_t)(tcp[12] >> 4) * 4 <= whole;
}

/* RFC 768: header and data; what is behind is no part of the datagram. */
static inline bool udp_fits(const uint8_t *udp, uint32_t have, uint32_t whole)
{
	uint32_t len;

	if (have < sizeof(struct rte_udp_hdr))
		return false;
	len = (uint32_t)udp[4] << 8 | udp[5];
	return len >= sizeof(struct rte_udp_hdr) && len <= whole;
}

/*
 * The type of a header that is there, and whose own length agrees with the packet's: `have`
 * bytes of it are in this mbuf segment, `whole` by the IP header.
 */
static inline uint32_t classify_l4(uint8_t proto, const uint8_t *l4, uint32_t have, uint32_t whole)
{
	switch (proto) {
	case IPPROTO_TCP:
		return tcp_fits(l4, have, whole) ? RTE_PTYPE_L4_TCP : 0;
	case IPPROTO_UDP:
		return udp_fits(l4, have, whole) ? RTE_PTYPE_L4_UDP : 0;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return have >= 8 ? RTE_PTYPE_L4_ICMP : 0;
	case IPPROTO_SCTP:
		return have >= 12 ? RTE_PTYPE_L4_SCTP : 0;
	}
	return 0;
}

static inline uint32_t classify_ipv4(struct rte_mbuf *m, uint32_t l2_len)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, void *, l2_len);
	uint32_t have = m->data_len - l2_len, ihl, total, l4;

	if (m->data_len < l2_len + sizeof(*ip))
		return PKT_MALFORMED;
	ihl = (ip->version_ihl & 0xf) * 4;
	total = rte_be_to_cpu_16(ip->total_length);
	if (ip->version_ihl >> 4 != 4 || ihl < sizeof(*ip) || ihl > have || total < ihl ||
	    total > m->pkt_len - l2_len)
		return PKT_MALFORMED;
	pkt_set_lens(m, l2_len, ihl);
	l4 = ip->fragment_offset & rte_cpu_to_be_16(0x3fff)
		     ? RTE_PTYPE_L4_FRAG
		     : classify_l4(ip->next_proto_id, (const uint8_t *)ip + ihl,
				   RTE_MIN(have, total) - ihl, total - ihl);
	return l4 | (ihl == sizeof(*ip) ? RTE_PTYPE_L3_IPV4 : RTE_PTYPE_L3_IPV4_EXT);
}

struct ipv6_walk {
	uint32_t offset; /* from the L3 header to what follows the last extension */
	uint8_t proto;
	bool frag, ok;
};

/* RFC 8200 section 4; ESP and "no next header" end the walk as a protocol of their own. */
static struct ipv6_walk ipv6_walk(const uint8_t *l3, uint32_t have)
{
	struct ipv6_walk w = {.offset = sizeof(struct rte_ipv6_hdr), .proto = l3[6]};
	uint32_t len;

	for (int i = 0; i < IPV6_EXT_MAX; i++) {
		switch (w.proto) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_AH:
		case IPPROTO_FRAGMENT:
			break;
		default:
			w.ok = true;
			return w;
		}
		if (w.offset + 8 > have)
			return w;
		len = (l3[w.offset + 1] + 1) * 8;
		if (w.proto == IPPROTO_AH)
			len = (l3[w.offset + 1] + 2) * 4;
		if (w.proto == IPPROTO_FRAGMENT) {
			len = 8;
			/* RFC 6946: an atomic fragment is a whole packet. */
			w.frag |= ((l3[w.offset + 2] << 8 | l3[w.offset + 3]) & 0xfff9) != 0;
		}
		if (w.offset + len > have)
			return w;
		w.proto = l3[w.offset];
		w.offset += len;
		if (w.frag) {
			w.ok = true;
			return w;
		}
	}
	return w;
}

static uint32_t classify_ipv6(struct rte_mbuf *m, uint32_t l2_len)
{
	const uint8_t *l3 = rte_pktmbuf_mtod_offset(m, uint8_t *, l2_len);
	uint32_t have = m->data_len - l2_len, payload, whole, l4;
	struct ipv6_walk w;

	if (m->data_len < l2_len + sizeof(struct rte_ipv6_hdr) || l3[0] >> 4 != 6)
		return PKT_MALFORMED;
	payload = l3[4] << 8 | l3[5];
	if (payload + sizeof(struct rte_ipv6_hdr) > m->pkt_len - l2_len)
		return PKT_MALFORMED;
	whole = payload + (uint32_t)sizeof(struct rte_ipv6_hdr);
	have = RTE_MIN(have, whole);
	w = ipv6_walk(l3, have);
	if (!w.ok || w.offset > 511) /* what pkt_set_lens can say */
		return PKT_MALFORMED;
	pkt_set_lens(m, l2_len, w.offset);
	l4 = w.frag ? RTE_PTYPE_L4_FRAG
		    : classify_l4(w.proto, l3 + w.offset, have - w.offset, whole - w.offset);
	return l4 | (w.offset == sizeof(struct rte_ipv6_hdr) ? RTE_PTYPE_L3_IPV6
							     : RTE_PTYPE_L3_IPV6_EXT);
}

/* Tags are rare: out of the way of the common case. At most two, 802.1ad outside 802.1Q. */
static __rte_noinline uint32_t skip_vlan(const struct rte_mbuf *m, uint16_t *type)
{
	uint32_t l2_len = sizeof(struct rte_ether_hdr);

	for (int tags = 0; tags < 2; tags++) {
		const struct rte_vlan_hdr *v;

		if (*type != rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) &&
		    *type != rte_cpu_to_be_16(RTE_ETHER_TYPE_QINQ))
			break;
		if (m->data_len < l2_len + sizeof(*v))
			return 0;
		v = rte_pktmbuf_mtod_offset(m, void *, l2_len);
		*type = v->eth_proto;
		l2_len += sizeof(*v);
	}
	return l2_len;
}

void pkt_classify(struct rte_mbuf *m)
{
	uint32_t l2_len = sizeof(struct rte_ether_hdr), ptype = PKT_CLASSIFIED;
	uint16_t type;

	m->vlan_tci_outer = 0;
	if (unlikely(m->data_len < sizeof(struct rte_ether_hdr))) {
		m->packet_type = ptype | PKT_MALFORMED;
		return;
	}
	type = pkt_eth(m)->ether_type;
	ptype |= RTE_PTYPE_L2_ETHER;
	if (unlikely(type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) ||
		     type == rte_cpu_to_be_16(RTE_ETHER_TYPE_QINQ))) {
		l2_len = skip_vlan(m, &type);
		ptype = PKT_CLASSIFIED | RTE_PTYPE_L2_ETHER_VLAN;
		if (!l2_len) {
			m->packet_type = ptype | PKT_MALFORMED;
			return;
		}
	}
	pkt_set_lens(m, l2_len, 0);
	if (likely(type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)))
		ptype |= classify_ipv4(m, l2_len);
	else if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6))
		ptype |= classify_ipv6(m, l2_len);
	else if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP))
		ptype = PKT_CLASSIFIED | RTE_PTYPE_L2_ETHER_ARP;
	m->packet_type = ptype;
}

void pkt_classify_at(struct rte_mbuf *m, uint32_t l2_len, bool ipv6)
{
	pkt_set_lens(m, l2_len, 0);
	m->packet_type = PKT_CLASSIFIED | RTE_PTYPE_L2_ETHER |
			 (ipv6 ? classify_ipv6(m, l2_len) : classify_ipv4(m, l2_len));
}

uint8_t pkt_ipv6_proto(const struct rte_mbuf *m)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	if (pkt_l3_len(m) == sizeof(struct rte_ipv6_hdr))
		return l3[6];
	return ipv6_walk(l3, m->data_len - pkt_l2_len(m)).proto;
}

static inline bool has_ports(const struct rte_mbuf *m)
{
	uint32_t l4 = pkt_l4(m);

	return l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_SCTP;
}

/*
 * Sum and XOR make it symmetric, CRC32C mixes. They are hashed in different places: a CRC begins with its
 * initial value XORed to the first bytes, so a sum there would undo the XOR and leave but the carries.
 */
static inline uint32_t mix4(uint32_t a, uint32_t b, uint32_t ports)
{
	uint32_t h = rte_hash_crc_8byte((uint64_t)(a ^ b) << 32 | (uint32_t)(a + b), 1);

	return rte_hash_crc_4byte(ports, h) | 1;
}

static inline uint32_t mix8(uint64_t a, uint64_t b, uint32_t ports)
{
	uint32_t h = rte_hash_crc_8byte(a + b, rte_hash_crc_8byte(a ^ b, 1));

	return rte_hash_crc_4byte(ports, h) | 1;
}

uint32_t pkt_flow_hash(const struct rte_mbuf *m)
{
	uint32_t ports = 0;

	if (has_ports(m)) {
		const uint16_t *p = pkt_l4_hdr(m);

		ports = (uint32_t)(p[0] ^ p[1]) << 16 | (uint16_t)(p[0] + p[1]);
	}
	if (likely(pkt_is_ipv4(m))) {
		const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

		return mix4(ip->src_addr, ip->dst_addr, ports ^ ip->next_proto_id);
	}
	if (pkt_is_ipv6(m)) {
		const uint8_t *l3 = pkt_l3_hdr(m);
		uint64_t w[4];

		rte_memcpy(w, l3 + 8, sizeof(w));
		return mix8(rte_hash_crc_8byte(w[0], 1) | (uint64_t)rte_hash_crc_8byte(w[1], 2) << 32,
			    rte_hash_crc_8byte(w[2], 1) | (uint64_t)rte_hash_crc_8byte(w[3], 2) << 32,
			    ports);
	}
	if (m->data_len >= 12) {
		const uint16_t *mac = rte_pktmbuf_mtod(m, const uint16_t *);

		return mix8((uint64_t)mac[0] << 32 | (uint64_t)mac[1] << 16 | mac[2],
			    (uint64_t)mac[3] << 32 | (uint64_t)mac[4] << 16 | mac[5], 0);
	}
	return 1;
}

uint32_t pkt_address_hash(const struct rte_mbuf *m, bool destination)
{
	if (likely(pkt_is_ipv4(m))) {
		const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

		return rte_hash_crc_4byte(destination ? ip->dst_addr : ip->src_addr, 1);
	}
	if (pkt_is_ipv6(m)) {
		uint64_t w[2];

		rte_memcpy(w, (const uint8_t *)pkt_l3_hdr(m) + (destination ? 24 : 8), sizeof(w));
		return rte_hash_crc_8byte(w[1], rte_hash_crc_8byte(w[0], 1));
	}
	return pkt_flow_hash(m);
}
