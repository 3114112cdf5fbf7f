/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Sequence numbers that a sink still misses, of all flows and for a whole trial, so that a packet
 * that comes late is told from one that comes twice however late it is. Only what is missing is
 * kept: where nothing is lost this is never touched. A line holds 448 successive numbers of a flow,
 * a bit each; a flow's lines are chained, the newest first, as its numbers are added in their order.
 * Lines are taken one after the other from memory that is reserved at once and used as it is
 * needed; when it is full, `untold` says how many numbers are not in it.
 *
 * One writer, no locks. `head` is a flow's newest line, 0 when it has none.
 */
#define HOLES_WORDS 7
#define HOLES_SPAN (HOLES_WORDS * 64)

struct holes_line {
	uint32_t block; /* number / HOLES_SPAN */
	uint32_t older; /* 0: none */
	uint64_t missing[HOLES_WORDS];
};

struct holes {
	struct holes_line *lines; /* the first one is not used */
	uint64_t n, used;
	uint64_t untold;
};

/* Empty; -ENOMEM. */
int holes_open(struct holes *h, uint64_t megabytes);
void holes_close(struct holes *h);

/* `count` numbers from `first` on are missing. */
void holes_add(struct holes *h, uint32_t *head, uint32_t first, uint32_t count);
/* The same of those of 64 numbers whose bits are set; bit 0 is `first`. */
void holes_add_bits(struct holes *h, uint32_t *head, uint32_t first, uint64_t bits);
/* Whether a number was missing; from now on it is not. Takes longer the older it is. */
bool holes_take(struct holes *h, uint32_t head, uint32_t number);
