/* SPDX-License-Identifier: Apache-2.0 */
#include "mtrie.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_prefetch.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define SLOTS 256
#define ROOT_BITS 16
#define ROOT_SLOTS (1u << ROOT_BITS)
#define DEPTH_MAX 16
#define NO_NODE 0 /* nobody's child: empty for ever, it is where lookups that have ended go on */

/*
 * Tables have routes of the same addresses: without the spare line the slots for them would be in the
 * same few sets of the caches, and with the spare page also in the same of the TLB.
 */
#define LINE_SLOTS 8
#define PAGE_SLOTS 512

/* Bits 0-15: next hop + 1, so that a fresh page is an empty node; 16-47: child, 0 for none. */
struct mtrie_node {
	_Atomic uint64_t slots[SLOTS + LINE_SLOTS];
};

struct mtrie_root {
	_Atomic uint64_t slots[ROOT_SLOTS + PAGE_SLOTS + LINE_SLOTS];
};

/*
 * What only the writer needs. The prefixes that end in a node are a binary tree laid out like a
 * heap, so that the next shorter one is at index / 2 or above: index 1 << l | the l bits.
 */
struct mtrie_own {
	uint16_t prefixes[2 * SLOTS]; /* next hop + 1 */
	uint32_t root;
	uint32_t parent;              /* NO_NODE: the root; or the next free or retired node */
	uint16_t n_prefixes, n_children;
	uint16_t at; /* slot in the parent */
	uint64_t token;
};

struct mtrie_root_own {
	uint16_t prefixes[2 * ROOT_SLOTS];
};

typedef void (*lookup4_fn)(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
			   uint16_t *nhs, unsigned int n);

struct mtrie {
	struct mtrie_conf conf;
	lookup4_fn lookup4;
	struct mtrie_root *roots;
	struct mtrie_node *nodes;
	_Atomic uint16_t *defaults; /* of each root: next hop + 1 of the prefix of length 0 */
	struct mtrie_own *own;
	struct mtrie_root_own *root_own;
	uint64_t *counts;
	uint32_t fresh, n_used;                        /* nodes never used begin at fresh */
	uint32_t free, retired_first, retired_last;    /* lists through own.parent */
};

/* A root, or a node below, as the writer sees it. */
struct place {
	_Atomic uint64_t *slots;
	uint16_t *prefixes;
	unsigned int stride;
	uint32_t root, node; /* NO_NODE: it is the root */
};

static uint16_t slot_nh(uint64_t slot)
{
	return (uint16_t)slot;
}

