/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many entries at once. Two passes: first every key that finds room in its first bucket, then
 * the rest (about 12 % at 95 % full). In one pass keys away from home would take the
 * first-bucket room of later keys, and about twice as many would end up away, each of them a
 * second cache line at every lookup.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuckoo.h"

#define AHEAD 32 /* keys whose buckets are on their way */

struct load {
	struct cuckoo *c;
	const uint8_t *keys;
	const uint16_t *nhs;
	size_t stride;
	uint64_t n;
	uint32_t *rest; /* indices of the keys left for the second pass */
	uint64_t n_rest, room;
};

static struct ckey load_key(const struct load *l, uint64_t i)
{
	return key_load(l->c->fib.conf.key, l->keys + i * l->stride);
}

static struct hashes load_hash(const struct load *l, const struct ckey *k)
{
	return hash_key(l->c->seed, l->c->fib.conf.key, k);
}

static int keep_for_later(struct load *l, uint64_t i)
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

static void prefetch_first(const struct load *l, uint64_t i)
{
	struct ckey k = load_key(l, i);

	__builtin_prefetch(&l->c->buckets[first_bucket(l->c->n, load_hash(l, &k))], 1);
}

static void prefetch_second(const struct load *l, uint64_t i)
{
	struct ckey k = load_key(l, i);

	__builtin_prefetch(&l->c->buckets[second_bucket(l->c->n, load_hash(l, &k))], 1);
}

static int first_pass(struct load *l, uint64_t *i)
{
	int rc = 0;

	for (*i = 0; *i < l->n; ++*i) {
		struct ckey k = load_key(l, *i);

		if (*i + AHEAD < l->n)
			prefetch_first(l, *i + AHEAD);
		if (l->c->fib.conf.key == FIB_KEY_MAC && k.w[0] > MAC_MASK)
			return -EINVAL;
		rc = cuckoo_place_first(l->c, &k, load_hash(l, &k), l->nhs[*i]);
		if (rc == -ENOSPC)
			rc = keep_for_later(l, *i);
		if (rc)
			return rc;
	}
	return 0;
}

static int second_pass(struct load *l, uint64_t *j)
{
	for (*j = 0; *j < l->n_rest; ++*j) {
		uint64_t i = l->rest[*j];
		struct ckey k = load_key(l, i);
		int rc;

		if (*j + AHEAD < l->n_rest) {
			prefetch_first(l, l->rest[*j + AHEAD]);
			prefetch_second(l, l->rest[*j + AHEAD]);
		}
		rc = cuckoo_place(l->c, &k, load_hash(l, &k), l->nhs[i]);
		if (rc)
			return rc;
	}
	return 0;
}

/* Takes back what the first pass placed of the first i keys, and the second of its first j. */
static void take_back(struct load *l, uint64_t i, uint64_t j)
{
	uint16_t old;

	for (uint64_t k = 0; k < j; k++)
		cuckoo_remove(&l->c->fib, l->keys + l->rest[k] * l->stride, 0, &old);
	for (uint64_t k = 0, r = 0; k < i; k++) {
		if (r < l->n_rest && l->rest[r] == k)
			r++;
		else
			cuckoo_remove(&l->c->fib, l->keys + k * l->stride, 0, &old);
	}
}

int cuckoo_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		uint64_t n, uint64_t *bad)
{
	struct cuckoo *c = (struct cuckoo *)f;
	struct load l = {
		.c = c, .keys = keys, .nhs = nhs, .stride = fib_key_bytes(f->conf.key), .n = n};
	uint64_t i, j = 0, updates = c->updates;
	int rc;

	*bad = 0;
	if (n > f->conf.capacity - c->entries) {
		*bad = f->conf.capacity - c->entries;
		return -ENOSPC;
	}
	rc = first_pass(&l, &i);
	if (rc) {
		*bad = i;
	} else {
		rc = second_pass(&l, &j);
		if (rc)
			*bad = l.rest[j];
	}
	if (rc)
		take_back(&l, i, j);
	c->updates = rc ? updates : updates + n;
	free(l.rest);
	return rc;
}
