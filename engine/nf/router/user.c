/* SPDX-License-Identifier: Apache-2.0 */
/* Next hop numbers of routes: one for each way that routes of one generation lead. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nf/lib/siphash.h"
#include "vnf.h"

/* The paths behind a spec, next-hop objects resolved. */
struct resolved {
	bool blackhole;
	unsigned int n;
	struct path paths[PATHS_MAX];
};

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
	o = vnf_object(v, s->object);
	if (!o)
		return; /* not announced yet, or withdrawn: punted meanwhile */
	add_paths(r, &o->spec, 0);
	for (unsigned int i = 0; i < o->n_group; i++) {
		member = vnf_object(v, o->group[i]);
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
		hop_free(v, u->members[i]);
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
		number = hop_new(v, &hop);
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
		hop_free(v, old[i]);
}

/* What routes by this user do now. On the link (no gateway) each destination is its own neighbour. */
static void user_resolve(struct vnf *v, struct user *u)
{
	struct router_hop hop = {.kind = HOP_PUNT};
	struct resolved res;

	u->round = v->round;
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
	int number = u ? hop_new(v, &hop) : -ENOMEM;

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

static struct user **bucket_of_spec(struct vnf *v, const struct spec *s)
{
	uint64_t words[1 + sizeof(s->paths) / (sizeof(uint64_t))] = {(uint64_t)s->kind << 32 | s->object};
	size_t bytes = s->n_paths * sizeof(s->paths[0]);

	static_assert(sizeof(s->paths) % sizeof(uint64_t) == 0, "whole words");
	memcpy(words + 1, s->paths, bytes);
	return &v->users[siphash(v->router->key, words, 1 + (bytes + 7) / 8) % BUCKETS];
}

static struct user **bucket_of_object(struct vnf *v, uint32_t id)
{
	return &v->users_of_object[bucket_of(v, id)];
}

struct user *user_get(struct vnf *v, const struct spec *spec)
{
	struct user **bucket = bucket_of_spec(v, spec), *u = *bucket;

	while (u && (u->generation != v->generation || !spec_equal(&u->spec, spec)))
		u = u->next;
	if (u)
		return u;
	u = user_new(v, spec);
	if (!u)
		return NULL;
	u->next = *bucket;
	*bucket = u;
	v->n_users++;
	if (spec->kind == SPEC_OBJECT) {
		bucket = bucket_of_object(v, spec->object);
		u->next_of_object = *bucket;
		*bucket = u;
	}
	return u;
}

static void user_free(struct vnf *v, struct user *u)
{
	struct user **link = bucket_of_spec(v, &u->spec);

	while (*link != u)
		link = &(*link)->next;
	*link = u->next;
	if (u->spec.kind == SPEC_OBJECT) {
		link = bucket_of_object(v, u->spec.object);
		while (*link != u)
			link = &(*link)->next_of_object;
		*link = u->next_of_object;
	}
	v->n_users--;
	members_free(v, u);
	v->router->users[u->hop] = NULL;
	hop_free(v, u->hop);
	free(u);
}

void user_unref(struct vnf *v, uint16_t hop)
{
	struct user *u = v->router->users[hop];

	if (!u->refs || !--u->refs)
		user_free(v, u);
}

/* All buckets once more from where it stands, so that changes that go on keep none from its turn. */
static void resolve_all_again(struct vnf *v)
{
	v->resolve_left = BUCKETS;
}

void users_changed(struct vnf *v)
{
	v->round++;
	resolve_all_again(v);
}

static void changed_users_of(struct vnf *v, uint32_t id)
{
	for (struct user *u = *bucket_of_object(v, id); u; u = u->next_of_object)
		if (u->spec.object == id) {
			u->round = v->round - 1;
			resolve_all_again(v);
		}
}

/* Those that lead there, be it as a member of a group. */
void users_changed_object(struct vnf *v, uint32_t id)
{
	changed_users_of(v, id);
	for (const struct object *o = v->groups; o; o = o->next_group)
		for (unsigned int i = 0; i < o->n_group; i++)
			if (o->group[i] == id) {
				changed_users_of(v, o->id);
				break;
			}
}

bool users_resolve(struct vnf *v)
{
	if (!v->resolve_left)
		return false;
	for (struct user *u = v->users[v->resolve_at]; u; u = u->next)
		if (u->round != v->round)
			user_resolve(v, u);
	v->resolve_at = (v->resolve_at + 1) % BUCKETS;
	return --v->resolve_left;
}

void users_fini(struct vnf *v)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		while (v->users[i])
			user_free(v, v->users[i]);
}
