/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mtrie.h"

#include <stdatomic.h>
#include <string.h>

/* Between mtrie.c (memory), mtrie_update.c (the writer) and mtrie_lookup.c (readers). */

#define SLOTS 256
#define ROOT_BITS 16
#define ROOT_SLOTS (1u << ROOT_BITS)
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
	uint64_t mark; /* rcu.h; of a retired node */
};

struct mtrie_root_own {
	uint16_t prefixes[2 * ROOT_SLOTS];
};

typedef void (*mtrie_lookup4_fn)(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
			   uint16_t *nhs, unsigned int n);

struct mtrie {
	struct mtrie_conf conf;
	mtrie_lookup4_fn lookup4;
	struct mtrie_root *roots;
	struct mtrie_node *nodes;
	_Atomic uint16_t *defaults; /* of each root: next hop + 1 of the prefix of length 0 */
	struct mtrie_own *own;
	struct mtrie_root_own *root_own;
	uint64_t *counts;
	uint32_t *root_nodes;
	uint32_t fresh, n_used;                        /* nodes never used begin at fresh */
	uint32_t free, retired_first, retired_last;    /* lists through own.parent */
};

static inline uint16_t slot_nh(uint64_t slot)
{
	return (uint16_t)slot;
}

static inline uint32_t slot_child(uint64_t slot)
{
	return (uint32_t)(slot >> 16);
}

static inline uint64_t slot_load(const _Atomic uint64_t *slot)
{
	return atomic_load_explicit(slot, memory_order_acquire);
}

/* mtrie_lookup.c: IPv4's by the name of an instruction set; NULL: not here. */
mtrie_lookup4_fn mtrie_lookup4_of(const char *isa);
