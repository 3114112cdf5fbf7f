/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Longest prefix match over rte_fib (DIR-24-8) and rte_fib6 (a multi-bit trie).
 *
 * DPDK 22.11 changes the lookup tables in place: a group of entries that is freed may be in
 * use for another prefix while a reader is still on its way to it, so that a reader can get
 * another prefix's next hop (rte_fib learnt RCU in 24.11 only). So there are two copies, and
 * the algorithm is Left-Right (Ramalhete, Correia: "Left-Right: A Concurrency Control
 * Technique with Wait-Free Population Oblivious Reads", 2015): readers use one copy, the
 * writer changes the other, switches readers over, waits until the last reader has left the
 * first, and makes the same change there. Readers count themselves in and out of a counter,
 * once a burst, in a line that few threads share: two atomic additions a burst.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_malloc.h>
#include <rte_rib.h>
#include <rte_rib6.h>

#include "fib_priv.h"

#define READER_SLOTS 64
#define LOOKUP_CHUNK 64
#define NH_15_BITS_MAX 0x7ffeu /* rte_fib keeps one bit of two bytes; 0x7fff is our miss */

struct reader_slot {
	_Alignas(64) atomic_ulong inside[2];
};

/* One of the two copies. */
struct copy {
	struct rte_fib *v4;
	struct rte_fib6 *v6;
};

struct lpm {
	struct fib fib;
	struct copy copies[2];
	struct reader_slot *readers;
	atomic_uint active;  /* the copy that readers take */
	atomic_uint version; /* the counter that readers enter by */
	uint16_t miss;       /* what rte_fib gives when there is no route */
	uint64_t entries, updates, memory_bytes;
};

static const struct lpm *lpm_of(const struct fib *f)
{
	return (const struct lpm *)f; /* fib is the first member */
}

/* The reader's side. */

static struct reader_slot *my_slot(const struct lpm *l)
{
	static atomic_uint threads;
	static _Thread_local unsigned int slot;

	if (!slot)
		slot = 1 + atomic_fetch_add(&threads, 1) % READER_SLOTS;
	return &l->readers[slot - 1];
}

static void narrow(const struct lpm *l, const uint64_t *in, uint16_t *out, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		out[i] = in[i] == l->miss ? FIB_MISS : (uint16_t)in[i];
}

static void lookup_copy4(const struct lpm *l, const struct copy *c, const uint32_t *keys,
			 uint16_t *nhs, unsigned int n)
{
	uint64_t wide[LOOKUP_CHUNK];

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < LOOKUP_CHUNK ? n - i : LOOKUP_CHUNK;
		/* const: the prototype of 22.11 lacks it for IPv6 only */
		rte_fib_lookup_bulk(c->v4, (uint32_t *)(uintptr_t)keys + i, wide, k);
		narrow(l, wide, nhs + i, k);
	}
}

static void lookup_copy6(const struct lpm *l, const struct copy *c, const uint8_t *keys,
			 uint16_t *nhs, unsigned int n)
{
	uint64_t wide[LOOKUP_CHUNK];

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < LOOKUP_CHUNK ? n - i : LOOKUP_CHUNK;
		rte_fib6_lookup_bulk(c->v6, (uint8_t(*)[16])(uintptr_t)(keys + 16 * i), wide, k);
		narrow(l, wide, nhs + i, k);
	}
}

static void lpm_lookup(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	const struct lpm *l = lpm_of(f);
	struct reader_slot *slot = my_slot(l);
	unsigned int version = atomic_load(&l->version);
	const struct copy *c;

	atomic_fetch_add(&slot->inside[version], 1);
	c = &l->copies[atomic_load(&l->active)];
	if (c->v4)
		lookup_copy4(l, c, keys, nhs, n);
	else
		lookup_copy6(l, c, keys, nhs, n);
	atomic_fetch_sub_explicit(&slot->inside[version], 1, memory_order_release);
}

/* The writer's side. */

