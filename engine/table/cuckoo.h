/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <string.h>

#include "fib_priv.h"

/*
 * Exact match: a bucketised cuckoo hash table (Zhou et al., "CuckooSwitch", CoNEXT 2013) with
 * a filter of the keys moved away (Le Scouarnec, "Cuckoo++ Hash Tables", ANCS 2018).
 * docs/design/fib.md explains it; its invariants:
 *
 *  1. A key is in its first or its second bucket; while it is moved it is in both.
 *  2. When it is in its second bucket only, its first bucket's filter has its bits and
 *     counts it.
 *  3. Whatever else than a next hop changes in a bucket changes the bucket's version, which
 *     is odd meanwhile (a seqlock; Boehm, "Can Seqlocks Get Along With Programming Language
 *     Memory Models?", MSPC 2012: data is loaded with acquire, stored with release).
 *  4. A slot that is not in use holds a key whose buckets are others, whenever no bucket is busy.
 *  5. `changes` is odd while any bucket is busy, and counts them.
 *
 * So a reader that saw no version change has seen the bucket as it was at one instant; and one
 * that saw no change of `changes` has seen the whole table as it was.
 */

/* head: version << 8 | a bit for each slot in use. 23 bits of version are counted: it comes
 * round after 8 million changes of one bucket, which take longer than any reader's look. */
#define HEAD_BUSY (1u << 8)
#define HEAD_USED 0xffu

/*
 * away: count << 24 | filter; a count of AWAY_STUCK is not known any more and stays. The filter
 * has two bits a key. Where there is room it counts to 3 in two bit planes, so that keys that
 * come home, or are removed, leave it; `hi` is the second plane (MAC has none: its filter
 * forgets only when the count comes to 0).
 */
#define AWAY_SHIFT 24
#define AWAY_STUCK 255u
#define AWAY_FILTER ((1u << AWAY_SHIFT) - 1)

struct bucket {
	uint32_t head;
	uint32_t away;
	union {
		struct {
			uint64_t planes; /* hi << 32 | lo, instead of the one in away */
			uint16_t nh[8];
			uint32_t key[8];
		} ipv4;
		struct {
			uint16_t nh[3], hi;
			uint64_t key[3][2];
		} ipv6;
		struct {
			uint64_t entry[7]; /* next hop << 48 | key */
		} mac;
		struct {
			uint16_t nh[5], pad;
			uint32_t hi;
			uint64_t key[5];
		} vrf;
	};
} __attribute__((aligned(64)));
static_assert(sizeof(struct bucket) == 64, "a bucket is one cache line");

#define MAC_BITS 48
#define MAC_MASK ((UINT64_C(1) << MAC_BITS) - 1)

/* A key of any kind; the shorter ones are in w[0]. */
struct ckey {
	uint64_t w[2];
};

struct hashes {
	uint32_t h1, h2;
};

#define SEARCH_MAX 4096 /* buckets looked at for a free slot before the table counts as full */

struct search_node {
	uint32_t bucket;
	uint16_t parent; /* index of the node whose bucket has the key that would come here */
	uint8_t slot;    /* where that key is */
};

struct cuckoo {
	/* Readers': written once. */
	struct fib fib;
	struct bucket *buckets;
	uint32_t n; /* buckets */
	uint32_t seed[2];
	const char *isa;

	/* Readers' and writer's. */
	_Alignas(64) uint64_t changes;

	/* The writer's. */
	_Alignas(64) uint64_t entries;
	uint64_t moved, updates;
	struct ckey filler;      /* of unused slots in the two buckets where key 0 may be; 0 elsewhere */
	uint32_t zero_bucket[2]; /* those */
	size_t mapped_bytes, page_bytes;
	struct search_node search[SEARCH_MAX];
};

/* The low-bias 32-bit mixer of C. Wellons' hash prospector: a bijection, so that no two
 * 32-bit keys share a hash. Plain enough for compilers to do eight at once. */
