/* SPDX-License-Identifier: Apache-2.0 */
#include "core/nf.h"

#include <string.h>

enum null_action {
	NULL_PASS,
	NULL_DROP,
};

struct null_conf {
	uint32_t action;
};

static const char *const null_actions[] = {"pass", "drop", NULL};
static const char *const null_drops[] = {"null", NULL};

static const struct param null_params[] = {
	{.name = "action", .type = PARAM_ENUM, .choices = null_actions, .def = "\"pass\"",
	 .offset = offsetof(struct null_conf, action),
	 .doc = "pass: every packet goes on untouched; drop: none does."},
	{0},
};

static void null_process(struct nf_worker *w, struct burst *b)
{
	const struct null_conf *conf = w->nf->conf;

	if (conf->action == NULL_DROP)
		memset(b->verdict, NF_DROP(0), b->n);
}

static const struct nf_ops nf_null_ops = {
	.name = "null",
	.doc = "Passes every packet on, or drops it, without looking at it. It is the cost of a function "
	       "that does nothing, and a place to end a chain.",
	.standards = "None: there is nothing to conform to.",
	.params = null_params,
	.conf_size = sizeof(struct null_conf),
	.drops = null_drops,
	.policy_drops = 1u << 0,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATELESS,
	.elastic = true,
	.process = null_process,
};
NF_REGISTER(nf_null_ops)
