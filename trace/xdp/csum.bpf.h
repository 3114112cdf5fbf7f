/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include "parse.bpf.h"

/* RFC 1624 eqn. 3: a sum over ~old + new, and its addition to a checksum. */
static __always_inline __u32 csum_delta16(__u16 was, __u16 is)
{
	return (__u16)~was + (__u32)is;
}

static __always_inline __u32 csum_delta32(__u32 was, __u32 is)
{
	return csum_delta16(was, is) + csum_delta16(was >> 16, is >> 16);
}

static __always_inline __u16 csum_add(__u16 checksum, __u32 delta)
{
	__u32 sum = (__u16)~checksum + delta;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* A UDP checksum of 0 means that there is none, and stays (RFC 768). */
static __always_inline void csum_add_l4(__u16 *check, bool udp, __u32 delta)
{
	if (udp && !*check)
		return;
	*check = csum_add(*check, delta);
	if (udp && !*check)
		*check = 0xffff;
}

/* An IPv4 packet's source or destination becomes another endpoint. TCP and UDP only. */
static __always_inline void rewrite_end(struct packet *p, bool source, __u32 addr, __u16 port)
{
	struct iphdr *ip = p->l3;
	struct tcphdr *tcp = p->l4;
	struct udphdr *udp = p->l4;
	__u32 *own = source ? &ip->saddr : &ip->daddr;
	__u32 delta = csum_delta32(*own, addr);
	__u16 *at;

	*own = addr;
	ip->check = csum_add(ip->check, delta);
	/* Bounds that parse() has found: the verifier wants to see them. */
	if (p->proto == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > p->end)
			return;
		at = source ? &tcp->source : &tcp->dest;
		csum_add_l4(&tcp->check, 0, delta + csum_delta16(*at, port));
		*at = port;
	} else {
		if ((void *)(udp + 1) > p->end)
			return;
		at = source ? &udp->source : &udp->dest;
		csum_add_l4(&udp->check, 1, delta + csum_delta16(*at, port));
		*at = port;
	}
}
