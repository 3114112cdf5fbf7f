/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * The table of packets being followed: one slot per packet, found by skb->head. What it costs is
 * cache misses: hence a slot of which a stage needs one line, that of its address. A packet enters
 * at its first stage, if sampling chooses it, and leaves at one of the ends.
 */

#include "hist.bpf.h"
#include "identity.bpf.h"

const volatile bool sample_all = true;
const volatile __u32 slot_mask = 32767;
const volatile __u64 expiry_ns = 2000000000;
const volatile __u64 slow_ns; /* emit paths at least this long */
const volatile bool emit_paths;
const volatile bool bare_head; /* identity by address alone, as NfvInsight: for comparison */
const volatile bool audit;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: values keep to cache lines */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/*
 * How many heads at home at each slot are followed, a byte each, as there are at most WAYS: where
 * few packets are sampled, this small table says of the others that they are not. HOMES in a word.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 32768 / HOMES);
	__type(key, __u32);
	__type(value, __u64);
} homes SEC(".maps");

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

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static __always_inline __u32 slot_home(__u64 head)
{
	return ((head >> 6) * 0x9e3779b97f4a7c15ull) >> 40 & slot_mask;
}

/* Another CPU may change it meanwhile. */
static __always_inline __u64 slot_head(const struct slot *s)
{
	return *(const volatile __u64 *)&s->head;
}

static __always_inline __u64 *home_word(__u32 home)
{
	__u32 word = home / HOMES;

	return bpf_map_lookup_elem(&homes, &word);
}

static __always_inline bool home_counted(__u32 home)
{
	__u64 *n = home_word(home);

	return n && *(volatile __u64 *)n >> home % HOMES * 8 & 0xff;
}

/* The slot that follows a head, and its number; NULL: none. */
static __always_inline struct slot *slot_find(__u64 head, __u32 *number)
{
	__u32 home = slot_home(head), i = home;
	struct slot *s;

	if (!sample_all && likely(!home_counted(home)))
		return NULL;
	s = bpf_map_lookup_elem(&slots, &i);
	if (!s)
		return NULL;
	*number = home;
	if (slot_head(s) == head)
		return s;
	if (likely(!s->displaced))
		return NULL;
#pragma clang loop unroll(disable)
	for (__u32 w = 1; w < WAYS; w++) {
		i = home ^ w;
		s = bpf_map_lookup_elem(&slots, &i);
		if (s && slot_head(s) == head) {
			*number = i;
			return s;
		}
	}
	return NULL;
}

/* Slot `i` is given to a head, or taken from it: 1 or -1. */
static __always_inline void slot_count(__u32 i, __u64 head, __s64 n)
{
	__u32 home = slot_home(head);
	struct slot *s;
	__u64 *all;

	if (!sample_all) {
		all = home_word(home);
		if (all)
			__sync_fetch_and_add(all, (__u64)n << home % HOMES * 8);
	}
	if (likely(home == i))
		return;
	s = bpf_map_lookup_elem(&slots, &home);
	if (s)
		__sync_fetch_and_add(&s->displaced, n);
}

/* Two CPUs may have a packet's end at once: only one of them may count it. */
static __always_inline void slot_free(struct slot *s, __u32 i)
{
	__u64 head = slot_head(s);

	if (sample_all && likely(slot_home(head) == i))
		*(volatile __u64 *)&s->head = HEAD_FREE; /* nothing to count */
	else if (head > HEAD_BUSY && __sync_val_compare_and_swap(&s->head, head, HEAD_FREE) == head)
		slot_count(i, head, -1);
}

/*
 * A packet is gone, and no hook saw its end. TCP merges a segment into the one before it in its
 * socket's queue, or in its backlog while a process holds the socket, and frees what is left of it
 * without a tracepoint (tcp_try_coalesce, tcp_add_backlog): where it was last seen tells which.
 */
static __noinline int count_unseen(struct slot *s, __u32 otherwise)
{
	bool tcp = s->id.proto == IPPROTO_TCP_;

	if (s->flags & SLOT_SHARED)
		count(CNT_ended_shared);
	else if (tcp && s->last_stage == STAGE_TCP_PROBE)
		count(CNT_queue_merged);
	else if (tcp && (s->last_stage == STAGE_RECEIVE || s->last_stage == STAGE_TCP_RCV))
		count(CNT_backlog_merged);
	else
		count(otherwise);
	return 0;
}

