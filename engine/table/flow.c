/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_priv.h"

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_prefetch.h>
#include <rte_vect.h>

static __rte_always_inline uint64_t hash_key(const struct flow_table *t, const uint64_t *key,
					     unsigned int words)
{
	return flow_hash(&t->probe, key, words);
}

static inline uint16_t hash_tag(uint64_t h)
{
	uint16_t tag = h >> 48;

	return tag + !tag;
}

static inline struct bucket *first_bucket(const struct flow_table *t, uint64_t h)
{
	return bucket_at(t, h & t->probe.bucket_mask);
}

/* Its own inverse, so a key can move either way knowing only its tag. */
static inline struct bucket *other_bucket(const struct flow_table *t, const struct bucket *b,
					  uint16_t tag)
{
	uint64_t i = (uint64_t)(b - bucket_at(t, 0));

	return bucket_at(t, i ^ (((tag * 0x9e3779b1u) | 1) & t->moves));
}

/* Bit i is set when slot i has the tag. */
static __rte_always_inline uint32_t match_tag(const struct bucket *b, uint16_t tag)
{
#ifdef __SSE2__
	__m128i hit = _mm_cmpeq_epi16(_mm_load_si128((const __m128i *)b->tag),
				      _mm_set1_epi16((short)tag));

	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(hit, _mm_setzero_si128()));
#else
	uint32_t hits = 0;

	for (unsigned int i = 0; i < SLOTS; i++)
		hits |= (uint32_t)(b->tag[i] == tag) << i;
	return hits;
#endif
}

static __rte_always_inline bool key_equal(const uint64_t *a, const uint64_t *b, unsigned int words)
{
	uint64_t diff = (a[0] ^ b[0]) | (a[1] ^ b[1]);

	if (words == 5)
		diff |= (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]);
	return diff == 0;
}

static __rte_always_inline struct flow *find_in(const struct flow_table *t, const struct bucket *b,
						uint16_t tag, const uint64_t *key,
						unsigned int words)
{
	for (uint32_t hits = match_tag(b, tag); hits; hits &= hits - 1) {
		struct flow *f = record(t, b->flow[(unsigned int)__builtin_ctz(hits)]);

		if (key_equal(f->key, key, words))
			return f;
	}
	return NULL;
}

static __rte_always_inline struct flow *find_hashed(const struct flow_table *t, const uint64_t *key,
						    uint64_t h, unsigned int words)
{
	const struct bucket *b = first_bucket(t, h);
	uint16_t tag = hash_tag(h);
	struct flow *f = find_in(t, b, tag, key, words);

	if (!f && unlikely(b->moved))
		f = find_in(t, other_bucket(t, b, tag), tag, key, words);
	return f;
}

/* Two passes behind that of the hashes, so that a burst's cache misses overlap. */
static __rte_always_inline unsigned int lookup_hashed(const struct flow_table *t,
						      const uint64_t *keys, const uint64_t *h,
						      unsigned int n, unsigned int words,
						      struct flow **out)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < n; i++) {
		const struct bucket *b = first_bucket(t, h[i]);
		uint32_t hits = match_tag(b, hash_tag(h[i]));

		out[i] = hits ? record(t, b->flow[(unsigned int)__builtin_ctz(hits)]) : NULL;
		rte_prefetch0(out[i]);
		if (words == 5 && out[i]) /* whose state begins near the first line's end */
			rte_prefetch0((const uint8_t *)out[i] + RTE_CACHE_LINE_SIZE);
	}
	for (unsigned int i = 0; i < n; i++) {
		const uint64_t *key = keys + i * words;

		if (likely(out[i] && key_equal(out[i]->key, key, words))) {
			found++;
			continue;
		}
		/* Nothing, or another key of the same tag: both are settled the long way. */
		out[i] = find_hashed(t, key, h[i], words);
		found += out[i] != NULL;
	}
	return found;
}

/* What no guess told, or a wrong one, in the two passes of lookup_hashed; it is kept for the next packet. */
static __rte_noinline unsigned int lookup_left(const struct flow_table *t, const uint64_t *keys,
					       const uint64_t *h, uint32_t *const *trails,
					       const uint8_t *left, unsigned int n, unsigned int words,
					       struct flow **out)
{
	unsigned int found = 0;

	for (unsigned int k = 0; k < n; k++) {
		const struct bucket *b = first_bucket(t, h[left[k]]);
		uint32_t hits = match_tag(b, hash_tag(h[left[k]]));

		if (hits)
			rte_prefetch0(record(t, b->flow[(unsigned int)__builtin_ctz(hits)]));
	}
	for (unsigned int k = 0; k < n; k++) {
		unsigned int i = left[k];

		out[i] = find_hashed(t, keys + i * words, h[i], words);
		found += out[i] != NULL;
		if (out[i] && trails[i])
			*trails[i] = flow_index(t, out[i]) + 1;
	}
	return found;
}

static __rte_always_inline unsigned int lookup_trailed(const struct flow_table *t,
						       const uint64_t *keys, uint64_t *h,
						       uint32_t *const *trails, unsigned int n,
						       unsigned int words, struct flow **out)
{
	uint8_t left[FLOW_BULK_MAX];
	unsigned int n_left = 0;

	for (unsigned int i = 0; i < n; i++) {
		const uint64_t *key = keys + i * words;

		/* A record that is nobody's may have a key still. */
		if (likely(out[i] && out[i]->live && key_equal(out[i]->key, key, words)))
			continue;
		if (out[i])
			h[i] = flow_hint(t, key, words);
		left[n_left++] = (uint8_t)i;
	}
	if (likely(!n_left))
		return n;
	return n - n_left + lookup_left(t, keys, h, trails, left, n_left, words, out);
}

