/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "flow.h"

/* What flow.c (index and lookup), flow_age.c (making and ageing) and flow_memory.c share. */
#define SLOTS 8
#define NO_FLOW UINT32_MAX

/* tag 0: the slot is free. `moved`: keys whose first bucket this is, but which live in their second. */
struct bucket {
	uint16_t tag[SLOTS];
	uint32_t flow[SLOTS];
	uint32_t moved;
	uint32_t pad[3];
};
static_assert(sizeof(struct bucket) == 64, "one cache line");

/* What changes when flows come and go; a line of its own, as another worker may have the next one. */
struct flow_shard {
	alignas(RTE_CACHE_LINE_SIZE) uint32_t count;
	uint32_t first; /* record; `capacity` of them */
	uint32_t top;   /* records at and above it were never used */
	uint32_t free;  /* head of the list of freed records, linked through key[0] */
	uint32_t hand;  /* where ageing goes on */
	uint32_t aged_at;
	uint32_t looked_at; /* last, whoever did: once at a time, so that more owners do not age it more */
};

struct flow_table {
	struct flow_probe probe; /* first: flow.h looks into it */
	struct flow_epochs *epochs;
	struct flow_shard *shard;
	uint64_t moves; /* bits of a bucket's number that a key's two buckets may differ in */
	uint32_t words;  /* of the key */
	uint32_t state_bytes;
	uint32_t capacity; /* of a shard */
	uint32_t shards;
	uint32_t pass; /* flow_now units that ageing takes for all records */
	size_t buckets_bytes, records_bytes, epochs_bytes;
	const _Atomic uint8_t *owners; /* NULL: all of it is one worker's */
	uint8_t worker;
	bool joined; /* a view: the rest is another's */
	bool tried;  /* flow_conf's */
	uint32_t counted; /* flow_count's answer, of a table with owners */
	struct flow_kept kept; /* live NULL: nothing is */
};

static inline struct flow_shard *shard_of_key(const struct flow_table *t, const uint64_t *key)
{
	return &t->shard[t->owners ? flow_shard_of(key[t->words - 1]) : 0];
}

static inline struct flow *record(const struct flow_table *t, uint32_t i)
{
	return (struct flow *)(t->probe.records + (size_t)i * t->probe.stride);
}

static inline void epoch_grows(struct flow_table *t, uint32_t i)
{
	t->epochs->of[i]++;
	/* Who remembers flows of a whole table is one worker's: shared ones are not remembered. */
	if (!t->owners)
		t->epochs->any++;
}

static inline struct bucket *bucket_at(const struct flow_table *t, uint64_t i)
{
	return (struct bucket *)t->probe.buckets + i;
}

/*
 * What a part of so many bytes is given: from half a huge page on as many whole ones as it takes. All pages
 * are there before the first packet: a fault that clears 2 MB would hold up a worker for a tenth of a
 * millisecond or more. `tried`: none is, and they are small, as few are touched. NULL: there is no memory.
 */
size_t flow_whole_pages(size_t bytes);
void *flow_reserve(size_t bytes, bool tried);
