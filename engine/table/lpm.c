/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Longest prefix match that can be read while it changes.
 *
 * DPDK 22.11 changes lookup tables in place: a group of entries that is freed may be in use
 * for another prefix while a reader is still on its way to it, who then gets another prefix's
 * next hop (rte_fib learnt RCU in 24.11 only). So there are two copies, and the algorithm is
 * Left-Right (Ramalhete, Correia: "Left-Right: A Concurrency Control Technique with Wait-Free
 * Population Oblivious Reads", 2015): readers use one copy, the writer changes the other,
 * switches readers over, waits until the last reader has left the first, and makes the same
 * change there. Readers count themselves in and out, once a burst, in a cache line that few
 * threads share: two atomic additions a burst.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_malloc.h>
#include <rte_pause.h>

#include "lpm_tables.h"

#define READER_SLOTS 64

struct reader_slot {
	_Alignas(64) atomic_ulong inside[2];
};

struct lpm {
	struct fib fib;
	struct lpm_copy copies[2];
	struct reader_slot *readers;
	atomic_uint active;  /* the copy that readers take */
	atomic_uint version; /* the counter that readers enter by */
	struct rte_rib6 *rules6;
	uint64_t entries, updates, memory_bytes;
};

/* The reader's side. */

static struct reader_slot *my_slot(const struct lpm *l)
{
	static atomic_uint threads;
	static _Thread_local unsigned int slot;

	if (!slot)
		slot = 1 + atomic_fetch_add(&threads, 1) % READER_SLOTS;
	return &l->readers[slot - 1];
}

static void lpm_lookup(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	const struct lpm *l = (const struct lpm *)f;
	struct reader_slot *slot = my_slot(l);
	unsigned int version = atomic_load(&l->version);

	atomic_fetch_add(&slot->inside[version], 1);
	lpm_copy_lookup(&l->copies[atomic_load(&l->active)], keys, nhs, n);
	atomic_fetch_sub_explicit(&slot->inside[version], 1, memory_order_release);
}

/* The writer's side. */

/*
 * A burst takes microseconds, unless the reader does not run: then it may be us who hold its
 * CPU, and sleeping hands it over (yielding would not, before the time slice ends).
 */
static void wait_until_empty(struct lpm *l, unsigned int version)
{
	const struct timespec nap = {.tv_nsec = 20000};

	for (unsigned int i = 0; i < READER_SLOTS; i++)
		for (int spins = 0; atomic_load(&l->readers[i].inside[version]); spins++) {
			if (spins < 1000)
				rte_pause();
			else
				nanosleep(&nap, NULL);
		}
}

/* Readers go to the copy just changed; when this returns none is left in the other. */
static void switch_readers(struct lpm *l)
{
	unsigned int old = atomic_load(&l->version);

	atomic_store(&l->active, !atomic_load(&l->active));
	wait_until_empty(l, !old);
	atomic_store(&l->version, !old);
	wait_until_empty(l, old);
}

static struct lpm_copy *idle_copy(struct lpm *l)
{
	return &l->copies[!atomic_load(&l->active)];
}

static int rule_get(struct lpm *l, const void *key, uint8_t len, uint16_t *nh)
{
	return l->rules6 ? lpm_rules6_get(l->rules6, key, len, nh)
			 : lpm_rules4_get(idle_copy(l), key, len, nh);
}

static int lpm_get(const struct fib *f, const void *key, uint8_t len, uint16_t *nh)
{
	const struct lpm *l = (const struct lpm *)f;

	return l->rules6 ? lpm_rules6_get(l->rules6, key, len, nh)
			 : lpm_rules4_get(&l->copies[atomic_load(&l->active)], key, len, nh);
}

/* To the idle copy and the rules. */
static int put_idle(struct lpm *l, const void *key, uint8_t len, uint16_t nh)
{
	int rc = lpm_copy_put(idle_copy(l), key, len, nh);

	if (!rc && l->rules6) {
		rc = lpm_rules6_put(l->rules6, key, len, nh);
		if (rc)
			lpm_copy_remove(idle_copy(l), key, len);
	}
	return rc;
}

static int remove_idle(struct lpm *l, const void *key, uint8_t len)
{
	int rc = lpm_copy_remove(idle_copy(l), key, len);

	if (!rc && l->rules6)
		rte_rib6_remove(l->rules6, key, len);
	return rc;
}

/*
 * A change that has worked in one copy must work in the other, which is the same. Should it
 * not, that is a bug below us, and to carry on would be to give two answers.
 */
static void must(int rc)
{
	if (rc)
		abort();
}

static int lpm_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct lpm *l = (struct lpm *)f;
	uint16_t old;
	int rc;

	if (!rule_get(l, key, len, &old))
		return -EEXIST;
	if (l->entries == f->conf.capacity)
		return -ENOSPC;
	rc = put_idle(l, key, len, nh);
	if (rc)
		return rc;
	switch_readers(l);
	must(lpm_copy_put(idle_copy(l), key, len, nh));
	l->entries++;
	l->updates++;
	return 0;
}

