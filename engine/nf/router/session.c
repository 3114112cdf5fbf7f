/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions with a VNF's control plane, and what is left of one that ended: as in graceful restart
 * (RFC 4724 section 4.1) its routes are kept and forwarded by for the hold time; what a new
 * session has not announced again when the time is over is swept.
 */
#include "vnf.h"

#include <stdlib.h>
#include <time.h>

#define SWEEP_SHARE 20

struct sweep {
	struct vnf *v;
	bool ipv6;
};

static void sweep_one(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh)
{
	const struct sweep *s = ctx;
	struct vnf *v = s->v;
	const struct user *u = v->router->users[nh];
	struct address prefix = {.ipv6 = s->ipv6, .len = len};

	if (!u || u->generation == v->generation)
		return;
	memcpy(prefix.bytes, key, address_bytes(&prefix));
	vnf_route_del(v, &prefix);
	v->swept++;
}

static void sweep_hidden(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct own *o = v->own[i]; o; o = o->next) {
			const struct user *u = o->under == NO_HOP ? NULL : v->router->users[o->under];

			if (u && u->generation != v->generation) {
				vnf_route_del(v, &o->prefix);
				v->swept++;
			}
		}
}

void vnf_sweep(struct vnf *v)
{
	v->sweep_at_ns = 0;
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct sweep s = {v, ipv6};

		mtrie_walk(v->router->trie, router_root(v->index, ipv6), sweep_one, &s);
	}
	sweep_hidden(v);
	vnf_objects_sweep(v);
}

void vnf_session_begin(struct vnf *v, uint64_t now_ns)
{
	v->up = true;
	v->sessions++;
	v->generation++;
	v->sweep_at_ns = now_ns + v->hold_ns;
}

void vnf_session_end(struct vnf *v, uint64_t now_ns)
{
	if (v->up) {
		v->up = false;
		v->generation++; /* nothing that is there will be announced by it again */
		v->sweep_at_ns = now_ns + v->hold_ns;
	}
}

/* The kernel tells when all has been read, so nothing needs to be held. */
void vnf_kernel_begin(struct vnf *v)
{
	v->kernel_generation++;
	if (v->learn == LEARN_KERNEL && !v->down) {
		v->generation++;
		v->sessions++;
		v->up = true;
	}
}

static void sweep_neighbours(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct neighbour **link = &v->neighbours[i]; *link;) {
			struct neighbour *n = *link;

			if (n->generation == v->kernel_generation) {
				link = &n->next;
				continue;
			}
			*link = n->next;
			v->n_neighbours--;
			free(n);
		}
}

void vnf_kernel_end(struct vnf *v)
{
	own_sweep(v);
	sweep_neighbours(v);
	if (v->learn == LEARN_KERNEL && !v->down)
		vnf_sweep(v);
	users_changed(v);
}

static uint64_t took_ns(const struct timespec *since)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)((t.tv_sec - since->tv_sec) * 1000000000 + t.tv_nsec - since->tv_nsec);
}

/*
 * A sweep goes through the whole table at once, and others' routes wait meanwhile. Where nothing is held a
 * peer's sessions could end in one after another: they are so far apart that they take a part of the time.
 */
bool vnf_tick(struct vnf *v, uint64_t now_ns)
{
	bool due = v->sweep_at_ns && now_ns >= RTE_MAX(v->sweep_at_ns, v->next_sweep_ns);
	struct timespec began;

	if (due) {
		clock_gettime(CLOCK_MONOTONIC, &began);
		vnf_sweep(v);
		v->next_sweep_ns = now_ns + SWEEP_SHARE * took_ns(&began);
	}
	rcu_reclaim(&v->router->rcu);
	return due;
}
