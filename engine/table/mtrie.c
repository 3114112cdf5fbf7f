/* SPDX-License-Identifier: Apache-2.0 */
#include "mtrie.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#define SLOTS 256
#define DEPTH_MAX 16
#define NO_NODE 0 /* root 0 is nobody's child */

/* Bits 0-15: next hop + 1, so that a fresh page is an empty node; 16-47: child, 0 for none. */
struct mtrie_node {
	_Atomic uint64_t slots[SLOTS];
};

/*
 * What only the writer needs: the prefixes that end in the node, as a binary tree laid out
 * like a heap, so that the next shorter one is at index / 2 or above. Index 1 << l | the l bits.
 */
struct mtrie_own {
	uint16_t prefixes[2 * SLOTS]; /* next hop + 1 */
	uint32_t parent;              /* or the next free or retired node */
	uint16_t n_prefixes, n_children;
	uint8_t at; /* slot in the parent */
	uint64_t token;
};

struct mtrie {
	struct mtrie_conf conf;
	struct mtrie_node *nodes;
	struct mtrie_own *own;
	uint64_t *counts;
	uint32_t fresh, n_used;                        /* nodes never used begin at fresh */
	uint32_t free, retired_first, retired_last;    /* lists through own.parent */
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

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE); /* only advice: not every kernel has it */
	return p;
}

int mtrie_create(struct mtrie **out, const struct mtrie_conf *conf, const char *path,
		 struct err *err)
{
	struct mtrie *t = calloc(1, sizeof(*t));

	if (!t)
		return err_set(err, ENOMEM, path, "out of memory");
	t->conf = *conf;
	t->fresh = t->n_used = conf->roots;
	t->counts = calloc(conf->roots, sizeof(*t->counts));
	t->nodes = map(conf->nodes * sizeof(*t->nodes));
	t->own = map(conf->nodes * sizeof(*t->own));
	if (!t->counts || !t->nodes || !t->own) {
		mtrie_destroy(t);
		return err_set(err, ENOMEM, path, "no address space for %u nodes", conf->nodes);
	}
	*out = t;
	return 0;
}

