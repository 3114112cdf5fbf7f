// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * A layer-4 load balancer by Maglev tables (Eisenbud et al., 2016): forward, packets for a VIP get
 * the address and the port of a backend, which is their flow's as long as the tables stay; reverse,
 * the source of a backend becomes the VIP. IPv4; no state.
 */
#include "csum.bpf.h"

const volatile bool forward = 1, drop_other;
const volatile __u32 entries = 65537; /* of the table of each VIP */
const volatile __u32 secret;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct lb_key);
	__type(value, __u32);
} vips SEC(".maps"); /* -> 1 + number, or LB_ADDRESS */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct lb_key);
	__type(value, __u32);
} by_backend SEC(".maps"); /* -> number */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} table SEC(".maps"); /* of all VIPs -> 1 + number of the backend; 0: none */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_backend);
} backends SEC(".maps");

static __always_inline __u32 mixed(__u32 h, __u32 word)
{
	h = (h ^ word) * 0x9e3779b1;
	return h ^ h >> 15;
}

/* Exact port first, then the entry for all ports. */
static __always_inline const __u32 *find(void *map, struct lb_key *key)
{
	const __u32 *known = bpf_map_lookup_elem(map, key);

	if (known)
		return known;
	key->port = 0;
	return bpf_map_lookup_elem(map, key);
}

static __always_inline int other(struct xdp_md *ctx)
{
	return forward && drop_other ? drop(LB_NOT_FOR_VIP) : go_on(ctx);
}

static __always_inline int without_ports(struct xdp_md *ctx, const struct packet *p)
{
	const struct iphdr *ip = p->l3;
	struct lb_key key = {};

	if (forward && p->version == 4 && p->fragment) {
		key.addr = ip->daddr;
		if (bpf_map_lookup_elem(&vips, &key))
			return drop(LB_FRAGMENT);
	}
	return other(ctx);
}

static __always_inline int to_backend(struct xdp_md *ctx, struct packet *p)
{
	const struct iphdr *ip = p->l3;
	struct lb_key key = {.addr = ip->daddr, .port = bpf_htons(p->dport), .proto = p->proto};
	const __u32 *vip = find(&vips, &key), *entry;
	const struct lb_backend *to;
	__u32 h, at;

	if (!vip)
		return other(ctx);
	h = mixed(mixed(mixed(secret, ip->saddr), ip->daddr), (__u32)p->sport << 16 | p->dport);
	h = mixed(h, p->proto);
	at = (*vip - 1) * entries + (__u32)((__u64)h * entries >> 32);
	entry = bpf_map_lookup_elem(&table, &at);
	if (!entry || !*entry)
		return drop(LB_NO_BACKEND);
	at = *entry - 1;
	to = bpf_map_lookup_elem(&backends, &at);
	if (!to)
		return XDP_ABORTED;
	count(LB_BALANCED);
	rewrite_end(p, 0, to->addr, to->port ?: bpf_htons(p->dport));
	return go_on(ctx);
}

static __always_inline int to_vip(struct xdp_md *ctx, struct packet *p)
{
	const struct iphdr *ip = p->l3;
	struct lb_key key = {.addr = ip->saddr, .port = bpf_htons(p->sport), .proto = p->proto};
	const __u32 *number = find(&by_backend, &key);
	const struct lb_backend *from = number ? bpf_map_lookup_elem(&backends, number) : 0;

	if (from)
		rewrite_end(p, 1, from->vip_addr,
			    from->port ? from->vip_port : bpf_htons(p->sport));
	return go_on(ctx);
}

SEC("xdp")
int lb(struct xdp_md *ctx)
{
	struct packet p;

	parse(&p, ctx);
	if (p.malformed)
		return drop(LB_MALFORMED);
	if (!p.ports || p.proto == IPPROTO_SCTP)
		return without_ports(ctx, &p);
	if (p.version != 4)
		return other(ctx);
	return forward ? to_backend(ctx, &p) : to_vip(ctx, &p);
}
