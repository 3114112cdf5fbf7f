/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fib.h"

/*
 * Longest prefix match in the plainest way, to check the fast one against: a binary trie, a bit
 * a level. Bits are those of the key in network byte order.
 */
struct trie_node {
	uint32_t child[2]; /* 0: none (the root is nobody's child) */
	uint16_t nh;       /* FIB_MISS: no prefix ends here */
	bool flickers;     /* comes and goes while readers look */
};

struct trie {
	struct trie_node *nodes;
	uint32_t n, room;
};

static inline bool trie_bit(const uint8_t *addr, unsigned int i)
{
	return addr[i / 8] >> (7 - i % 8) & 1;
}

static inline uint32_t trie_new_node(struct trie *t)
{
	if (t->n == t->room) {
		t->room = t->room ? t->room * 2 : 1024;
		t->nodes = realloc(t->nodes, t->room * sizeof(*t->nodes));
		assert(t->nodes);
	}
	t->nodes[t->n] = (struct trie_node){.nh = FIB_MISS};
	return t->n++;
}

/* The prefix's node, made when it is not there. */
static inline struct trie_node *trie_node(struct trie *t, const uint8_t *addr, unsigned int len)
{
	uint32_t at = t->n ? 0 : trie_new_node(t);

	for (unsigned int i = 0; i < len; i++) {
		bool bit = trie_bit(addr, i);

		if (!t->nodes[at].child[bit]) {
			uint32_t fresh = trie_new_node(t); /* may move t->nodes */

			t->nodes[at].child[bit] = fresh;
		}
		at = t->nodes[at].child[bit];
	}
	return &t->nodes[at];
}

static inline uint16_t trie_lookup(const struct trie *t, const uint8_t *addr, unsigned int bits)
{
	uint16_t best = FIB_MISS;
	uint32_t at = 0;

	for (unsigned int i = 0; t->n; i++) {
		if (t->nodes[at].nh != FIB_MISS)
			best = t->nodes[at].nh;
		if (i == bits || !t->nodes[at].child[trie_bit(addr, i)])
			break;
		at = t->nodes[at].child[trie_bit(addr, i)];
	}
	return best;
}

/*
 * May `nh` be the answer while flickering prefixes are in the table or not? It may be that of
 * the longest match that stays, or of any flickering one that is longer.
 */
static inline bool trie_allows(const struct trie *t, const uint8_t *addr, unsigned int bits,
			       uint16_t nh)
{
	bool allowed = nh == FIB_MISS;
	uint32_t at = 0;

	for (unsigned int i = 0; t->n; i++) {
		const struct trie_node *node = &t->nodes[at];

		if (node->nh != FIB_MISS) {
			if (node->flickers)
				allowed = allowed || nh == node->nh;
			else
				allowed = nh == node->nh;
		}
		if (i == bits || !node->child[trie_bit(addr, i)])
			break;
		at = node->child[trie_bit(addr, i)];
	}
	return allowed;
}

static inline void trie_free(struct trie *t)
{
	free(t->nodes);
	*t = (struct trie){0};
}
