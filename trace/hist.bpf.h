/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * Counters, and latency histograms per (stage, stage, device, network namespace). A
 * histogram is found in a small open-addressing table of keys in a plain array, for the reason
 * given in shared.h; its buckets are per CPU, so adding needs no atomic operation.
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
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, __u64);
} hist_keys SEC(".maps");

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

/* floor(log2(v)) by bisection: BPF has no count-leading-zeros instruction. */
static __always_inline __u32 log2_64(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r += 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (v >> 1);
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
		__u64 *k = bpf_map_lookup_elem(&hist_keys, &slot);

		if (!k)
			return NULL;
		if (!*k)
			__sync_val_compare_and_swap(k, 0, key);
		if (*(volatile __u64 *)k == key)
			return bpf_map_lookup_elem(&hists, &slot);
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
