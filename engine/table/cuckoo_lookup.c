/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batched lookup in the cuckoo table. This file is built once for each instruction set, with
 * CUCKOO_ISA its name; only the comparison of a bucket's keys is written for each.
 *
 * A batch goes through three stages, a chunk of keys at each, so that the lines of one chunk
 * come in from memory while another is looked at:
 *	prepare	hash
 *	probe	compare in the first bucket, prefetched while the chunk before was probed; for the
 *		few that have to go on, prefetch the second bucket
 *	finish	look there
 * Probing has no branch that depends on data: at 95 % full one hit in eight goes on, which a
 * branch predictor cannot foresee.
 *
 * The stages look at no bucket's version. If the table has not changed from the first load of a
 * chunk's probe to the last of its finish, what they saw is the table at one instant; if it has,
 * the chunk is looked up again in the guarded way.
 */
#include "cuckoo.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define CHUNK 64
#define CHUNK_SHORT 32 /* of calls with few keys, which would else wait for all of them at once */
#define LONG_CALL 512

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define LOOKUPS PASTE(cuckoo_lookups_, CUCKOO_ISA)

/* Vector loads are not atomic, but each key in them is; order is as in cuckoo.h on x86, where
 * loads are not reordered, as long as the compiler does not do it either. */
#define compiler_barrier() __asm__ volatile("" ::: "memory")

struct chunk {
	const uint8_t *keys;
	uint16_t *nhs;
	unsigned int n, n_more;
	uint64_t absent;       /* from the first bucket: key n - 1 in bit 0 */
	uint64_t changes;      /* of the table, when the first bucket was looked at */
	uint64_t first[CHUNK]; /* in bytes from the table's start */
	uint32_t h2[CHUNK];
	uint64_t second[CHUNK]; /* of those in `more` */
	uint8_t more[CHUNK];    /* the keys that go on to their second bucket */
};

/* Not fib_key_bytes: a constant here lets the compiler do eight hashes at once. */
static inline size_t stride_of(enum fib_key kind)
{
	return kind == FIB_KEY_IPV4 ? 4 : kind == FIB_KEY_IPV6 ? 16 : 8;
}

/* The first slot in a mask; any when it is empty. */
static inline unsigned int first_of(uint32_t m)
{
#ifdef __BMI__
	return _tzcnt_u32(m);
#else
	return __builtin_ctz(m | 1u << 8);
#endif
}

/*
 * Bit s: slot s has the key. A slot that is not in use has a key that cannot be there (invariant
 * 4); it may have another one while a writer is at work. The 64-bit words of a bucket with 8- or
 * 16-byte keys are compared all at once, whatever they are; what is no key is shifted out.
 */
#if defined(CUCKOO_AVX512)
static inline uint32_t match_ipv4(const struct bucket *b, const struct ckey *k)
{
	return _mm256_cmpeq_epi32_mask(_mm256_load_si256((const __m256i *)b->ipv4.key),
				       _mm256_set1_epi32((int)k->w[0]));
}

static inline uint32_t match_words(const struct bucket *b, uint64_t even, uint64_t odd, int shl)
{
	__m512i words = _mm512_slli_epi64(_mm512_load_si512(b), shl);
	__m512i want = _mm512_broadcast_i64x2(_mm_set_epi64x((long long)odd, (long long)even));

	return _mm512_cmpeq_epi64_mask(words, want);
}
#elif defined(CUCKOO_AVX2)
static inline uint32_t match_ipv4(const struct bucket *b, const struct ckey *k)
{
	__m256i eq = _mm256_cmpeq_epi32(_mm256_load_si256((const __m256i *)b->ipv4.key),
					_mm256_set1_epi32((int)k->w[0]));

	return _mm256_movemask_ps(_mm256_castsi256_ps(eq));
}

static inline uint32_t match_words(const struct bucket *b, uint64_t even, uint64_t odd, int shl)
{
	const __m256i *half = (const __m256i *)b;
	__m256i want = _mm256_set_epi64x((long long)odd, (long long)even, (long long)odd,
					 (long long)even);
	__m256i lo = _mm256_cmpeq_epi64(_mm256_slli_epi64(_mm256_load_si256(half), shl), want);
	__m256i hi = _mm256_cmpeq_epi64(_mm256_slli_epi64(_mm256_load_si256(half + 1), shl), want);

	return _mm256_movemask_pd(_mm256_castsi256_pd(lo)) |
	       _mm256_movemask_pd(_mm256_castsi256_pd(hi)) << 4;
}
#endif

