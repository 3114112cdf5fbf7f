/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "rcu.h"

/*
 * Many longest-prefix-match tables in one pool of nodes: a multibit trie with strides of 16, 8, 8
 * ... bits (Srinivasan, Varghese: "Fast Address Lookups Using Controlled Prefix Expansion", 1999),
 * not leaf-pushed: a slot holds the best prefix that ends in its node and the child below it, and a
 * lookup remembers the last prefix that it passed. At most three slots answer for IPv4.
 *
 * For the routers of many VNFs in one engine: a DIR-24-8 table takes 64 MB however few routes
 * it has, and 63 of them do not fit; here a table's first node is address space, of which the pages
 * that its routes are in take memory (512 /16s in each), and a change costs what its prefix covers
 * within one node. The default route, which would cover all, is kept beside it.
 *
 * One writer beside any number of readers. A slot is read and written whole, so that each
 * lookup gives a next hop that its key has, or had while it ran. A node that is unlinked is used
 * again only when every reader of `readers` has been quiescent since.
 */
struct mtrie;

struct mtrie_conf {
	uint32_t roots;               /* tables, numbered from 0 */
	uint32_t nodes;               /* bound on those below the roots; memory is taken as used */
	const struct rcu *readers;    /* NULL: none reads while it is changed */
	const char *isa;              /* of IPv4 lookups: "scalar", "avx2"; NULL: the best there is */
};

#define MTRIE_MISS UINT16_MAX

int mtrie_create(struct mtrie **out, const struct mtrie_conf *conf, const char *path,
		 struct err *err);
void mtrie_destroy(struct mtrie *t); /* NULL is allowed */

/* The writer's. Keys are in network byte order; bits beyond len are not looked at. */
/* Add or change; *old is the next hop before, or MTRIE_MISS. 0 or -ENOSPC (nothing changed). */
int mtrie_put(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t nh,
	      uint16_t *old);
/* 0 or -ENOENT. */
int mtrie_remove(struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len, uint16_t *old);
/* The next hop of the very prefix, or MTRIE_MISS. */
uint16_t mtrie_get(const struct mtrie *t, uint32_t root, const uint8_t *key, uint8_t len);
/* Where a walk that ended early goes on; all zero: at the beginning. */
struct mtrie_cursor {
	uint8_t key[16];
	uint8_t bytes;   /* of the key, that lead to the node that is next; 0: the root's own prefixes */
	uint32_t prefix; /* of the root: which of its own is next */
	bool in_tree;    /* the root's own are done */
};

/*
 * All prefixes of a table; the callback may remove the one that it is called with. A piece ends before the
 * next node once `late` says so (NULL: never). Whether all is done; what is put between two pieces may be
 * left out.
 */
bool mtrie_walk(struct mtrie *t, uint32_t root, struct mtrie_cursor *at,
		void (*each)(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh),
		bool (*late)(void *ctx), void *ctx);
uint64_t mtrie_count(const struct mtrie *t, uint32_t root);
uint32_t mtrie_root_nodes(const struct mtrie *t, uint32_t root);
uint32_t mtrie_nodes(const struct mtrie *t); /* as above, those that wait for readers included */

/*
 * Any thread. keys[i] points to `bytes` bytes (4 or 16), roots[i] is its table. All walk side
 * by side, so that their cache misses overlap. At most MTRIE_BURST_MAX.
 */
#define MTRIE_BURST_MAX 64
/* IPv4 addresses in host order; by the instructions chosen at the table's creation. */
void mtrie_lookup4(const struct mtrie *t, const uint32_t *roots, const uint32_t *words,
		   uint16_t *nhs, unsigned int n);
void mtrie_lookup(const struct mtrie *t, const uint32_t *roots, const uint8_t *const *keys,
		  unsigned int bytes, uint16_t *nhs, unsigned int n);
