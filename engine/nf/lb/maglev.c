/* SPDX-License-Identifier: Apache-2.0 */
#include "maglev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_jhash.h>

struct turn {
	uint32_t next;   /* position in the table of the backend's next preference */
	uint32_t skip;
	uint64_t credit; /* accumulated weight */
};

bool maglev_is_prime(uint32_t m)
{
	if (m < 2)
		return false;
	for (uint32_t d = 2; (uint64_t)d * d <= m; d++)
		if (m % d == 0)
			return false;
	return true;
}

/* The paper's offset and skip: two hashes of the name. */
static void turn_init(struct turn *t, const struct maglev_backend *b, uint32_t m)
{
	uint32_t h1 = 0x4d61676c, h2 = 0x65760000;

	rte_jhash_2hashes(b->name, (uint32_t)strlen(b->name), &h1, &h2);
	t->next = h1 % m;
	t->skip = h2 % (m - 1) + 1;
	t->credit = 0;
}

/* A permutation visits every position, so a free one is found while there is one. */
static void take_entry(struct turn *t, uint16_t *table, uint32_t m, uint16_t value)
{
	while (table[t->next] != MAGLEV_NONE)
		t->next = (t->next + t->skip) % m;
	table[t->next] = value;
}

static uint32_t greatest_weight(const struct maglev_backend *backends, unsigned int n)
{
	uint32_t max = 0;

	for (unsigned int i = 0; i < n; i++)
		if (backends[i].weight > max)
			max = backends[i].weight;
	return max;
}

int maglev_fill(uint16_t *table, uint32_t m, const struct maglev_backend *backends, unsigned int n)
{
	uint32_t max = greatest_weight(backends, n), filled = 0;
	struct turn *turns;

	memset(table, 0xff, m * sizeof(*table));
	if (!max)
		return 0;
	turns = calloc(n, sizeof(*turns));
	if (!turns)
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++)
		turn_init(&turns[i], &backends[i], m);
	while (filled < m) {
		for (unsigned int i = 0; i < n && filled < m; i++) {
			turns[i].credit += backends[i].weight;
			if (turns[i].credit < max)
				continue;
			turns[i].credit -= max;
			take_entry(&turns[i], table, m, backends[i].value);
			filled++;
		}
	}
	free(turns);
	return 0;
}