static uint32_t slot_child(uint64_t slot)
{
	return (uint32_t)(slot >> 16);
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

static size_t nodes_of(const struct mtrie *t)
{
	return (size_t)t->conf.nodes + 1;
}

static lookup4_fn lookup4_of(const char *isa);

int mtrie_create(struct mtrie **out, const struct mtrie_conf *conf, const char *path,
		 struct err *err)
{
	struct mtrie *t = calloc(1, sizeof(*t));

	if (!t)
		return err_set(err, ENOMEM, path, "out of memory");
	t->conf = *conf;
	t->lookup4 = lookup4_of(conf->isa);
	if (!t->lookup4) {
		free(t);
		return err_set(err, ENOTSUP, path, "this machine has no %s", conf->isa);
	}
	t->fresh = NO_NODE + 1;
	t->counts = calloc(conf->roots, sizeof(*t->counts));
	t->defaults = calloc(conf->roots, sizeof(*t->defaults));
	t->roots = map(conf->roots * sizeof(*t->roots));
	t->root_own = map(conf->roots * sizeof(*t->root_own));
	t->nodes = map(nodes_of(t) * sizeof(*t->nodes));
	t->own = map(nodes_of(t) * sizeof(*t->own));
	if (!t->counts || !t->defaults || !t->roots || !t->root_own || !t->nodes || !t->own) {
		mtrie_destroy(t);
		return err_set(err, ENOMEM, path, "no address space for %u nodes", conf->nodes);
	}
	/* Only advice: not every kernel has it. Roots are sparse, and stay in small pages. */
	madvise(t->nodes, nodes_of(t) * sizeof(*t->nodes), MADV_HUGEPAGE);
	madvise(t->own, nodes_of(t) * sizeof(*t->own), MADV_HUGEPAGE);
	*out = t;
	return 0;
}

void mtrie_destroy(struct mtrie *t)
{
	if (!t)
		return;
	unmap(t->roots, t->conf.roots * sizeof(*t->roots));
	unmap(t->root_own, t->conf.roots * sizeof(*t->root_own));
	unmap(t->nodes, nodes_of(t) * sizeof(*t->nodes));
	unmap(t->own, nodes_of(t) * sizeof(*t->own));
	free(t->defaults);
	free(t->counts);
	free(t);
}

/* Nodes whose readers have gone become free, oldest first. */
static void reclaim(struct mtrie *t)
{
	while (t->retired_first != NO_NODE) {
		uint32_t n = t->retired_first;
		struct mtrie_own *own = &t->own[n];

		if (t->conf.readers && rte_rcu_qsbr_check(t->conf.readers, own->token, false) != 1)
			return;
		t->retired_first = own->parent;
		memset(&t->nodes[n], 0, sizeof(t->nodes[n]));
		memset(own, 0, sizeof(*own));
		own->parent = t->free;
		t->free = n;
		t->n_used--;
	}
}

static uint32_t node_new(struct mtrie *t, const struct place *parent, unsigned int at)
{
	uint32_t n = t->free;

	if (n == NO_NODE)
		reclaim(t);
	n = t->free;
	if (n != NO_NODE) {
		t->free = t->own[n].parent;
	} else {
		if (t->fresh > t->conf.nodes)
			return NO_NODE;
		n = t->fresh++;
	}
	t->n_used++;
	t->own[n].root = parent->root;
	t->own[n].parent = parent->node;
	t->own[n].at = (uint16_t)at;
	return n;
}

static void node_retire(struct mtrie *t, uint32_t n)
{
	struct mtrie_own *own = &t->own[n];

	own->token = t->conf.readers ? rte_rcu_qsbr_start(t->conf.readers) : 0;
	own->parent = NO_NODE;
	if (t->retired_first == NO_NODE)
		t->retired_first = n;
	else
		t->own[t->retired_last].parent = n;
	t->retired_last = n;
}

/* Whole slots only: a reader sees the one before or the one after. */
static void slot_set(const struct place *p, unsigned int at, uint32_t child, uint16_t nh)
{
	atomic_store_explicit(&p->slots[at], (uint64_t)child << 16 | nh, memory_order_release);
}

static uint64_t slot_get(const struct place *p, unsigned int at)
{
	return atomic_load_explicit(&p->slots[at], memory_order_acquire);
}

static struct place place_root(const struct mtrie *t, uint32_t root)
{
	return (struct place){t->roots[root].slots, t->root_own[root].prefixes, ROOT_BITS, root,
			      NO_NODE};
}

static struct place place_node(const struct mtrie *t, uint32_t root, uint32_t node)
{
	if (node == NO_NODE)
		return place_root(t, root);
	return (struct place){t->nodes[node].slots, t->own[node].prefixes, 8, root, node};
}

static unsigned int root_slot(const uint8_t *key)
{
	return (unsigned int)key[0] << 8 | key[1];
}

/* The key's slot in the node that `depth` (0: the root) nodes lead to. */
static unsigned int slot_at(const uint8_t *key, unsigned int depth)
{
	return depth ? key[depth + 1] : root_slot(key);
}

/* How many nodes are above the one that a prefix of this length ends in. */
static unsigned int depth_of(uint8_t len)
{
	return len > ROOT_BITS ? (len - ROOT_BITS - 1u) / 8 + 1 : 0;
}

/* The prefix's place in its node: how many bits of it are in there, and which. */
static unsigned int own_index(const uint8_t *key, uint8_t len, unsigned int *bits)
{
	unsigned int depth = depth_of(len), stride = depth ? 8 : ROOT_BITS;

	*bits = depth ? len - ROOT_BITS - 8 * (depth - 1) : len;
	return 1u << *bits | slot_at(key, depth) >> (stride - *bits);
}

static bool find(const struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len,
		 struct place *p)
{
	*p = place_root(t, root);
	for (unsigned int depth = 0; depth < depth_of(len); depth++) {
		uint32_t child = slot_child(slot_get(p, slot_at(key, depth)));

		if (child == NO_NODE)
			return false;
		*p = place_node(t, root, child);
	}
	return true;
}

/* Without children or prefixes a node goes, and then perhaps its parent; roots stay. */
static void prune(struct mtrie *t, uint32_t n)
{
	while (n != NO_NODE && !t->own[n].n_prefixes && !t->own[n].n_children) {
		struct place parent = place_node(t, t->own[n].root, t->own[n].parent);
		unsigned int at = t->own[n].at;

		slot_set(&parent, at, NO_NODE, slot_nh(slot_get(&parent, at)));
		if (parent.node != NO_NODE)
			t->own[parent.node].n_children--;
		node_retire(t, n);
		n = parent.node;
	}
}

/* False when there is no room; what was made on the way is taken back. */
static bool find_or_make(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len,
			 struct place *p)
{
	*p = place_root(t, root);
	for (unsigned int depth = 0; depth < depth_of(len); depth++) {
		unsigned int at = slot_at(key, depth);
		uint64_t slot = slot_get(p, at);
		uint32_t child = slot_child(slot);

		if (child == NO_NODE) {
			child = node_new(t, p, at);
			if (child == NO_NODE) {
				prune(t, p->node);
				reclaim(t);
				return false;
			}
			slot_set(p, at, child, slot_nh(slot));
			if (p->node != NO_NODE)
				t->own[p->node].n_children++;
		}
		*p = place_node(t, root, child);
	}
	return true;
}

/* The slots that a prefix of `bits` bits at `index` covers get the best that there is for each. */
static void refresh(struct mtrie *t, const struct place *p, unsigned int index, unsigned int bits)
{
	unsigned int slots = 1u << p->stride, count = slots >> bits;
	unsigned int first = (index << (p->stride - bits)) & (slots - 1);

	if (!bits) { /* in roots only: longer prefixes that end further down have bits there */
		atomic_store_explicit(&t->defaults[p->root], p->prefixes[index],
				      memory_order_release);
		return;
	}
	for (unsigned int at = first; at < first + count; at++) {
		unsigned int i = slots | at;

		while (i > 1 && !p->prefixes[i])
			i >>= 1;
		slot_set(p, at, slot_child(slot_get(p, at)), i > 1 ? p->prefixes[i] : 0);
	}
}

int mtrie_put(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t nh,
	      uint16_t *old)
{
	unsigned int bits, index = own_index(key, len, &bits);
	struct place p;
	uint16_t *own;

	if (!find_or_make(t, root, key, len, &p))
		return -ENOSPC;
	own = &p.prefixes[index];
	*old = (uint16_t)(*own - 1);
	if (!*own) {
		t->own[p.node].n_prefixes += p.node != NO_NODE;
		t->counts[root]++;
	}
	if (*old == nh && *own)
		return 0;
	*own = (uint16_t)(nh + 1);
	refresh(t, &p, index, bits);
	return 0;
}

int mtrie_remove(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t *old)
{
	unsigned int bits, index = own_index(key, len, &bits);
	struct place p;

	if (!find(t, root, key, len, &p) || !p.prefixes[index])
		return -ENOENT;
	*old = (uint16_t)(p.prefixes[index] - 1);
	p.prefixes[index] = 0;
	t->own[p.node].n_prefixes -= p.node != NO_NODE;
	t->counts[root]--;
	refresh(t, &p, index, bits);
	prune(t, p.node);
	reclaim(t);
	return 0;
}

uint16_t mtrie_get(const struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len)
{
	unsigned int bits, index = own_index(key, len, &bits);
	struct place p;

	return find(t, root, key, len, &p) ? (uint16_t)(p.prefixes[index] - 1) : MTRIE_MISS;
}

struct walk {
	struct mtrie *t;
	uint32_t root;
	void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh);
	void *ctx;
	uint8_t key[DEPTH_MAX];
};

