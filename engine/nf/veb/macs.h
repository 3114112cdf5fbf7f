/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/*
 * Filtering database (IEEE 802.1Q clause 8.8): MAC address -> port, shared by all workers without
 * locks. An entry is one 64-bit word (address, flags, port), so that it is read and replaced whole;
 * beside it lies the time of its last use. Shared VLAN learning: one entry per address.
 *
 * Memory is bounded: an address that finds its bucket full is not learnt, and frames to it flood.
 */
#define MACS_SLOTS 8 /* per bucket: a cache line of words, half a one of times */

struct macs {
	_Atomic uint64_t *words;
	_Atomic uint32_t *times; /* in flow_now units */
	uint64_t seed;
	uint32_t mask; /* buckets - 1 */
	uint32_t timeout;
	uint32_t hand; /* where ageing goes on */
};

enum macs_learn {
	MACS_KNOWN,
	MACS_LEARNT,
	MACS_MOVED,  /* known at another port until now */
	MACS_FULL,
	MACS_STATIC_ELSEWHERE, /* configured for another port: nothing is learnt */
};

/* An address as a key: its 48 bits on top. */
static inline uint64_t macs_key(const uint8_t *addr)
{
	return (uint64_t)addr[0] << 56 | (uint64_t)addr[1] << 48 | (uint64_t)addr[2] << 40 |
	       (uint64_t)addr[3] << 32 | (uint64_t)addr[4] << 24 | (uint64_t)addr[5] << 16;
}

/* Room for at least `entries` (of which a bucket's worth may collide); timeout in flow_now units. */
int macs_init(struct macs *t, uint32_t entries, uint32_t timeout, struct err *err);
void macs_fini(struct macs *t);

/* Port of an address, -1: unknown. *is_static may be NULL. */
int macs_find(const struct macs *t, uint64_t key, uint32_t now, bool *is_static);
enum macs_learn macs_learn(struct macs *t, uint64_t key, uint16_t port, uint32_t now);
/* Static entries: -ENOSPC when its bucket is full of others, -ENOENT when there is none. */
int macs_add_static(struct macs *t, uint64_t key, uint16_t port);
int macs_remove_static(struct macs *t, uint64_t key);
void macs_flush(struct macs *t); /* what was learnt */

/* One worker, from its tick: a pass over all takes about a second. Returns how many went. */
unsigned int macs_age(struct macs *t, uint32_t now);
uint32_t macs_count(const struct macs *t);
