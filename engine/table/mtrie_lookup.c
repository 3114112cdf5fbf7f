/* SPDX-License-Identifier: Apache-2.0 */
/* The readers' side of the trie: many addresses at once. */
#include "mtrie_priv.h"

#include <stdbool.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_prefetch.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/*
 * What one slot says: a longer prefix than before, if any, and the node below. No branches: which
 * packets end where is as random as their addresses.
 */
static inline uint32_t step(const _Atomic uint64_t *from, uint16_t *nh)
{
	uint64_t slot = slot_load(from);

	*nh = slot_nh(slot) ? slot_nh(slot) : *nh;
	return slot_child(slot);
}

/* From 0, no prefix, to the default route's or MTRIE_MISS. */
static void finish(const struct mtrie *t, const uint32_t *roots, uint16_t *nhs, unsigned int n)
{
	bool none = false;

	for (unsigned int i = 0; i < n; i++) {
		none |= !nhs[i];
		nhs[i]--;
	}
	for (unsigned int i = 0; unlikely(none) && i < n; i++)
		if (nhs[i] == MTRIE_MISS)
			nhs[i] = (uint16_t)(atomic_load_explicit(&t->defaults[roots[i]],
								 memory_order_acquire) - 1);
}

/* The roots' slots, and which slots below are asked for next. */
static inline uint32_t look_at_roots(const struct mtrie *t, const uint32_t *roots,
				     const uint32_t *keys, uint32_t *at, uint16_t *nhs, unsigned int n)
{
	const struct mtrie_root *tops = t->roots;
	const struct mtrie_node *nodes = t->nodes;
	uint32_t any = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t slot = slot_load(&tops[roots[i]].slots[keys[i] >> 16]);

		nhs[i] = slot_nh(slot);
		at[i] = slot_child(slot);
		any |= at[i];
		rte_prefetch0((const void *)&nodes[at[i]].slots[keys[i] >> 8 & 0xff]);
	}
	return any;
}

static inline uint32_t load_key(const uint8_t *key)
{
	uint32_t word;

	memcpy(&word, key, sizeof(word));
	return rte_be_to_cpu_32(word);
}

/* Further down than IPv4 goes. */
static void look_deeper(const struct mtrie *t, const uint8_t *const *keys, unsigned int bytes,
			uint32_t *at, uint16_t *nhs, unsigned int n)
{
	const struct mtrie_node *nodes = t->nodes;
	uint32_t any = 1;

	for (unsigned int byte = 4; byte < bytes && any; byte++) {
		any = 0;
		for (unsigned int i = 0; i < n; i++) {
			at[i] = step(&nodes[at[i]].slots[keys[i][byte]], &nhs[i]);
			any |= at[i];
			rte_prefetch0((const void *)&nodes[at[i]].slots[keys[i][(byte + 1) % bytes]]);
		}
	}
}

/* The three levels that IPv4 has; what is in at[] afterwards is further down. */
static inline uint32_t look_three(const struct mtrie *t, const uint32_t *roots,
				  const uint32_t *words, uint32_t *at, uint16_t *nhs, unsigned int n)
{
	const struct mtrie_node *nodes = t->nodes;
	uint32_t any = 0;

	if (!look_at_roots(t, roots, words, at, nhs, n))
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		at[i] = step(&nodes[at[i]].slots[words[i] >> 8 & 0xff], &nhs[i]);
		rte_prefetch0((const void *)&nodes[at[i]].slots[words[i] & 0xff]);
	}
	for (unsigned int i = 0; i < n; i++) {
		at[i] = step(&nodes[at[i]].slots[words[i] & 0xff], &nhs[i]);
		any |= at[i];
	}
	return any;
}

void mtrie_lookup(const struct mtrie *t, const uint32_t *roots, const uint8_t *const *keys,
		  unsigned int bytes, uint16_t *nhs, unsigned int n)
{
	uint32_t words[MTRIE_BURST_MAX], at[MTRIE_BURST_MAX];

	for (unsigned int i = 0; i < n; i++) {
		words[i] = load_key(keys[i]);
		rte_prefetch0((const void *)&t->roots[roots[i]].slots[words[i] >> 16]);
	}
	if (unlikely(look_three(t, roots, words, at, nhs, n)))
		look_deeper(t, keys, bytes, at, nhs, n);
	finish(t, roots, nhs, n);
}

