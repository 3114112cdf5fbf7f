/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many entries at once. Two passes: first every key that finds room in its first bucket, then
 * the rest (about 12 % at 95 % full). In one pass keys away from home would take the
 * first-bucket room of later keys, and about twice as many would end up away, each of them a
 * second cache line at every lookup.
 *
 * The first pass takes the keys in blocks, sorted by the region of the table that they go to:
 * for a table of gigabytes in random order, page walks would be most of the work.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuckoo.h"

#define AHEAD 32              /* keys whose buckets are on their way */
#define BLOCK (1u << 22)      /* keys sorted at a time */
#define REGIONS_MAX 1024      /* as many streams as the sorting can write at once */
#define REGION_BUCKETS 65536u /* at least: 4 MB, two large pages */

struct item {
	struct ckey k;
	struct hashes h;
	uint32_t i; /* index in the input */
};

/* Entries come from two arrays, or, keys NULL, are counted up. */
struct load {
	struct cuckoo *c;
	const uint8_t *keys;
	const uint16_t *nhs;
	size_t stride;
	struct ckey first;
	unsigned int next_hops;
	uint64_t n;
	struct item *block;
	uint32_t shift, regions; /* region = first bucket >> shift */
	uint32_t *rest;          /* indices of the keys left for the second pass */
	uint64_t n_rest, room;
};

static struct ckey counted_key(const struct load *l, uint64_t i)
{
	struct ckey k = l->first;

	if (l->c->fib.conf.key == FIB_KEY_IPV6)
		k.w[1] = __builtin_bswap64(__builtin_bswap64(k.w[1]) + i);
	else
		k.w[0] += i;
	return k;
}

static uint16_t load_nh(const struct load *l, uint64_t i)
{
	return l->keys ? l->nhs[i] : i % l->next_hops;
}

static struct item load_item(const struct load *l, uint64_t i)
{
	struct item it = {.i = i};

	it.k = l->keys ? key_load(l->c->fib.conf.key, l->keys + i * l->stride) : counted_key(l, i);
	it.h = hash_key(l->c->seed, l->c->fib.conf.key, &it.k);
	return it;
}

