/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked of a running engine (docs/design/contracts.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "core/setup/elastic_move.h"

typedef int (*command_fn)(struct engine *e, const json_t *req, json_t **reply, struct err *err);

static int cmd_info(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	(void)req;
	(void)err;
	*reply = stats_info(e);
	return 0;
}

static int cmd_start(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	return trial_start(e, json_object_get(req, "sources"), reply, err);
}

static int cmd_stop(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	(void)req;
	(void)reply;
	(void)err;
	trial_stop(e);
	return 0;
}

int command_link(struct engine *e, const json_t *req, struct link **out, struct err *err)
{
	const char *name = json_string_value(json_object_get(req, "link"));

	if (!name)
		return err_set(err, EINVAL, "link", "is missing");
	for (unsigned int i = 0; i < e->n_links; i++)
		if (!strcmp(e->links[i].name, name)) {
			*out = &e->links[i];
			return 0;
		}
	return err_set(err, EINVAL, "link", "there is no link \"%.40s\"", name);
}

static int cmd_set(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	const json_t *rate = json_object_get(req, "rate_pps");
	struct link *l = NULL;
	int rc = command_link(e, req, &l, err);

	(void)reply;
	if (rc)
		return rc;
	if (!l->ops->sends)
		return err_set(err, EINVAL, "link", "\"%s\" is a %s, which makes no packets", l->name,
			       l->ops->name);
	if (!json_is_number(rate) || json_number_value(rate) <= 0)
		return err_set(err, EINVAL, "rate_pps", "must be a number above 0");
	l->ops->sends->set_rate(l, json_number_value(rate));
	return 0;
}

static int cmd_read(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	(void)req;
	(void)err;
	*reply = stats_read(e);
	return 0;
}

/* `since`, `until`: TSC; all by default. */
static int cmd_slices(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	static const char *const names[] = {"since", "until", "most"};
	uint64_t given[] = {0, UINT64_MAX, SLICES};

	for (unsigned int i = 0; i < RTE_DIM(names); i++) {
		const json_t *v = json_object_get(req, names[i]);

		if (v && (!json_is_integer(v) || json_integer_value(v) < 0))
			return err_set(err, EINVAL, names[i], "must be a whole number, 0 or more");
		if (v)
			given[i] = (uint64_t)json_integer_value(v);
	}
	if (given[2] < 1 || given[2] > SLICES)
		return err_set(err, EINVAL, "most", "must be 1 to %d", SLICES);
	*reply = stats_slices(e, given[0], given[1], (unsigned int)given[2]);
	return *reply ? 0 : err_set(err, ENOMEM, "slices", "out of memory");
}

static int cmd_flows(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	const json_t *top = json_object_get(req, "top");
	struct link *l = NULL;
	int rc = command_link(e, req, &l, err);

	if (rc)
		return rc;
	if (!l->ops->measures)
		return err_set(err, EINVAL, "link", "\"%s\" is a %s, which measures nothing", l->name,
			       l->ops->name);
	if (top && (!json_is_integer(top) || json_integer_value(top) < 1))
		return err_set(err, EINVAL, "top", "must be a whole number above 0");
	*reply = json_pack("{s:b, s:o}", "ok", 1, "flows",
			   l->ops->measures->flows(l, top ? json_integer_value(top) : 10));
	return 0;
}

static int cmd_update(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	const char *name = json_string_value(json_object_get(req, "nf"));
	const json_t *op = json_object_get(req, "op");
	json_t *answer = NULL;
	int rc;

	if (!name)
		return err_set(err, EINVAL, "nf", "is missing");
	if (!json_is_object(op))
		return err_set(err, EINVAL, "op", "must be an object");
	for (unsigned int i = 0; i < e->n_nfs; i++) {
		struct nf *nf = &e->nfs[i];

		if (strcmp(nf->name, name))
			continue;
		if (!nf->ops->update)
			return err_set(err, ENOTSUP, "nf", "a %s has nothing to update",
				       nf->ops->name);
		rc = nf_update(nf, op, &answer, err);
		for (unsigned int l = 0; l < e->n_links; l++)
			if (e->links[l].ops->tables_changed)
				e->links[l].ops->tables_changed(&e->links[l]);
		if (!rc)
			*reply = json_pack("{s:b, s:o*}", "ok", 1, "reply", answer);
		else
			json_decref(answer);
		return rc;
	}
	return err_set(err, EINVAL, "nf", "there is no function \"%.40s\"", name);
}

static int cmd_plan(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	json_t *plan = json_object_get(req, "plan");
	unsigned int within_ms;
	int rc = elastic_within(req, &within_ms, err);

	if (rc)
		return rc;
	if (!json_is_object(plan))
		return err_set(err, EINVAL, "plan", "must be an object: a whole plan");
	return engine_replan(e, plan, within_ms, reply, err);
}

/* 0: none for now. A plan without `locate` has nothing to count them in. */
static int cmd_locate(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	const json_t *every = json_object_get(req, "every");

	(void)reply;
	if (!e->plan->engine.locate.every)
		return err_set(err, ENOTSUP, "locate", "the plan's engine.locate is off");
	if (!json_is_integer(every) || json_integer_value(every) < 0 ||
	    json_integer_value(every) > LOCATE_EVERY_MAX)
		return err_set(err, EINVAL, "every", "must be a whole number, 0 to %d",
			       LOCATE_EVERY_MAX);
	atomic_store(&e->locate_every, (uint64_t)json_integer_value(every));
	return 0;
}

static int cmd_prometheus(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	char *text = stats_prometheus(e);

	(void)req;
	if (!text)
		return err_set(err, ENOMEM, "prometheus", "out of memory");
	*reply = json_pack("{s:b, s:s}", "ok", 1, "text", text);
	free(text);
	return 0;
}

static const struct {
	const char *name;
	command_fn fn;
} commands[] = {
	{"info", cmd_info},	{"start", cmd_start}, {"stop", cmd_stop},
	{"set", cmd_set},	{"read", cmd_read},   {"flows", cmd_flows},
	{"update", cmd_update}, {"plan", cmd_plan},   {"locate", cmd_locate},
	{"prometheus", cmd_prometheus}, {"slices", cmd_slices},
	{"move", elastic_cmd_move}, {"buckets", elastic_cmd_buckets},
	{"hold", handover_cmd_hold}, {"release", handover_cmd_release},
};

int command_run(struct engine *e, const json_t *req, json_t **reply, bool *quit, struct err *err)
{
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	char allowed[200];
	size_t used = 0;

	if (!cmd)
		return err_set(err, EINVAL, "cmd", "is missing");
	if (!strcmp(cmd, "leave")) {
		int rc = handover_cmd_leave(e, req, reply, err);

		*quit = !rc;
		return rc;
	}
	if (!strcmp(cmd, "quit")) {
		*quit = true;
		return 0;
	}
	for (unsigned int i = 0; i < RTE_DIM(commands); i++)
		if (!strcmp(commands[i].name, cmd))
			return commands[i].fn(e, req, reply, err);
	for (unsigned int i = 0; i < RTE_DIM(commands); i++)
		used += snprintf(allowed + used, sizeof(allowed) - used, "%s, ", commands[i].name);
	return err_set(err, EINVAL, "cmd", "\"%.40s\" is not known; allowed: %sleave, quit", cmd, allowed);
}
