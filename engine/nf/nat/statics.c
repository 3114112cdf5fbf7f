/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Static mappings: a list that workers read, replaced whole by each change (snapshot.h). */

static const char *const protocols[] = {"tcp", "udp", NULL};

#define ENDPOINTS(owner, base)                                                                     \
	{.name = "protocol", .type = PARAM_ENUM, .required = true, .choices = protocols,            \
	 .offset = (base) + offsetof(owner, protocol), .doc = "tcp or udp"},                       \
	{.name = "inside", .type = PARAM_IP, .required = true,                                      \
	 .offset = (base) + offsetof(owner, inside), .doc = "address of the server"},              \
	{.name = "inside_port", .type = PARAM_UINT, .required = true, .min = 1, .max = 65535,       \
	 .offset = (base) + offsetof(owner, inside_port), .doc = "port of the server"},            \
	{.name = "outside", .type = PARAM_IP, .required = true,                                     \
	 .offset = (base) + offsetof(owner, outside), .doc = "address that others see"},           \
	{.name = "outside_port", .type = PARAM_UINT, .required = true, .min = 1, .max = 65535,      \
	 .offset = (base) + offsetof(owner, outside_port), .doc = "port that others see"}

const struct param nat_static_params[] = {ENDPOINTS(struct nat_static_params, 0), {0}};

static bool in_pool(const struct nat_params *p, uint32_t addr)
{
	const struct param_ip *pool = p->pool.items;

	for (size_t i = 0; i < p->pool.count; i++)
		if (!memcmp(pool[i].addr, &addr, sizeof(addr)))
			return true;
	return false;
}

/* The outside addresses that the pool does not have, each once. */
static void list_addrs(struct nat_statics *s, const struct nat_params *p)
{
	for (size_t i = 0; i < s->count; i++) {
		uint32_t addr;
		size_t known = 0;

		memcpy(&addr, s->list[i].outside.addr, sizeof(addr));
		while (known < s->n_addrs && s->addrs[known] != addr)
			known++;
		if (known == s->n_addrs && !in_pool(p, addr))
			s->addrs[s->n_addrs++] = addr;
	}
}

void nat_statics_free(void *object)
{
	struct nat_statics *s = object;

	if (!s)
		return;
	free(s->list);
	free(s->addrs);
	free(s);
}

/* `count` of `list`, and one more if `extra` is given. */
static struct nat_statics *make(const struct nat_params *p, const struct nat_static_params *list,
				size_t count, const struct nat_static_params *extra)
{
	struct nat_statics *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->list = calloc(count + 1, sizeof(*s->list));
	s->addrs = calloc(count + 1, sizeof(*s->addrs));
	if (!s->list || !s->addrs) {
		nat_statics_free(s);
		return NULL;
	}
	if (count)
		memcpy(s->list, list, count * sizeof(*list));
	s->count = count;
	if (extra)
		s->list[s->count++] = *extra;
	list_addrs(s, p);
	return s;
}

static bool same_endpoint(const struct nat_static_params *a, const struct nat_static_params *b,
			  bool inside)
{
	const struct param_ip *x = inside ? &a->inside : &a->outside;
	const struct param_ip *y = inside ? &b->inside : &b->outside;

	return a->protocol == b->protocol && !memcmp(x->addr, y->addr, 4) &&
	       (inside ? a->inside_port == b->inside_port : a->outside_port == b->outside_port);
}

int nat_statics_check(const struct nat_params *p, struct err *err)
{
	const struct nat_static_params *list = p->statics.items;
	char path[64];

	for (size_t i = 1; i < p->statics.count; i++)
		for (size_t j = 0; j < i; j++) {
			bool inside = same_endpoint(&list[i], &list[j], true);

			if (!inside && !same_endpoint(&list[i], &list[j], false))
				continue;
			snprintf(path, sizeof(path), "params.static[%zu].%s", i,
				 inside ? "inside" : "outside");
			return err_set(err, EEXIST, path,
				       "this endpoint has a mapping already, static[%zu]; allowed: one for "
				       "each endpoint", j);
		}
	return 0;
}

struct nat_statics *nat_statics_make(const struct nat_params *p, struct err *err)
{
	struct nat_statics *s = make(p, p->statics.items, p->statics.count, NULL);

	if (!s)
		err_set(err, ENOMEM, "params.static", "out of memory");
	return s;
}

enum op { OP_ADD, OP_REMOVE };

struct update {
	uint32_t op;
	struct nat_static_params mapping;
};

static const char *const op_names[] = {"add", "remove", NULL};
static const struct param update_params[] = {
	{.name = "op", .type = PARAM_ENUM, .required = true, .choices = op_names,
	 .offset = offsetof(struct update, op), .doc = "add or remove a static mapping"},
	ENDPOINTS(struct nat_static_params, offsetof(struct update, mapping)),
	{0},
};

static struct nat_statics *add(const struct nat_params *p, const struct nat_statics *old,
			       const struct nat_static_params *mapping, struct err *err)
{
	struct nat_statics *next;

	for (size_t i = 0; i < old->count; i++) {
		bool inside = same_endpoint(&old->list[i], mapping, true);

		if (inside || same_endpoint(&old->list[i], mapping, false)) {
			err_set(err, EEXIST, inside ? "op.inside" : "op.outside",
				"this endpoint has a static mapping already");
			return NULL;
		}
	}
	next = make(p, old->list, old->count, mapping);
	if (!next)
		err_set(err, ENOMEM, "op", "out of memory");
	return next;
}

static struct nat_statics *without(const struct nat_params *p, const struct nat_statics *old,
				   const struct nat_static_params *mapping, struct err *err)
{
	struct nat_statics *next;
	size_t i = 0;

	while (i < old->count && !(same_endpoint(&old->list[i], mapping, true) &&
				   same_endpoint(&old->list[i], mapping, false)))
		i++;
	if (i == old->count) {
		err_set(err, ENOENT, "op", "there is no such static mapping");
		return NULL;
	}
	/* The last one takes its place: order means nothing. */
	next = make(p, old->list, old->count - 1, NULL);
	if (!next)
		err_set(err, ENOMEM, "op", "out of memory");
	else if (i < next->count)
		next->list[i] = old->list[old->count - 1];
	if (next) {
		next->n_addrs = 0;
		list_addrs(next, p);
	}
	return next;
}

int nat_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	const struct nat_params *p = nf->conf;
	struct nat *nat = nf->state;
	const struct nat_statics *old = snapshot_get(&nat->statics);
	struct nat_statics *next;
	struct update u = {0};
	int rc = param_parse(update_params, op, "op", &u, err);

	if (!rc && nf->owners) /* as nat_init says */
		rc = err_set(err, ENOTSUP, "op", "static mappings in an elastic segment; allowed: none");
	if (!rc)
		rc = nat_check_host4(&u.mapping.inside, "op.inside", err);
	if (!rc)
		rc = nat_check_host4(&u.mapping.outside, "op.outside", err);
	if (rc)
		return rc;
	next = (u.op == OP_ADD ? add : without)(p, old, &u.mapping, err);
	if (!next)
		return -EINVAL;
	if (reply)
		*reply = json_pack("{s:I}", "static", (json_int_t)next->count);
	return snapshot_publish(&nat->statics, next, err);
}
