/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/* What the BPF programs and the user-space part both read and write. */

#include "stages.h"

/*
 * Packets in flight, by head: an open-addressing table in a plain array, because an array
 * lookup is inlined by the verifier where a hash map's is a call of 25-30 ns. A head has a
 * slot of its own, its home, and goes to one of the WAYS - 1 beside it where that is taken.
 */
#define WAYS 4
#define HOMES 8
#define HEAD_FREE 0
#define HEAD_BUSY 1 /* claimed, being filled in */

#define HOPS_MAX 20

struct hop {
	__u32 at_ns; /* since the first stage, saturating */
	__u32 ifindex;
	__u32 netns;
	__u16 stage;
	__u16 cpu;
};

/*
 * What stays the same in a packet from stage to stage, and what sets it apart from others.
 * Each stage compares the first three words.
 */
struct ident {
	__u64 key;          /* IP identification, fragment offset, protocol */
	__u64 l4[2];        /* TCP sequence number, or the first bytes of UDP payload */
	__u32 saddr, daddr; /* IPv6: folded */
	__u32 ports;
	__u32 seq;      /* TCP */
	__u32 l4_bytes; /* TCP: payload */
	__u16 ip_id;
	__u16 frag; /* IPv4 fragment field: flags and offset, host order */
	__u8 proto, version;
	__u8 payload_valid; /* words of UDP payload in l4 */
	__u8 quick;         /* ident_same_quick can compare it: the protocol; 0: not */
	__u32 pad;
};

#define SLOT_SHARED (1u << 0)   /* its sk_buff was freed, but clones hold the data */
#define SLOT_SEGMENT (1u << 1)  /* made by GSO segmentation of a followed packet */
#define SLOT_FRAGMENT (1u << 2) /* made by IP fragmentation of a followed packet */
#define SLOT_COPY (1u << 3)     /* the head was replaced (pskb_expand_head) or copied */
#define SLOT_WAS_FRAG (1u << 4) /* seen as an IP fragment */
#define SLOT_AUDIT (1u << 5)    /* audit word below is valid */

struct slot {
	/* What each stage reads and writes: one cache line. */
	__u64 head;
	__u32 displaced; /* heads at home here that are in a slot beside it */
	__u32 skb;       /* part of the address, as dev */
	/* From here on: of the packet, and so of what is made of it, too. */
	__u64 last_ns;
	__u32 dev, ifindex, netns; /* last device seen */
	__u8 flags, first_stage, last_stage;
	__u8 quick;      /* the identity's */
	struct ident id; /* its first 24 bytes end the cache line */
	__u64 first_ns, audit;
	__u32 first_ifindex, first_netns; /* where the way began */
	__u64 to_line;
};

_Static_assert(sizeof(struct slot) == 128, "slots are two cache lines");

/* The stages of one packet's way, kept only where paths are asked for. */
struct trail {
	__u32 hops, pad;
	struct hop hop[HOPS_MAX];
};

/* A path, as emitted to user space: the slot as it was at its end. */
struct path {
	__u64 end_ns;
	__u32 end_stage, reason;
	struct slot slot;
	struct trail trail;
};

/* Log-linear, 8 steps per power of two: a value's bucket is at most 12.5 % wide. */
#define HIST_BUCKETS 272
#define HIST_MAX_NS ((1ull << 36) - 1)

/*
 * One of a CPU's. Each CPU claims entries by itself: a key may be elsewhere on another one.
 * All zero when it is claimed, hence not_min_ns. A bucket has 48 bits, of which the upper ones
 * are apart: the fewer cache lines the buckets are spread over, the fewer are missed.
 */
struct hist {
	__u64 key;
	__u32 ifindex, netns;
	__u32 tick; /* HIST_TICK, when the device's address was last known to be that of this one */
	__u32 pad;
	__u64 sum_ns, not_min_ns, max_ns;
	__u64 to_line[2];
	__u32 bucket[HIST_BUCKETS];
	__u16 carry[HIST_BUCKETS];
	__u64 to_end[4];
};

_Static_assert(sizeof(struct hist) % 64 == 0, "entries begin at cache lines");

#define HIST_TICK(ns) ((__u32)((ns) >> 20)) /* about a millisecond */

/* Histogram key: 1 bit, never 0 | from 6 bits | to 6 | part of the device's address 32. */
#define HIST_KEY(from, to, place)                                                                  \
	(1ull << 63 | (__u64)((from)&63) << 38 | (__u64)((to)&63) << 32 | (__u32)(place))
#define HIST_FROM(key) ((key) >> 38 & 63)
#define HIST_TO(key) ((key) >> 32 & 63)
#define HIST_PROBES 8

struct drop_key {
	__u32 reason, ifindex, netns, pad;
};

#define SOFTIRQS 10

struct softirq {
	__u64 since_ns;
	__u64 time_ns[SOFTIRQS], count[SOFTIRQS];
};

/* Per CPU. Names in user space's table of the same order. */
/* clang-format off */
#define COUNTERS(C)                                                                                \
	C(first_stage, "packets that met a first stage")                                           \
	C(sampled, "of them, chosen to be followed")                                               \
	C(delivered, "copied to an application")                                                   \
	C(consumed, "freed after use")                                                             \
	C(dropped, "dropped")                                                                      \
	C(acked, "segments without data, used up by TCP")                                          \
	C(gro_merged, "merged into another packet by GRO")                                         \
	C(reassembled, "fragments that became part of a datagram")                                 \
	C(datagrams_reassembled, "datagrams that were whole again")                             \
	C(gso_parents, "GSO packets replaced by segments")                                         \
	C(gso_segments, "segments followed on from a GSO packet")                                  \
	C(fragments, "packets that were IP fragments at their first stage")                        \
	C(fragmented, "fragments followed on from a packet that was cut")                          \
	C(head_replaced, "packets followed over a change of their data buffer")                    \
	C(clones_skipped, "events of a clone while the original is followed")                      \
	C(queue_merged, "TCP, end not seen: merged in its socket's queue, or freed there unread")  \
	C(backlog_merged, "TCP, end not seen: merged while its socket was in use, or freed")       \
	C(ended_shared, "sk_buff freed while clones held the data, not seen again")                \
	C(reuse_detected, "end not seen: the address came again with other contents")      \
	C(lost_table, "sampled, but the table had no room")                                        \
	C(lost_expired, "forgotten after not being seen for the expiry time")                      \
	C(lost_histogram, "stage latencies without a histogram: too many devices")                 \
	C(lost_paths, "paths not emitted: the ring buffer was full")                               \
	C(lost_hops, "stages not kept in a path: longer than fits")                                \
	C(not_ip, "first stage, neither IPv4 nor IPv6, or unreadable")                             \
	C(audited, "audit: payload compared with that at the first stage")                         \
	C(audit_false, "audit: payload differed, a false match")
/* clang-format on */

#define COUNTER_ENUM(name, doc) CNT_##name,
enum counter {
	COUNTERS(COUNTER_ENUM) COUNTERS_N,
};
#undef COUNTER_ENUM

/* One CPU's. */
struct counters {
	__u64 n[(COUNTERS_N + 7) / 8 * 8]; /* whole cache lines */
};
