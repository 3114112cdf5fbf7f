/* SPDX-License-Identifier: Apache-2.0 */
/* Next hop numbers of routes: one for each way that routes of one generation lead. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vnf.h"

/* The paths behind a spec, next-hop objects resolved. */
struct resolved {
	bool blackhole;
	unsigned int n;
	struct path paths[PATHS_MAX];
};

static const struct object *object_of(const struct vnf *v, uint32_t id)
{
	const struct object *o = v->objects[id % BUCKETS];

	while (o && o->id != id)
		o = o->next;
	return o;
}

static void add_paths(struct resolved *r, const struct spec *s, uint16_t weight)
{
	r->blackhole |= s->kind == SPEC_BLACKHOLE;
	for (unsigned int i = 0; i < s->n_paths && r->n < PATHS_MAX; i++) {
		r->paths[r->n] = s->paths[i];
		if (weight)
			r->paths[r->n].weight = weight;
		r->n++;
	}
}

static void resolve_spec(const struct vnf *v, const struct spec *s, struct resolved *r)
{
	const struct object *o, *member;

	memset(r, 0, sizeof(*r));
	if (s->kind != SPEC_OBJECT) {
		add_paths(r, s, 0);
		return;
	}
	o = object_of(v, s->object);
	if (!o)
		return; /* not announced yet, or withdrawn: punted meanwhile */
	add_paths(r, &o->spec, 0);
	for (unsigned int i = 0; i < o->n_group; i++) {
		member = object_of(v, o->group[i]);
		if (member)
			add_paths(r, &member->spec, o->weights[i]);
	}
}

static void ask_kernel(struct vnf *v, const struct path *p)
{
	if (v->resolve && p->gateway.len && p->ifindex && !vnf_neighbour(v, p->ifindex, &p->gateway))
		v->resolve(v, p->ifindex, &p->gateway);
}

static void members_free(struct vnf *v, struct user *u)
{
	for (unsigned int i = 0; i < u->n_members; i++)
		hop_free(v->router, u->members[i]);
	u->n_members = 0;
}

/* Buckets in proportion to the weights, each path at least one: at most 16 paths. */
static void fill_buckets(const struct resolved *res, const struct user *u, struct router_hop *group)
{
	unsigned int total = 0, done = 0, sum = 0;

	for (unsigned int i = 0; i < res->n; i++)
		total += res->paths[i].weight;
	for (unsigned int i = 0; i < res->n; i++) {
		unsigned int left = res->n - i - 1, end;

		sum += res->paths[i].weight;
		end = (sum * ROUTER_MEMBERS_MAX + total / 2) / total;
		end = RTE_MAX(end, done + 1);
		end = RTE_MIN(end, ROUTER_MEMBERS_MAX - left);
		while (done < end)
			group->members[done++] = u->members[i];
	}
}

static void set_group(struct vnf *v, struct user *u, const struct resolved *res)
{
	struct router_hop group = {.kind = HOP_GROUP}, hop;
	uint16_t old[PATHS_MAX];
	unsigned int n_old = u->n_members;

	memcpy(old, u->members, sizeof(old));
	u->n_members = 0;
	for (unsigned int i = 0; i < res->n; i++) {
		int number;

		hop_to_neighbour(v, &res->paths[i], &hop);
		number = hop_new(v->router, &hop);
		if (number < 0)
			break;
		u->members[u->n_members++] = (uint16_t)number;
	}
	if (u->n_members == res->n)
		fill_buckets(res, u, &group);
	else
		group.kind = HOP_PUNT;
	hop_set(v->router, u->hop, &group);
	for (unsigned int i = 0; i < n_old; i++)
		hop_free(v->router, old[i]);
}

/* What routes by this user do now. On the link (no gateway) each destination is its own neighbour. */
static void user_resolve(struct vnf *v, struct user *u)
{
	struct router_hop hop = {.kind = HOP_PUNT};
	struct resolved res;

	resolve_spec(v, &u->spec, &res);
	for (unsigned int i = 0; i < res.n; i++)
		ask_kernel(v, &res.paths[i]);
	if (res.n > 1) {
		set_group(v, u, &res);
		return;
	}
	if (res.blackhole)
		hop.kind = HOP_BLACKHOLE;
	else if (res.n)
		hop_to_neighbour(v, &res.paths[0], &hop);
	hop_set(v->router, u->hop, &hop);
	members_free(v, u);
}

static struct user *user_new(struct vnf *v, const struct spec *spec)
{
	struct router_hop hop = {.kind = HOP_PUNT};
	struct user *u = calloc(1, sizeof(*u));
	int number = u ? hop_new(v->router, &hop) : -ENOMEM;

	if (number < 0) {
		free(u);
		return NULL;
	}
	u->spec = *spec;
	u->generation = v->generation;
	u->hop = (uint16_t)number;
	v->router->users[number] = u;
	user_resolve(v, u);
	return u;
}

static bool spec_equal(const struct spec *a, const struct spec *b)
{
	if (a->kind != b->kind || a->object != b->object || a->n_paths != b->n_paths)
		return false;
	return !memcmp(a->paths, b->paths, a->n_paths * sizeof(a->paths[0]));
}

struct user *user_get(struct vnf *v, const struct spec *spec)
{
	struct user **link = &v->users, *u;

	while ((u = *link) && (u->generation != v->generation || !spec_equal(&u->spec, spec)))
		link = &u->next;
	if (!u)
		u = user_new(v, spec);
	else
		*link = u->next;
	if (u) { /* in front: routes of one next hop come in runs */
		u->next = v->users;
		v->users = u;
	}
	return u;
}

static void user_free(struct vnf *v, struct user *u)
{
	members_free(v, u);
	v->router->users[u->hop] = NULL;
	hop_free(v->router, u->hop);
	free(u);
}

void user_unref(struct vnf *v, uint16_t hop)
{
	struct user *u = v->router->users[hop], **link = &v->users;

	if (u->refs && --u->refs)
		return;
	while (*link != u)
		link = &(*link)->next;
	*link = u->next;
	user_free(v, u);
}

void users_resolve(struct vnf *v)
{
	for (struct user *u = v->users; u; u = u->next)
		user_resolve(v, u);
}

/* Those that lead there, be it as a member of a group. */
static bool leads_to(const struct vnf *v, const struct user *u, uint32_t id)
{
	const struct object *o;

	if (u->spec.kind != SPEC_OBJECT)
		return false;
	if (u->spec.object == id)
		return true;
	o = object_of(v, u->spec.object);
	for (unsigned int i = 0; o && i < o->n_group; i++)
		if (o->group[i] == id)
			return true;
	return false;
}

void users_resolve_object(struct vnf *v, uint32_t id)
{
	for (struct user *u = v->users; u; u = u->next)
		if (leads_to(v, u, id))
			user_resolve(v, u);
}

void users_fini(struct vnf *v)
{
	while (v->users) {
		struct user *u = v->users;

		v->users = u->next;
		user_free(v, u);
	}
}
