/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * Which packet is this? The address of its data (skb->head) alone does not say: a freed
 * buffer's address is soon another packet's, and not each free passes a tracepoint. So
 * a head is believed only if what NFs leave alone in the headers also agrees:
 * IP identification, fragment offset, TCP sequence number, the first bytes of a UDP payload.
 * TTL, DSCP, addresses, ports, checksums and lengths are left out: forwarding, NAT, GRO
 * and checksum offload change them on a packet's legitimate way.
 */

#include "kernel.h"
#include "shared.h"

#include <bpf/bpf_endian.h>

#define ETH_8021Q 0x8100
#define ETH_8021AD 0x88a8
#define IPPROTO_TCP_ 6
#define IPPROTO_UDP_ 17
#define IPV6_FRAGMENT 44
#define FRAG_MORE 0x2000
#define FRAG_OFFSET 0x1fff

#define L3_READ 48u     /* IPv4 and what L4_READ has, or an IPv6 header */
#define L4_READ 24u     /* TCP header, or UDP header and some payload */
#define PAYLOAD_WORDS 4 /* of UDP payload in the fingerprint */
#define AUDIT_AT 16     /* the audit compares 8 bytes of UDP payload that it does not cover */

static __always_inline __u32 mix32(__u32 a, __u32 b)
{
	__u64 x = (__u64)(a ^ 0x9e3779b9u) * 0xff51afd7ed558ccdull + b;

	x *= 0xc4ceb9fe1a85ec53ull;
	return x >> 32;
}

static __always_inline __u16 get16(const __u8 *p)
{
	return bpf_ntohs(*(const __u16 *)p);
}

static __always_inline __u32 get32(const __u8 *p)
{
	return bpf_ntohl(*(const __u32 *)p);
}

/*
 * Since Linux 6.17 the verifier lets a char pointer read from a kernel structure be
 * followed (a fault reads zero); a copy by bpf_probe_read_kernel costs a call, about 50 ns
 * where returns are mitigated. User space sets this if the kernel takes it.
 */
const volatile bool direct_reads;

/* Where the innermost network header is. Before IP input, skb->data; after, the offset. */
static __always_inline const __u8 *l3_header(struct sk_buff *skb, enum stage stage)
{
	if (BPF_CORE_READ_BITFIELD(skb, encapsulation) && skb->inner_network_header)
		return skb->head + skb->inner_network_header;
	if (stage != STAGE_NETIF_RX && stage != STAGE_GRO && stage != STAGE_RECEIVE)
		return skb->head + skb->network_header;
	if (skb->protocol == bpf_htons(ETH_8021Q) || skb->protocol == bpf_htons(ETH_8021AD))
		return skb->data + 4;
	return skb->data;
}

/* `bytes` at `from`: in place, or copied to buf. NULL when they cannot be read. */
static __always_inline const __u8 *reading(const __u8 *from, __u8 *buf, __u32 bytes)
{
	if (direct_reads)
		return from;
	return bpf_probe_read_kernel(buf, bytes, from) ? NULL : buf;
}

static __always_inline void ident_tcp(struct ident *id, const __u8 *l4, __u32 l4_total)
{
	__u32 doff = (l4[12] >> 4) * 4;

	id->seq = get32(l4 + 4);
	id->l4_bytes = l4_total > doff ? l4_total - doff : 0;
	id->print = mix32(id->seq, (__u32)id->ip_id << 8 | id->proto);
}

/* `words` > 0: hash as many as the first stage did; 0: as many as are linear. */
static __always_inline void ident_udp(struct ident *id, const __u8 *payload, __s64 linear,
				      __u32 words, __u32 max)
{
	__u32 sum = 0, n = words ? words : max;

	id->print = mix32(id->proto, id->ip_id);
	if (linear < 4)
		return;
	if (!words && (__u64)linear / 4 < n)
		n = (__u64)linear / 4;
	if ((__s64)n * 4 > linear)
		return;
#pragma unroll
	for (__u32 i = 0; i < PAYLOAD_WORDS; i++)
		if (i < n && i < max)
			sum = mix32(sum, get32(payload + 4 * i));
	id->payload = sum;
	id->payload_valid = n;
}

