/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's side of the trie: prefixes come and go, nodes with them. */
#include "mtrie_priv.h"

#include <errno.h>
#include <stdbool.h>

#define DEPTH_MAX 16

/* A root, or a node below, as the writer sees it. */
struct place {
	_Atomic uint64_t *slots;
	uint16_t *prefixes;
	unsigned int stride;
	uint32_t root, node; /* NO_NODE: it is the root */
};

/* Nodes whose readers have gone become free, oldest first. */
static void reclaim(struct mtrie *t)
{
	while (t->retired_first != NO_NODE) {
		uint32_t n = t->retired_first;
		struct mtrie_own *own = &t->own[n];

		if (t->conf.readers && !rcu_passed(t->conf.readers, own->mark))
			return;
		t->retired_first = own->parent;
		t->root_nodes[own->root]--;
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
	t->root_nodes[parent->root]++;
	t->own[n].root = parent->root;
	t->own[n].parent = parent->node;
	t->own[n].at = (uint16_t)at;
	return n;
}

static void node_retire(struct mtrie *t, uint32_t n)
{
	struct mtrie_own *own = &t->own[n];

	own->mark = t->conf.readers ? rcu_mark(t->conf.readers) : 0;
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
	return slot_load(&p->slots[at]);
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
	bool (*late)(void *ctx);
	void *ctx;
	uint8_t key[DEPTH_MAX];
	const struct mtrie_cursor *from; /* on the way there; NULL: it was reached */
	struct mtrie_cursor *at;
	bool visited; /* some of it, so that every piece is one */
};

/* The root's own prefixes are many: it is looked at the clock in between, too. */
#define ROOT_PIECE 256

static bool ends_here(struct walk *w)
{
	return w->visited && w->late && w->late(w->ctx);
}

static void walk_prefix(struct walk *w, const struct place *p, unsigned int byte, unsigned int i)
{
	unsigned int bits = 31 - (unsigned int)__builtin_clz(i);
	unsigned int key = (i << (p->stride - bits)) & ((1u << p->stride) - 1);
	uint16_t nh = p->prefixes[i];

	if (!nh)
		return;
	if (!byte)
		w->key[0] = (uint8_t)(key >> 8);
	w->key[byte ? byte : 1] = (uint8_t)key;
	w->each(w->ctx, w->key, (uint8_t)(8 * byte + bits), (uint16_t)(nh - 1));
}

static bool walk_root_prefixes(struct walk *w, const struct place *p)
{
	for (; w->at->prefix < 2 * ROOT_SLOTS; w->at->prefix++) {
		if (w->at->prefix % ROOT_PIECE == 0 && ends_here(w))
			return false;
		w->visited = true;
		if (w->at->prefix)
			walk_prefix(w, p, 0, w->at->prefix);
	}
	return true;
}

/* `byte`: the key's byte that the node's slots begin at. False: it is to go on with this node. */
static bool walk_own(struct walk *w, const struct place *p, unsigned int byte)
{
	if (w->from && byte < w->from->bytes)
		return true; /* done, as what is next is below */
	w->from = NULL;
	if (ends_here(w)) {
		memcpy(w->at->key, w->key, sizeof(w->key));
		w->at->bytes = (uint8_t)byte;
		return false;
	}
	w->visited = true;
	for (unsigned int i = 2; i < 2u << p->stride; i++) /* not 1: no bit is the parent's */
		walk_prefix(w, p, byte, i);
	w->key[byte] = 0;
	return true;
}

static bool walk_children(struct walk *w, const struct place *p, unsigned int byte)
{
	unsigned int first = w->from ? slot_at(w->from->key, byte ? byte - 1 : 0) : 0;

	for (unsigned int at = first; at < 1u << p->stride; at++) {
		uint32_t child = slot_child(slot_get(p, at));
		struct place below;

		if (at > first)
			w->from = NULL;
		if (child == NO_NODE)
			continue;
		if (!byte)
			w->key[0] = (uint8_t)(at >> 8);
		w->key[byte ? byte : 1] = (uint8_t)at;
		below = place_node(w->t, w->root, child);
		if (!walk_own(w, &below, byte ? byte + 1 : 2) ||
		    !walk_children(w, &below, byte ? byte + 1 : 2))
			return false;
	}
	w->from = NULL;
	w->key[0] = byte ? w->key[0] : 0;
	w->key[byte ? byte : 1] = 0;
	return true;
}

bool mtrie_walk(struct mtrie *t, uint32_t root, struct mtrie_cursor *at,
		void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh),
		bool (*late)(void *ctx), void *ctx)
{
	struct mtrie_cursor from = *at;
	struct walk w = {.t = t, .root = root, .each = each, .late = late, .ctx = ctx,
			 .from = at->bytes ? &from : NULL, .at = at};
	struct place p = place_root(t, root);

	if (!t->counts[root])
		return true;
	if (!at->in_tree && !walk_root_prefixes(&w, &p))
		return false;
	at->in_tree = true;
	memset(w.key, 0, sizeof(w.key));
	return walk_children(&w, &p, 0);
}
