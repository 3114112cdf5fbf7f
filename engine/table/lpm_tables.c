/* SPDX-License-Identifier: Apache-2.0 */
/* What longest prefix match has from DPDK, and what it needs around that. */
#include "lpm_tables.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_rib.h>

#define CHUNK 64
#define TWO_BYTES_MAX 0x7fffu /* of two bytes rte_fib keeps one bit */
#define GROUPS_SPARE 2        /* rte_fib wants to see two free ones before it takes one */

static atomic_uint tables; /* names must be unique */

static int socket_of(const struct fib_conf *conf)
{
	return conf->socket < 0 ? SOCKET_ID_ANY : conf->socket;
}

/*
 * Groups of 256 entries for what is longer than /24. IPv4: of the Internet's 902,000 prefixes
 * 961 are, so one for 32 prefixes is plenty. IPv6: its 160,000 prefixes need 38,000 groups on
 * their ways down; there is one for two prefixes. A small table gets what it can need at most.
 */
static uint32_t groups_of(const struct fib_conf *conf)
{
	bool v4 = conf->key == FIB_KEY_IPV4;
	uint64_t n = conf->capacity / (v4 ? 32 : 2);
	uint64_t small = conf->capacity * (v4 ? 1 : 13);

	if (small > 4096)
		small = 4096;
	return n > small ? n : small;
}

static struct rte_fib *create4(struct lpm_copy *c, const struct fib_conf *conf)
{
	uint32_t groups = groups_of(conf) + GROUPS_SPARE;
	bool two_bytes = conf->max_next_hop < TWO_BYTES_MAX && groups <= TWO_BYTES_MAX;
	struct rte_fib_conf fc = {
		.type = RTE_FIB_DIR24_8,
		.default_nh = two_bytes ? TWO_BYTES_MAX : FIB_MISS,
		.max_routes = conf->capacity,
		.dir24_8 = {two_bytes ? RTE_FIB_DIR24_8_2B : RTE_FIB_DIR24_8_4B, groups},
	};
	char name[32];

	c->miss4 = fc.default_nh;
	c->groups4 = groups - GROUPS_SPARE;
	snprintf(name, sizeof(name), "hr4-%u", atomic_fetch_add(&tables, 1));
	return rte_fib_create(name, socket_of(conf), &fc);
}

static struct rte_lpm6 *create6(const struct fib_conf *conf)
{
	struct rte_lpm6_config lc = {.max_rules = conf->capacity, .number_tbl8s = groups_of(conf)};
	char name[32];

	snprintf(name, sizeof(name), "hr6-%u", atomic_fetch_add(&tables, 1));
	return rte_lpm6_create(name, socket_of(conf), &lc);
}

int lpm_copy_create(struct lpm_copy *c, const struct fib_conf *conf)
{
	c->default6 = FIB_MISS;
	rte_errno = ENOMEM; /* not every way to fail sets it */
	if (conf->key == FIB_KEY_IPV4)
		c->v4 = create4(c, conf);
	else
		c->v6 = create6(conf);
	return c->v4 || c->v6 ? 0 : -rte_errno;
}

void lpm_copy_destroy(struct lpm_copy *c)
{
	rte_fib_free(c->v4);
	rte_lpm6_free(c->v6);
}

static void lookup4(const struct lpm_copy *c, const uint32_t *keys, uint16_t *nhs, unsigned int n)
{
	uint64_t wide[CHUNK];

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < CHUNK ? n - i : CHUNK;
		/* the prototype lacks a const */
		rte_fib_lookup_bulk(c->v4, (uint32_t *)(uintptr_t)keys + i, wide, k);
		for (unsigned int j = 0; j < k; j++)
			nhs[i + j] = wide[j] == c->miss4 ? FIB_MISS : (uint16_t)wide[j];
	}
}

static void lookup6(const struct lpm_copy *c, const uint8_t *keys, uint16_t *nhs, unsigned int n)
{
	int32_t wide[CHUNK];

	for (unsigned int i = 0, k; i < n; i += k) {
		k = n - i < CHUNK ? n - i : CHUNK;
		rte_lpm6_lookup_bulk_func(c->v6, (void *)(uintptr_t)(keys + 16 * i), wide, k);
		for (unsigned int j = 0; j < k; j++)
			nhs[i + j] = wide[j] < 0 ? c->default6 : (uint16_t)wide[j];
	}
}

