/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

#define memcpy __builtin_memcpy
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

typedef _Bool bool;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The program that has the packet after this one. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n)
		(*n)++;
}

static __always_inline int drop(__u32 why)
{
	count(why);
	return XDP_DROP;
}

static __always_inline int go_on(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &next, 0);
	return XDP_ABORTED;
}
