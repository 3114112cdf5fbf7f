/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "common.bpf.h"

#define SCTP_HEADER 12
#define IPV6_FRAGMENT 44
#define IPV4_FRAGMENT 0x3fff /* more fragments, offset */

/* As the engine's pkt_classify has it (core/pkt.h), but for tags and extension headers. */
struct packet {
	struct ethhdr *eth;
	void *l3, *l4, *end;
	__u32 l4_bytes; /* that the IP header says; padding is not among them */
	__u16 version;  /* 4, 6, or 0: not IP */
	__u16 ports;    /* whether there is a whole header with ports, of no fragment */
	__u16 sport, dport;
	__u8 proto;
	bool malformed, fragment;
};

static __always_inline void parse_ports(struct packet *p)
{
	const struct udphdr *udp = p->l4;
	const struct tcphdr *tcp = p->l4;

	if (p->fragment || (void *)(udp + 1) > p->end || p->l4_bytes < sizeof(*udp))
		return;
	if (p->proto == IPPROTO_UDP) {
		__u32 bytes = bpf_ntohs(udp->len);

		p->ports = bytes >= sizeof(*udp) && bytes <= p->l4_bytes;
	} else if (p->proto == IPPROTO_TCP) {
		if ((void *)(tcp + 1) <= p->end && p->l4_bytes >= sizeof(*tcp))
			p->ports = tcp->doff >= 5 && tcp->doff * 4u <= p->l4_bytes;
	} else {
		p->ports = p->proto == IPPROTO_SCTP && p->l4_bytes >= SCTP_HEADER;
	}
	p->sport = bpf_ntohs(udp->source);
	p->dport = bpf_ntohs(udp->dest);
}

static __always_inline void parse_ipv4(struct packet *p, void *at)
{
	struct iphdr *ip = at;
	__u32 header, total;

	p->malformed = 1;
	if ((void *)(ip + 1) > p->end)
		return;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || at + total > p->end)
		return;
	p->malformed = 0;
	p->version = 4;
	p->proto = ip->protocol;
	p->fragment = (ip->frag_off & bpf_htons(IPV4_FRAGMENT)) != 0;
	p->l4 = at + header;
	p->l4_bytes = total - header;
	parse_ports(p);
}

static __always_inline void parse_ipv6(struct packet *p, void *at)
{
	struct ipv6hdr *ip = at;
	__u32 payload;

	p->malformed = 1;
	if ((void *)(ip + 1) > p->end)
		return;
	payload = bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || (void *)(ip + 1) + payload > p->end)
		return;
	p->malformed = 0;
	p->version = 6;
	p->proto = ip->nexthdr;
	p->fragment = p->proto == IPV6_FRAGMENT;
	p->l4 = ip + 1;
	p->l4_bytes = payload;
	parse_ports(p);
}

static __always_inline void parse(struct packet *p, struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	*p = (struct packet){.eth = eth,
			     .l3 = eth + 1,
			     .l4 = eth + 1,
			     .end = (void *)(long)ctx->data_end,
			     .malformed = 1};
	if ((void *)(eth + 1) > p->end)
		return;
	p->malformed = 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		parse_ipv4(p, eth + 1);
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		parse_ipv6(p, eth + 1);
}
