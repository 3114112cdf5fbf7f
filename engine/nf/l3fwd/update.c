/* SPDX-License-Identifier: Apache-2.0 */
#include "l3fwd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A batch of changes while packets run: each is undone, last first, when a later one fails. */

enum op { OP_ADD, OP_DEL, OP_REPLACE };

struct change {
	uint32_t op;
	struct param_ip prefix;
	uint64_t next_hop;
};

struct update {
	struct param_list routes;
};

/* What brings a changed prefix back to what it was. */
struct undo {
	struct fib *fib;
	struct fib_route route;
	bool existed, exists;
	uint16_t old;
};

static const char *const op_names[] = {"add", "del", "replace", NULL};

static const struct param change_params[] = {
	{.name = "op", .type = PARAM_ENUM, .required = true, .choices = op_names,
	 .offset = offsetof(struct change, op),
	 .doc = "add: it must not exist; del: it must; replace: either"},
	{.name = "prefix", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct change, prefix), .doc = "the route's prefix"},
	{.name = "next_hop", .type = PARAM_UINT, .max = FIB_NEXT_HOP_MAX,
	 .offset = offsetof(struct change, next_hop), .doc = "index in `next_hops`"},
	{0},
};

static const struct param update_params[] = {
	{.name = "routes", .type = PARAM_OBJECT, .list = true, .required = true,
	 .fields = change_params, .fields_size = sizeof(struct change),
	 .offset = offsetof(struct update, routes), .doc = "the changes, made in this order"},
	{0},
};

int l3fwd_check_length(const struct fib *f, const struct fib_route *route, const char *path,
		       struct err *err)
{
	if (f->conf.kind == FIB_LPM || route->len == fib_key_bits(f->conf.key))
		return 0;
	return err_set(err, EINVAL, path,
		       "a prefix of length %u; fib \"exact\" takes addresses only", route->len);
}

static int change_one(struct fib *f, const struct change *c, struct undo *u)
{
	const struct fib_route *r = &u->route;

	u->exists = c->op != OP_DEL;
	if (c->op == OP_DEL)
		return fib_remove(f, r->key, r->len, NULL);
	if (c->op == OP_REPLACE && u->existed)
		return fib_update(f, r->key, r->len, (uint16_t)c->next_hop);
	return fib_insert(f, r->key, r->len, (uint16_t)c->next_hop);
}

static int apply_one(struct l3fwd *l3, const struct change *c, const char *path, struct undo *u,
		     struct err *err)
{
	struct fib *f = l3->fibs[c->prefix.family == 4 ? L3_IPV4 : L3_IPV6];
	int rc;

	if (!f)
		return err_set(err, EINVAL, path,
			       "there is no IPv%u table; give params.ipv%u_capacity or a route",
			       c->prefix.family, c->prefix.family);
	if (c->op != OP_DEL && c->next_hop >= l3->n_next_hops)
		return err_set(err, EINVAL, path, "next hop %u; next_hops has %u, counted from 0",
			       (unsigned int)c->next_hop, l3->n_next_hops);
	rc = l3fwd_route(&c->prefix, path, &u->route, err);
	if (!rc)
		rc = l3fwd_check_length(f, &u->route, path, err);
	if (rc)
		return rc;
	u->fib = f;
	u->existed = fib_get(f, u->route.key, u->route.len, &u->old) == 0;
	rc = change_one(f, c, u);
	return rc ? err_set(err, -rc, path, "%s", fib_strerror(rc)) : 0;
}

/* Cannot fail: the room that a removed route took is there again. */
static void undo_one(const struct undo *u)
{
	const struct fib_route *r = &u->route;

	if (u->existed && u->exists)
		fib_update(u->fib, r->key, r->len, u->old);
	else if (u->existed)
		fib_insert(u->fib, r->key, r->len, u->old);
	else if (u->exists)
		fib_remove(u->fib, r->key, r->len, NULL);
}

static int apply(struct l3fwd *l3, const struct update *u, struct err *err)
{
	const struct change *changes = u->routes.items;
	struct undo *undo = calloc(u->routes.count + 1, sizeof(*undo));
	size_t done = 0;
	int rc = undo ? 0 : err_set(err, ENOMEM, "op.routes", "out of memory");

	while (!rc && done < u->routes.count) {
		char path[64];

		snprintf(path, sizeof(path), "op.routes[%zu]", done);
		rc = apply_one(l3, &changes[done], path, &undo[done], err);
		done += !rc;
	}
	while (rc && done)
		undo_one(&undo[--done]);
	free(undo);
	return rc;
}

int l3fwd_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct l3fwd *l3 = nf->state;
	struct update u = {0};
	int rc = param_parse(update_params, op, "op", &u, err);

	if (rc)
		return rc;
	rc = apply(l3, &u, err);
	if (!rc && reply)
		*reply = json_pack("{s:I, s:I, s:I}", "changed", (json_int_t)u.routes.count,
				   "ipv4_routes",
				   l3->fibs[L3_IPV4] ? (json_int_t)fib_count(l3->fibs[L3_IPV4]) : 0,
				   "ipv6_routes",
				   l3->fibs[L3_IPV6] ? (json_int_t)fib_count(l3->fibs[L3_IPV6]) : 0);
	param_free(update_params, &u);
	return rc;
}
