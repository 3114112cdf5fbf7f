/* SPDX-License-Identifier: Apache-2.0 */
#include "vnf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int add_static_hops(struct vnf *v)
{
	const struct router_hop punt = {.kind = HOP_PUNT}, blackhole = {.kind = HOP_BLACKHOLE};
	int a = hop_new(v, &punt), b = hop_new(v, &blackhole);

	v->punt_hop = (uint16_t)a;
	v->blackhole_hop = (uint16_t)b;
	return a < 0 || b < 0 ? -ENOSPC : 0;
}

int vnf_init(struct vnf *v, struct router *r, unsigned int index,
	     const struct router_vnf_params *p, struct err *err)
{
	v->router = r;
	v->index = index;
	snprintf(v->name, sizeof(v->name), "%s", p->name);
	v->learn = (uint8_t)p->learn;
	v->hold_ns = (uint64_t)(p->hold_s * 1e9);
	v->generation = v->kernel_generation = 1;
	return add_static_hops(v) ? err_set(err, ENOMEM, "params.vnfs", "out of memory") : 0;
}

static void neighbours_fini(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++) {
		while (v->neighbours[i]) {
			struct neighbour *n = v->neighbours[i];

			v->neighbours[i] = n->next;
			free(n);
		}
	}
}

/* The data path has ended. */
void vnf_fini(struct vnf *v)
{
	users_fini(v);
	own_fini(v);
	neighbours_fini(v);
	vnf_objects_fini(v);
	hop_free(v, v->punt_hop);
	hop_free(v, v->blackhole_hop);
}

struct router_interface *vnf_interface(const struct vnf *v, int ifindex)
{
	struct router *r = v->router;

	for (unsigned int i = 0; ifindex && i < r->n_interfaces; i++)
		if (r->interfaces[i].vnf == v->index && r->interfaces[i].ifindex == ifindex)
			return &r->interfaces[i];
	return NULL;
}

struct neighbour *vnf_neighbour(const struct vnf *v, int ifindex, const struct address *a)
{
	struct neighbour *n = v->neighbours[address_hash(v, a)];

	while (n && (n->ifindex != ifindex || !address_equal(&n->address, a)))
		n = n->next;
	return n;
}

static void note_update(struct vnf *v)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	v->updates++;
	v->last_update_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void vnf_route_put(struct vnf *v, const struct address *prefix, const struct spec *spec)
{
	struct user *u = user_get(v, spec);
	uint16_t old;

	note_update(v);
	if (u)
		u->refs++;
	if (!u || route_set(v, prefix, u->hop, &old)) {
		v->no_room++;
		if (u)
			user_unref(v, u->hop);
		return;
	}
	if (old == NO_HOP)
		v->routes[prefix->ipv6]++;
	else
		user_unref(v, old);
}

void vnf_route_del(struct vnf *v, const struct address *prefix)
{
	uint16_t old = NO_HOP;

	note_update(v);
	if (route_set(v, prefix, NO_HOP, &old) || old == NO_HOP)
		return;
	v->routes[prefix->ipv6]--;
	user_unref(v, old);
}

void vnf_link(struct vnf *v, const char *name, int ifindex, bool up)
{
	struct router *r = v->router;

	for (unsigned int i = 0; i < r->n_interfaces; i++) {
		struct router_interface *one = &r->interfaces[i];

		if (one->vnf != v->index || strcmp(one->name, name) || one->ifindex == (up ? ifindex : 0))
			continue;
		one->ifindex = up ? ifindex : 0;
		/* A kernel drops the routes of a link that goes down without a word on each (IPv4). */
		v->read_again = true;
		users_changed(v);
	}
}

/* The prefix that an interface's address says is on its link (RFC 4291 2.1; RFC 1122 3.3.1). */
static struct address on_link(const struct address *a)
{
	struct address p = *a;

	for (unsigned int bit = p.len; bit < 8 * sizeof(p.bytes); bit++)
		p.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
	return p;
}

static struct address host(const struct address *a)
{
	struct address h = *a;

	h.len = a->ipv6 ? 128 : 32;
	return h;
}

void vnf_address_put(struct vnf *v, int ifindex, const struct address *address)
{
	struct address prefix = on_link(address), self = host(address);

	/* An unknown neighbour is punted: the VNF's kernel forwards the packet, and resolves it. */
	if (vnf_interface(v, ifindex)) /* not the loopback's 127.0.0.0/8 */
		own_put(v, &prefix, OWN_LINK, ifindex, v->punt_hop);
	own_put(v, &self, OWN_ADDRESS, ifindex, v->punt_hop);
}

void vnf_address_del(struct vnf *v, int ifindex, const struct address *address)
{
	struct address prefix = on_link(address), self = host(address);
	const struct own *o = own_find(v, &prefix);
	/* The two may be one: an address without a link. */
	bool link = o && o->kind == OWN_LINK && o->ifindex == ifindex;

	own_del(v, &self, OWN_ADDRESS);
	if (link)
		own_del(v, &prefix, OWN_LINK);
}

static void neighbour_hop(struct vnf *v, int ifindex, const struct address *address)
{
	struct path path = {.gateway = *address, .ifindex = ifindex, .weight = 1};
	struct own *o = own_find(v, address);
	struct router_hop hop;
	int number;

	hop_to_neighbour(v, &path, &hop);
	if (o && o->kind == OWN_ADDRESS)
		return; /* a duplicate address: the VNF's own stays reachable */
	if (address->ipv6 && address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80)
		return; /* a gateway at most: packets to it are not forwarded (RFC 4291 2.5.6) */
	if (o && o->kind == OWN_NEIGHBOUR) {
		hop_set(v->router, o->hop, &hop);
		o->generation = v->kernel_generation;
		return;
	}
	number = hop_new(v, &hop);
	if (number < 0)
		v->no_room++;
	else if (!own_put(v, address, OWN_NEIGHBOUR, ifindex, (uint16_t)number))
		hop_free(v, (uint16_t)number);
}

void vnf_neighbour_put(struct vnf *v, int ifindex, const struct address *address,
		       const uint8_t *mac)
{
	struct neighbour *n = vnf_neighbour(v, ifindex, address);
	struct neighbour **bucket = &v->neighbours[address_hash(v, address)];
	bool changed = !n || memcmp(n->mac, mac, 6);

	if (!vnf_interface(v, ifindex))
		return;
	if (!n) {
		n = v->n_neighbours < v->router->objects ? calloc(1, sizeof(*n)) : NULL;
		if (!n) {
			v->no_room++;
			return;
		}
		v->n_neighbours++;
		n->ifindex = ifindex;
		n->address = *address;
		n->next = *bucket;
		*bucket = n;
	}
	memcpy(n->mac, mac, 6);
	n->generation = v->kernel_generation;
	neighbour_hop(v, ifindex, address);
	if (changed)
		users_changed(v);
}

void vnf_neighbour_del(struct vnf *v, int ifindex, const struct address *address)
{
	struct neighbour **link = &v->neighbours[address_hash(v, address)], *n;

	while ((n = *link) && (n->ifindex != ifindex || !address_equal(&n->address, address)))
		link = &n->next;
	if (!n)
		return;
	*link = n->next;
	free(n);
	v->n_neighbours--;
	own_del(v, address, OWN_NEIGHBOUR);
	users_changed(v);
}
