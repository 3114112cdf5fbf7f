/* SPDX-License-Identifier: Apache-2.0 */
#include "maglev.h"

#include <errno.h>
#include <stdlib.h>

struct turn {
	uint32_t at, skip;
	uint64_t credit; /* weight that was saved up */
};

static uint64_t hashed(uint64_t name, uint64_t salt)
{
	uint64_t h = (name ^ salt) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
	return h ^ h >> 32;
}

static void take(struct turn *t, uint32_t *table, uint32_t size, uint32_t value)
{
	while (table[t->at])
		t->at = (uint32_t)(((uint64_t)t->at + t->skip) % size);
	table[t->at] = value;
}

int maglev_fill(uint32_t *table, uint32_t size, const struct maglev_member *members, uint32_t n)
{
	struct turn *turns = calloc(n + 1ul, sizeof(*turns));
	uint32_t most = 0, filled = 0;

	if (!turns)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		turns[i].at = (uint32_t)(hashed(members[i].name, 1) % size);
		turns[i].skip = (uint32_t)(hashed(members[i].name, 2) % (size - 1)) + 1;
		most = members[i].weight > most ? members[i].weight : most;
	}
	while (most && filled < size) {
		for (uint32_t i = 0; i < n && filled < size; i++) {
			turns[i].credit += members[i].weight;
			if (turns[i].credit < most)
				continue;
			turns[i].credit -= most;
			take(&turns[i], table, size, members[i].value);
			filled++;
		}
	}
	free(turns);
	return 0;
}
