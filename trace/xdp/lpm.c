/* SPDX-License-Identifier: Apache-2.0 */
#include "lpm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOTS 256

int lpm_init(struct lpm *t)
{
	*t = (struct lpm){.n = ROOTS, .room = 2 * ROOTS};
	t->blocks = calloc(t->room, sizeof(*t->blocks));
	return t->blocks ? 0 : -ENOMEM;
}

void lpm_fini(struct lpm *t)
{
	free(t->blocks);
	t->blocks = NULL;
}

static int grow(struct lpm *t)
{
	struct lpm_block *more = reallocarray(t->blocks, t->room * 2ul, sizeof(*more));

	if (!more)
		return -ENOMEM;
	t->blocks = more;
	t->room *= 2;
	return 0;
}

/* The block that an entry leads to; where it has a value, one that has it everywhere. */
static int below(struct lpm *t, uint32_t *block, uint8_t byte)
{
	uint32_t e = t->blocks[*block].entry[byte];

	if (!(e & LPM_BLOCK)) {
		if (t->n == t->room && grow(t))
			return -ENOMEM;
		for (unsigned int i = 0; i < 256; i++)
			t->blocks[t->n].entry[i] = e;
		e = LPM_BLOCK | t->n;
		t->blocks[*block].entry[byte] = e;
		t->n++;
	}
	*block = e & ~LPM_BLOCK;
	return 0;
}

static void set(struct lpm *t, uint32_t block, unsigned int first, unsigned int n, uint32_t value)
{
	for (unsigned int i = 0; i < n; i++)
		t->blocks[block].entry[first + i] = value;
}

/* One that is not shorter than those before it: it covers no block. */
static int add(struct lpm *t, const struct lpm_prefix *p)
{
	unsigned int depth = 1, span;
	uint32_t block = p->addr[0];

	if (p->bits <= 8) {
		span = 1u << (8 - p->bits);
		for (unsigned int i = 0; i < span; i++)
			set(t, block + i, 0, 256, p->value);
		return 0;
	}
	for (; p->bits > 8 * (depth + 1); depth++)
		if (below(t, &block, p->addr[depth]))
			return -ENOMEM;
	span = 1u << (8 * (depth + 1) - p->bits);
	set(t, block, p->addr[depth], span, p->value);
	return 0;
}

static int by_bits(const void *a, const void *b)
{
	return ((const struct lpm_prefix *)a)->bits - ((const struct lpm_prefix *)b)->bits;
}

int lpm_fill(struct lpm *t, struct lpm_prefix *prefixes, uint32_t n)
{
	qsort(prefixes, n, sizeof(*prefixes), by_bits);
	for (uint32_t i = 0; i < n; i++)
		if (add(t, &prefixes[i]))
			return -ENOMEM;
	return 0;
}

uint32_t lpm_lookup(const struct lpm *t, const uint8_t *addr, unsigned int bytes)
{
	uint32_t e = LPM_BLOCK | addr[0];

	for (unsigned int i = 1; i < bytes && e & LPM_BLOCK; i++)
		e = t->blocks[e & ~LPM_BLOCK].entry[addr[i]];
	return e;
}
