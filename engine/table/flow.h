/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_prefetch.h>

#include "core/err.h"

/*
 * Flow table: per-flow state of one worker, found by the packet's tuple.
 *
 * One worker is the only reader and the only writer (shared-nothing), so there are no locks
 * and no atomics. Memory is bounded: it is all taken when the table is made, and a full
 * table refuses new flows and never disturbs old ones.
 *
 * A table may be in shards (flow_conf.shards): each has an index, records and ageing of its own, and a key
 * says by `shard` whose it is. Several workers then have one table, each by a view of its own
 * (flow_join), and each shard one of them at a time: giving it to another copies nothing.
 *
 * An index of one-cache-line buckets holds, per slot, a 16-bit tag of the hash and the number
 * of the flow; the flow itself (header, key, the NF's state) is one record in an array, so a hit
 * touches two lines, both prefetched across the burst. A key lives in its first bucket, or, when
 * that was full, in its second; a bucket counts the keys that had to leave it, so a miss reads
 * one line only (the idea of Le Scouarnec, "Cuckoo++ Hash Tables", ANCS 2018).
 */

#define FLOW_BULK_MAX 64
#define FLOW_CAPACITY_MAX (1u << 28)

/* IPv4 tuple; all fields in network byte order; `zone` is the NF's to use. Read in whole words. */
struct flow_key4 {
	alignas(8) uint32_t src;
	uint32_t dst;
	uint16_t sport, dport;
	uint8_t proto;
	uint8_t shard; /* 0 in a table without shards */
	uint16_t zone;
};
static_assert(sizeof(struct flow_key4) == 16, "two words");

struct flow_key6 {
	alignas(8) uint8_t src[16];
	uint8_t dst[16];
	uint16_t sport, dport;
	uint8_t proto;
	uint8_t shard;
	uint16_t zone;
};
static_assert(sizeof(struct flow_key6) == 40, "five words");

enum flow_family {
	FLOW_IPV4,
	FLOW_IPV6,
	FLOW_FAMILIES,
};

/* A record: this header, the key, then the NF's own state. */
struct flow {
	uint32_t expires; /* flow_now() at which it is gone, unless touched */
	uint16_t live;
	uint16_t user; /* the NF's to use */
	uint64_t key[];
};

struct flow_table;

struct flow_conf {
	enum flow_family family;
	uint32_t capacity;    /* flows, 1..FLOW_CAPACITY_MAX */
	uint32_t state_bytes; /* of the NF, per flow */
	uint64_t seed;        /* of the hash; 0: random, so that nobody can choose collisions */
	int socket_id;
	/*
	 * By shard: the worker that has it now, `worker` of its view; NULL: no shards. A power of two of
	 * them, at most FLOW_SHARDS_MAX, each for flow_shard_capacity flows.
	 */
	const _Atomic uint8_t *owners;
	uint32_t shards;
	uint8_t worker;
	/* Few packets will come, to try what becomes of them: memory is taken as they use it. */
	bool tried;
};
#define FLOW_SHARDS_MAX 256

/* What each shard of so many in all may hold: its part, and what chance may give it beyond that. */
uint32_t flow_shard_capacity(uint32_t capacity, uint32_t shards);

/* -EINVAL or -ENOMEM with err filled: the machine never has so much memory, or does not have it now. */
int flow_create(const struct flow_conf *conf, struct flow_table **out, struct err *err);
/* Another worker's view of a table in shards: of the same flows. `t` is destroyed after it was last used. */
int flow_join(const struct flow_table *t, uint8_t worker, struct flow_table **out, struct err *err);
void flow_destroy(struct flow_table *t);

struct flow *flow_find(const struct flow_table *t, const void *key);

/*
 * Look up n <= FLOW_BULK_MAX keys; out[i] is the flow or NULL. Returns the number found. The
 * keys are an array of struct flow_key4 or flow_key6, as the table's family is. In two steps: flow_hint as
 * soon as a packet's key is known, whose result goes with the key to flow_lookup_hinted. The buckets are then
 * on their way while the keys of the packets behind are made.
 */
static inline uint64_t flow_hint4(const struct flow_table *t, const struct flow_key4 *key);
static inline uint64_t flow_hint6(const struct flow_table *t, const struct flow_key6 *key);
unsigned int flow_lookup4_hinted(const struct flow_table *t, const struct flow_key4 *keys,
				 const uint64_t *hints, unsigned int n, struct flow **out);
unsigned int flow_lookup6_hinted(const struct flow_table *t, const struct flow_key6 *keys,
				 const uint64_t *hints, unsigned int n, struct flow **out);