unsigned int flow_lookup4_trailed(const struct flow_table *t, const struct flow_key4 *keys,
				  uint64_t *hints, uint32_t *const *trails, unsigned int n,
				  struct flow **out)
{
	return lookup_trailed(t, (const uint64_t *)keys, hints, trails, n, 2, out);
}

unsigned int flow_lookup6_trailed(const struct flow_table *t, const struct flow_key6 *keys,
				  uint64_t *hints, uint32_t *const *trails, unsigned int n,
				  struct flow **out)
{
	return lookup_trailed(t, (const uint64_t *)keys, hints, trails, n, 5, out);
}

unsigned int flow_lookup4_hinted(const struct flow_table *t, const struct flow_key4 *keys,
				 const uint64_t *hints, unsigned int n, struct flow **out)
{
	return lookup_hashed(t, (const uint64_t *)keys, hints, n, 2, out);
}

unsigned int flow_lookup6_hinted(const struct flow_table *t, const struct flow_key6 *keys,
				 const uint64_t *hints, unsigned int n, struct flow **out)
{
	return lookup_hashed(t, (const uint64_t *)keys, hints, n, 5, out);
}

struct flow *flow_find(const struct flow_table *t, const void *key)
{
	return find_hashed(t, key, hash_key(t, key, t->words), t->words);
}

static bool place(struct bucket *b, uint16_t tag, uint32_t flow)
{
	uint32_t free = match_tag(b, 0);

	if (!free)
		return false;
	b->tag[(unsigned int)__builtin_ctz(free)] = tag;
	b->flow[(unsigned int)__builtin_ctz(free)] = flow;
	return true;
}

/* Move one key of the full bucket `b` to its other bucket. */
static bool make_room(struct flow_table *t, struct bucket *b)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct bucket *other = other_bucket(t, b, b->tag[i]);
		const struct flow *f = record(t, b->flow[i]);

		if (!place(other, b->tag[i], b->flow[i]))
			continue;
		if (first_bucket(t, hash_key(t, f->key, t->words)) == b)
			b->moved++;
		else
			other->moved--;
		b->tag[i] = 0;
		return true;
	}
	return false;
}

static bool index_add(struct flow_table *t, uint64_t h, uint32_t flow)
{
	struct bucket *first = first_bucket(t, h);
	uint16_t tag = hash_tag(h);
	struct bucket *second = other_bucket(t, first, tag);

	if (place(first, tag, flow))
		return true;
	if (place(second, tag, flow)) {
		first->moved++;
		return true;
	}
	return make_room(t, first) && place(first, tag, flow);
}

static bool clear_slot(struct bucket *b, uint16_t tag, uint32_t flow)
{
	for (uint32_t hits = match_tag(b, tag); hits; hits &= hits - 1) {
		if (b->flow[(unsigned int)__builtin_ctz(hits)] != flow)
			continue;
		b->tag[(unsigned int)__builtin_ctz(hits)] = 0;
		return true;
	}
	return false;
}

static void index_remove(struct flow_table *t, uint64_t h, uint32_t flow)
{
	struct bucket *first = first_bucket(t, h);
	uint16_t tag = hash_tag(h);

	if (clear_slot(first, tag, flow))
		return;
	if (clear_slot(other_bucket(t, first, tag), tag, flow))
		first->moved--;
}

static uint32_t take_record(const struct flow_table *t, struct flow_shard *s)
{
	uint32_t i = s->free;

	if (i != NO_FLOW)
		s->free = (uint32_t)record(t, i)->key[0];
	else if (s->top < t->capacity)
		i = s->first + s->top++;
	return i;
}

static void give_record(const struct flow_table *t, struct flow_shard *s, uint32_t i)
{
	struct flow *f = record(t, i);

	f->live = 0;
	f->key[0] = s->free;
	s->free = i;
}

static inline void keep_count(const struct flow_table *t, uint32_t count)
{
	if (unlikely(t->kept.live))
		atomic_store_explicit(t->kept.live, count, memory_order_relaxed);
}

static inline void keep_no_more(const struct flow_table *t, uint32_t i)
{
	if (unlikely(i < t->kept.n))
		atomic_store_explicit((_Atomic uint32_t *)(t->kept.slots + (size_t)i * t->kept.stride), 0,
				      memory_order_relaxed);
}

struct flow *flow_insert(struct flow_table *t, const void *key)
{
	struct flow_shard *s = shard_of_key(t, key);
	uint32_t i = take_record(t, s);
	struct flow *f;

	if (i == NO_FLOW)
		return NULL;
	f = record(t, i);
	memcpy(f->key, key, t->words * sizeof(uint64_t));
	if (!index_add(t, hash_key(t, f->key, t->words), i)) {
		give_record(t, s, i);
		return NULL;
	}
	memset(f->key + t->words, 0, t->state_bytes);
	if (t->probe.trail_at)
		memset((uint8_t *)f + t->probe.trail_at, 0, FLOW_TRAILS * sizeof(uint32_t));
	f->live = 1;
	f->user = 0;
	keep_count(t, ++s->count);
	return f;
}

void flow_delete(struct flow_table *t, struct flow *f)
{
	struct flow_shard *s = shard_of_key(t, f->key);
	uint32_t i = flow_index(t, f);

	epoch_grows(t, i);
	index_remove(t, hash_key(t, f->key, t->words), i);
	give_record(t, s, i);
	keep_no_more(t, i);
	keep_count(t, --s->count);
}
