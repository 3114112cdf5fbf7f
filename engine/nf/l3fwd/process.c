/* SPDX-License-Identifier: Apache-2.0 */
#include "l3fwd.h"

#include <string.h>

#include <rte_branch_prediction.h>

#include "core/pkt.h"
#include "nf/lib/ip_forward.h"

/* The packets of a burst that are to be looked up in one table. */
struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	uint16_t next_hops[BURST_MAX];
	union {
		uint32_t v4[BURST_MAX]; /* host order, as fib.h wants them */
		uint8_t v6[BURST_MAX][16];
	} dst;
};

/*
 * RFC 1812 section 5.3.7: what may not be a source, what may not be a destination, by first octet:
 * 0/8 and 127/8 neither; 224/4 no source; 240/4 neither. 169.254/16 needs a second look.
 */
enum { BAD_SRC = 1, BAD_DST = 2, LOOK_AGAIN = 4, MULTICAST_DST = 8 };

static const uint8_t first_octet[256] = {
	[0] = BAD_SRC | BAD_DST,
	[127] = BAD_SRC | BAD_DST,
	[169] = LOOK_AGAIN,
	[224 ... 239] = BAD_SRC | MULTICAST_DST,
	[240 ... 255] = BAD_SRC | BAD_DST,
};

static bool link_local4(uint32_t addr)
{
	return (rte_be_to_cpu_32(addr) >> 16) == 0xa9fe; /* RFC 3927 section 7 */
}

/* 0, or the reason's verdict. */
static inline uint8_t check_addresses4(const struct l3fwd *l3, const struct rte_ipv4_hdr *ip)
{
	uint8_t src = first_octet[*(const uint8_t *)&ip->src_addr];
	uint8_t dst = first_octet[*(const uint8_t *)&ip->dst_addr];

	if (likely(!(src | dst)))
		return 0;
	if (dst & MULTICAST_DST)
		return NF_DROP(DROP_MULTICAST);
	if (l3->forward_martians)
		return 0;
	if (src & BAD_SRC || dst & BAD_DST || link_local4(ip->src_addr) || link_local4(ip->dst_addr))
		return NF_DROP(DROP_MARTIAN);
	return 0;
}

/* Version, IHL and lengths are pkt_classify's to check (RFC 1812 section 5.2.2, 2 to 5). */
static inline uint8_t check4(const struct l3fwd *l3, const struct rte_mbuf *m,
			     const struct rte_ipv4_hdr *ip)
{
	unsigned int bytes = sizeof(*ip);

	if (l3->verify_checksum) {
		/* A constant length lets the common sum be unrolled. */
		if (unlikely(pkt_l3_len(m) != bytes)) {
			if (!ip_checksum_ok(ip, pkt_l3_len(m)))
				return NF_DROP(DROP_BAD_CHECKSUM);
		} else if (unlikely(!ip_checksum_ok(ip, sizeof(*ip)))) {
			return NF_DROP(DROP_BAD_CHECKSUM);
		}
	}
	if (unlikely(ip->time_to_live <= 1))
		return NF_DROP(DROP_TTL_EXPIRED);
	return check_addresses4(l3, ip);
}

/* RFC 4291: the unspecified address 2.5.2, loopback 2.5.3, link-local 2.5.6, multicast 2.7. */
static inline bool stays_on_link6(const uint8_t *a)
{
	static const uint8_t zeros[15];

	if (a[0] == 0)
		return !memcmp(a, zeros, 15) && a[15] <= 1;
	return a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
}

static inline uint8_t check6(const struct l3fwd *l3, const struct rte_ipv6_hdr *ip)
{
	if (unlikely(ip->hop_limits <= 1))
		return NF_DROP(DROP_TTL_EXPIRED);
	if (unlikely(ipv6_dst(ip)[0] == 0xff))
		return NF_DROP(DROP_MULTICAST);
	if (l3->forward_martians)
		return 0;
	if (unlikely(ipv6_src(ip)[0] == 0xff || stays_on_link6(ipv6_src(ip)) ||
		     stays_on_link6(ipv6_dst(ip))))
		return NF_DROP(DROP_MARTIAN);
	return 0;
}

/* The verdict on a packet that is not looked up, or 0 when it was put into a batch. */
static inline uint8_t sort_packet(const struct l3fwd *l3, struct rte_mbuf *m, uint8_t i,
				  struct batch *batches)
{
	struct batch *v4 = &batches[L3_IPV4], *v6 = &batches[L3_IPV6];
	uint8_t bad;

	if (unlikely(pkt_malformed(m)))
		return NF_ABORT;
	/* RFC 1812 section 5.3.4: a link-layer broadcast is not forwarded. */
	if (unlikely(rte_is_multicast_ether_addr(&pkt_eth(m)->dst_addr)))
		return NF_DROP(DROP_LINK_MULTICAST);
	if (likely(pkt_is_ipv4(m))) {
		const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

		bad = check4(l3, m, ip);
		v4->pos[v4->n] = i;
		v4->dst.v4[v4->n] = rte_be_to_cpu_32(ip->dst_addr);
		v4->n += !bad;
		return bad;
	}
	if (pkt_is_ipv6(m)) {
		const struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);

		bad = check6(l3, ip);
		v6->pos[v6->n] = i;
		memcpy(v6->dst.v6[v6->n], ipv6_dst(ip), 16);
		v6->n += !bad;
		return bad;
	}
	return l3->pass_not_ip ? 0 : NF_DROP(DROP_NOT_IP);
}

static inline void set_macs(struct rte_mbuf *m, const struct l3fwd_next_hop *nh)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	memcpy(frame, &nh->macs_low, sizeof(nh->macs_low));
	memcpy(frame + sizeof(nh->macs_low), &nh->macs_high, sizeof(nh->macs_high));
}

static __rte_always_inline void forward(const struct l3fwd *l3, struct burst *b,
					struct batch *batch, enum l3fwd_family family)
{
	const struct fib *fib = l3->fibs[family];

	if (!batch->n)
		return;
	if (likely(fib))
		fib_lookup(fib, &batch->dst, batch->next_hops, batch->n);
	for (unsigned int i = 0; i < batch->n; i++) {
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		const struct l3fwd_next_hop *nh = &l3->next_hops[batch->next_hops[i]];

		if (unlikely(!fib || batch->next_hops[i] == FIB_MISS)) {
			b->verdict[batch->pos[i]] = NF_DROP(DROP_NO_ROUTE);
			continue;
		}
		if (family == L3_IPV4)
			ip_decrement_ttl(pkt_l3_hdr(m));
		else
			((struct rte_ipv6_hdr *)pkt_l3_hdr(m))->hop_limits--;
		set_macs(m, nh);
		b->verdict[batch->pos[i]] = (uint8_t)nh->edge;
	}
}

void l3fwd_process(struct nf_worker *w, struct burst *b)
{
	const struct l3fwd *l3 = w->nf->state;
	struct batch batches[L3_FAMILIES];

	batches[L3_IPV4].n = batches[L3_IPV6].n = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		uint8_t bad = sort_packet(l3, b->pkts[i], (uint8_t)i, batches);

		if (unlikely(bad))
			b->verdict[i] = bad;
	}
	forward(l3, b, &batches[L3_IPV4], L3_IPV4);
	forward(l3, b, &batches[L3_IPV6], L3_IPV6);
}
