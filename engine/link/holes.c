/* SPDX-License-Identifier: Apache-2.0 */
#include "holes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_common.h>

int holes_open(struct holes *h, uint64_t megabytes)
{
	uint64_t n = (megabytes << 20) / sizeof(struct holes_line);
	void *p = mmap(NULL, n * sizeof(struct holes_line), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(h, 0, sizeof(*h));
	if (p == MAP_FAILED)
		return -ENOMEM;
	h->lines = p;
	h->n = n;
	h->used = 1;
	return 0;
}

void holes_close(struct holes *h)
{
	if (h->lines)
		munmap(h->lines, h->n * sizeof(*h->lines));
	memset(h, 0, sizeof(*h));
}

/* The flow's line of this number, which is none of an older one's. NULL: full. */
static struct holes_line *line_for(struct holes *h, uint32_t *head, uint32_t number)
{
	struct holes_line *line = &h->lines[*head];
	uint32_t block = number / HOLES_SPAN;

	if (*head && line->block == block)
		return line;
	if (h->used == h->n)
		return NULL;
	line = &h->lines[h->used];
	line->block = block;
	line->older = *head;
	*head = (uint32_t)h->used++;
	return line;
}

/* Bits of one line, the lowest for number `first`. */
static void add_word(struct holes *h, uint32_t *head, uint32_t first, uint64_t bits)
{
	struct holes_line *line = line_for(h, head, first);
	uint32_t at = first % HOLES_SPAN;

	if (!line) {
		h->untold += (uint64_t)__builtin_popcountll(bits);
		return;
	}
	line->missing[at / 64] |= bits << at % 64;
	if (at % 64 && bits >> (64 - at % 64))
		line->missing[at / 64 + 1] |= bits >> (64 - at % 64);
}

void holes_add_bits(struct holes *h, uint32_t *head, uint32_t first, uint64_t bits)
{
	uint32_t skip, room;

	if (!bits)
		return;
	/* Below a flow's first number nothing is missing: that is where `first` may be. */
	skip = (uint32_t)__builtin_ctzll(bits);
	first += skip;
	bits >>= skip;
	room = HOLES_SPAN - first % HOLES_SPAN;
	if (room >= 64 || !(bits >> room)) {
		add_word(h, head, first, bits);
		return;
	}
	add_word(h, head, first, bits & ((1ull << room) - 1));
	holes_add_bits(h, head, first + room, bits >> room);
}

void holes_add(struct holes *h, uint32_t *head, uint32_t first, uint32_t count)
{
	while (count) {
		struct holes_line *line = line_for(h, head, first);
		uint32_t at = first % HOLES_SPAN, n = RTE_MIN(count, HOLES_SPAN - at);

		if (!line) {
			h->untold += count;
			return;
		}
		for (uint32_t i = at; i < at + n; i++)
			line->missing[i / 64] |= 1ull << i % 64;
		first += n;
		count -= n;
	}
}

bool holes_take(struct holes *h, uint32_t head, uint32_t number)
{
	uint32_t block = number / HOLES_SPAN, at = number % HOLES_SPAN;
	uint64_t bit = 1ull << at % 64;
	bool missing;

	while (head && h->lines[head].block > block)
		head = h->lines[head].older;
	if (!head || h->lines[head].block != block)
		return false;
	missing = h->lines[head].missing[at / 64] & bit;
	h->lines[head].missing[at / 64] &= ~bit;
	return missing;
}