static void wait_until_empty(struct lpm *l, unsigned int version)
{
	for (unsigned int i = 0; i < READER_SLOTS; i++)
		while (atomic_load(&l->readers[i].inside[version]))
			sched_yield();
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

static struct copy *idle_copy(struct lpm *l)
{
	return &l->copies[!atomic_load(&l->active)];
}

static uint32_t key4(const void *key)
{
	uint32_t addr;

	memcpy(&addr, key, 4);
	return addr;
}

static uint8_t *key6(const void *key)
{
	return (uint8_t *)(uintptr_t)key;
}

static int raw_put(struct copy *c, const void *key, uint8_t len, uint16_t nh)
{
	return c->v4 ? rte_fib_add(c->v4, key4(key), len, nh)
		     : rte_fib6_add(c->v6, key6(key), len, nh);
}

static int raw_remove(struct copy *c, const void *key, uint8_t len)
{
	return c->v4 ? rte_fib_delete(c->v4, key4(key), len)
		     : rte_fib6_delete(c->v6, key6(key), len);
}

static int copy_get(const struct copy *c, const void *key, uint8_t len, uint16_t *nh)
{
	struct rte_rib6_node *n6;
	struct rte_rib_node *n4;
	uint64_t wide;

	if (c->v4) {
		n4 = rte_rib_lookup_exact(rte_fib_get_rib(c->v4), key4(key), len);
		if (!n4)
			return -ENOENT;
		rte_rib_get_nh(n4, &wide);
	} else {
		n6 = rte_rib6_lookup_exact(rte_fib6_get_rib(c->v6), key6(key), len);
		if (!n6)
			return -ENOENT;
		rte_rib6_get_nh(n6, &wide);
	}
	*nh = wide;
	return 0;
}

/* Does the prefix end where the address space ends: are its bits all ones? */
static bool at_top(const struct copy *c, const void *key, uint8_t len)
{
	const uint8_t *addr = key;

	if (c->v4)
		return !len || key4(key) >> (32 - len) == UINT32_MAX >> (32 - len);
	for (unsigned int i = 0; i < len; i++)
		if (!(addr[i / 8] & 0x80 >> i % 8))
			return false;
	return true;
}

/*
 * rte_fib and rte_fib6 of 22.11 overwrite the whole table when a prefix that ends at the top
 * of the address space (the default route is one) is changed while longer prefixes cover the
 * end of it without a gap: the end wraps to 0, which then reads as the whole range. They are
 * taken out of the way first, longest first, and put back: no reader is in this copy.
 */
struct top {
	uint16_t nh[128 + 1]; /* by prefix length; FIB_MISS: there is none */
};

static const uint8_t ones[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

static void top_take(struct copy *c, uint8_t len, struct top *t)
{
	for (unsigned int l = c->v4 ? 32 : 128; l > len; l--) {
		if (copy_get(c, ones, l, &t->nh[l]))
			t->nh[l] = FIB_MISS;
		else
			raw_remove(c, ones, l);
	}
}

static int top_put_back(struct copy *c, uint8_t len, const struct top *t)
{
	int rc = 0;

	for (unsigned int l = len + 1; l <= (c->v4 ? 32 : 128) && !rc; l++)
		if (t->nh[l] != FIB_MISS)
			rc = raw_put(c, ones, l, t->nh[l]);
	return rc;
}

static int copy_put(struct copy *c, const void *key, uint8_t len, uint16_t nh)
{
	struct top t;
	int rc;

	if (!at_top(c, key, len))
		return raw_put(c, key, len, nh);
	top_take(c, len, &t);
	rc = raw_put(c, key, len, nh);
	/* Groups that they had and that the new one cannot have taken: see groups_left. */
	return top_put_back(c, len, &t) ? -ENOTRECOVERABLE : rc;
}

static int copy_remove(struct copy *c, const void *key, uint8_t len)
{
	struct top t;
	int rc;

	if (!at_top(c, key, len))
		return raw_remove(c, key, len);
	top_take(c, len, &t);
	rc = raw_remove(c, key, len);
	return top_put_back(c, len, &t) ? -ENOTRECOVERABLE : rc;
}

static int lpm_get(const struct fib *f, const void *key, uint8_t len, uint16_t *nh)
{
	const struct lpm *l = lpm_of(f);

	return copy_get(&l->copies[atomic_load(&l->active)], key, len, nh);
}

/*
 * The change has worked in one copy, and the other is the same: it must work there too.
 * Should it not (it would be a bug of rte_fib), carrying on would give two answers.
 */
static void put_both(struct lpm *l, const void *key, uint8_t len, uint16_t nh)
{
	switch_readers(l);
	if (copy_put(idle_copy(l), key, len, nh))
		abort();
	l->updates++;
}

static int lpm_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct lpm *l = (struct lpm *)f;
	uint16_t old;
	int rc;

	if (!lpm_get(f, key, len, &old))
		return -EEXIST;
	if (l->entries == f->conf.capacity)
		return -ENOSPC;
	rc = copy_put(idle_copy(l), key, len, nh);
	if (rc)
		return rc == -ENOMEM ? -ENOSPC : rc;
	put_both(l, key, len, nh);
	l->entries++;
	return 0;
}

static int lpm_update(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct lpm *l = (struct lpm *)f;
	uint16_t old;
	int rc = lpm_get(f, key, len, &old);

	if (!rc)
		rc = copy_put(idle_copy(l), key, len, nh);
	if (!rc)
		put_both(l, key, len, nh);
	return rc;
}

static int lpm_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old)
{
	struct lpm *l = (struct lpm *)f;
	int rc = lpm_get(f, key, len, old);

	if (!rc)
		rc = copy_remove(idle_copy(l), key, len);
	if (rc)
		return rc;
	switch_readers(l);
	if (copy_remove(idle_copy(l), key, len))
		abort(); /* as in put_both */
	l->entries--;
	l->updates++;
	return 0;
}