/* A slot whose packet is gone without a trace may be taken; what became of it is counted. */
static __always_inline bool slot_stale(struct slot *s, __u64 now)
{
	if (!(s->flags & SLOT_SHARED) && now - s->last_ns < expiry_ns)
		return false;
	count_unseen(s, CNT_lost_expired);
	return true;
}

/* False: another CPU was first. */
static __always_inline bool slot_take(struct slot *s, __u64 was)
{
	return __sync_val_compare_and_swap(&s->head, was, HEAD_BUSY) == was;
}

/* The home slot, or else one beside it, is taken from a packet that is gone. */
static __noinline struct slot *slot_evict(__u64 head, __u64 now, __u32 *number)
{
	__u32 home = slot_home(head), i;
	struct slot *s;
	__u64 was;

#pragma clang loop unroll(disable)
	for (__u32 w = 0; w < 2 * WAYS; w++) { /* first those that are free */
		i = home ^ (w & (WAYS - 1));
		s = bpf_map_lookup_elem(&slots, &i);
		if (!s)
			continue;
		was = slot_head(s);
		if (was == HEAD_BUSY || (w < WAYS && was != HEAD_FREE) ||
		    (was != HEAD_FREE && !slot_stale(s, now)) || !slot_take(s, was))
			continue;
		if (was != HEAD_FREE)
			slot_count(i, was, -1);
		slot_count(i, head, 1);
		*number = i;
		return s;
	}
	count(CNT_lost_table);
	return NULL;
}

/* Claim a slot for head; the caller fills it and publishes it by slot_publish. */
static __always_inline struct slot *slot_claim(__u64 head, __u64 now, __u32 *number)
{
	__u32 home = slot_home(head);
	struct slot *s = bpf_map_lookup_elem(&slots, &home);

	if (!s)
		return NULL;
	*number = home;
	if (likely(slot_head(s) == HEAD_FREE && slot_take(s, HEAD_FREE))) {
		slot_count(home, head, 1);
		return s;
	}
	return slot_evict(head, now, number);
}

static __always_inline void slot_publish(struct slot *s, __u64 head)
{
	*(volatile __u64 *)&s->head = head;
}

/* All but what belongs to the slot itself. */
#define SLOT_PACKET_AT offsetof(struct slot, last_ns)

static __always_inline void slot_copy(struct slot *to, const struct slot *from)
{
	__builtin_memcpy((__u8 *)to + SLOT_PACKET_AT, (const __u8 *)from + SLOT_PACKET_AT,
			 sizeof(*to) - SLOT_PACKET_AT);
}

/* skb->dev is a union: on socket queues it holds other things. Kernel addresses are negative. */
static __always_inline bool dev_valid(struct net_device *dev)
{
	return (__s64)dev < 0;
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

/* `dev`: the device that the packet may have come to; NULL: it is where it was. */
static __always_inline void slot_stage(struct slot *s, __u32 i, enum stage stage,
				       struct net_device *dev, __u64 now)
{
	struct place at = {.dev = s->dev, .ifindex = s->ifindex, .netns = s->netns};

	if (dev_valid(dev) && part_of(dev) != s->dev) {
		s->dev = at.dev = part_of(dev);
		hist_add(s->last_stage, stage, &at, dev, now, now - s->last_ns);
		s->ifindex = at.ifindex;
		s->netns = at.netns;
	} else {
		hist_add(s->last_stage, stage, &at, NULL, now, now - s->last_ns);
	}
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
	struct place began = {.dev = s->first_ifindex ^ s->first_netns,
			      .ifindex = s->first_ifindex,
			      .netns = s->first_netns};
	__u64 whole = now - s->first_ns;

	hist_add(s->first_stage, END_OF + stage, &began, NULL, now, whole);
	if (emit_paths && whole >= slow_ns)
		path_emit(s, i, stage, reason, now);
	slot_free(s, i);
	count(c);
}
