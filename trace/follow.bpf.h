/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * The table of packets being followed: one slot per packet, found by skb->head. What it costs is
 * cache misses: hence small tags, and slots of which a stage needs one line. A
 * packet enters at its first stage, if sampling chooses it, and leaves at one of the ends.
 */

#include "hist.bpf.h"
#include "identity.bpf.h"

const volatile __u32 set_mask = 8191;
const volatile __u64 expiry_ns = 2000000000;
const volatile __u64 slow_ns; /* emit paths at least this long */
const volatile bool emit_paths;
const volatile bool bare_head; /* identity by address alone, as S4: for comparison */
const volatile bool audit;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: values keep to cache lines */
	__type(key, __u32);
	__type(value, struct head_set);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192 * WAYS);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: values keep to cache lines */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as many as slots where paths are emitted */
	__type(key, __u32);
	__type(value, struct trail);
} trails SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} paths SEC(".maps");

#define NO_SLOT (~0u)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static __always_inline __u64 head_hash(__u64 head)
{
	return (head >> 6) * 0x9e3779b97f4a7c15ull;
}

static __always_inline __u32 set_of(__u64 hash)
{
	return hash >> 40 & set_mask;
}

static __always_inline __u16 tag_of(__u64 hash)
{
	return hash >> 24 | 0x8000; /* neither free nor busy */
}

/* The slot that follows a head, and its number; NULL: none. */
static __always_inline struct slot *slot_find(__u64 head, __u32 *number)
{
	__u64 hash = head_hash(head), all;
	__u32 set = set_of(hash), i;
	struct head_set *hs = bpf_map_lookup_elem(&heads, &set);
	struct slot *s;

	if (!hs)
		return NULL;
	all = *(volatile __u64 *)&hs->all;
#pragma unroll
	for (int w = 0; w < WAYS; w++) {
		if ((__u16)(all >> 16 * w) != tag_of(hash))
			continue;
		i = set * WAYS + w;
		s = bpf_map_lookup_elem(&slots, &i);
		if (s && likely(s->head == head)) {
			*number = i;
			return s;
		}
	}
	return NULL;
}

static __always_inline __u16 *slot_tag(__u32 i)
{
	__u32 set = i / WAYS;
	struct head_set *s = bpf_map_lookup_elem(&heads, &set);

	return s ? &s->tag[i & (WAYS - 1)] : NULL;
}

static __always_inline void slot_free(__u32 i)
{
	__u16 *tag = slot_tag(i);

	if (tag)
		*(volatile __u16 *)tag = TAG_FREE;
}

/* Does this slot still follow that head? */
static __always_inline bool slot_follows(const struct slot *s, __u32 i, __u64 head)
{
	__u16 *tag = slot_tag(i);

	return tag && *(volatile __u16 *)tag == tag_of(head_hash(head)) && s->head == head;
}

/* A slot whose packet is gone without a trace may be taken; what became of it is counted. */
static __always_inline bool slot_stale(struct slot *s, __u64 now)
{
	if (s->flags & SLOT_SHARED) {
		count(CNT_ended_shared);
		return true;
	}
	if (now - s->last_ns < expiry_ns)
		return false;
	count(CNT_lost_expired);
	return true;
}

/* False: another CPU has changed the set meanwhile. */
static __always_inline bool way_claim(struct head_set *hs, __u64 was, int w)
{
	__u64 is = (was & ~(0xffffull << 16 * w)) | (__u64)TAG_BUSY << 16 * w;

	return __sync_val_compare_and_swap(&hs->all, was, is) == was;
}

