/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Changes while packets run: a copy of the members is changed, a configuration built, swapped in. */

enum op { OP_ADD, OP_DRAIN, OP_REMOVE, OP_WEIGHT, OP_HEALTH };

struct update {
	uint32_t op;
	uint64_t vip;
	struct param_ip address;
	uint64_t port, weight;
	struct param_mac mac;
	bool up;
};

static const char *const op_names[] = {"add", "drain", "remove", "weight", "health", NULL};

static const struct param update_params[] = {
	{.name = "op", .type = PARAM_ENUM, .required = true, .choices = op_names,
	 .offset = offsetof(struct update, op), .doc = "what to do with the backend"},
	{.name = "vip", .type = PARAM_UINT, .offset = offsetof(struct update, vip), .max = 65535,
	 .doc = "position of the VIP in the list `vips`"},
	{.name = "address", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct update, address), .doc = "address of the backend"},
	{.name = "port", .type = PARAM_UINT, .max = 65535, .offset = offsetof(struct update, port),
	 .doc = "port of the backend, as it was given"},
	{.name = "weight", .type = PARAM_UINT, .max = LB_WEIGHT_MAX, .def = "1",
	 .offset = offsetof(struct update, weight), .doc = "of add and weight"},
	{.name = "mac", .type = PARAM_MAC, .offset = offsetof(struct update, mac), .doc = "of add"},
	{.name = "up", .type = PARAM_BOOL, .offset = offsetof(struct update, up), .def = "true",
	 .doc = "of health"},
	{0},
};

static struct lb_member *find(struct lb_members *members, const struct update *u)
{
	for (unsigned int i = 0; i < members->count; i++) {
		struct lb_member *m = &members->list[i];

		if (m->vip == u->vip && m->params.port == u->port &&
		    !memcmp(&m->params.address, &u->address, sizeof(u->address)))
			return m;
	}
	return NULL;
}

static int add(struct lb_members *members, const struct update *u, struct err *err)
{
	struct lb_member *m = find(members, u);

	if (m && !m->removed && !m->draining)
		return err_set(err, EEXIST, "op.address", "is already a backend of vips[%u]",
			       (unsigned int)u->vip);
	if (!m && members->count == LB_BACKENDS_MAX)
		return err_set(err, ENOSPC, "op.address",
			       "%u backends were known so far; no more are allowed",
			       LB_BACKENDS_MAX);
	if (!m)
		m = &members->list[members->count++];
	*m = (struct lb_member){
		.params = {.address = u->address, .port = u->port, .weight = u->weight, .mac = u->mac},
		.vip = (uint16_t)u->vip};
	return 0;
}

static int change(struct lb_members *members, const struct update *u, struct err *err)
{
	struct lb_member *m = find(members, u);

	if (!m || m->removed)
		return err_set(err, ENOENT, "op.address", "no such backend and port of vips[%u]",
			       (unsigned int)u->vip);
	switch (u->op) {
	case OP_DRAIN:
		m->draining = true;
		break;
	case OP_REMOVE:
		m->removed = true;
		break;
	case OP_WEIGHT:
		m->params.weight = u->weight;
		break;
	case OP_HEALTH:
		m->down = !u->up;
		break;
	}
	return 0;
}

static int apply(struct lb_members *members, const struct lb_params *p, const struct update *u,
		 struct err *err)
{
	if (u->vip >= p->vips.count)
		return err_set(err, EINVAL, "op.vip", "%u: there are vips[0] to vips[%zu]",
			       (unsigned int)u->vip, p->vips.count - 1);
	return u->op == OP_ADD ? add(members, u, err) : change(members, u, err);
}

/* How many entries of the Maglev tables changed: what an update costs flows not yet known. */
static json_t *describe(const struct lb_config *old, const struct lb_config *now, unsigned int vip)
{
	const uint16_t *a = old->maglev + (size_t)vip * old->m;
	const uint16_t *b = now->maglev + (size_t)vip * now->m;
	uint32_t changed = 0;

	for (uint32_t i = 0; i < now->m; i++)
		changed += a[i] != b[i];
	return json_pack("{s:I, s:I}", "entries_changed", (json_int_t)changed, "table_size",
			 (json_int_t)now->m);
}

static int copy_members(struct lb_members *copy, const struct lb_members *from, struct err *err)
{
	copy->count = from->count;
	copy->list = malloc((from->count + 1) * sizeof(*copy->list));
	if (!copy->list)
		return err_set(err, ENOMEM, "", "out of memory");
	memcpy(copy->list, from->list, from->count * sizeof(*copy->list));
	return 0;
}

int lb_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct lb *lb = nf->state;
	struct update u = {0};
	struct lb_members next;
	struct lb_config *config = NULL;
	json_t *report = NULL;
	int rc = param_parse(update_params, op, "op", &u, err);

	if (!rc)
		rc = copy_members(&next, &lb->members, err);
	if (rc)
		return rc;
	rc = apply(&next, nf->conf, &u, err);
	if (!rc)
		rc = lb_config_build(nf->conf, &next, &config, err);
	if (!rc) {
		report = describe(snapshot_get(&lb->config), config, (unsigned int)u.vip);
		rc = snapshot_publish(&lb->config, config, err);
	}
	if (rc) {
		json_decref(report);
		free(next.list);
		return rc;
	}
	free(lb->members.list);
	lb->members = next;
	if (reply)
		*reply = report;
	else
		json_decref(report);
	return 0;
}
