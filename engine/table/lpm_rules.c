/* SPDX-License-Identifier: Apache-2.0 */
/* The rules behind longest prefix match: rte_rib (kept by rte_fib) and rte_rib6 (kept by us). */
#include "lpm_tables.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_rib.h>

int lpm_rules4_get(const struct lpm_copy *c, const void *key, uint8_t len, uint16_t *nh)
{
	struct rte_rib_node *node;
	uint64_t wide;
	uint32_t addr;

	memcpy(&addr, key, 4);
	node = rte_rib_lookup_exact(rte_fib_get_rib(c->v4), addr, len);
	if (!node)
		return -ENOENT;
	rte_rib_get_nh(node, &wide);
	*nh = wide;
	return 0;
}

/*
 * The cursor is the last node given; 1: the start. rte_rib_get_nxt gives what lies below 0/0 and
 * not that prefix itself, which is therefore looked up first.
 */
int lpm_rules4_next(const struct lpm_copy *c, uint64_t *cursor, struct fib_route *route)
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

struct rte_rib6 *lpm_rules6_create(const struct fib_conf *conf)
{
	static atomic_uint ribs;
	/* every second node is one that only joins others */
	struct rte_rib6_conf rc = {.max_nodes = 2 * conf->capacity};
	char name[32];

	snprintf(name, sizeof(name), "hr6r-%u", atomic_fetch_add(&ribs, 1));
	return rte_rib6_create(name, conf->socket < 0 ? SOCKET_ID_ANY : conf->socket, &rc);
}

int lpm_rules6_put(struct rte_rib6 *rules, const void *key, uint8_t len, uint16_t nh)
{
	struct rte_rib6_node *node = rte_rib6_lookup_exact(rules, key, len);

	if (!node)
		node = rte_rib6_insert(rules, key, len);
	if (!node)
		return -ENOSPC;
	return rte_rib6_set_nh(node, nh);
}

int lpm_rules6_get(struct rte_rib6 *rules, const void *key, uint8_t len, uint16_t *nh)
{
	struct rte_rib6_node *node = rte_rib6_lookup_exact(rules, key, len);
	uint64_t wide;

	if (!node)
		return -ENOENT;
	rte_rib6_get_nh(node, &wide);
	*nh = wide;
	return 0;
}

int lpm_rules6_next(struct rte_rib6 *rules, uint64_t *cursor, struct fib_route *route)
{
	const uint8_t any[16] = {0};
	struct rte_rib6_node *node = NULL;
	uint64_t nh;

	if (!*cursor) {
		*cursor = 1;
		node = rte_rib6_lookup_exact(rules, (const void *)any, 0);
	}
	if (!node) {
		node = *cursor == 1 ? NULL : (struct rte_rib6_node *)(uintptr_t)*cursor;
		node = rte_rib6_get_nxt(rules, (const void *)any, 0, node, RTE_RIB6_GET_NXT_ALL);
		if (!node)
			return 0;
		*cursor = (uintptr_t)node;
	}
	rte_rib6_get_ip(node, (void *)route->key);
	rte_rib6_get_depth(node, &route->len);
	rte_rib6_get_nh(node, &nh);
	route->next_hop = nh;
	return 1;
}