/* Claim a slot for head; the caller fills it and publishes it by slot_publish. */
static __always_inline struct slot *slot_claim(__u64 head, __u64 now, __u32 *number)
{
	__u32 set = set_of(head_hash(head)), i = set * WAYS;
	struct head_set *hs = bpf_map_lookup_elem(&heads, &set);
	struct slot *s;

	*number = NO_SLOT;
	if (!hs)
		return NULL;
	for (int w = 0; w < WAYS; w++, i++) {
		__u64 all = *(volatile __u64 *)&hs->all;

		if ((__u16)(all >> 16 * w) != TAG_FREE || !way_claim(hs, all, w))
			continue;
		*number = i;
		return bpf_map_lookup_elem(&slots, &i);
	}
	i = set * WAYS;
	for (int w = 0; w < WAYS; w++, i++) {
		__u64 all = *(volatile __u64 *)&hs->all;

		s = bpf_map_lookup_elem(&slots, &i);
		if (!s || (__u16)(all >> 16 * w) == TAG_BUSY || !slot_stale(s, now) ||
		    !way_claim(hs, all, w))
			continue;
		*number = i;
		return s;
	}
	count(CNT_lost_table);
	return NULL;
}

static __always_inline void slot_publish(__u32 i, __u64 head)
{
	__u16 *tag = slot_tag(i);

	if (tag)
		*(volatile __u16 *)tag = tag_of(head_hash(head));
}

/* sk_buffs and devices begin at cache lines: these bits tell them apart within 256 GiB. */
static __always_inline __u32 part_of(const void *p)
{
	return address(p) >> 6;
}

/* skb->dev is a union: on socket queues it holds other things. Kernel addresses are negative. */
static __always_inline bool dev_valid(struct net_device *dev)
{
	return (__s64)dev < 0;
}

static __always_inline void slot_device(struct slot *s, struct net_device *dev)
{
	if (!dev_valid(dev) || part_of(dev) == s->dev)
		return;
	s->dev = part_of(dev);
	s->ifindex = dev->ifindex;
	s->netns = dev->nd_net.net->ns.inum;
}

static __always_inline void trail_hop(struct slot *s, __u32 i, enum stage stage, __u64 now)
{
	struct trail *t = bpf_map_lookup_elem(&trails, &i);
	__u64 at = now - s->first_ns;
	struct hop *h;
	__u32 n;

	if (!t)
		return;
	n = t->hops;
	if (n >= HOPS_MAX) {
		count(CNT_lost_hops);
		return;
	}
	h = &t->hop[n];
	h->at_ns = at > 0xffffffffull ? 0xffffffffu : at;
	h->ifindex = s->ifindex;
	h->netns = s->netns;
	h->stage = stage;
	h->cpu = bpf_get_smp_processor_id();
	t->hops = n + 1;
}

static __always_inline void trail_begin(struct slot *s, __u32 i, enum stage stage, __u64 now)
{
	struct trail *t = bpf_map_lookup_elem(&trails, &i);

	if (t)
		t->hops = 0;
	trail_hop(s, i, stage, now);
}

static __always_inline void slot_stage(struct slot *s, __u32 i, enum stage stage, __u64 now)
{
	hist_add(s->last_stage, stage, s->ifindex, s->netns, now - s->last_ns);
	s->last_stage = stage;
	s->last_ns = now;
	if (emit_paths)
		trail_hop(s, i, stage, now);
}

static __always_inline void path_emit(struct slot *s, __u32 i, enum stage stage, __u32 reason,
				      __u64 now)
{
	struct path *p = bpf_ringbuf_reserve(&paths, sizeof(*p), 0);
	struct trail *t = bpf_map_lookup_elem(&trails, &i);

	if (!p) {
		count(CNT_lost_paths);
		return;
	}
	p->end_ns = now;
	p->end_stage = stage;
	p->reason = reason;
	__builtin_memcpy(&p->slot, s, sizeof(*s));
	if (t)
		__builtin_memcpy(&p->trail, t, sizeof(*t));
	else
		p->trail.hops = 0;
	bpf_ringbuf_submit(p, 0);
}

/* The way ends here: its whole length goes under the device where it began. */
static __always_inline void slot_end(struct slot *s, __u32 i, enum stage stage, __u32 reason,
				     __u64 now, enum counter c)
{
	__u64 whole = now - s->first_ns;

	hist_add(s->first_stage, END_OF + stage, s->first_ifindex, s->first_netns, whole);
	if (emit_paths && whole >= slow_ns)
		path_emit(s, i, stage, reason, now);
	slot_free(i);
	count(c);
}