static __always_inline int ident_ipv4(struct ident *id, const __u8 *h, const __u8 *l3, __s64 linear,
				      __u32 words)
{
	__u32 ihl = (h[0] & 15) * 4, total = get16(h + 2);
	__u8 buf[L4_READ];
	const __u8 *l4 = h + 20;

	if (ihl < 20)
		return -1;
	id->ip_id = get16(h + 4);
	id->frag = get16(h + 6) & (FRAG_MORE | FRAG_OFFSET);
	id->proto = h[9];
	id->saddr = get32(h + 12);
	id->daddr = get32(h + 16);
	if (ihl > 20)
		l4 = reading(l3 + ihl, buf, sizeof(buf));
	if (!l4)
		return -1;
	linear -= ihl;
	if (id->frag & FRAG_OFFSET) { /* no transport header here */
		id->print = mix32((__u32)id->frag << 16 | id->ip_id, get32(l4));
		return 0;
	}
	id->ports = get32(l4);
	if (id->proto == IPPROTO_TCP_)
		ident_tcp(id, l4, total > ihl ? total - ihl : 1 << 20);
	else if (id->proto == IPPROTO_UDP_)
		ident_udp(id, l4 + 8, linear - 8, words, PAYLOAD_WORDS);
	else
		id->print = mix32((__u32)id->proto << 16 | id->ip_id, get32(l4 + 4));
	return 0;
}

static __always_inline int ident_ipv6(struct ident *id, const __u8 *h, const __u8 *l3, __s64 linear,
				      __u32 words)
{
	__u8 buf[L4_READ];
	const __u8 *l4 = reading(l3 + 40, buf, sizeof(buf));

	if (!l4)
		return -1;
	id->proto = h[6];
	id->saddr = get32(h + 8) ^ get32(h + 12) ^ get32(h + 16) ^ get32(h + 20);
	id->daddr = get32(h + 24) ^ get32(h + 28) ^ get32(h + 32) ^ get32(h + 36);
	if (id->proto == IPV6_FRAGMENT) {
		id->frag = (get16(l4 + 2) >> 3) | (l4[3] & 1 ? FRAG_MORE : 0);
		id->print = mix32(get32(l4 + 4), id->frag & FRAG_OFFSET);
		return 0;
	}
	id->ports = get32(l4);
	if (id->proto == IPPROTO_TCP_)
		ident_tcp(id, l4, get16(h + 4) ?: 1 << 20);
	else if (id->proto == IPPROTO_UDP_)
		ident_udp(id, l4 + 8, linear - 48, words, PAYLOAD_WORDS);
	else
		id->print = mix32(id->proto, get32(l4 + 4));
	return 0;
}

/* Not an error when it cannot be read: -1, and the packet is not followed. */
static __always_inline int ident_read(struct sk_buff *skb, enum stage stage, struct ident *id,
				      __u32 words)
{
	const __u8 *l3 = l3_header(skb, stage), *h;
	__s64 linear = (__s64)(address(skb->data) + skb->len - skb->data_len - address(l3));
	__u8 buf[L3_READ];

	__builtin_memset(id, 0, sizeof(*id));
	h = reading(l3, buf, sizeof(buf));
	if (!h)
		return -1;
	id->version = h[0] >> 4;
	if (id->version == 4)
		return ident_ipv4(id, h, l3, linear, words);
	if (id->version == 6)
		return ident_ipv6(id, h, l3, linear, words);
	return -1;
}

static __always_inline bool ident_same(const struct ident *was, const struct ident *is)
{
	if (was->version != is->version || was->proto != is->proto || was->print != is->print)
		return false;
	return !was->payload_valid || was->payload_valid != is->payload_valid ||
	       was->payload == is->payload;
}

/* Eight bytes of payload that take no part in the above: an independent witness. */
static __always_inline bool audit_read(struct sk_buff *skb, enum stage stage,
				       const struct ident *id, __u64 *word)
{
	const __u8 *at = l3_header(skb, stage) + (id->version == 4 ? 28 : 48) + AUDIT_AT;
	__s64 linear = (__s64)(address(skb->data) + skb->len - skb->data_len - address(at));

	if (id->proto != IPPROTO_UDP_ || id->frag || linear < 8)
		return false;
	return !bpf_probe_read_kernel(word, sizeof(*word), at);
}

/*
 * The same for what most packets are, without the whole reading: IPv4 without options, uncut,
 * TCP or enough of UDP. False says nothing: then all is read.
 */
static __always_inline bool ident_same_fast(const struct ident *was, struct sk_buff *skb,
					    enum stage stage)
{
	const __u8 *h = l3_header(skb, stage);
	__u32 sum = 0;

	if (!direct_reads || was->version != 4 || was->frag || h[0] != 0x45 || h[9] != was->proto)
		return false;
	if (get16(h + 4) != was->ip_id || get16(h + 6) & (FRAG_MORE | FRAG_OFFSET))
		return false;
	if (was->proto == IPPROTO_TCP_)
		return get32(h + 24) == was->seq;
	if (was->proto != IPPROTO_UDP_ || was->payload_valid != PAYLOAD_WORDS)
		return false;
#pragma unroll
	for (__u32 i = 0; i < PAYLOAD_WORDS; i++)
		sum = mix32(sum, get32(h + 28 + 4 * i));
	return sum == was->payload;
}
