// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * NAPT (RFC 3022): forward, sources inside get an address and a port of the pool; reverse, what is
 * sent to the pool goes back to whom it belongs. Mapping and filtering depend on the endpoint
 * (RFC 4787). Both directions have these maps.
 */
#include "csum.bpf.h"

#define PORTS_TRIED 128

/* RFC 792; linux/icmp.h wants the C library's headers. */
struct icmp {
	__u8 type, code;
	__u16 check, id, sequence;
};

const volatile bool outward = 1;
const volatile __u32 pool_size = 1, n_inside; /* no prefix: all are inside */
const volatile __u32 port_min = 1024, ports = 64512;
const volatile __u32 secret;
const volatile __u32 pool[NAT_POOL_MAX];
const volatile struct nat_prefix inside[NAT_INSIDE_MAX];

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct nat_key);
	__type(value, struct nat_end);
} sessions SEC(".maps"); /* both ways; an inward key has `inward` set */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nat_static);
	__type(value, struct nat_end);
} statics SEC(".maps"); /* both ways */

static __always_inline bool is_inside(__u32 addr)
{
	for (__u32 i = 0; i < NAT_INSIDE_MAX && i < n_inside; i++)
		if (!((addr ^ inside[i].addr) & inside[i].mask))
			return 1;
	return !n_inside;
}

static __always_inline bool is_outside(__u32 addr)
{
	for (__u32 i = 0; i < NAT_POOL_MAX && i < pool_size; i++)
		if (addr == pool[i])
			return 1;
	return 0;
}

static __always_inline __u32 mixed(__u32 h, __u32 word)
{
	h = (h ^ word) * 0x9e3779b1;
	return h ^ h >> 15;
}

/* An endpoint that nobody has towards this remote one; false: none of those that were tried. */
static __noinline int pick(const struct nat_key *out, struct nat_end *to)
{
	struct nat_key back = {.inward = 1};
	struct nat_end home;
	__u32 of_host, h;

	if (!out || !to)
		return 0;
	home = (struct nat_end){.addr = out->addr, .port = out->port};
	of_host = mixed(secret, out->addr);
	h = mixed(mixed(mixed(of_host, out->port), out->remote),
		  out->remote_port << 8 | out->proto);
	to->addr = pool[of_host % pool_size % NAT_POOL_MAX]; /* paired: RFC 4787 REQ-2 */
	back.addr = to->addr;
	back.remote = out->remote;
	back.remote_port = out->remote_port;
	back.proto = out->proto;
	for (__u32 i = 0; i < PORTS_TRIED; i++) {
		struct nat_static taken = {.addr = to->addr, .proto = out->proto};

		back.port = bpf_htons(port_min + (h + i) % ports);
		taken.port = back.port;
		if (bpf_map_lookup_elem(&statics, &taken))
			continue;
		if (!bpf_map_update_elem(&sessions, &back, &home, BPF_NOEXIST)) {
			to->port = back.port;
			return 1;
		}
	}
	return 0;
}

/* The other end of a packet's own one, or false with the reason. */
static __always_inline bool find(const struct nat_key *key, struct nat_end *to, __u32 *why)
{
	struct nat_static fixed = {
		.addr = key->addr, .port = key->port, .proto = key->proto, .inside = outward};
	const struct nat_end *known = bpf_map_lookup_elem(&statics, &fixed);

	if (!known)
		known = bpf_map_lookup_elem(&sessions, key);
	if (known) {
		*to = *known;
		return 1;
	}
	*why = outward ? NAT_PORTS_EXHAUSTED : NAT_NO_MAPPING;
	if (!outward || !pick(key, to))
		return 0;
	count(NAT_NEW);
	if (!bpf_map_update_elem(&sessions, key, to, BPF_NOEXIST))
		return 1;
	known = bpf_map_lookup_elem(&sessions, key); /* another CPU was first */
	if (known)
		*to = *known;
	return known;
}

static __always_inline void translate(struct packet *p, const struct nat_end *to)
{
	struct iphdr *ip = p->l3;
	struct icmp *icmp = p->l4;
	__u32 *addr = outward ? &ip->saddr : &ip->daddr;

	if (p->proto != IPPROTO_ICMP) {
		rewrite_end(p, outward, to->addr, to->port);
	} else if ((void *)(icmp + 1) <= p->end) {
		ip->check = csum_add(ip->check, csum_delta32(*addr, to->addr));
		*addr = to->addr;
		icmp->check = csum_add(icmp->check, csum_delta16(icmp->id, to->port));
		icmp->id = to->port;
	}
}

/* Echo, timestamp and address mask, asked and answered: those that have an identifier. */
static __always_inline bool query(const struct packet *p, __u16 *id)
{
	const struct icmp *icmp = p->l4;

	if (p->proto != IPPROTO_ICMP || p->fragment || (const void *)(icmp + 1) > p->end ||
	    p->l4_bytes < sizeof(*icmp))
		return 0;
	*id = icmp->id;
	return icmp->type == 0 || icmp->type == 8 || (icmp->type >= 13 && icmp->type <= 18);
}

static __always_inline bool key_of(const struct packet *p, struct nat_key *key)
{
	const struct iphdr *ip = p->l3;
	__u16 id;

	if (p->ports && p->proto != IPPROTO_SCTP) {
		key->port = bpf_htons(outward ? p->sport : p->dport);
		key->remote_port = bpf_htons(outward ? p->dport : p->sport);
	} else if (query(p, &id)) {
		key->port = id;
	} else {
		return 0;
	}
	key->addr = outward ? ip->saddr : ip->daddr;
	key->remote = outward ? ip->daddr : ip->saddr;
	key->proto = p->proto;
	key->inward = !outward;
	return 1;
}

SEC("xdp")
int nat(struct xdp_md *ctx)
{
	struct nat_key key = {};
	struct nat_end to = {};
	const struct iphdr *ip;
	struct packet p;
	__u32 why = 0;

	parse(&p, ctx);
	if (p.malformed)
		return drop(NAT_MALFORMED);
	if (p.version != 4)
		return go_on(ctx);
	ip = p.l3;
	if (outward ? !is_inside(ip->saddr) : !is_outside(ip->daddr))
		return go_on(ctx);
	if (p.fragment)
		return drop(NAT_FRAGMENT);
	if (!key_of(&p, &key))
		return drop(NAT_UNSUPPORTED);
	if (!find(&key, &to, &why))
		return drop(why);
	translate(&p, &to);
	return go_on(ctx);
}