/* `byte`: the key's byte that the node's slots begin at. */
static void walk_prefixes(struct walk *w, const struct place *p, unsigned int byte)
{
	for (unsigned int bits = byte ? 1 : 0; bits <= p->stride; bits++)
		for (unsigned int i = 1u << bits; i < 2u << bits; i++) {
			uint16_t nh = p->prefixes[i];
			unsigned int key = (i << (p->stride - bits)) & ((1u << p->stride) - 1);

			if (!nh)
				continue;
			if (!byte)
				w->key[0] = (uint8_t)(key >> 8);
			w->key[byte ? byte : 1] = (uint8_t)key;
			w->each(w->ctx, w->key, (uint8_t)(8 * byte + bits), (uint16_t)(nh - 1));
		}
	w->key[byte ? byte : 1] = 0;
}

static void walk_node(struct walk *w, struct place p, unsigned int byte);

/* Children first: removing a node's last prefix removes the node. */
static void walk_children(struct walk *w, const struct place *p, unsigned int byte)
{
	for (unsigned int at = 0; at < 1u << p->stride; at++) {
		uint32_t child = slot_child(slot_get(p, at));

		if (child == NO_NODE)
			continue;
		if (!byte)
			w->key[0] = (uint8_t)(at >> 8);
		w->key[byte ? byte : 1] = (uint8_t)at;
		walk_node(w, place_node(w->t, w->root, child), byte ? byte + 1 : 2);
	}
	w->key[0] = byte ? w->key[0] : 0;
	w->key[byte ? byte : 1] = 0;
}

static void walk_node(struct walk *w, struct place p, unsigned int byte)
{
	walk_children(w, &p, byte);
	walk_prefixes(w, &p, byte);
}

void mtrie_walk(struct mtrie *t, uint32_t root,
		void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh), void *ctx)
{
	struct walk w = {.t = t, .root = root, .each = each, .ctx = ctx};

	if (t->counts[root])
		walk_node(&w, place_root(t, root), 0);
}

uint64_t mtrie_count(const struct mtrie *t, uint32_t root)
{
	return t->counts[root];
}

uint32_t mtrie_nodes(const struct mtrie *t)
{
	return t->n_used;
}

static inline uint64_t slot_load(const _Atomic uint64_t *slot)
{
	return atomic_load_explicit(slot, memory_order_acquire);
}

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

/* NULL: not here. */
static lookup4_fn lookup4_of(const char *isa)
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