static inline uint32_t mix32(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

static inline uint64_t fold128(const uint64_t w[2], uint32_t seed)
{
	uint64_t x = (w[0] ^ seed) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 32 ^ w[1]) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

static inline struct hashes hash64(const uint32_t seed[2], uint64_t key)
{
	uint32_t hi = key >> 32;
	struct hashes h;

	h.h1 = mix32(mix32(hi ^ seed[1]) ^ (uint32_t)key ^ seed[0]);
	h.h2 = mix32(h.h1 ^ hi * 0x9e3779b1u ^ seed[1]);
	return h;
}

static inline struct hashes hash32(const uint32_t seed[2], uint32_t key)
{
	struct hashes h;

	h.h1 = mix32(key ^ seed[0]);
	h.h2 = mix32(h.h1 ^ seed[1]);
	return h;
}

static inline struct hashes hash_key(const uint32_t seed[2], enum fib_key kind,
				     const struct ckey *k)
{
	if (kind == FIB_KEY_IPV4)
		return hash32(seed, k->w[0]);
	if (kind == FIB_KEY_IPV6)
		return hash64(seed, fold128(k->w, seed[1]));
	return hash64(seed, k->w[0]);
}

/* Lemire's multiplication instead of a remainder: any number of buckets. */
static inline uint32_t first_bucket(uint32_t n, struct hashes h)
{
	return (uint64_t)h.h1 * n >> 32;
}

/* Never the first one; there are two buckets at least. */
static inline uint32_t second_after(uint32_t n, uint32_t first, uint32_t h2)
{
	uint64_t b = (uint64_t)first + 1 + ((uint64_t)h2 * (n - 1) >> 32);

	return b >= n ? b - n : b;
}

static inline uint32_t second_bucket(uint32_t n, struct hashes h)
{
	return second_after(n, first_bucket(n, h), h.h2);
}

/* One or two of the filter's bits: 32, 24 or, for IPv6, 16. */
static inline uint32_t filter_bits(enum fib_key kind, uint32_t h2)
{
	const uint32_t width = kind == FIB_KEY_IPV4 ? 32 : kind == FIB_KEY_IPV6 ? 16 : 24;

	return 1u << ((h2 & 0xfff) * width >> 12) | 1u << ((h2 >> 12 & 0xfff) * width >> 12);
}

static inline unsigned int slots_of(enum fib_key kind)
{
	static const uint8_t slots[FIB_KEYS] = {
		[FIB_KEY_IPV4] = 8, [FIB_KEY_IPV6] = 3, [FIB_KEY_MAC] = 7, [FIB_KEY_VRF_IPV4] = 5};

	return slots[kind];
}

static inline struct ckey key_load(enum fib_key kind, const void *key)
{
	struct ckey k = {{0, 0}};
	uint32_t u32;

	if (kind == FIB_KEY_IPV4) {
		memcpy(&u32, key, 4);
		k.w[0] = u32;
	} else if (kind == FIB_KEY_IPV6) {
		memcpy(k.w, key, 16);
	} else {
		memcpy(k.w, key, 8);
	}
	return k;
}

/* What concurrent readers may be looking at goes through these two. */
#define LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

static inline struct ckey slot_key(const struct bucket *b, enum fib_key kind, unsigned int s)
{
	struct ckey k = {{0, 0}};

	switch (kind) {
	case FIB_KEY_IPV4:
		k.w[0] = LOAD(&b->ipv4.key[s]);
		break;
	case FIB_KEY_IPV6:
		k.w[0] = LOAD(&b->ipv6.key[s][0]);
		k.w[1] = LOAD(&b->ipv6.key[s][1]);
		break;
	case FIB_KEY_MAC:
		k.w[0] = LOAD(&b->mac.entry[s]) & MAC_MASK;
		break;
	default:
		k.w[0] = LOAD(&b->vrf.key[s]);
	}
	return k;
}

static inline uint16_t slot_nh(const struct bucket *b, enum fib_key kind, unsigned int s)
{
	switch (kind) {
	case FIB_KEY_IPV4:
		return LOAD(&b->ipv4.nh[s]);
	case FIB_KEY_IPV6:
		return LOAD(&b->ipv6.nh[s]);
	case FIB_KEY_MAC:
		return LOAD(&b->mac.entry[s]) >> MAC_BITS;
	default:
		return LOAD(&b->vrf.nh[s]);
	}
}

static inline bool key_equal(const struct ckey *a, const struct ckey *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

/* Slot of the key, or -1; only among the slots that `head` says are in use. */
static inline int bucket_find(const struct bucket *b, enum fib_key kind, uint32_t head,
			      const struct ckey *k)
{
	for (unsigned int s = 0; s < slots_of(kind); s++) {
		struct ckey there = slot_key(b, kind, s);

		if (head >> s & 1 && key_equal(&there, k))
			return s;
	}
	return -1;
}

/* A bit is set when one or more keys with it are away. */
static inline uint32_t bucket_filter(const struct bucket *b, enum fib_key kind)
{
	uint64_t planes;

	switch (kind) {
	case FIB_KEY_IPV4:
		planes = LOAD(&b->ipv4.planes);
		return (uint32_t)planes | planes >> 32;
	case FIB_KEY_IPV6:
		return (LOAD(&b->away) | LOAD(&b->ipv6.hi)) & AWAY_FILTER;
	case FIB_KEY_MAC:
		return LOAD(&b->away) & AWAY_FILTER;
	default:
		return (LOAD(&b->away) | LOAD(&b->vrf.hi)) & AWAY_FILTER;
	}
}

/* One key, by the whole protocol; what the batched lookups do for the rare cases. */
uint16_t cuckoo_find(const struct cuckoo *c, enum fib_key kind, const struct ckey *k,
		     struct hashes h);

/* Writer (cuckoo_write.c). */
int cuckoo_fill_unused(struct cuckoo *c); /* of a new table: invariant 4 */
int cuckoo_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh);
int cuckoo_update(struct fib *f, const void *key, uint8_t len, uint16_t nh);
int cuckoo_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old);
int cuckoo_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		uint64_t n, uint64_t *bad);
int cuckoo_load_range(struct fib *f, const void *first, unsigned int next_hops, uint64_t n,
		      uint64_t *bad);
/* The parts of insert that the bulk load does apart. -EEXIST, -ENOSPC. */
int cuckoo_place_first(struct cuckoo *c, const struct ckey *k, struct hashes h, uint16_t nh);
int cuckoo_place(struct cuckoo *c, const struct ckey *k, struct hashes h, uint16_t nh);

/*
 * Batched lookups (cuckoo_lookup.c, built once for each instruction set). NULL when this CPU, or
 * this build, does not have it. isa: "scalar", "avx2", "avx512"; NULL: the best there is.
 */
typedef void cuckoo_lookup_fn(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n);
cuckoo_lookup_fn *cuckoo_lookup_get(const char *isa, enum fib_key kind, const char **name);
extern cuckoo_lookup_fn *const cuckoo_lookups_scalar[FIB_KEYS];
extern cuckoo_lookup_fn *const cuckoo_lookups_avx2[FIB_KEYS];
extern cuckoo_lookup_fn *const cuckoo_lookups_avx512[FIB_KEYS];

/* pages.c: zeroed memory for tables. */
int pages_map(void **out, size_t bytes, enum fib_memory kind, int socket, size_t *mapped,
	      size_t *page, const char *path, struct err *err);
void pages_unmap(void *p, size_t mapped);