static void lookup4_scalar(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
			   uint16_t *nhs, unsigned int n)
{
	uint32_t at[MTRIE_BURST_MAX];

	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0((const void *)&t->roots[roots[i]].slots[words[i] >> 16]);
	look_three(t, roots, words, at, nhs, n);
	finish(t, roots, nhs, n);
}

#ifdef __x86_64__
#define LANES 4
#define AVX2 __attribute__((target("avx2")))

/* Four slots at once, each read whole: they are aligned. `at` counts bytes. */
AVX2 static inline __m256i gather(const void *base, __m256i at)
{
	return _mm256_i64gather_epi64((const long long *)base, at, 1);
}

/* As step(): *nh in 64 bits each; returns where in the nodes the slot of `byte` below is. */
AVX2 static inline __m256i step_avx2(__m256i slot, __m256i *nh, __m256i byte)
{
	const __m256i low16 = _mm256_set1_epi64x(0xffff);
	__m256i found = _mm256_and_si256(slot, low16);
	__m256i child = _mm256_srli_epi64(slot, 16); /* the bits above it are 0 */
	__m256i none = _mm256_cmpeq_epi64(found, _mm256_setzero_si256());

	*nh = _mm256_blendv_epi8(found, *nh, none);
	child = _mm256_mul_epu32(child, _mm256_set1_epi64x(sizeof(struct mtrie_node)));
	return _mm256_add_epi64(child, _mm256_slli_epi64(byte, 3));
}

AVX2 static inline __m256i byte_of(__m256i words, int shift)
{
	return _mm256_and_si256(_mm256_srli_epi64(words, shift), _mm256_set1_epi64x(0xff));
}

AVX2 static inline __m256i load4(const uint32_t *of)
{
	return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)of));
}

/* The low 16 bits of each. */
AVX2 static inline void store4(uint16_t *to, __m256i of)
{
	const __m256i pick = _mm256_setr_epi8(0, 1, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
					      -1, 0, 1, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
					      -1, -1);
	__m256i picked = _mm256_shuffle_epi8(of, pick);
	uint32_t low = (uint32_t)_mm256_extract_epi32(picked, 0);
	uint32_t high = (uint32_t)_mm256_extract_epi32(picked, 4);

	memcpy(to, &low, sizeof(low));
	memcpy(to + 2, &high, sizeof(high));
}

/* Level by level, so that the cache misses of all overlap. */
AVX2 static void lookup4_avx2(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
			      uint16_t *nhs, unsigned int n)
{
	const __m256i root_bytes = _mm256_set1_epi64x(sizeof(struct mtrie_root));
	const unsigned int whole = n / LANES * LANES;
	__m256i at[MTRIE_BURST_MAX / LANES], nh[MTRIE_BURST_MAX / LANES];

	for (unsigned int i = 0; i < whole; i += LANES) {
		__m256i word = load4(words + i);
		__m256i from = _mm256_add_epi64(_mm256_mul_epu32(load4(roots + i), root_bytes),
						_mm256_slli_epi64(_mm256_srli_epi64(word, 16), 3));

		nh[i / LANES] = _mm256_setzero_si256();
		at[i / LANES] = step_avx2(gather(t->roots, from), &nh[i / LANES],
					  byte_of(word, 8));
	}
	for (unsigned int i = 0; i < whole; i += LANES)
		at[i / LANES] = step_avx2(gather(t->nodes, at[i / LANES]), &nh[i / LANES],
					  byte_of(load4(words + i), 0));
	for (unsigned int i = 0; i < whole; i += LANES) {
		step_avx2(gather(t->nodes, at[i / LANES]), &nh[i / LANES], _mm256_setzero_si256());
		store4(nhs + i, nh[i / LANES]);
	}
	finish(t, roots, nhs, whole);
	if (whole < n)
		lookup4_scalar(t, roots + whole, words + whole, nhs + whole, n - whole);
}
#endif

mtrie_lookup4_fn mtrie_lookup4_of(const char *isa)
{
#ifdef __x86_64__
	if ((!isa || !strcmp(isa, "avx2")) && __builtin_cpu_supports("avx2"))
		return lookup4_avx2;
#endif
	return !isa || !strcmp(isa, "scalar") ? lookup4_scalar : NULL;
}

void mtrie_lookup4(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
		   uint16_t *nhs, unsigned int n)
{
	t->lookup4(t, roots, words, nhs, n);
}
