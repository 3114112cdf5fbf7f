/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * Counters, and latency histograms per (stage, stage, device, network namespace). Each CPU has a
 * small open-addressing table of them, in its part of a plain array, for the reason given in
 * shared.h: one lookup, no cache line of pointers as a per-CPU array has, and no atomic operation
 * to add. User space merges them by key.
 */

#include "kernel.h"
#include "shared.h"

const volatile __u32 hist_mask = 511;

/* By CPU; as many entries as there are CPUs, as user space sets them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: values keep to cache lines */
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 512);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct hist);
} hists SEC(".maps");

/* Where a packet is: what its stage's histogram is of. */
struct place {
	__u32 dev; /* part of the device's address */
	__u32 ifindex, netns;
};

static __always_inline void count_n(enum counter c, __u64 n)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct counters *v = bpf_map_lookup_elem(&counters, &cpu);

	if (v)
		v->n[c] += n;
}

static __always_inline void count(enum counter c)
{
	count_n(c, 1);
}

/*
 * floor(log2(v)) of v below 2^63, by bisection: BPF has no count-leading-zeros instruction. Sign
 * bits instead of comparisons, which would be branches, and latencies make them unpredictable.
 */
static __always_inline __u32 log2_64(__u64 v)
{
	__u32 r, s;

	asm volatile("" : "+r"(v)); /* or the compiler makes comparisons of it again */
	r = (0xffffffffull - v) >> 63 << 5;
	v >>= r;
	s = (0xffffull - v) >> 63 << 4;
	v >>= s;
	r += s;
	s = (0xffull - v) >> 63 << 3;
	v >>= s;
	r += s;
	s = (0xfull - v) >> 63 << 2;
	v >>= s;
	r += s;
	s = (3ull - v) >> 63 << 1;
	v >>= s;
	return r + s + (__u32)(v >> 1);
}

/* 0..7 exact, then 8 buckets per power of two. trace/report.c has the inverse. */
static __always_inline __u32 hist_bucket(__u64 ns)
{
	__u32 e;

	if (ns > HIST_MAX_NS)
		ns = HIST_MAX_NS;
	if (ns < 8)
		return ns;
	e = log2_64(ns);
	return (e - 2) * 8 + ((ns >> (e - 3)) & 7);
}

/* sk_buffs and devices begin at cache lines: these bits tell them apart within 256 GiB. */
static __always_inline __u32 part_of(const void *p)
{
	return address(p) >> 6;
}

static __always_inline void place_read(struct place *p, struct net_device *dev)
{
	p->dev = part_of(dev);
	p->ifindex = dev->ifindex;
	p->netns = dev->nd_net.net->ns.inum;
}

static __always_inline struct hist *hist_entry(__u64 key, __u32 probe)
{
	__u32 hash = ((key ^ key >> 29) * 0x9e3779b97f4a7c15ull) >> 40;
	__u32 i = bpf_get_smp_processor_id() * (hist_mask + 1) + ((hash + probe) & hist_mask);

	return bpf_map_lookup_elem(&hists, &i);
}

/* Not inlined: few packets need it, and what all need stays in fewer cache lines without it. */
static __noinline struct hist *hist_search(__u64 key, __u32 ifindex, __u32 netns, __u32 tick)
{
	struct hist *h;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < HIST_PROBES; i++) {
		h = hist_entry(key, i);
		if (!h)
			return NULL;
		/* An interrupt on this CPU may claim it at the same time. */
		if (!h->key && !__sync_val_compare_and_swap(&h->key, 0, key)) {
			h->ifindex = ifindex;
			h->netns = netns;
		}
		if (*(volatile __u64 *)&h->key == key && h->ifindex == ifindex &&
		    h->netns == netns) {
			h->tick = tick;
			return h;
		}
	}
	return NULL;
}

/*
 * The histogram of a stage pair at a place. `dev`: the packet has come to this device, and only
 * `at->dev` is known yet; NULL: it is where it was.
 *
 * Whose address that is has to be read from the device and its namespace, two cache lines that
 * the kernel itself does not need. An entry that was found to be this device's within the last
 * millisecond or two is believed: an address is not free for another device within that time, as
 * a device is freed only after RCU's readers and its queues have been waited for.
 */
static __always_inline struct hist *hist_find(__u32 from, __u32 to, struct place *at,
					      struct net_device *dev, __u64 now)
{
	__u64 key = HIST_KEY(from, to, at->dev);
	struct hist *h = hist_entry(key, 0);

	if (!h)
		return NULL;
	if (h->key == key) {
		if (!dev && h->ifindex == at->ifindex && h->netns == at->netns)
			return h;
		if (dev && h->tick == HIST_TICK(now)) {
			at->ifindex = h->ifindex;
			at->netns = h->netns;
			return h;
		}
	}
	if (dev)
		place_read(at, dev);
	return hist_search(key, at->ifindex, at->netns, HIST_TICK(now));
}

static __always_inline void hist_add(__u32 from, __u32 to, struct place *at, struct net_device *dev,
				     __u64 now, __u64 ns)
{
	struct hist *h = hist_find(from, to, at, dev, now);
	__u32 b = hist_bucket(ns);

	if (!h || b >= HIST_BUCKETS) {
		count(CNT_lost_histogram);
		return;
	}
	if (~ns > h->not_min_ns)
		h->not_min_ns = ~ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->sum_ns += ns;
	if (!++h->bucket[b])
		h->carry[b]++;
}
