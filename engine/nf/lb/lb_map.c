/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/dpdk.h"

/* Open addressing at half load; entries are never taken out, maps are made anew. */

static uint32_t key_hash(const struct lb_key *k)
{
	uint64_t w[3];

	memcpy(w, k, sizeof(w));
	return rte_hash_crc_8byte(w[2], rte_hash_crc_8byte(w[1], rte_hash_crc_8byte(w[0], 0)));
}

uint32_t lb_map_find(const struct lb_map *map, const struct lb_key *key)
{
	for (uint32_t i = key_hash(key);; i++) {
		const struct lb_slot *s = &map->slots[i & map->mask];

		if (!s->used)
			return LB_NOT_FOUND;
		if (!memcmp(&s->key, key, sizeof(*key)))
			return s->value;
	}
}

int lb_map_init(struct lb_map *map, size_t entries)
{
	map->mask = (uint32_t)rte_align64pow2(entries * 2 + 2) - 1;
	map->slots = calloc(map->mask + 1, sizeof(*map->slots));
	return map->slots ? 0 : -ENOMEM;
}

uint32_t lb_map_add(struct lb_map *map, const struct lb_key *key, uint32_t value)
{
	uint32_t i = key_hash(key);

	for (; map->slots[i & map->mask].used; i++)
		if (!memcmp(&map->slots[i & map->mask].key, key, sizeof(*key)))
			return map->slots[i & map->mask].value;
	map->slots[i & map->mask] = (struct lb_slot){.key = *key, .value = value, .used = 1};
	return LB_NOT_FOUND;
}
