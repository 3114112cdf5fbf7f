/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions with a VNF's control plane, and what is left of one that ended: as in graceful restart
 * (RFC 4724 section 4.1) its routes are kept and forwarded by for the hold time; what a new
 * session has not announced again when the time is over is swept.
 */
#include "vnf.h"

#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>

#define SWEEP_SHARE 20

struct sweep {
	struct vnf *v;
	bool ipv6;
	uint64_t until; /* TSC; 0: there is time for all */
};

static bool late(const struct sweep *s)
{
	return s->until && rte_rdtsc() > s->until;
}

static bool late_walk(void *ctx)
{
	return late(ctx);
}

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

static bool sweep_table(struct sweep *s)
{
	struct vnf *v = s->v;

	return mtrie_walk(v->router->trie, router_root(v->index, s->ipv6), &v->sweep_cursor, sweep_one,
			  late_walk, s);
}

static void sweep_hidden(struct vnf *v, unsigned int bucket)
{
	for (struct own *o = v->own[bucket]; o; o = o->next) {
		const struct user *u = o->under == NO_HOP ? NULL : v->router->users[o->under];

		if (u && u->generation != v->generation) {
			vnf_route_del(v, &o->prefix);
			v->swept++;
		}
	}
}

static bool sweep_buckets(struct sweep *s)
{
	struct vnf *v = s->v;

	do {
		sweep_hidden(v, v->sweep_bucket);
		vnf_objects_sweep(v, v->sweep_bucket);
	} while (++v->sweep_bucket < BUCKETS && !late(s));
	return v->sweep_bucket == BUCKETS;
}

static void sweep_from_the_start(struct vnf *v)
{
	v->sweep_cursor = (struct mtrie_cursor){0};
	v->sweep_step = SWEEP_IPV4;
	v->sweep_bucket = 0;
	v->sweep_generation = v->generation;
}

/* A piece of it; whether that was the last. */
static bool sweep_some(struct vnf *v, uint64_t until_tsc)
{
	struct sweep s = {v, false, until_tsc};

	/* What went before is gone, so that one that begins again ends sooner. */
	if (v->sweep_generation != v->generation)
		sweep_from_the_start(v);
	for (; v->sweep_step <= SWEEP_IPV6; v->sweep_step++) {
		s.ipv6 = v->sweep_step == SWEEP_IPV6;
		if (!sweep_table(&s))
			return false;
		v->sweep_cursor = (struct mtrie_cursor){0};
	}
	if (!sweep_buckets(&s))
		return false;
	sweep_from_the_start(v);
	v->sweep_at_ns = 0;
	return true;
}

void vnf_sweep(struct vnf *v)
{
	while (!sweep_some(v, 0))
		;
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
	v->kernel_left = 0;
	if (v->learn == LEARN_KERNEL && !v->down) {
		v->generation++;
		v->sessions++;
		v->up = true;
		v->sweep_at_ns = 0;
	}
}

static void sweep_neighbours(struct vnf *v, unsigned int bucket)
{
	for (struct neighbour **link = &v->neighbours[bucket]; *link;) {
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
	v->kernel_left = BUCKETS;
	if (v->learn == LEARN_KERNEL && !v->down)
		v->sweep_at_ns = 1; /* due since long */
}

bool vnf_kernel_sweep(struct vnf *v)
{
	if (!v->kernel_left)
		return false;
	v->kernel_left--;
	own_sweep(v, v->kernel_left);
	sweep_neighbours(v, v->kernel_left);
	if (!v->kernel_left)
		users_changed(v);
	return v->kernel_left;
}

static uint64_t took_ns(const struct timespec *since)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)((t.tv_sec - since->tv_sec) * 1000000000 + t.tv_nsec - since->tv_nsec);
}

/*
 * Where nothing is held a peer's sessions could end in one after another: its sweeps are so far apart that
 * they take a part of the time.
 */
bool vnf_sweep_due(const struct vnf *v, uint64_t now_ns)
{
	return v->sweep_at_ns && now_ns >= RTE_MAX(v->sweep_at_ns, v->next_sweep_ns);
}

void vnf_sweep_some(struct vnf *v, uint64_t now_ns, uint64_t until_tsc)
{
	struct timespec began;
	bool done;

	if (v->sweep_generation != v->generation && v->sweep_took_ns) {
		/* Another session has come meanwhile: what this one took counts. */
		v->next_sweep_ns = now_ns + SWEEP_SHARE * v->sweep_took_ns;
		v->sweep_took_ns = 0;
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &began);
	done = sweep_some(v, until_tsc);
	v->sweep_took_ns += took_ns(&began);
	if (!done)
		return;
	v->next_sweep_ns = now_ns + SWEEP_SHARE * v->sweep_took_ns;
	v->sweep_took_ns = 0;
}
