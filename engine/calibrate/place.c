/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are put into a chosen cache before they are timed. */
#include "place.h"

int placed_map(struct placed *p, int node, struct err *err)
{
	uint64_t random = 0x2545f4914f6cdd1du;
	int rc = region_map(&p->region, PLACED_BYTES, node, err);

	if (rc)
		return rc;
	for (unsigned int i = 0; i < PLACED_LINES; i++) {
		/* 37 is prime to their number: every page once, neighbours far apart. */
		size_t page = (size_t)(i * 37 % PLACED_LINES) * PAGE;

		p->lines[i] = (struct line *)(p->region.addr + page +
					      random_next(&random) % 64 * LINE);
	}
	for (unsigned int i = 0; i < PLACED_LINES; i++)
		p->lines[i]->next = p->lines[(i + 1) % PLACED_LINES];
	return 0;
}

void placed_read(void *placed)
{
	struct placed *p = placed;

	/* The second time they come from its own cache: the first has ended by then. */
	lines_walk(p->lines[0], 2 * PLACED_LINES);
}

void placed_modify(void *placed)
{
	struct placed *p = placed;

	for (unsigned int i = 0; i < PLACED_LINES; i++)
		p->lines[i]->value++;
	placed_read(placed);
}

bool placed_flush(struct placed *p)
{
#if defined(__x86_64__)
	for (unsigned int i = 0; i < PLACED_LINES; i++)
		line_flush(p->lines[i]);
	__asm__ volatile("mfence" ::: "memory");
	return true;
#else
	return false;
#endif
}

int evictor_map(struct evictor *e, const struct eviction *how, struct err *err)
{
	e->how = *how;
	return region_map(&e->region, how->pages * PAGE, -1, err);
}

void evict(const struct evictor *e, size_t offset)
{
	const volatile uint8_t *lines = e->region.addr + offset;

	/* 37 is prime to any number of pages that is a power of two: no prefetcher follows. */
	for (unsigned int turn = 0; turn < e->how.turns; turn++)
		for (size_t i = 0; i < e->how.pages; i++)
			(void)lines[i * 37 % e->how.pages * PAGE];
}
