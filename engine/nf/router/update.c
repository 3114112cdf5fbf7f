/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "vnf.h"

enum op { OP_SHOW, OP_LOOKUP, OP_DOWN, OP_UP };

struct update {
	uint32_t op;
	char *vnf;
	struct param_ip address;
};

static const char *const op_names[] = {"show", "lookup", "down", "up", NULL};
static const struct param update_params[] = {
	{.name = "op", .type = PARAM_ENUM, .required = true, .choices = op_names,
	 .offset = offsetof(struct update, op),
	 .doc = "show: what has been learnt; lookup: where an address is forwarded to; down: a VNF's "
		"daemon has died, its routes are held; up: it is back, its kernel is read anew"},
	{.name = "vnf", .type = PARAM_STRING, .offset = offsetof(struct update, vnf),
	 .doc = "of lookup, down, up"},
	{.name = "address", .type = PARAM_IP, .offset = offsetof(struct update, address),
	 .doc = "of lookup"},
	{0},
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static json_t *show_vnf(const struct vnf *v)
{
	return json_pack(
		"{s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", v->name,
		"up", v->up, "held", v->sweep_at_ns != 0, "ipv4_routes", (json_int_t)v->routes[0],
		"ipv6_routes", (json_int_t)v->routes[1], "next_hops", (json_int_t)v->n_users,
		"neighbours", (json_int_t)v->n_neighbours, "sessions", (json_int_t)v->sessions,
		"updates", (json_int_t)v->updates, "ignored", (json_int_t)v->ignored, "no_room",
		(json_int_t)v->no_room, "swept", (json_int_t)v->swept, "last_update_ns",
		(json_int_t)v->last_update_ns);
}

static json_t *show(const struct router *r)
{
	json_t *vnfs = json_array();

	for (unsigned int i = 0; i < r->n_vnfs; i++)
		json_array_append_new(vnfs, show_vnf(&r->vnfs[i]));
	return json_pack("{s:o, s:I, s:I}", "vnfs", vnfs, "nodes", (json_int_t)mtrie_nodes(r->trie),
			 "next_hops", (json_int_t)(r->hops_made - r->n_free_hops));
}

static json_t *show_hop(const struct router *r, uint16_t number)
{
	static const char *const kinds[] = {[HOP_PUNT] = "punt", [HOP_FORWARD] = "forward",
					    [HOP_LOCAL] = "vnf", [HOP_BLACKHOLE] = "blackhole",
					    [HOP_GROUP] = "multipath",
					    [HOP_NO_ROUTE] = "no-route"};
	const struct router_hop *hop;
	uint8_t m[12];
	char mac[18];
	json_t *out;

	hop = atomic_load(&r->hops[number]);
	out = json_pack("{s:s}", "does", kinds[hop->kind]);
	if (hop->kind != HOP_FORWARD && hop->kind != HOP_LOCAL)
		return out;
	memcpy(m, &hop->macs_low, 8);
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	json_object_set_new(out, "mac", json_string(mac));
	json_object_set_new(out, "port", json_integer(hop->edge));
	return out;
}

static json_t *lookup(const struct router *r, const struct vnf *v, const struct param_ip *address)
{
	const uint8_t *key = address->addr;
	bool ipv6 = address->family == 6;
	uint32_t root = router_root(v->index, ipv6);
	uint16_t hop;

	mtrie_lookup(r->trie, &root, &key, ipv6 ? 16 : 4, &hop, 1);
	return show_hop(r, hop);
}

static struct vnf *find_vnf(const struct router *r, const char *name)
{
	for (unsigned int i = 0; name && i < r->n_vnfs; i++)
		if (!strcmp(r->vnfs[i].name, name))
			return &r->vnfs[i];
	return NULL;
}

static int apply(struct router *r, const struct update *u, json_t **reply, struct err *err)
{
	struct vnf *v = find_vnf(r, u->vnf);

	if (u->op == OP_SHOW) {
		*reply = show(r);
		return 0;
	}
	if (!v)
		return err_set(err, EINVAL, "op.vnf", "there is no VNF \"%.40s\"", u->vnf ? u->vnf : "");
	if (u->op == OP_LOOKUP && !u->address.family)
		return err_set(err, EINVAL, "op.address", "is missing");
	if (u->op == OP_LOOKUP) {
		*reply = lookup(r, v, &u->address);
		return 0;
	}
	v->down = u->op == OP_DOWN;
	if (v->down)
		vnf_session_end(v, now_ns());
	else
		v->read_again = true;
	return 0;
}

int router_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct router *r = nf->state;
	struct update u = {0};
	int rc = param_parse(update_params, op, "op", &u, err);

	if (rc)
		return rc;
	router_lock(r);
	rc = apply(r, &u, reply, err);
	pthread_mutex_unlock(&r->lock);
	param_free(update_params, &u);
	return rc;
}
