/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What VNFs have together: each is sure of an equal part of it, whatever the others do, and gets more
 * while what the others have not yet taken of their parts stays free.
 */
#include "vnf.h"

static bool may_take(const struct vnf *v, uint64_t all, uint64_t left,
		     uint64_t (*taken)(const struct vnf *v), unsigned int at_once)
{
	const struct router *r = v->router;
	uint64_t part = all / r->n_all, reserved = 0;

	if (taken(v) + at_once <= part)
		return left >= at_once;
	for (unsigned int i = 0; i < r->n_vnfs; i++) {
		uint64_t has = &r->vnfs[i] == v ? part : taken(&r->vnfs[i]);

		reserved += has < part ? part - has : 0;
	}
	return left >= reserved + at_once;
}

static uint64_t hops_of(const struct vnf *v)
{
	return v->n_hops;
}

static uint64_t nodes_of(const struct vnf *v)
{
	return (uint64_t)mtrie_root_nodes(v->router->trie, router_root(v->index, false)) +
	       mtrie_root_nodes(v->router->trie, router_root(v->index, true));
}

bool quota_hop(const struct vnf *v)
{
	const struct router *r = v->router;

	return may_take(v, ROUTER_HOPS_MAX, ROUTER_HOPS_MAX - r->hops_made + r->n_free_hops, hops_of, 1);
}

#define NODES_OF_PREFIX 14 /* an IPv6 host's, below the root's 16 bits */

bool quota_nodes(const struct vnf *v)
{
	const struct router *r = v->router;

	return may_take(v, r->nodes, r->nodes - mtrie_nodes(r->trie), nodes_of, NODES_OF_PREFIX);
}