static int lpm_update(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct lpm *l = (struct lpm *)f;
	uint16_t old;
	int rc = rule_get(l, key, len, &old);

	if (!rc)
		rc = put_idle(l, key, len, nh);
	if (rc)
		return rc;
	switch_readers(l);
	must(lpm_copy_put(idle_copy(l), key, len, nh));
	l->updates++;
	return 0;
}

static int lpm_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old)
{
	struct lpm *l = (struct lpm *)f;
	int rc = rule_get(l, key, len, old);

	if (!rc)
		rc = remove_idle(l, key, len);
	if (rc)
		return rc;
	switch_readers(l);
	must(lpm_copy_remove(idle_copy(l), key, len));
	l->entries--;
	l->updates++;
	return 0;
}

struct load {
	const uint8_t *keys, *lens;
	size_t stride;
	uint8_t full;
};

static const void *load_key(const struct load *in, uint64_t i)
{
	return in->keys + i * in->stride;
}

static uint8_t load_len(const struct load *in, uint64_t i)
{
	return in->lens ? in->lens[i] : in->full;
}

static int load_one(struct lpm *l, const struct load *in, uint64_t i, uint16_t nh)
{
	uint16_t old;

	if (!rule_get(l, load_key(in, i), load_len(in, i), &old))
		return -EEXIST;
	if (l->entries + i >= l->fib.conf.capacity)
		return -ENOSPC;
	return put_idle(l, load_key(in, i), load_len(in, i), nh);
}

/* All of it into the idle copy before a reader sees any of it. */
static int lpm_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		    uint64_t n, uint64_t *bad)
{
	struct lpm *l = (struct lpm *)f;
	struct load in = {keys, lens, fib_key_bytes(f->conf.key), fib_key_bits(f->conf.key)};
	uint64_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++)
		rc = load_one(l, &in, i, nhs[i]);
	if (rc) {
		*bad = --i;
		while (i--)
			must(remove_idle(l, load_key(&in, i), load_len(&in, i)));
		return rc;
	}
	switch_readers(l);
	for (i = 0; i < n; i++)
		must(lpm_copy_put(idle_copy(l), load_key(&in, i), load_len(&in, i), nhs[i]));
	l->entries += n;
	l->updates += n;
	return 0;
}

static int lpm_next(const struct fib *f, uint64_t *cursor, struct fib_route *route)
{
	const struct lpm *l = (const struct lpm *)f;

	memset(route, 0, sizeof(*route));
	return l->rules6 ? lpm_rules6_next(l->rules6, cursor, route)
			 : lpm_rules4_next(&l->copies[atomic_load(&l->active)], cursor, route);
}

static void lpm_stats(const struct fib *f, struct fib_stats *s)
{
	const struct lpm *l = (const struct lpm *)f;

	s->entries = l->entries;
	s->updates = l->updates;
	s->memory_bytes = l->memory_bytes;
	s->lookup = l->rules6 ? "rte_lpm6" : "rte_fib";
}

/* Making and ending. */

static void lpm_destroy(struct fib *f)
{
	struct lpm *l = (struct lpm *)f;

	for (int i = 0; i < 2; i++)
		lpm_copy_destroy(&l->copies[i]);
	rte_rib6_free(l->rules6);
	free(l->readers);
	free(l);
}

static const struct fib_ops lpm_ops = {
	.destroy = lpm_destroy,
	.insert = lpm_insert,
	.update = lpm_update,
	.remove = lpm_remove,
	.get = lpm_get,
	.load = lpm_load,
	.next = lpm_next,
	.stats = lpm_stats,
};

/* What the tables take is not for us to compute: the difference that they make. */
static uint64_t eal_heap_bytes(void)
{
	struct rte_malloc_socket_stats s;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < RTE_MAX_NUMA_NODES; i++)
		if (!rte_malloc_get_socket_stats(i, &s))
			sum += s.heap_allocsz_bytes;
	return sum;
}

static struct lpm *lpm_alloc(const struct fib_conf *conf)
{
	size_t readers_bytes = READER_SLOTS * sizeof(struct reader_slot);
	struct lpm *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->readers = aligned_alloc(64, readers_bytes);
	if (!l->readers) {
		free(l);
		return NULL;
	}
	memset(l->readers, 0, readers_bytes);
	l->fib = (struct fib){.lookup = lpm_lookup, .ops = &lpm_ops, .conf = *conf};
	l->memory_bytes = sizeof(*l) + readers_bytes;
	return l;
}

int lpm_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err)
{
	uint64_t before = eal_heap_bytes();
	struct lpm *l;
	int rc = 0;

	l = lpm_alloc(conf);
	if (!l)
		return err_set(err, ENOMEM, path, "not enough memory");
	if (conf->key == FIB_KEY_IPV6) {
		l->rules6 = lpm_rules6_create(conf);
		rc = l->rules6 ? 0 : -ENOMEM;
	}
	for (int i = 0; i < 2 && !rc; i++)
		rc = lpm_copy_create(&l->copies[i], conf);
	if (rc) {
		lpm_destroy(&l->fib);
		return err_set(
			err, -rc, path,
			"no room for %llu %s prefixes in DPDK's memory (engine.memory_mb): %s",
			(unsigned long long)conf->capacity, fib_key_name(conf->key), strerror(-rc));
	}
	l->memory_bytes += eal_heap_bytes() - before;
	*out = &l->fib;
	return 0;
}
