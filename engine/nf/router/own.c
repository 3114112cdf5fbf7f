/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of the VNF's own: they win over a route to the same prefix, which waits under them. */
#include <errno.h>
#include <stdlib.h>

#include "vnf.h"

struct own *own_find(const struct vnf *v, const struct address *prefix)
{
	struct own *o = v->own[address_hash(v, prefix)];

	while (o && !address_equal(&o->prefix, prefix))
		o = o->next;
	return o;
}

/* An address has its own prefix and the link's. */
#define OWN_PER_OBJECT 2

static uint32_t root_of(const struct vnf *v, const struct address *prefix)
{
	return router_root(v->index, prefix->ipv6);
}

static bool room_for(const struct vnf *v, const struct address *prefix)
{
	return quota_nodes(v) || mtrie_get(v->router->trie, root_of(v, prefix), prefix->bytes,
					   prefix->len) != NO_HOP;
}

static void release(struct vnf *v, const struct own *o)
{
	if (o->kind == OWN_NEIGHBOUR)
		hop_free(v, o->hop);
}

static void unlink_own(struct vnf *v, struct own **link)
{
	struct mtrie *trie = v->router->trie;
	struct own *o = *link;
	uint32_t root = root_of(v, &o->prefix);
	uint16_t old;

	if (o->under != NO_HOP)
		mtrie_put(trie, root, o->prefix.bytes, o->prefix.len, o->under, &old);
	else
		mtrie_remove(trie, root, o->prefix.bytes, o->prefix.len, &old);
	*link = o->next;
	v->n_own--;
	release(v, o);
	free(o);
}

/* A VNF's kernel has as many addresses as who is in there likes: they are bound as its routes are. */
static struct own *own_new(struct vnf *v, const struct address *prefix)
{
	struct own *o, **bucket = &v->own[address_hash(v, prefix)];

	if (v->n_own >= OWN_PER_OBJECT * v->router->objects || !room_for(v, prefix))
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	v->n_own++;
	o->prefix = *prefix;
	o->hop = NO_HOP;
	o->under = mtrie_get(v->router->trie, root_of(v, prefix), prefix->bytes, prefix->len);
	o->next = *bucket;
	*bucket = o;
	return o;
}

bool own_put(struct vnf *v, const struct address *prefix, enum own_kind kind, int ifindex,
	     uint16_t hop)
{
	struct own *o = own_find(v, prefix);
	uint16_t old;

	if (o && o->hop != hop)
		release(v, o);
	if (!o)
		o = own_new(v, prefix);
	if (!o) {
		v->no_room++;
		return false;
	}
	o->kind = (uint8_t)kind;
	o->ifindex = ifindex;
	o->hop = hop;
	o->generation = v->kernel_generation;
	if (mtrie_put(v->router->trie, root_of(v, prefix), prefix->bytes, prefix->len, hop, &old))
		v->no_room++;
	return true;
}

void own_del(struct vnf *v, const struct address *prefix, enum own_kind kind)
{
	struct own **link = &v->own[address_hash(v, prefix)];

	while (*link && !address_equal(&(*link)->prefix, prefix))
		link = &(*link)->next;
	if (*link && (*link)->kind == kind)
		unlink_own(v, link);
}

void own_sweep(struct vnf *v, unsigned int bucket)
{
	for (struct own **link = &v->own[bucket]; *link;) {
		if ((*link)->generation != v->kernel_generation)
			unlink_own(v, link);
		else
			link = &(*link)->next;
	}
}

void own_fini(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		while (v->own[i]) {
			struct own *o = v->own[i];

			v->own[i] = o->next;
			release(v, o);
			free(o);
		}
}

int route_set(struct vnf *v, const struct address *prefix, uint16_t hop, uint16_t *old)
{
	struct own *o = own_find(v, prefix);
	uint32_t root = root_of(v, prefix);

	if (o) {
		*old = o->under;
		o->under = hop;
		return 0;
	}
	if (hop != NO_HOP && !room_for(v, prefix))
		return -ENOSPC;
	if (hop != NO_HOP)
		return mtrie_put(v->router->trie, root, prefix->bytes, prefix->len, hop, old);
	return mtrie_remove(v->router->trie, root, prefix->bytes, prefix->len, old);
}
