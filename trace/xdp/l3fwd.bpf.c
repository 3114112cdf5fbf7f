// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* An IPv4 and IPv6 router's data path (RFC 1812, RFC 8200), as the engine's l3fwd has it. */
#include "lpm.bpf.h"
#include "parse.bpf.h"

const volatile bool verify_checksum = 1, forward_martians, pass_not_ip;

LPM_MAP(routes4); /* -> 1 + number of the next hop */
LPM_MAP(routes6);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct macs);
} hops SEC(".maps");

/* RFC 1071; with options, the words behind the first ten. */
static __always_inline bool checksum_ok(const struct packet *p)
{
	const struct iphdr *ip = p->l3;
	const __u16 *word = p->l3;
	__u32 words = ip->ihl * 2, sum = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < 10; i++)
		sum += word[i];
	if (unlikely(words > 10)) {
		for (__u32 i = 10; i < 30 && i < words; i++) {
			const __u16 *behind = word + i + 1;

			/* The verifier knows no sums with the packet's end. */
			asm volatile("" : "+r"(behind));
			if ((const void *)behind > p->end)
				return 0;
			sum += behind[-1];
		}
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* RFC 3927 section 7. */
static __always_inline bool link_local4(__u32 addr)
{
	return addr >> 16 == 0xa9fe;
}

/* RFC 1812 section 5.3.7: 0/8 and 127/8 neither; 224/3 no source; 240/4 no destination. */
static __always_inline bool martian4(__u32 src, __u32 dst)
{
	__u8 from = src >> 24, to = dst >> 24;

	return from == 0 || from == 127 || from >= 224 || to == 0 || to == 127 || to >= 240 ||
	       link_local4(src) || link_local4(dst);
}

/* RFC 4291: ::, ::1, fe80::/10. */
static __always_inline bool stays_on_link6(const struct in6_addr *a)
{
	if (!a->s6_addr32[0] && !a->s6_addr32[1] && !a->s6_addr32[2])
		return bpf_ntohl(a->s6_addr32[3]) <= 1;
	return (a->s6_addr[0] == 0xfe) & ((a->s6_addr[1] & 0xc0) == 0x80);
}

static __always_inline int forward(struct xdp_md *ctx, struct packet *p, __u32 route)
{
	const struct macs *to;
	__u32 hop = route - 1;

	if (!route)
		return drop(L3_NO_ROUTE);
	to = bpf_map_lookup_elem(&hops, &hop);
	if (!to)
		return XDP_ABORTED;
	memcpy(p->eth->h_dest, to->dst, ETH_ALEN);
	memcpy(p->eth->h_source, to->src, ETH_ALEN);
	return go_on(ctx);
}

static __always_inline int forward4(struct xdp_md *ctx, struct packet *p)
{
	struct iphdr *ip = p->l3;
	__u32 src = bpf_ntohl(ip->saddr), dst = bpf_ntohl(ip->daddr), route, sum;
	__u8 addr[4];

	if (verify_checksum && !checksum_ok(p))
		return drop(L3_BAD_CHECKSUM);
	if (ip->ttl <= 1)
		return drop(L3_TTL_EXPIRED);
	if (dst >> 28 == 0xe)
		return drop(L3_MULTICAST);
	if (!forward_martians && martian4(src, dst))
		return drop(L3_MARTIAN);
	memcpy(addr, &ip->daddr, 4);
	route = lpm_find(&routes4, addr, 4);
	if (route) {
		/* RFC 1624: the word of the TTL loses 0x0100. */
		sum = ip->check + (__u32)bpf_htons(0x0100);
		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	}
	return forward(ctx, p, route);
}

static __always_inline int forward6(struct xdp_md *ctx, struct packet *p)
{
	struct ipv6hdr *ip = p->l3;
	__u8 addr[16];
	__u32 route;

	if (ip->hop_limit <= 1)
		return drop(L3_TTL_EXPIRED);
	if (ip->daddr.s6_addr[0] == 0xff)
		return drop(L3_MULTICAST);
	if (!forward_martians && (ip->saddr.s6_addr[0] == 0xff || stays_on_link6(&ip->saddr) ||
				  stays_on_link6(&ip->daddr)))
		return drop(L3_MARTIAN);
	memcpy(addr, &ip->daddr, 16);
	route = lpm_find(&routes6, addr, 16);
	if (route)
		ip->hop_limit--;
	return forward(ctx, p, route);
}

SEC("xdp")
int l3fwd(struct xdp_md *ctx)
{
	struct packet p;

	parse(&p, ctx);
	if (p.malformed)
		return drop(L3_MALFORMED);
	if (p.eth->h_dest[0] & 1)
		return drop(L3_LINK_MULTICAST);
	if (p.version == 4)
		return forward4(ctx, &p);
	if (p.version == 6)
		return forward6(ctx, &p);
	return pass_not_ip ? go_on(ctx) : drop(L3_NOT_IP);
}
