// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * An ordered list of rules by bit vectors (Lakshman and Stiliadis, 1998): each field of the packet
 * has the set of rules that it matches, the first rule that is in all sets is the packet's.
 */
#include "lpm.bpf.h"
#include "parse.bpf.h"

const volatile __u32 words = 1; /* of a set */
const volatile __u32 permits;   /* the set of rules that permit */
const volatile __u32 any_ports; /* the set of those that match packets without ports */
const volatile bool default_permits, non_ip_permits, fragments_permits = 1;

/* The numbers of sets, by a field's value. */
__u32 of_proto[256];
__u32 of_sport[65536];
__u32 of_dport[65536];

LPM_MAP(src4);
LPM_MAP(dst4);
LPM_MAP(src6);
LPM_MAP(dst6);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__uint(value_size, sizeof(__u64)); /* `words` of them, as headrace-xdp sets it */
} sets SEC(".maps");

static __always_inline const __u64 *set(__u32 number)
{
	return bpf_map_lookup_elem(&sets, &number);
}

static __always_inline void addresses(const struct packet *p, __u32 *src, __u32 *dst)
{
	const struct iphdr *ip4 = p->l3;
	const struct ipv6hdr *ip6 = p->l3;
	__u8 addr[32];

	if (p->version == 4) {
		memcpy(addr, &ip4->saddr, 8);
		*src = lpm_find(&src4, addr, 4);
		*dst = lpm_find(&dst4, addr + 4, 4);
	} else {
		memcpy(addr, &ip6->saddr, 32);
		*src = lpm_find(&src6, addr, 16);
		*dst = lpm_find(&dst6, addr + 16, 16);
	}
}

SEC("xdp")
int acl(struct xdp_md *ctx)
{
	const __u64 *src, *dst, *sport, *dport, *proto, *permit;
	__u32 src_set, dst_set;
	struct packet p;

	parse(&p, ctx);
	if (p.malformed)
		return drop(ACL_MALFORMED);
	if (!p.version)
		return non_ip_permits ? go_on(ctx) : drop(ACL_NON_IP);
	if (p.fragment && !fragments_permits)
		return drop(ACL_FRAGMENT);
	addresses(&p, &src_set, &dst_set);
	src = set(src_set);
	dst = set(dst_set);
	sport = set(p.ports ? of_sport[p.sport] : any_ports);
	dport = set(p.ports ? of_dport[p.dport] : any_ports);
	proto = set(of_proto[p.proto]);
	permit = set(permits);
	if (!src || !dst || !sport || !dport || !proto || !permit)
		return XDP_ABORTED;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < ACL_WORDS_MAX; i++) {
		__u64 all;

		if (i >= words)
			break;
		all = src[i] & dst[i] & sport[i] & dport[i] & proto[i];
		if (all) /* its lowest bit is the first rule */
			return all & -all & permit[i] ? go_on(ctx) : drop(ACL_DENIED);
	}
	return default_permits ? go_on(ctx) : drop(ACL_BY_DEFAULT);
}