/*
 * Functions behind each other look the same packets up, each in a table of its own, and of a flow they find
 * the same records each time. So a record keeps the number of the one that the next function found, for each
 * direction, where it has room for that behind its state; a packet takes along where (its trail). The next
 * function has the record then without its index: a line less of the memory that all of them share. What is
 * kept is a guess, of whatever flow: the key that stands in the record proves it or not.
 *
 * flow_guess4: the record that a trail (NULL: there is none) leads to, which is being fetched, or NULL; in
 * that case a hint is needed. flow_lookup4_trailed has in `out` what was guessed, and keeps on the trails
 * what it had to look for. Of tables without shards.
 */
#define FLOW_TRAILS 2 /* by direction */
static inline struct flow *flow_guess4(const struct flow_table *t, const uint32_t *trail);
static inline struct flow *flow_guess6(const struct flow_table *t, const uint32_t *trail);
unsigned int flow_lookup4_trailed(const struct flow_table *t, const struct flow_key4 *keys,
				  uint64_t *hints, uint32_t *const *trails, unsigned int n,
				  struct flow **out);
unsigned int flow_lookup6_trailed(const struct flow_table *t, const struct flow_key6 *keys,
				  uint64_t *hints, uint32_t *const *trails, unsigned int n,
				  struct flow **out);
/* Where a flow's record keeps it; NULL: it has no room. */
static inline uint32_t *flow_trail(const struct flow_table *t, struct flow *f, unsigned int direction);

/*
 * Add a key that is not in the table. NULL when it is full. State is zeroed; the caller
 * sets `expires` (flow_touch).
 */
struct flow *flow_insert(struct flow_table *t, const void *key);
void flow_delete(struct flow_table *t, struct flow *f);

/*
 * What is kept of a table's flows for who comes after it (core/checkpoint): a slot for each record below
 * `n`, which its flow's end makes void by a 0 in its first word. `live`: flows at any time. Of a table
 * without shards; both may be in memory that others write, and are never read here. NULL: kept no more.
 */
struct flow_kept {
	_Atomic uint32_t *live;
	uint8_t *slots;
	uint32_t n, stride;
};
void flow_keep(struct flow_table *t, const struct flow_kept *kept);
/* Records at and above it were never used. */
uint32_t flow_top(const struct flow_table *t);

/* The NF's state in a record. */
static inline void *flow_state4(struct flow *f)
{
	return f->key + 2;
}

static inline void *flow_state6(struct flow *f)
{
	return f->key + 5;
}

/* Which shard it is in; 0 without any. */
uint32_t flow_shard(const struct flow_table *t, const struct flow *f);

/* A number that names the record while it lives: shorter than a pointer, to link flows. */
uint32_t flow_index(const struct flow_table *t, const struct flow *f);
struct flow *flow_at(const struct flow_table *t, uint32_t index);
/* Where that record lies, whether it lives or not: it is not looked at, so that it can be prefetched. */
struct flow *flow_record(const struct flow_table *t, uint32_t index);

/*
 * Each record has an epoch, which grows when its flow goes, and when the NF says that it changed:
 * what somebody else remembers of a flow is void when its epoch is not the one remembered. They are
 * an array of their own, by flow_index, so that checking many touches few lines; and where nothing
 * changed at all, `any` says so for the whole table.
 */
struct flow_epochs {
	uint32_t any; /* grows with each of them */
	uint32_t of[];
};

const struct flow_epochs *flow_epochs(const struct flow_table *t);
void flow_changed(struct flow_table *t, const struct flow *f);

/* Of a view: in the worker's own shards, as of some hundredths of a second ago. */
uint32_t flow_count(const struct flow_table *t);
uint32_t flow_capacity(const struct flow_table *t);

/*
 * Time in units of 2^20 TSC cycles (some 0.3 to 0.5 ms): 32 bits then last for more than two weeks,
 * and all comparisons are by signed difference.
 */
static inline uint32_t flow_now(uint64_t tsc)
{
	return (uint32_t)(tsc >> 20);
}

/* Milliseconds as such units, rounded up. */
uint32_t flow_ticks(uint64_t ms);

static inline void flow_touch(struct flow *f, uint32_t now, uint32_t timeout)
{
	f->expires = now + timeout;
}

/* What another engine gave a flow, whose timeouts, or measure of the TSC, may be others: at most ours. */
static inline uint32_t flow_bounded(uint32_t expires, uint32_t now, uint32_t timeout)
{
	return expires - now > timeout ? now + timeout : expires;
}