void lpm_copy_lookup(const struct lpm_copy *c, const void *keys, uint16_t *nhs, unsigned int n)
{
	if (c->v4)
		lookup4(c, keys, nhs, n);
	else
		lookup6(c, keys, nhs, n);
}

static uint32_t key4(const void *key)
{
	uint32_t addr;

	memcpy(&addr, key, 4);
	return addr;
}

/*
 * rte_fib of 22.11 overwrites the whole table when a prefix that ends at the top of the address
 * space (the default route is one) is changed while longer prefixes cover its end without a
 * gap: the edge wraps to 0, and 0 to 0 is taken for everything. Those that reach the top are
 * taken out first, longest first, and put back: nobody reads this copy.
 */
struct top {
	uint16_t nh[32 + 1]; /* by prefix length; FIB_MISS: there is none */
};

static bool at_top(uint32_t addr, uint8_t len)
{
	return !len || addr >> (32 - len) == UINT32_MAX >> (32 - len);
}

static void top_take(struct lpm_copy *c, uint8_t len, struct top *t)
{
	const uint32_t top = UINT32_MAX;

	for (unsigned int l = 32; l > len; l--) {
		t->nh[l] = FIB_MISS;
		if (!lpm_rules4_get(c, &top, l, &t->nh[l]))
			rte_fib_delete(c->v4, top, l);
	}
}

static int top_put_back(struct lpm_copy *c, uint8_t len, const struct top *t)
{
	int rc = 0;

	for (unsigned int l = len + 1; l <= 32 && !rc; l++)
		if (t->nh[l] != FIB_MISS)
			rc = rte_fib_add(c->v4, UINT32_MAX, l, t->nh[l]);
	return rc ? -ENOTRECOVERABLE : 0;
}

/* Is there, in this /24, a prefix that is longer? They share a group. */
static bool has_group(const struct lpm_copy *c, uint32_t addr)
{
	return rte_rib_get_nxt(rte_fib_get_rib(c->v4), addr & 0xffffff00, 24, NULL,
			       RTE_RIB_GET_NXT_COVER);
}

static int put4(struct lpm_copy *c, uint32_t addr, uint8_t len, uint16_t nh)
{
	bool new_group = len > 24 && !has_group(c, addr), top = at_top(addr, len);
	struct top t;
	int rc, back = 0;

	/* rte_fib would find out half-way, and leave the table half changed */
	if (new_group && c->groups4_used == c->groups4)
		return -ENOSPC;
	if (top)
		top_take(c, len, &t);
	rc = rte_fib_add(c->v4, addr, len, nh);
	if (top)
		back = top_put_back(c, len, &t);
	if (rc || back)
		return back ? back : rc;
	c->groups4_used += new_group;
	return 0;
}

static int remove4(struct lpm_copy *c, uint32_t addr, uint8_t len)
{
	bool top = at_top(addr, len);
	struct top t;
	int rc, back = 0;

	if (top)
		top_take(c, len, &t);
	rc = rte_fib_delete(c->v4, addr, len);
	if (top)
		back = top_put_back(c, len, &t);
	if (rc || back)
		return back ? back : rc;
	c->groups4_used -= len > 24 && !has_group(c, addr);
	return 0;
}

static int put6(struct lpm_copy *c, const uint8_t *key, uint8_t len, uint16_t nh)
{
	if (len)
		return rte_lpm6_add(c->v6, (const void *)key, len, nh);
	c->default6 = nh;
	return 0;
}

static int remove6(struct lpm_copy *c, const uint8_t *key, uint8_t len)
{
	if (len)
		return rte_lpm6_delete(c->v6, (const void *)key, len);
	c->default6 = FIB_MISS;
	return 0;
}

int lpm_copy_put(struct lpm_copy *c, const void *key, uint8_t len, uint16_t nh)
{
	int rc = c->v4 ? put4(c, key4(key), len, nh) : put6(c, key, len, nh);

	return rc == -ENOMEM ? -ENOSPC : rc; /* the rules' pool, sized when the table was made */
}

int lpm_copy_remove(struct lpm_copy *c, const void *key, uint8_t len)
{
	return c->v4 ? remove4(c, key4(key), len) : remove6(c, key, len);
}
