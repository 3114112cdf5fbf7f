/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Next hop numbers, which the trie has, and what each means, which changes more often than the
 * routes do: one store then moves all routes of a next hop. A reader may still hold the number
 * or the meaning from before, so both are given back only when all readers have been quiescent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vnf.h"

struct grave {
	struct grave *next;
	uint64_t token;
	struct router_hop *hop;
	uint16_t number; /* NO_HOP: it lives on with another meaning */
};

/* When memory is short the meaning leaks: better than pulling it from under a reader. */
static void bury(struct router *r, struct router_hop *hop, uint16_t number)
{
	struct grave *g = calloc(1, sizeof(*g));

	if (!g)
		return;
	g->hop = hop;
	g->number = number;
	g->token = rte_rcu_qsbr_start(r->readers);
	*r->graves_end = g;
	r->graves_end = &g->next;
}

void graves_reclaim(struct router *r, bool all)
{
	while (r->graves) {
		struct grave *g = r->graves;

		if (!all && rte_rcu_qsbr_check(r->readers, g->token, false) != 1)
			return;
		r->graves = g->next;
		if (!r->graves)
			r->graves_end = &r->graves;
		if (g->number != NO_HOP)
			r->free_hops[r->n_free_hops++] = g->number;
		free(g->hop);
		free(g);
	}
}

static struct router_hop *copy(const struct router_hop *hop)
{
	struct router_hop *c = aligned_alloc(64, sizeof(*c));

	if (c)
		*c = *hop;
	return c;
}

int hop_new(struct router *r, const struct router_hop *hop)
{
	struct router_hop *c;
	uint16_t number;

	graves_reclaim(r, false);
	if (!r->n_free_hops && r->hops_made == ROUTER_HOPS_MAX)
		return -ENOSPC;
	c = copy(hop);
	if (!c)
		return -ENOSPC;
	number = r->n_free_hops ? r->free_hops[--r->n_free_hops] : (uint16_t)r->hops_made++;
	atomic_store_explicit(&r->hops[number], c, memory_order_release);
	return number;
}

void hop_set(struct router *r, uint16_t number, const struct router_hop *hop)
{
	struct router_hop *old = atomic_load(&r->hops[number]), *c;

	if (!memcmp(old, hop, sizeof(*hop)))
		return;
	c = copy(hop);
	if (!c)
		return;
	atomic_store_explicit(&r->hops[number], c, memory_order_release);
	bury(r, old, NO_HOP);
	graves_reclaim(r, false);
}

void hop_free(struct router *r, uint16_t number)
{
	bury(r, atomic_load(&r->hops[number]), number);
}

static void set_macs(struct router_hop *hop, const uint8_t *dst, const uint8_t *src)
{
	uint8_t macs[12];

	memcpy(macs, dst, 6);
	memcpy(macs + 6, src, 6);
	memcpy(&hop->macs_low, macs, sizeof(hop->macs_low));
	memcpy(&hop->macs_high, macs + sizeof(hop->macs_low), sizeof(hop->macs_high));
}

void hop_to_neighbour(const struct vnf *v, const struct path *path, struct router_hop *hop)
{
	const struct router_interface *out = vnf_interface(v, path->ifindex);
	const struct neighbour *n = out ? vnf_neighbour(v, path->ifindex, &path->gateway) : NULL;
	const struct mac_slot *local;

	memset(hop, 0, sizeof(*hop));
	hop->kind = HOP_PUNT; /* the kernel forwards it, and so resolves the neighbour */
	if (!n)
		return;
	local = router_find_mac(v->router, router_mac_key(n->mac, out->edge));
	hop->kind = local ? HOP_LOCAL : HOP_FORWARD;
	hop->interface = local ? local->interface : 0;
	hop->edge = out->edge;
	set_macs(hop, n->mac, out->mac);
}
