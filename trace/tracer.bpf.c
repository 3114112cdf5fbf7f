// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The hooks: BTF tracepoints (tp_btf). They load where a locked-down kernel refuses
 * kprobes and fentry.
 */
#include "hook.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_dev_queue, struct sk_buff *skb)
{
	return hook(skb, STAGE_DEV_QUEUE, true);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_dev_xmit, struct sk_buff *skb)
{
	return hook(skb, STAGE_DEV_XMIT, true);
}

SEC("tp_btf/netif_rx")
int BPF_PROG(on_netif_rx, struct sk_buff *skb)
{
	return hook(skb, STAGE_NETIF_RX, true);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_receive, struct sk_buff *skb)
{
	return hook(skb, STAGE_RECEIVE, true);
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(on_gro, struct sk_buff *skb)
{
	return hook(skb, STAGE_GRO, true);
}

/* The verdict of GRO comes at the exit, which knows no packet: the entry left it here. */
SEC("tp_btf/napi_gro_receive_exit")
int BPF_PROG(on_gro_exit, int verdict)
{
	struct cpu_context *c = context();
	struct slot *s;
	__u64 now;
	__u32 i;

	if (!c || !c->gro_head)
		return 0;
	i = c->gro_slot;
	s = bpf_map_lookup_elem(&slots, &i);
	if (s && s->head == c->gro_head &&
	    (verdict == GRO_MERGED || verdict == GRO_MERGED_FREE)) {
		now = bpf_ktime_get_ns();
		slot_stage(s, STAGE_GRO_MERGED, now);
		slot_end(s, i, STAGE_GRO_MERGED, 0, now, CNT_gro_merged);
	}
	c->gro_head = 0;
	return 0;
}

static __noinline int probe_end(struct sk_buff *skb, __u64 head, __u32 i)
{
	__u64 tcp = address(skb->data);
	struct slot *s = next(skb, head, i, STAGE_TCP_PROBE);
	__u64 now = bpf_ktime_get_ns();
	__u8 doff = 0;

	if (!s)
		return 0;
	slot_stage(s, STAGE_TCP_PROBE, now);
	if (bpf_probe_read_kernel(&doff, 1, (void *)(tcp + 12)) || skb->len > (doff >> 4) * 4u)
		return 0;
	slot_end(s, i, STAGE_ACKED, 0, now, CNT_acked);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	__u64 head = address(skb->head);
	__u32 i = slot_of(head);

	return i == NO_SLOT ? 0 : probe_end(skb, head, i);
}

static __noinline int copy_end(struct sk_buff *skb, __u64 head, __u32 i)
{
	struct slot *s = next(skb, head, i, STAGE_COPY);
	__u64 now = bpf_ktime_get_ns();

	if (!s)
		return 0;
	slot_stage(s, STAGE_COPY, now);
	slot_end(s, i, STAGE_COPY, 0, now, CNT_delivered);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(on_copy, struct sk_buff *skb)
{
	__u64 head = address(skb->head);
	__u32 i = slot_of(head);

	return i == NO_SLOT ? 0 : copy_end(skb, head, i);
}

static __always_inline struct skb_shared_info *shared_info(struct sk_buff *skb, __u64 head)
{
	return (struct skb_shared_info *)(head + skb->end);
}

/* A GSO packet is freed once its segments are made: they come next on this CPU. */
static __always_inline bool was_segmented(struct slot *s, struct skb_shared_info *info)
{
	struct cpu_context *c;
	__u16 segs;

	if (s->last_stage == STAGE_RECEIVE || s->last_stage > STAGE_RECEIVE)
		return false;
	if (!BPF_CORE_READ(info, gso_size) || s->last_stage == STAGE_DEV_XMIT)
		return false;
	segs = BPF_CORE_READ(info, gso_segs);
	c = context();
	if (!c)
		return false;
	__builtin_memcpy(&c->parent, s, sizeof(*s));
	c->head = s->head;
	c->segments = segs ?: 64;
	return true;
}

static __noinline int consume_end(struct sk_buff *skb, __u64 head, __u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct skb_shared_info *info = shared_info(skb, head);
	__u64 now = bpf_ktime_get_ns();

	if (!s || (s->skb != (__u64)skb && !bare_head))
		return 0; /* a clone's end is not the packet's */
	s = next(skb, head, i, STAGE_CONSUME);
	if (!s)
		return 0;
	if (was_segmented(s, info)) {
		slot_free(i);
		count(CNT_gso_parents);
		return 0;
	}
	slot_stage(s, STAGE_CONSUME, now);
	if (BPF_CORE_READ_BITFIELD(skb, cloned) &&
	    (BPF_CORE_READ(info, dataref.counter) & 0xffff) > 1) {
		s->flags |= SLOT_SHARED;
		return 0;
	}
	slot_end(s, i, STAGE_CONSUME, 0, now, CNT_consumed);
	return 0;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume, struct sk_buff *skb)
{
	__u64 head = address(skb->head);
	__u32 i = slot_of(head);

	return i == NO_SLOT ? 0 : consume_end(skb, head, i);
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct drop_key);
	__type(value, __u64);
} drops SEC(".maps");

/* Every drop is counted, sampled or not: they are rare, or the reason for the measurement. */
static __always_inline void count_drop(struct sk_buff *skb, __u32 reason)
{
	struct drop_key key = {.reason = reason, .ifindex = skb->skb_iif};
	struct net_device *dev = skb->dev;
	__u64 one = 1, *n;

	if (dev_valid(dev)) {
		key.ifindex = dev->ifindex;
		key.netns = dev->nd_net.net->ns.inum;
	}
	if (!key.ifindex)
		return; /* not a packet on a device: netlink, Unix sockets */
	n = bpf_map_lookup_elem(&drops, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	else if (bpf_map_update_elem(&drops, &key, &one, BPF_NOEXIST))
		count(CNT_lost_histogram);
}

static __noinline int drop_end(struct sk_buff *skb, __u64 head, __u32 i, __u32 reason)
{
	struct slot *s = next(skb, head, i, STAGE_DROP);
	__u64 now = bpf_ktime_get_ns();

	if (!s)
		return 0;
	slot_stage(s, STAGE_DROP, now);
	slot_end(s, i, STAGE_DROP, reason, now, CNT_dropped);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, unsigned int reason)
{
	__u64 head = address(skb->head);
	__u32 i = slot_of(head);

	count_drop(skb, reason);
	return i == NO_SLOT ? 0 : drop_end(skb, head, i, reason);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct softirq);
} softirqs SEC(".maps");

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	__u32 zero = 0;
	struct softirq *s = bpf_map_lookup_elem(&softirqs, &zero);

	if (s)
		s->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	__u32 zero = 0;
	struct softirq *s = bpf_map_lookup_elem(&softirqs, &zero);

	if (!s || !s->since_ns || vector >= SOFTIRQS)
		return 0;
	s->time_ns[vector] += bpf_ktime_get_ns() - s->since_ns;
	s->count[vector]++;
	s->since_ns = 0;
	return 0;
}
