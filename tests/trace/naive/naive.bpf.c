// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What the tracer's cost is compared with: the obvious program for the same points. An LRU hash
 * from skb->head to the last stage and its time, a histogram of powers of two per stage.
 * It believes each address, and so measures other packets' times where one is reused.
 */
#include "kernel.h"
#include "stages.h"

#define BUCKETS 64

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 sample_threshold = 0xffffffff; /* of a 32-bit hash */

struct seen {
	__u64 at_ns;
	__u32 stage;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768); /* as the tracer's own table */
	__type(key, __u64);
	__type(value, struct seen);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STAGES_N *BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

static __always_inline __u32 log2_64(__u64 v)
{
	__u32 r = 0;

	for (int shift = 32; shift; shift /= 2)
		if (v >> shift) {
			v >>= shift;
			r += shift;
		}
	return r;
}

static __always_inline bool sampled(__u64 head)
{
	return (__u32)(((head >> 6) * 0xd6e8feb86659fd93ull) >> 32) <= sample_threshold;
}

static __always_inline int begin(__u64 head)
{
	struct seen s = {.at_ns = bpf_ktime_get_ns(), .stage = STAGE_DEV_QUEUE};

	if (sampled(head))
		bpf_map_update_elem(&packets, &head, &s, BPF_ANY);
	return 0;
}

static __always_inline int go_on(__u64 head, __u32 stage, bool ends)
{
	struct seen *s = bpf_map_lookup_elem(&packets, &head);
	__u64 now, *n;
	__u32 i;

	if (!s)
		return 0;
	now = bpf_ktime_get_ns();
	i = stage * BUCKETS + log2_64(now - s->at_ns);
	n = bpf_map_lookup_elem(&latencies, &i);
	if (n)
		(*n)++;
	s->at_ns = now;
	s->stage = stage;
	if (ends)
		bpf_map_delete_elem(&packets, &head);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(naive_dev_queue, struct sk_buff *skb)
{
	__u64 head = (__u64)skb->head;

	/* What was not sent by a socket here goes on. */
	return skb->skb_iif ? go_on(head, STAGE_DEV_QUEUE, false) : begin(head);
}

#define NAIVE(name, stage, ends, ...)                                                              \
	SEC("tp_btf/" #name)                                                                       \
	int BPF_PROG(naive_##name, __VA_ARGS__)                                                    \
	{                                                                                          \
		return go_on((__u64)skb->head, stage, ends);                                       \
	}

NAIVE(net_dev_start_xmit, STAGE_DEV_XMIT, false, struct sk_buff *skb)
NAIVE(netif_rx, STAGE_NETIF_RX, false, struct sk_buff *skb)
NAIVE(napi_gro_receive_entry, STAGE_GRO, false, struct sk_buff *skb)
NAIVE(netif_receive_skb, STAGE_RECEIVE, false, struct sk_buff *skb)
NAIVE(tcp_probe, STAGE_TCP_PROBE, false, struct sock *sk, struct sk_buff *skb)
NAIVE(skb_copy_datagram_iovec, STAGE_COPY, true, struct sk_buff *skb)
NAIVE(consume_skb, STAGE_CONSUME, true, struct sk_buff *skb)
NAIVE(kfree_skb, STAGE_DROP, true, struct sk_buff *skb)
