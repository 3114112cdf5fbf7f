/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/* What the BPF programs and the user-space part both read and write. */

#include "stages.h"

/*
 * Packets in flight, by head: a set-associative table in plain arrays, because an
 * array lookup is inlined by the verifier where a hash map's is a call of 25-30 ns.
 */
#define WAYS 4
#define TAG_FREE 0
#define TAG_BUSY 1 /* claimed, being filled in */

/* Part of each head's hash: small, so that all sets stay in a cache. The slot has the head. */
struct head_set {
	union {
		__u64 all;
		__u16 tag[WAYS];
	};
};

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
	__u64 head, last_ns;
	__u32 skb, dev;       /* part of the addresses */
	__u32 ifindex, netns; /* last device seen */
	__u16 flags;
	__u8 first_stage, last_stage;
	__u8 quick; /* the identity's */
	__u8 pad[3];
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

/* One of a CPU's. Each CPU claims entries by itself: a key may be elsewhere on another one. */
struct hist {
	__u64 key, count, sum_ns, min_ns, max_ns;
	__u64 bucket[HIST_BUCKETS];
};

/* Histogram key: from 6 bits | to 6 | ifindex 20 | netns 32, never 0 since netns is not. */
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
