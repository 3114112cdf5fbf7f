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

struct hop_object {
	struct router_hop hop;
	struct rcu_old old;
	struct router *router;
	uint16_t number; /* to be given back; NO_HOP: it lives on with another meaning */
};

static void release(struct rcu_old *old)
{
	struct hop_object *o = container_of(old, struct hop_object, old);
	struct router *r = o->router;

	if (o->number != NO_HOP)
		r->free_hops[r->n_free_hops++] = o->number;
	free(o);
}

static void retire(struct router *r, struct router_hop *hop, uint16_t number)
{
	struct hop_object *o = container_of(hop, struct hop_object, hop);

	o->router = r;
	o->number = number;
	rcu_retire(&r->rcu, &o->old, release);
}

static struct router_hop *copy(const struct router_hop *hop)
{
	struct hop_object *o = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*o), 64));

	if (!o)
		return NULL;
	o->hop = *hop;
	return &o->hop;
}

int hop_new(struct vnf *v, const struct router_hop *hop)
{
	struct router *r = v->router;
	struct router_hop *c;
	uint16_t number;

	rcu_reclaim(&r->rcu);
	if (!quota_hop(v))
		return -ENOSPC;
	c = copy(hop);
	if (!c)
		return -ENOSPC;
	number = r->n_free_hops ? r->free_hops[--r->n_free_hops] : (uint16_t)r->hops_made++;
	atomic_store_explicit(&r->hops[number], c, memory_order_release);
	v->n_hops++;
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
	retire(r, old, NO_HOP);
	rcu_reclaim(&r->rcu);
}

void hop_free(struct vnf *v, uint16_t number)
{
	v->n_hops--;
	retire(v->router, atomic_load(&v->router->hops[number]), number);
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
