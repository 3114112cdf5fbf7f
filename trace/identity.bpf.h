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
/* Bytes 4 to 11 of an IPv4 header: identification, MF and fragment offset, protocol. */
#define IPV4_KEY bpf_cpu_to_be64(0xffff3fff00ff0000ull)
#define IPV4_KEY_UNCUT bpf_cpu_to_be64(0xffff000000ff0000ull)

#define L3_READ 48u     /* IPv4 and what L4_READ has, or an IPv6 header */
#define L4_READ 24u     /* TCP header, or UDP header and some payload */
#define PAYLOAD_WORDS 4 /* of 32 bits, of UDP payload in the identity */
#define AUDIT_AT 16     /* the audit compares 8 bytes of UDP payload that it does not cover */

static __always_inline __u16 get16(const __u8 *p)
{
	return bpf_ntohs(*(const __u16 *)p);
}

static __always_inline __u32 get32(const __u8 *p)
{
	return bpf_ntohl(*(const __u32 *)p);
}

/* As they lie in memory: to compare, not to compute with. */
static __always_inline __u32 raw32(const __u8 *p)
{
	return *(const __u32 *)p;
}

static __always_inline __u64 raw64(const __u8 *p)
{
	return *(const __u64 *)p;
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

/*
 * `bytes` at `from`: in place, or copied to `copy`. NULL when they cannot be read. Each load
 * in place is checked by the JIT, with some nine instructions: few wide ones are what is cheap.
 */
static __always_inline const __u8 *reading(const __u8 *from, __u8 *copy, __u32 bytes)
{
	if (direct_reads)
		return from;
	return bpf_probe_read_kernel(copy, bytes, from) ? NULL : copy;
}

static __always_inline void ident_tcp(struct ident *id, const __u8 *l4, __u32 l4_total)
{
	__u32 doff = (l4[12] >> 4) * 4, seq = raw32(l4 + 4);

	id->l4[0] = seq;
	id->seq = bpf_ntohl(seq);
	id->l4_bytes = l4_total > doff ? l4_total - doff : 0;
}

/* `words` > 0: read as many as the first stage did; 0: as many as are linear. */
static __always_inline void ident_udp(struct ident *id, const __u8 *payload, __s64 linear,
				      __u32 words)
{
	__u32 n = words ?: PAYLOAD_WORDS;

	if (linear < 4)
		return;
	if (!words && (__u64)linear / 4 < n)
		n = (__u64)linear / 4;
	if ((__s64)n * 4 > linear)
		return;
	id->payload_valid = n;
	if (n == PAYLOAD_WORDS) {
		id->l4[0] = raw64(payload);
		id->l4[1] = raw64(payload + 8);
		return;
	}
	id->l4[0] = raw32(payload);
	if (n > 1)
		id->l4[0] |= (__u64)raw32(payload + 4) << 32;
	if (n > 2)
		id->l4[1] = raw32(payload + 8);
}

static __always_inline void ident_l4(struct ident *id, const __u8 *l4, __s64 linear, __u32 total,
				     __u32 words)
{
	id->ports = get32(l4);
	if (id->proto == IPPROTO_TCP_)
		ident_tcp(id, l4, total ?: 1 << 20); /* 0: larger than the field can say */
	else if (id->proto == IPPROTO_UDP_)
		ident_udp(id, l4 + 8, linear - 8, words);
	else
		id->l4[0] = raw32(l4 + 4);
}

static __always_inline int ident_ipv4(struct ident *id, const __u8 *h, const __u8 *l3, __s64 linear,
				      __u32 words)
{
	__u32 first = get32(h), ihl = (first >> 24 & 15) * 4, total = first & 0xffff;
	__u64 key = raw64(h + 4) & IPV4_KEY, addresses, parts = bpf_be64_to_cpu(key);
	__u8 copy[L4_READ] __attribute__((aligned(8)));
	const __u8 *l4 = h + 20;

	if (ihl < 20)
		return -1;
	id->ip_id = parts >> 48;
	id->frag = parts >> 32 & (FRAG_MORE | FRAG_OFFSET);
	id->proto = parts >> 16;
	addresses = bpf_be64_to_cpu(raw64(h + 12));
	id->saddr = addresses >> 32;
	id->daddr = addresses;
	if (ihl > 20)
		l4 = reading(l3 + ihl, copy, sizeof(copy));
	if (!l4)
		return -1;
	if (id->frag & FRAG_OFFSET) { /* no transport header here */
		id->key = key;
		id->l4[0] = raw32(l4);
		return 0;
	}
	id->key = key & IPV4_KEY_UNCUT; /* the first fragment becomes the whole datagram */
	ident_l4(id, l4, linear - ihl, total > ihl ? total - ihl : 0, words);
	if (direct_reads && ihl == 20 && !id->frag &&
	    (id->proto == IPPROTO_TCP_ || id->payload_valid == PAYLOAD_WORDS))
		id->quick = id->proto;
	return 0;
}

static __always_inline int ident_ipv6(struct ident *id, const __u8 *h, const __u8 *l3, __s64 linear,
				      __u32 words)
{
	__u8 copy[L4_READ] __attribute__((aligned(8)));
	const __u8 *l4 = reading(l3 + 40, copy, sizeof(copy));

	if (!l4)
		return -1;
	id->key = id->proto = h[6];
	id->saddr = get32(h + 8) ^ get32(h + 12) ^ get32(h + 16) ^ get32(h + 20);
	id->daddr = get32(h + 24) ^ get32(h + 28) ^ get32(h + 32) ^ get32(h + 36);
	if (id->proto == IPV6_FRAGMENT) {
		id->frag = (get16(l4 + 2) >> 3) | (l4[3] & 1 ? FRAG_MORE : 0);
		id->key |= (__u64)get32(l4 + 4) << 32 | (__u64)(id->frag & FRAG_OFFSET) << 8;
		return 0;
	}
	ident_l4(id, l4, linear - 40, get16(h + 4), words);
	return 0;
}

/*
 * Not an error when it cannot be read: -1, and the packet is not followed. Not inlined: with all
 * its copies on the stack once more, a hook and `adopt` would have more than the 512 bytes.
 */
static __noinline int ident_read(struct sk_buff *skb, enum stage stage, struct ident *id,
				 __u32 words)
{
	const __u8 *l3 = l3_header(skb, stage), *h;
	__s64 linear = (__s64)(address(skb->data) + skb->len - skb->data_len - address(l3));
	/* The verifier wants loads from the stack aligned: an IPv4 header's are from 4 on. */
	__u8 copy[4 + L3_READ] __attribute__((aligned(8)));

	__builtin_memset(id, 0, sizeof(*id));
	h = reading(l3, copy + 4, L3_READ);
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
	if (was->version != is->version || was->key != is->key)
		return false;
	return was->payload_valid != is->payload_valid ||
	       (was->l4[0] == is->l4[0] && was->l4[1] == is->l4[1]);
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
 * The same for what most packets are, in three or four loads: IPv4 without options, uncut,
 * TCP or enough of UDP. False says nothing: then all is read. The version is not looked at again:
 * an IPv6 packet that has this protocol's number, this identification and no fragment offset
 * where IPv4 has them would have to have the same sequence number or payload as well.
 */
static __always_inline bool ident_same_quick(const struct ident *was, __u8 quick,
					     struct sk_buff *skb, enum stage stage)
{
	const __u8 *h;

	if (!direct_reads || !quick)
		return false;
	h = l3_header(skb, stage);
	if ((raw64(h + 4) & IPV4_KEY) != was->key)
		return false;
	if (quick == IPPROTO_TCP_)
		return raw32(h + 24) == (__u32)was->l4[0];
	return raw64(h + 28) == was->l4[0] && raw64(h + 36) == was->l4[1];
}