#if defined(CUCKOO_AVX512) || defined(CUCKOO_AVX2)
static inline uint32_t match(const struct bucket *b, enum fib_key kind, const struct ckey *k)
{
	uint32_t m;

	switch (kind) {
	case FIB_KEY_IPV4:
		return match_ipv4(b, k);
	case FIB_KEY_IPV6:
		m = match_words(b, k->w[0], k->w[1], 0) >> 2; /* pairs of words */
		m &= m >> 1;
		return (m & 1) | (m >> 1 & 2) | (m >> 2 & 4);
	case FIB_KEY_MAC:
		return match_words(b, k->w[0] << 16, k->w[0] << 16, 16) >> 1;
	default:
		return match_words(b, k->w[0], k->w[0], 0) >> 3;
	}
}

static inline uint16_t nh_at(const struct bucket *b, enum fib_key kind, unsigned int s)
{
	switch (kind) {
	case FIB_KEY_IPV4:
		return b->ipv4.nh[s & 7];
	case FIB_KEY_IPV6:
		return b->ipv6.nh[s & 3];
	case FIB_KEY_MAC:
		return b->mac.entry[s & 7] >> MAC_BITS;
	default:
		return b->vrf.nh[s & 7];
	}
}
#else
static inline uint32_t match(const struct bucket *b, enum fib_key kind, const struct ckey *k)
{
	uint32_t m = 0;

	for (unsigned int s = 0; s < slots_of(kind); s++) {
		struct ckey there = slot_key(b, kind, s);

		m |= (uint32_t)key_equal(&there, k) << s;
	}
	return m;
}

static inline uint16_t nh_at(const struct bucket *b, enum fib_key kind, unsigned int s)
{
	return slot_nh(b, kind, s < slots_of(kind) ? s : 0);
}
#undef compiler_barrier
#define compiler_barrier() ((void)0) /* these loads are atomic and acquire: nothing to add */
#endif

/*
 * One look at a bucket beside a writer. False: the result stands (a next hop, or FIB_MISS that the
 * filter confirms). True: the key may be in the other bucket, or the writer was at work here.
 */
static inline bool probe_guarded(const struct bucket *b, enum fib_key kind, const struct ckey *k,
				 uint32_t bits, uint16_t *nh)
{
	uint32_t head = LOAD(&b->head), m, filter;
	uint16_t there;

	compiler_barrier();
	m = match(b, kind, k) & head & HEAD_USED;
	there = nh_at(b, kind, first_of(m));
	filter = bucket_filter(b, kind);
	compiler_barrier();
	*nh = m ? there : FIB_MISS;
	/* Busy at first is torn too: no later head equals this one without its busy bit. */
	return ((m | (bits & ~filter)) == 0) | (LOAD(&b->head) != (head & ~HEAD_BUSY));
}

static inline const struct bucket *bucket_at(const struct cuckoo *c, uint64_t offset)
{
	return (const struct bucket *)((const uint8_t *)c->buckets + offset);
}

static inline void prepare(const struct cuckoo *c, struct chunk *t, enum fib_key kind)
{
	const uint32_t seed[2] = {c->seed[0], c->seed[1]}, buckets = c->n;
	const uint8_t *const keys = t->keys;
	const unsigned int n = t->n;

	for (unsigned int i = 0; i < n; i++) {
		struct ckey k = key_load(kind, keys + i * stride_of(kind));
		struct hashes h = hash_key(seed, kind, &k);

		t->h2[i] = h.h2;
		t->first[i] = (uint64_t)first_bucket(buckets, h) * sizeof(struct bucket);
	}
}

static inline void prefetch_all(const struct cuckoo *c, const struct chunk *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		__builtin_prefetch(bucket_at(c, t->first[i]));
}

/*
 * Looks at the first buckets of n keys, which is t->n. One of `ahead`, the first buckets of the next
 * chunk, is fetched for each, so that there are always about as many lines on their way as the CPU
 * can have. With `filter`, keys that cannot be in their second bucket are not `absent` any more,
 * which costs less than sifting them afterwards when most keys are in no bucket.
 */
static inline __attribute__((always_inline)) void probe(const struct cuckoo *c, struct chunk *t,
							const unsigned int n, const uint64_t *ahead,
							enum fib_key kind, const bool filter)
{
	const uint8_t *const keys = t->keys;
	uint16_t *const nhs = t->nhs;
	uint64_t absent = 0;

	t->changes = LOAD(&c->changes);
	compiler_barrier();
#pragma GCC unroll 4
	for (unsigned int i = 0; i < n; i++) {
		const struct bucket *b = bucket_at(c, t->first[i]);
		struct ckey k = key_load(kind, keys + i * stride_of(kind));
		uint32_t m = match(b, kind, &k), bits;
		uint16_t there = nh_at(b, kind, first_of(m));

		__builtin_prefetch(bucket_at(c, ahead[i]));
		if (filter) {
			bits = filter_bits(kind, t->h2[i]);
			nhs[i] = m ? there : FIB_MISS;
			m |= bits & ~bucket_filter(b, kind);
		} else {
			nhs[i] = there;
		}
		absent += absent + (m < 1); /* a comparison and an addition with carry */
	}
	t->absent = absent;
}

