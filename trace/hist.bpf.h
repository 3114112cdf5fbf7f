/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * Counters, and latency histograms per (stage, stage, device, network namespace). Each CPU has a
 * small open-addressing table of them in a plain array, for the reason given in shared.h: one
 * lookup, and no atomic operation to add. User space merges them by key.
 */

#include "kernel.h"
#include "shared.h"

const volatile __u32 hist_mask = 511;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[COUNTERS_N]);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct hist);
} hists SEC(".maps");

static __always_inline void count_n(enum counter c, __u64 n)
{
	__u32 zero = 0;
	__u64 *v = bpf_map_lookup_elem(&counters, &zero);

	if (v)
		v[c] += n;
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

static __always_inline __u64 hist_key(__u32 from, __u32 to, __u32 ifindex, __u32 netns)
{
	return (__u64)(from & 63) << 58 | (__u64)(to & 63) << 52 |
	       (__u64)(ifindex & 0xfffff) << 32 | netns;
}

static __always_inline struct hist *hist_find(__u64 key)
{
	__u32 at = ((key ^ key >> 29) * 0x9e3779b97f4a7c15ull) >> 40;

	for (int i = 0; i < HIST_PROBES; i++) {
		__u32 slot = (at + i) & hist_mask;
		struct hist *h = bpf_map_lookup_elem(&hists, &slot);

		if (!h)
			return NULL;
		if (h->key == key)
			return h;
		/* An interrupt on this CPU may claim it at the same time. */
		if (!h->key && !__sync_val_compare_and_swap(&h->key, 0, key))
			return h;
		if (*(volatile __u64 *)&h->key == key)
			return h;
	}
	return NULL;
}

static __always_inline void hist_add(__u32 from, __u32 to, __u32 ifindex, __u32 netns, __u64 ns)
{
	struct hist *h = hist_find(hist_key(from, to, ifindex, netns));
	__u32 b = hist_bucket(ns);

	if (!h || b >= HIST_BUCKETS) {
		count(CNT_lost_histogram);
		return;
	}
	if (!h->count || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->sum_ns += ns;
	h->bucket[b]++;
}
