/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "calibrate.h"

/*
 * Few lines, so that whoever touched them last has them in its first-level cache; each on a page of
 * its own at a random place, so that no prefetcher guesses the next one.
 */
#define PAGE 4096
#define PLACED_LINES 128
#define PLACED_BYTES (PLACED_LINES * PAGE)

struct placed {
	struct region region;
	struct line *lines[PLACED_LINES]; /* in the order of the walk */
};

int placed_map(struct placed *p, int node, struct err *err);

/* Jobs of a partner: take the lines into its own cache, as they are or changed. */
void placed_read(void *placed);
void placed_modify(void *placed);

/* Out of all caches, into memory. False where an ordinary program cannot do that. */
bool placed_flush(struct placed *p);

/*
 * Lines that push others out of a cache: one in each of many pages, all at the same offset as those
 * that are to go. An offset in a page is all that an ordinary program knows of an address's set: in
 * a virtual machine even a huge page may lie on many small ones. They are few beside what the next
 * level holds, and several times what this one does, since no cache evicts strictly the least
 * recently used.
 */
struct eviction {
	size_t pages;
	unsigned int turns;
};

struct evictor {
	struct region region;
	struct eviction how;
};

int evictor_map(struct evictor *e, const struct eviction *how, struct err *err);
void evict(const struct evictor *e, size_t offset);

static inline void line_flush(const volatile void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("clflush %0" ::"m"(*(const volatile char *)line) : "memory");
#endif
}