static int keep_for_later(struct load *l, uint32_t i)
{
	uint64_t room = l->room ? l->room * 2 : 1024;
	uint32_t *bigger;

	if (l->n_rest == l->room) {
		bigger = realloc(l->rest, room * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		l->rest = bigger;
		l->room = room;
	}
	l->rest[l->n_rest++] = i;
	return 0;
}

static void prefetch_first(const struct load *l, struct hashes h)
{
	__builtin_prefetch(&l->c->buckets[first_bucket(l->c->n, h)], 1);
}

/* A counting sort of n keys, which begin at `from`, into the block. */
static void sort_block(struct load *l, uint64_t from, uint32_t n)
{
	uint32_t at[REGIONS_MAX + 1] = {0};

	for (uint32_t j = 0; j < n; j++) {
		struct item it = load_item(l, from + j);

		at[(first_bucket(l->c->n, it.h) >> l->shift) + 1]++;
	}
	for (uint32_t r = 1; r <= l->regions; r++)
		at[r] += at[r - 1];
	for (uint32_t j = 0; j < n; j++) {
		struct item it = load_item(l, from + j);

		l->block[at[first_bucket(l->c->n, it.h) >> l->shift]++] = it;
	}
}

/* *done of the block's keys are in the table, or among the rest. */
static int place_block(struct load *l, uint32_t n, uint32_t *done)
{
	int rc = 0;

	for (*done = 0; *done < n; ++*done) {
		const struct item *it = &l->block[*done];

		if (*done + AHEAD < n)
			prefetch_first(l, it[AHEAD].h);
		if (l->c->fib.conf.key == FIB_KEY_MAC && it->k.w[0] > MAC_MASK)
			return -EINVAL;
		rc = cuckoo_place_first(l->c, &it->k, it->h, load_nh(l, it->i));
		if (rc == -ENOSPC)
			rc = keep_for_later(l, it->i);
		if (rc)
			return rc;
	}
	return 0;
}

static int second_pass(struct load *l, uint64_t *bad)
{
	for (uint64_t j = 0; j < l->n_rest; j++) {
		struct item it = load_item(l, l->rest[j]), ahead;
		int rc;

		if (j + AHEAD < l->n_rest) {
			ahead = load_item(l, l->rest[j + AHEAD]);
			prefetch_first(l, ahead.h);
			__builtin_prefetch(&l->c->buckets[second_bucket(l->c->n, ahead.h)], 1);
		}
		rc = cuckoo_place(l->c, &it.k, it.h, load_nh(l, it.i));
		if (rc) {
			*bad = it.i;
			return rc;
		}
	}
	return 0;
}

/*
 * A key that was passed is in the table by us, or not at all: one that had been there before
 * would have ended the load. So all that are found go.
 */
static void take_back(struct load *l, uint64_t keys, uint32_t block)
{
	uint16_t old;

	for (uint64_t i = 0; i < keys; i++) {
		struct item it = load_item(l, i);

		cuckoo_remove(&l->c->fib, it.k.w, 0, &old);
	}
	for (uint32_t j = 0; j < block; j++)
		cuckoo_remove(&l->c->fib, l->block[j].k.w, 0, &old);
}

static int both_passes(struct load *l, uint64_t *bad)
{
	uint32_t n, done;
	int rc = 0;

	for (uint64_t from = 0; from < l->n; from += n) {
		n = l->n - from < BLOCK ? l->n - from : BLOCK;
		sort_block(l, from, n);
		rc = place_block(l, n, &done);
		if (rc) {
			*bad = l->block[done].i;
			take_back(l, from, done);
			return rc;
		}
	}
	rc = second_pass(l, bad);
	if (rc)
		take_back(l, l->n, 0);
	return rc;
}

static int load(struct load l, uint64_t *bad)
{
	struct cuckoo *c = l.c;
	uint64_t updates = c->updates, n = l.n;
	int rc;

	*bad = 0;
	if (n > c->fib.conf.capacity - c->entries) {
		*bad = c->fib.conf.capacity - c->entries;
		return -ENOSPC;
	}
	if (!n)
		return 0;
	while ((REGION_BUCKETS << l.shift) < c->n / REGIONS_MAX)
		l.shift++;
	l.shift += __builtin_ctz(REGION_BUCKETS);
	l.regions = ((c->n - 1) >> l.shift) + 1;
	l.block = malloc((n < BLOCK ? n : BLOCK) * sizeof(*l.block));
	if (!l.block)
		return -ENOMEM;
	rc = both_passes(&l, bad);
	c->updates = rc ? updates : updates + n;
	free(l.block);
	free(l.rest);
	return rc;
}

int cuckoo_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		uint64_t n, uint64_t *bad)
{
	return load((struct load){.c = (struct cuckoo *)f,
				  .keys = keys,
				  .nhs = nhs,
				  .stride = fib_key_bytes(f->conf.key),
				  .n = n},
		    bad);
}

/* The most keys from the first one on; MAC has 48 bits, IPv6 counts in its last 64. */
static uint64_t keys_from(enum fib_key kind, const struct ckey *first)
{
	switch (kind) {
	case FIB_KEY_IPV4:
		return UINT64_C(1) + (UINT32_MAX - first->w[0]);
	case FIB_KEY_IPV6:
		return UINT64_MAX - __builtin_bswap64(first->w[1]);
	case FIB_KEY_MAC:
		return first->w[0] > MAC_MASK ? 0 : MAC_MASK - first->w[0] + 1;
	default:
		return UINT64_MAX - first->w[0];
	}
}

int cuckoo_load_range(struct fib *f, const void *first, unsigned int next_hops, uint64_t n,
		      uint64_t *bad)
{
	struct load l = {.c = (struct cuckoo *)f,
			 .first = key_load(f->conf.key, first),
			 .next_hops = next_hops,
			 .n = n};
	uint64_t most = keys_from(f->conf.key, &l.first);

	if (n > most) {
		*bad = most;
		return -ERANGE;
	}
	return load(l, bad);
}