/* The first i of what load added to one copy, taken back. */
static void unload(const struct lpm *l, struct copy *c, const uint8_t *keys, const uint8_t *lens,
		   uint64_t i)
{
	size_t stride = fib_key_bytes(l->fib.conf.key);
	uint8_t full = fib_key_bits(l->fib.conf.key);

	while (i--)
		copy_remove(c, keys + i * stride, lens ? lens[i] : full);
}

static int load_copy(const struct lpm *l, struct copy *c, const uint8_t *keys, const uint8_t *lens,
		     const uint16_t *nhs, uint64_t n, uint64_t *bad)
{
	size_t stride = fib_key_bytes(l->fib.conf.key);
	uint8_t full = fib_key_bits(l->fib.conf.key);
	uint64_t i;
	uint16_t old;
	int rc = 0;

	for (i = 0; i < n; i++) {
		const uint8_t *key = keys + i * stride;
		uint8_t len = lens ? lens[i] : full;

		rc = copy_get(c, key, len, &old) ? 0 : -EEXIST;
		if (!rc && l->entries + i >= l->fib.conf.capacity)
			rc = -ENOSPC;
		if (!rc)
			rc = copy_put(c, key, len, nhs[i]);
		if (rc)
			break;
	}
	if (!rc)
		return 0;
	*bad = i;
	unload(l, c, keys, lens, i);
	return rc == -ENOMEM ? -ENOSPC : rc;
}

static int lpm_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		    uint64_t n, uint64_t *bad)
{
	struct lpm *l = (struct lpm *)f;
	int rc = load_copy(l, idle_copy(l), keys, lens, nhs, n, bad);

	if (rc)
		return rc;
	switch_readers(l);
	if (load_copy(l, idle_copy(l), keys, lens, nhs, n, bad))
		abort(); /* as in put_both */
	l->entries += n;
	l->updates += n;
	return 0;
}

/*
 * The cursor is the last node given. rte_rib_get_nxt gives what lies below 0/0 and not that
 * prefix itself, which is therefore looked up first.
 */
static int next4(const struct copy *c, uint64_t *cursor, struct fib_route *route)
{
	struct rte_rib *rib = rte_fib_get_rib(c->v4);
	struct rte_rib_node *node = NULL;
	uint64_t nh;
	uint32_t ip;

	if (!*cursor) {
		*cursor = 1;
		node = rte_rib_lookup_exact(rib, 0, 0);
	}
	if (!node) {
		node = *cursor == 1 ? NULL : (struct rte_rib_node *)(uintptr_t)*cursor;
		node = rte_rib_get_nxt(rib, 0, 0, node, RTE_RIB_GET_NXT_ALL);
		if (!node)
			return 0;
		*cursor = (uintptr_t)node;
	}
	rte_rib_get_ip(node, &ip);
	rte_rib_get_depth(node, &route->len);
	rte_rib_get_nh(node, &nh);
	memcpy(route->key, &ip, 4);
	route->next_hop = nh;
	return 1;
}

static int next6(const struct copy *c, uint64_t *cursor, struct fib_route *route)
{
	struct rte_rib6 *rib = rte_fib6_get_rib(c->v6);
	const uint8_t any[16] = {0};
	struct rte_rib6_node *node = NULL;
	uint64_t nh;

	if (!*cursor) {
		*cursor = 1;
		node = rte_rib6_lookup_exact(rib, any, 0);
	}
	if (!node) {
		node = *cursor == 1 ? NULL : (struct rte_rib6_node *)(uintptr_t)*cursor;
		node = rte_rib6_get_nxt(rib, any, 0, node, RTE_RIB6_GET_NXT_ALL);
		if (!node)
			return 0;
		*cursor = (uintptr_t)node;
	}
	rte_rib6_get_ip(node, route->key);
	rte_rib6_get_depth(node, &route->len);
	rte_rib6_get_nh(node, &nh);
	route->next_hop = nh;
	return 1;
}

