// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * A shorter way between the ports of a bridge: a frame for a known station goes from the
 * port where it came in straight to that station's port. What is not known (broadcasts,
 * stations elsewhere) goes on to the bridge.
 *
 * shortcut_tc: bpf_redirect_peer puts the packet into the station's own namespace, without
 * another softirq in between. shortcut_xdp: XDP_REDIRECT, before there is an sk_buff of the
 * bridge's; see shortcut.c for what it needs. shortcut_xsk: to user space, which sends it on.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#include "shortcut.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TC_ACT_OK 0

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SHORTCUT_PORTS_MAX);
	__type(key, struct station);
	__type(value, __u32);
} stations SEC(".maps"); /* -> number of its port */

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, SHORTCUT_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps"); /* -> ifindex */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHORTCUT_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} indexes SEC(".maps"); /* the same for tc: programs cannot read a devmap's values */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SHORTCUT_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} numbers SEC(".maps"); /* ifindex -> number of the port */

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SHORTCUT_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps"); /* number of the port -> its socket */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n)
		(*n)++;
}

static __always_inline __u32 *port_of(const void *data, const void *end)
{
	const struct ethhdr *eth = data;
	struct station s = {};

	if ((const void *)(eth + 1) > end)
		return NULL;
	__builtin_memcpy(s.mac, eth->h_dest, ETH_ALEN);
	return bpf_map_lookup_elem(&stations, &s);
}

SEC("tc")
int shortcut_tc(struct __sk_buff *skb)
{
	__u32 *port = port_of((void *)(long)skb->data, (void *)(long)skb->data_end);
	__u32 *index = port ? bpf_map_lookup_elem(&indexes, port) : NULL;

	if (!index) {
		count(SHORTCUT_LEFT);
		return TC_ACT_OK;
	}
	count(SHORTCUT_REDIRECTED);
	return bpf_redirect_peer(*index, 0);
}

SEC("xdp.frags")
int shortcut_xdp(struct xdp_md *x)
{
	__u32 *port = port_of((void *)(long)x->data, (void *)(long)x->data_end);

	count(port ? SHORTCUT_REDIRECTED : SHORTCUT_LEFT);
	return port ? bpf_redirect_map(&ports, *port, XDP_PASS) : XDP_PASS;
}

/* Not xdp.frags: a frame of AF_XDP is one page at most, and the kernel refuses larger MTUs. */
SEC("xdp")
int shortcut_xsk(struct xdp_md *x)
{
	__u32 *port = port_of((void *)(long)x->data, (void *)(long)x->data_end);
	__u32 index = x->ingress_ifindex, *from = bpf_map_lookup_elem(&numbers, &index);

	if (!port || !from || x->rx_queue_index) { /* sockets are on the first queues */
		count(SHORTCUT_LEFT);
		return XDP_PASS;
	}
	count(SHORTCUT_REDIRECTED);
	return bpf_redirect_map(&sockets, *from, XDP_PASS);
}
