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
	if (s && s->head == c->gro_head && (verdict == GRO_MERGED || verdict == GRO_MERGED_FREE)) {
		now = bpf_ktime_get_ns();
		slot_stage(s, i, STAGE_GRO_MERGED, NULL, now);
		slot_end(s, i, STAGE_GRO_MERGED, 0, now, CNT_gro_merged);
	}
	c->gro_head = 0;
	return 0;
}

static __always_inline int probe_end(struct sk_buff *skb, struct slot *s, __u32 i)
{
	const __u8 *doff;
	__u8 buf[1];
	__u64 now;

	s = next(skb, s, i, STAGE_TCP_PROBE);
	if (!s)
		return 0;
	now = bpf_ktime_get_ns();
	slot_stage(s, i, STAGE_TCP_PROBE, NULL, now);
	doff = reading(skb->data + 12, buf, 1);
	if (!doff || skb->len > (doff[0] >> 4) * 4u)
		return 0;
	slot_end(s, i, STAGE_ACKED, 0, now, CNT_acked);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	__u64 head = address(skb->head);
	__u32 i = 0;
	struct slot *s = idle ? NULL : slot_find(head, &i);

	return s ? probe_end(skb, s, i) : 0;
}

static __always_inline int copy_end(struct sk_buff *skb, struct slot *s, __u32 i)
{
	__u64 now = bpf_ktime_get_ns();

	s = next(skb, s, i, STAGE_COPY);
	if (!s)
		return 0;
	slot_stage(s, i, STAGE_COPY, NULL, now);
	slot_end(s, i, STAGE_COPY, 0, now, CNT_delivered);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(on_copy, struct sk_buff *skb)
{
	__u64 head = address(skb->head);
	__u32 i = 0;
	struct slot *s = idle ? NULL : slot_find(head, &i);

	return s ? copy_end(skb, s, i) : 0;
}

/* Members of skb_shared_info, which begins where the linear buffer ends. */
struct buffer_info {
	__u32 dataref;
	__u16 gso_size, gso_segs;
};

static __always_inline void read_info(struct sk_buff *skb, struct buffer_info *b)
{
	const __u8 *at = skb->head + skb->end;

	if (direct_reads) {
		b->dataref = *(
			const __u32 *)(at + bpf_core_field_offset(struct skb_shared_info, dataref));
		b->gso_size = *(const __u16 *)(at + bpf_core_field_offset(struct skb_shared_info,
									  gso_size));
		b->gso_segs = *(const __u16 *)(at + bpf_core_field_offset(struct skb_shared_info,
									  gso_segs));
		return;
	}
	b->dataref = BPF_CORE_READ((struct skb_shared_info *)at, dataref.counter);
	b->gso_size = BPF_CORE_READ((struct skb_shared_info *)at, gso_size);
	b->gso_segs = BPF_CORE_READ((struct skb_shared_info *)at, gso_segs);
}

/* A GSO packet is freed once its segments are made: they come next on this CPU. */
static __always_inline bool was_segmented(struct slot *s, __u32 i, const struct buffer_info *b)
{
	struct cpu_context *c;
	struct trail *t;

	if (!b->gso_size || s->last_stage >= STAGE_DEV_XMIT)
		return false;
	c = context();
	if (!c)
		return false;
	slot_copy(&c->parent, s);
	if (emit_paths) {
		t = bpf_map_lookup_elem(&trails, &i);
		if (t)
			__builtin_memcpy(&c->trail, t, sizeof(*t));
	}
	c->head = s->head;
	c->segments = b->gso_segs ?: 64;
	return true;
}

/*
 * Reassembly makes the sk_buff of the fragment that came last hold the first one's data,
 * and frees the first one's (inet_frag_reasm_prepare): this is when a datagram is whole.
 * The other fragments are freed with it, in the end.
 */
static __always_inline int fragment_end(struct slot *s, __u32 i, __u64 now, bool shared)
{
	if (!(s->id.frag & FRAG_OFFSET)) {
		s->flags &= ~SLOT_WAS_FRAG;
		s->flags |= shared ? SLOT_SHARED : 0;
		slot_stage(s, i, STAGE_REASSEMBLED, NULL, now);
		count(CNT_datagrams_reassembled);
		if (shared)
			return 0;
	} else {
		slot_stage(s, i, STAGE_REASSEMBLED, NULL, now);
	}
	slot_end(s, i, STAGE_REASSEMBLED, 0, now, CNT_reassembled);
	return 0;
}

static __always_inline int consume_end(struct sk_buff *skb, struct slot *s, __u32 i)
{
	struct buffer_info info;
	bool shared;
	__u64 now;

	if (s->id.frag & FRAG_OFFSET) /* reassembly may have moved it to another sk_buff */
		s->skb = part_of(skb);
	if (s->skb != part_of(skb) && !(s->flags & SLOT_SHARED) && !bare_head)
		return 0; /* a clone's end is not the packet's */
	s = next(skb, s, i, STAGE_CONSUME);
	if (!s)
		return 0;
	read_info(skb, &info);
	if (was_segmented(s, i, &info)) {
		slot_free(s, i);
		count(CNT_gso_parents);
		return 0;
	}
	now = bpf_ktime_get_ns();
	shared = BPF_CORE_READ_BITFIELD(skb, cloned) && (info.dataref & 0xffff) > 1;
	if ((s->flags & SLOT_WAS_FRAG) && s->last_stage >= STAGE_RECEIVE)
		return fragment_end(s, i, now, shared);
	slot_stage(s, i, STAGE_CONSUME, NULL, now);
	if (shared) {
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
	__u32 i = 0;
	struct slot *s = idle ? NULL : slot_find(head, &i);

	return s ? consume_end(skb, s, i) : 0;
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
	struct sock *sk = skb->sk;
	__u64 one = 1, *n;

	if (dev_valid(dev)) {
		key.ifindex = dev->ifindex;
		key.netns = dev->nd_net.net->ns.inum;
	} else if (sk) { /* on a socket's queue */
		key.netns = sk->__sk_common.skc_net.net->ns.inum;
	}
	if (!key.ifindex)
		return; /* not a packet on a device: netlink, Unix sockets */
	n = bpf_map_lookup_elem(&drops, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	else if (bpf_map_update_elem(&drops, &key, &one, BPF_NOEXIST))
		count(CNT_lost_histogram);
}

static __always_inline int drop_end(struct sk_buff *skb, struct slot *s, __u32 i, __u32 reason)
{
	__u64 now = bpf_ktime_get_ns();

	s = next(skb, s, i, STAGE_DROP);
	if (!s)
		return 0;
	slot_stage(s, i, STAGE_DROP, NULL, now);
	slot_end(s, i, STAGE_DROP, reason, now, CNT_dropped);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, unsigned int reason)
{
	__u64 head = address(skb->head);
	__u32 i = 0;
	struct slot *s = idle ? NULL : slot_find(head, &i);

	count_drop(skb, reason);
	return s ? drop_end(skb, s, i, reason) : 0;
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