static int lpm_next(const struct fib *f, uint64_t *cursor, struct fib_route *route)
{
	const struct lpm *l = lpm_of(f);
	const struct copy *c = &l->copies[atomic_load(&l->active)];

	memset(route, 0, sizeof(*route));
	return c->v4 ? next4(c, cursor, route) : next6(c, cursor, route);
}

static void lpm_stats(const struct fib *f, struct fib_stats *s)
{
	const struct lpm *l = lpm_of(f);

	s->entries = l->entries;
	s->updates = l->updates;
	s->memory_bytes = l->memory_bytes;
	s->lookup = f->conf.key == FIB_KEY_IPV4 ? "rte_fib" : "rte_fib6";
}

/* Making and ending. */

static void lpm_destroy(struct fib *f)
{
	struct lpm *l = (struct lpm *)f;

	for (int i = 0; i < 2; i++) {
		rte_fib_free(l->copies[i].v4);
		rte_fib6_free(l->copies[i].v6);
	}
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

/*
 * Groups of 256 entries for what is longer than /24. IPv4: of the Internet's 904,000
 * prefixes 961 are, so one for 32 prefixes is plenty; a small table gets one for each.
 * IPv6: its 158,000 prefixes share 0.3 groups each on their way down; half of one is given.
 */
static uint32_t tbl8_groups(const struct fib_conf *conf)
{
	uint64_t n = conf->key == FIB_KEY_IPV4 ? conf->capacity / 32 : conf->capacity;
	uint64_t least = conf->key == FIB_KEY_IPV4 ? conf->capacity : conf->capacity * 14;

	if (least > 4096)
		least = 4096;
	return n > least ? n : least;
}

static int copy_create(struct lpm *l, struct copy *c, int index)
{
	static atomic_uint tables;
	const struct fib_conf *conf = &l->fib.conf;
	uint32_t groups = tbl8_groups(conf);
	bool two_bytes = conf->max_next_hop <= NH_15_BITS_MAX && groups <= NH_15_BITS_MAX;
	int socket = conf->socket < 0 ? SOCKET_ID_ANY : conf->socket;
	char name[32];
	struct rte_fib_conf v4 = {
		.type = RTE_FIB_DIR24_8,
		.max_routes = conf->capacity,
		.dir24_8 = {two_bytes ? RTE_FIB_DIR24_8_2B : RTE_FIB_DIR24_8_4B, groups},
	};
	struct rte_fib6_conf v6 = {
		.type = RTE_FIB6_TRIE,
		.max_routes = conf->capacity,
		.trie = {two_bytes ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B, groups},
	};

	l->miss = two_bytes ? NH_15_BITS_MAX + 1 : FIB_MISS;
	v4.default_nh = v6.default_nh = l->miss;
	snprintf(name, sizeof(name), "hr-%u.%d", atomic_fetch_add(&tables, 1), index);
	if (conf->key == FIB_KEY_IPV4)
		c->v4 = rte_fib_create(name, socket, &v4);
	else
		c->v6 = rte_fib6_create(name, socket, &v6);
	return c->v4 || c->v6 ? 0 : -(rte_errno ? rte_errno : ENOMEM);
}

static uint64_t eal_heap_bytes(void)
{
	struct rte_malloc_socket_stats s;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < RTE_MAX_NUMA_NODES; i++)
		if (!rte_malloc_get_socket_stats(i, &s))
			sum += s.heap_allocsz_bytes;
	return sum;
}

int lpm_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err)
{
	uint64_t before = eal_heap_bytes();
	struct lpm *l;
	int rc = 0;

	if (conf->capacity > UINT32_C(1) << 26)
		return err_set(err, EINVAL, path, "capacity %llu, must be 1..%u prefixes",
			       (unsigned long long)conf->capacity, 1u << 26);
	l = calloc(1, sizeof(*l));
	if (l)
		l->readers = aligned_alloc(64, READER_SLOTS * sizeof(*l->readers));
	if (!l || !l->readers) {
		free(l);
		return err_set(err, ENOMEM, path, "not enough memory");
	}
	memset(l->readers, 0, READER_SLOTS * sizeof(*l->readers));
	l->fib = (struct fib){.lookup = lpm_lookup, .ops = &lpm_ops, .conf = *conf};
	for (int i = 0; i < 2 && !rc; i++)
		rc = copy_create(l, &l->copies[i], i);
	if (rc) {
		lpm_destroy(&l->fib);
		return err_set(err, -rc, path,
			       "no room for %llu prefixes in the EAL's memory (engine.memory_mb): "
			       "%s",
			       (unsigned long long)conf->capacity, strerror(-rc));
	}
	l->memory_bytes = eal_heap_bytes() - before + sizeof(*l) +
			  READER_SLOTS * sizeof(*l->readers);
	*out = &l->fib;
	return 0;
}