static inline bool flow_expired(const struct flow *f, uint32_t now)
{
	return (int32_t)(now - f->expires) >= 0;
}

/*
 * Ageing, off the packet path: call from the NF's tick. Each call scans the part of the table
 * that is due, so that a pass over all records takes about a second whatever the interval of ticks
 * is; so a flow lives up to about a second longer than its timeout. `gone` is asked about each
 * expired flow (NULL: nobody is): true, and the flow is deleted; false, and it stays, having been
 * touched. It may delete other flows, of the same shard. Returns the number of flows that expired. Of a
 * view: in the worker's own shards.
 */
typedef bool flow_gone_fn(void *arg, struct flow *f);
unsigned int flow_age(struct flow_table *t, uint32_t now, flow_gone_fn *gone, void *arg);

/* What flow_hint needs; each table begins with it. */
struct flow_probe {
	uint8_t *buckets; /* of FLOW_BUCKET_BYTES */
	uint64_t bucket_mask;
	uint64_t seed[3];
	uint64_t shard_mask; /* bits of a hash that say in which shard; 0: there are none */
	uint64_t shard_step; /* their lowest */
	uint8_t *records;
	uint32_t stride;   /* bytes per record */
	uint32_t numbers;  /* records of all shards */
	uint32_t trail_at; /* where a record has room for trails; 0: nowhere */
};
#define FLOW_BUCKET_BYTES 64

static inline uint64_t flow_fold_mul(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Of a key's last word. */
static inline uint8_t flow_shard_of(uint64_t word)
{
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
	return (uint8_t)(word >> 40);
#else
	return (uint8_t)(word >> 16);
#endif
}

/*
 * Keyed multiply-and-fold: one or three multiplications for a key. The seed is secret, unlike with
 * a CRC, whose collisions can be computed whatever its start value is.
 */
static __rte_always_inline uint64_t flow_hash(const struct flow_probe *p, const uint64_t *words_of,
					      unsigned int words)
{
	uint64_t key[5], h;

	/* Copied, as the key's fields were written as what they are: a word's load might go before. */
	memcpy(key, words_of, words * sizeof(*key));
	h = flow_fold_mul(key[0] ^ p->seed[0], key[1] ^ p->seed[1]);

	if (words == 5) {
		h ^= flow_fold_mul(key[2] ^ p->seed[1], key[3] ^ p->seed[2]);
		h = flow_fold_mul(h ^ p->seed[0], key[4] ^ p->seed[2]);
	}
	return (h & ~p->shard_mask) | flow_shard_of(key[words - 1]) * p->shard_step;
}

static __rte_always_inline uint64_t flow_hint(const struct flow_table *t, const uint64_t *key,
					      unsigned int words)
{
	const struct flow_probe *p = (const struct flow_probe *)t;
	uint64_t h = flow_hash(p, key, words);

	rte_prefetch0(p->buckets + (h & p->bucket_mask) * FLOW_BUCKET_BYTES);
	return h;
}

static inline uint64_t flow_hint4(const struct flow_table *t, const struct flow_key4 *key)
{
	return flow_hint(t, (const uint64_t *)key, 2);
}

static inline uint64_t flow_hint6(const struct flow_table *t, const struct flow_key6 *key)
{
	return flow_hint(t, (const uint64_t *)key, 5);
}

static __rte_always_inline struct flow *flow_guess(const struct flow_table *t, const uint32_t *trail,
						   unsigned int words)
{
	const struct flow_probe *p = (const struct flow_probe *)t;
	uint32_t number = trail ? *trail - 1 : UINT32_MAX; /* 0: nothing was found yet */
	uint8_t *f;

	if (unlikely(number >= p->numbers))
		return NULL;
	f = p->records + (size_t)number * p->stride;
	rte_prefetch0(f);
	if (words == 5) /* whose state begins near the first line's end */
		rte_prefetch0(f + RTE_CACHE_LINE_SIZE);
	return (struct flow *)f;
}

static inline struct flow *flow_guess4(const struct flow_table *t, const uint32_t *trail)
{
	return flow_guess(t, trail, 2);
}

static inline struct flow *flow_guess6(const struct flow_table *t, const uint32_t *trail)
{
	return flow_guess(t, trail, 5);
}

static inline uint32_t *flow_trail(const struct flow_table *t, struct flow *f, unsigned int direction)
{
	const struct flow_probe *p = (const struct flow_probe *)t;

	return p->trail_at ? (uint32_t *)((uint8_t *)f + p->trail_at) + direction : NULL;
}