/*
 * Leaves those of the keys not in their first bucket that may be in the second, and fetches
 * that. For the others, which are few when the filter was not asked before, the line is
 * there.
 */
static inline void go_on(const struct cuckoo *c, struct chunk *t, enum fib_key kind)
{
	const unsigned int last = t->n - 1;
	unsigned int more = 0;

	for (uint64_t left = t->absent; left; left &= left - 1) {
		unsigned int i = last - __builtin_ctzll(left);
		uint64_t first = t->first[i], second;
		uint32_t bits = filter_bits(kind, t->h2[i]);
		bool there = !(bits & ~bucket_filter(bucket_at(c, first), kind));

		second = (uint64_t)second_after(c->n, first / sizeof(struct bucket), t->h2[i]) *
			 sizeof(struct bucket);
		__builtin_prefetch(bucket_at(c, there ? second : first));
		t->nhs[i] = FIB_MISS;
		t->more[more] = i;
		t->second[more] = second;
		more += there;
	}
	t->n_more = more;
}

/* The writer was at work while this chunk was looked up: once more, bucket by bucket. */
static __attribute__((noinline)) void again(const struct cuckoo *c, struct chunk *t,
					    enum fib_key kind)
{
	for (unsigned int i = 0; i < t->n; i++) {
		struct ckey k = key_load(kind, t->keys + i * stride_of(kind));

		if (probe_guarded(bucket_at(c, t->first[i]), kind, &k, filter_bits(kind, t->h2[i]),
				  &t->nhs[i]))
			t->nhs[i] = cuckoo_find(c, kind, &k, hash_key(c->seed, kind, &k));
	}
}

static inline void finish(const struct cuckoo *c, struct chunk *t, enum fib_key kind)
{
	for (unsigned int j = 0; j < t->n_more; j++) {
		unsigned int i = t->more[j];
		struct ckey k = key_load(kind, t->keys + i * stride_of(kind));
		const struct bucket *b = bucket_at(c, t->second[j]);
		uint32_t m = match(b, kind, &k);
		uint16_t there = nh_at(b, kind, first_of(m));

		t->nhs[i] = m ? there : FIB_MISS;
	}
	compiler_barrier();
	if (__builtin_expect((t->changes & 1) | (LOAD(&c->changes) != t->changes), 0))
		again(c, t, kind);
}

static inline __attribute__((always_inline)) void lookup(const struct fib *f, const void *keys,
							 uint16_t *nhs, unsigned int n,
							 const enum fib_key kind)
{
	const struct cuckoo *c = (const struct cuckoo *)f;
	const unsigned int size = n < LONG_CALL ? CHUNK_SHORT : CHUNK;
	const unsigned int chunks = (n + size - 1) / size;
	bool sparse = false; /* many keys are not in their first bucket */
	struct chunk t[3];

	for (unsigned int i = 0; i < chunks + 2; i++) {
		struct chunk *new = &t[i % 3], *now = &t[(i + 2) % 3], *old = &t[(i + 1) % 3];
		const bool probes = i >= 1 && i <= chunks;

		if (i < chunks) {
			new->keys = (const uint8_t *)keys + (size_t)i *size *stride_of(kind);
			new->nhs = nhs + i *size;
			new->n = n - i *size < size ? n - i *size : size;
			prepare(c, new, kind);
			if (i == 0)
				prefetch_all(c, new);
		}
		if (probes) {
			const bool last = i == chunks, whole = !last && new->n == size;
			const uint64_t *ahead = whole ? new->first : now->first;

			if (sparse)
				probe(c, now, now->n, ahead, kind, true);
			else if (now->n == CHUNK) /* a count that the compiler knows */
				probe(c, now, CHUNK, ahead, kind, false);
			else
				probe(c, now, now->n, ahead, kind, false);
			if (!last && !whole)
				prefetch_all(c, new);
			sparse |= (unsigned int)__builtin_popcountll(now->absent) > size / 4;
		}
		if (i >= 2)
			finish(c, old, kind);
		/* Not at once: its exit from the loop is hard to foresee, and waits for the probe. */
		if (probes)
			go_on(c, now, kind);
	}
}

static void lookup_ipv4(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	lookup(f, keys, nhs, n, FIB_KEY_IPV4);
}

static void lookup_ipv6(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	lookup(f, keys, nhs, n, FIB_KEY_IPV6);
}

static void lookup_mac(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	lookup(f, keys, nhs, n, FIB_KEY_MAC);
}

static void lookup_vrf_ipv4(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	lookup(f, keys, nhs, n, FIB_KEY_VRF_IPV4);
}

cuckoo_lookup_fn *const LOOKUPS[FIB_KEYS] = {
	[FIB_KEY_IPV4] = lookup_ipv4,
	[FIB_KEY_IPV6] = lookup_ipv6,
	[FIB_KEY_MAC] = lookup_mac,
	[FIB_KEY_VRF_IPV4] = lookup_vrf_ipv4,
};