void mtrie_destroy(struct mtrie *t)
{
	if (!t)
		return;
	if (t->nodes)
		munmap(t->nodes, t->conf.nodes * sizeof(*t->nodes));
	if (t->own)
		munmap(t->own, t->conf.nodes * sizeof(*t->own));
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

static uint32_t node_new(struct mtrie *t, uint32_t parent, uint8_t at)
{
	uint32_t n = t->free;

	if (n == NO_NODE)
		reclaim(t);
	n = t->free;
	if (n != NO_NODE) {
		t->free = t->own[n].parent;
	} else {
		if (t->fresh == t->conf.nodes)
			return NO_NODE;
		n = t->fresh++;
	}
	t->n_used++;
	t->own[n].parent = parent;
	t->own[n].at = at;
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
static void slot_set(struct mtrie *t, uint32_t n, uint8_t at, uint32_t child, uint16_t nh)
{
	atomic_store_explicit(&t->nodes[n].slots[at], (uint64_t)child << 16 | nh,
			      memory_order_release);
}

static uint64_t slot_get(const struct mtrie *t, uint32_t n, uint8_t at)
{
	return atomic_load_explicit(&t->nodes[n].slots[at], memory_order_acquire);
}

/* The prefix's place: how many bits of it are in its node, and which. Length 0 is in the root. */
static unsigned int own_index(const uint8_t *key, uint8_t len, unsigned int *bits)
{
	unsigned int depth = len ? (len - 1u) / 8 : 0;

	*bits = len - 8 * depth;
	return 1u << *bits | (*bits ? (unsigned int)key[depth] >> (8 - *bits) : 0u);
}

static uint32_t find(const struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len)
{
	uint32_t n = root;

	for (unsigned int depth = 0; 8 * (depth + 1) < len; depth++) {
		n = slot_child(slot_get(t, n, key[depth]));
		if (n == NO_NODE)
			return UINT32_MAX;
	}
	return n;
}

/* Without children or prefixes a node other than a root goes, and then perhaps its parent. */
static void prune(struct mtrie *t, uint32_t n)
{
	while (n >= t->conf.roots && !t->own[n].n_prefixes && !t->own[n].n_children) {
		uint32_t parent = t->own[n].parent;
		uint8_t at = t->own[n].at;

		slot_set(t, parent, at, NO_NODE, slot_nh(slot_get(t, parent, at)));
		t->own[parent].n_children--;
		node_retire(t, n);
		n = parent;
	}
}

/* UINT32_MAX when there is no room; what was made on the way is taken back. */
static uint32_t find_or_make(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len)
{
	uint32_t n = root;

	for (unsigned int depth = 0; 8 * (depth + 1) < len; depth++) {
		uint64_t slot = slot_get(t, n, key[depth]);
		uint32_t child = slot_child(slot);

		if (child == NO_NODE) {
			child = node_new(t, n, key[depth]);
			if (child == NO_NODE) {
				prune(t, n);
				reclaim(t);
				return UINT32_MAX;
			}
			slot_set(t, n, key[depth], child, slot_nh(slot));
			t->own[n].n_children++;
		}
		n = child;
	}
	return n;
}

/* The slots that a prefix of `bits` bits at `index` covers get the best that there is for each. */
static void refresh(struct mtrie *t, uint32_t n, unsigned int index, unsigned int bits)
{
	const uint16_t *prefixes = t->own[n].prefixes;
	unsigned int first = (index << (8 - bits)) & (SLOTS - 1), count = 1u << (8 - bits);

	for (unsigned int at = first; at < first + count; at++) {
		unsigned int i = SLOTS | at;

		while (i && !prefixes[i])
			i >>= 1;
		slot_set(t, n, (uint8_t)at, slot_child(slot_get(t, n, (uint8_t)at)),
			 i ? prefixes[i] : 0);
	}
}

int mtrie_put(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t nh,
	      uint16_t *old)
{
	uint32_t n = find_or_make(t, root, key, len);
	unsigned int bits, index = own_index(key, len, &bits);
	uint16_t *own;

	if (n == UINT32_MAX)
		return -ENOSPC;
	own = &t->own[n].prefixes[index];
	*old = (uint16_t)(*own - 1);
	if (!*own) {
		t->own[n].n_prefixes++;
		t->counts[root]++;
	}
	if (*old == nh && *own)
		return 0;
	*own = (uint16_t)(nh + 1);
	refresh(t, n, index, bits);
	return 0;
}

int mtrie_remove(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t *old)
{
	uint32_t n = find(t, root, key, len);
	unsigned int bits, index = own_index(key, len, &bits);

	if (n == UINT32_MAX || !t->own[n].prefixes[index])
		return -ENOENT;
	*old = (uint16_t)(t->own[n].prefixes[index] - 1);
	t->own[n].prefixes[index] = 0;
	t->own[n].n_prefixes--;
	t->counts[root]--;
	refresh(t, n, index, bits);
	prune(t, n);
	reclaim(t);
	return 0;
}

uint16_t mtrie_get(const struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len)
{
	uint32_t n = find(t, root, key, len);
	unsigned int bits, index = own_index(key, len, &bits);

	return n == UINT32_MAX ? MTRIE_MISS : (uint16_t)(t->own[n].prefixes[index] - 1);
}

struct walk {
	struct mtrie *t;
	uint32_t root;
	void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh);
	void *ctx;
	uint8_t key[DEPTH_MAX];
};

static void walk_prefixes(struct walk *w, uint32_t n, unsigned int depth)
{
	for (unsigned int bits = 0; bits <= 8; bits++)
		for (unsigned int i = 1u << bits; i < 2u << bits; i++) {
			uint16_t nh = w->t->own[n].prefixes[i];

			if (!nh)
				continue;
			w->key[depth] = (uint8_t)(i << (8 - bits));
			w->each(w->ctx, w->key, (uint8_t)(8 * depth + bits), (uint16_t)(nh - 1));
		}
	w->key[depth] = 0;
}

/* Children first: removing a node's last prefix removes the node. */
static void walk_node(struct walk *w, uint32_t n, unsigned int depth)
{
	for (unsigned int at = 0; at < SLOTS; at++) {
		uint32_t child = slot_child(slot_get(w->t, n, (uint8_t)at));

		if (child == NO_NODE)
			continue;
		w->key[depth] = (uint8_t)at;
		walk_node(w, child, depth + 1);
	}
	w->key[depth] = 0;
	walk_prefixes(w, n, depth);
}

void mtrie_walk(struct mtrie *t, uint32_t root,
		void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh), void *ctx)
{
	struct walk w = {.t = t, .root = root, .each = each, .ctx = ctx};

	walk_node(&w, root, 0);
}

uint64_t mtrie_count(const struct mtrie *t, uint32_t root)
{
	return t->counts[root];
}

uint32_t mtrie_nodes(const struct mtrie *t)
{
	return t->n_used;
}

void mtrie_lookup(const struct mtrie *t, const uint32_t *roots, const uint8_t *const *keys,
		  unsigned int bytes, uint16_t *nhs, unsigned int n)
{
	uint32_t at[MTRIE_BURST_MAX];
	uint8_t walking[MTRIE_BURST_MAX];
	unsigned int left = n;

	for (unsigned int i = 0; i < n; i++) {
		at[i] = roots[i];
		walking[i] = (uint8_t)i;
		nhs[i] = 0;
		rte_prefetch0((const void *)&t->nodes[at[i]].slots[keys[i][0]]);
	}
	for (unsigned int depth = 0; depth < bytes && left; depth++) {
		unsigned int still = 0;

		for (unsigned int j = 0; j < left; j++) {
			unsigned int i = walking[j];
			uint64_t slot = slot_get(t, at[i], keys[i][depth]);

			nhs[i] = slot_nh(slot) ? slot_nh(slot) : nhs[i];
			at[i] = slot_child(slot);
			if (at[i] == NO_NODE || depth + 1 == bytes)
				continue;
			rte_prefetch0((const void *)&t->nodes[at[i]].slots[keys[i][depth + 1]]);
			walking[still++] = (uint8_t)i;
		}
		left = still;
	}
	for (unsigned int i = 0; i < n; i++)
		nhs[i]--; /* 0, no prefix, becomes MTRIE_MISS */
}
