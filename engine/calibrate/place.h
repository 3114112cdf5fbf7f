/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "calibrate.h"

/*
 * Few lines, so that whoever touched them last has them in its first-level cache; each on a page of
 * its own at a random place, so that no prefetcher guesses the next one.
 */
#define PLACED_LINES 128
#define PLACED_BYTES (PLACED_LINES * 4096)

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

static inline void line_flush(const volatile void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("clflush %0" ::"m"(*(const volatile char *)line) : "memory");
#endif
}
