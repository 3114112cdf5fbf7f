/* SPDX-License-Identifier: Apache-2.0 */
/* --describe: what this engine understands, as JSON Schema and declarations. */
#include <rte_version.h>

#include "plan.h"

static const char *const category_names[] = {"leaf", "network-oriented", "host-oriented",
					     "general"};
static const char *const state_names[] = {"stateless", "flow", "src", "dst", "global"};

static json_t *names(const char *const *list)
{
	json_t *a = json_array();

	for (; list && *list; list++)
		json_array_append_new(a, json_string(*list));
	return a;
}

static json_t *fields(uint32_t bits)
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < NF_FIELDS; i++)
		if (bits & 1u << i)
			json_array_append_new(a, json_string(nf_field_names[i]));
	return a;
}

static json_t *edges(const struct nf_ops *ops)
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < nf_edge_count(ops); i++)
		json_array_append_new(a, json_string(nf_edge_name(ops, i)));
	return a;
}

static json_t *policy_drops(const struct nf_ops *ops)
{
	json_t *a = json_array();

	for (unsigned int i = 0; ops->drops && ops->drops[i]; i++)
		if (ops->policy_drops & 1u << i)
			json_array_append_new(a, json_string(ops->drops[i]));
	return a;
}

static json_t *describe_nf(const struct nf_ops *o)
{
	json_t *j = json_object();

	json_object_set_new(j, "doc", json_string(o->doc ? o->doc : ""));
	json_object_set_new(j, "standards", json_string(o->standards ? o->standards : ""));
	json_object_set_new(j, "category", json_string(category_names[o->category]));
	json_object_set_new(j, "reads", fields(o->reads));
	json_object_set_new(j, "writes", fields(o->writes));
	json_object_set_new(j, "may_drop", json_boolean(o->may_drop));
	json_object_set_new(j, "changes_volume", json_boolean(o->changes_volume));
	json_object_set_new(j, "state_key", json_string(state_names[o->state_key]));
	json_object_set_new(j, "edges", edges(o));
	json_object_set_new(j, "drops", names(o->drops));
	json_object_set_new(j, "policy_drops", policy_drops(o));
	json_object_set_new(j, "counters", names(o->counters));
	json_object_set_new(j, "updates", json_boolean(o->update != NULL));
	json_object_set_new(j, "offloads", json_boolean(o->flow_action && !o->flow_account));
	json_object_set_new(j, "keeps", json_boolean(o->keeps || o->state_key == NF_STATELESS));
	json_object_set_new(j, "params", param_schema(o->params));
	return j;
}

static json_t *describe_link(const struct link_ops *o)
{
	return json_pack("{s:s, s:b, s:b, s:o}", "doc", o->doc ? o->doc : "", "reads", o->reads,
			 "writes", o->writes, "params", param_schema(o->params));
}

/* {type: T, params: schema of T}, one alternative per type. */
static json_t *typed(const char *type, json_t *params)
{
	return json_pack("{s:s, s:b, s:[s], s:{s:{s:s}, s:o}}", "type", "object",
			 "additionalProperties", 0, "required", "type", "properties", "type",
			 "const", type, "params", params);
}

static json_t *map_of(json_t *alternatives)
{
	return json_pack("{s:s, s:{s:o}}", "type", "object", "additionalProperties", "oneOf",
			 alternatives);
}

static json_t *segment_schema(void)
{
	json_t *s = param_schema(plan_segment_params);
	json_t *edge_map = json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties",
				     "type", "string");
	json_t *node = json_pack("{s:s, s:b, s:[s], s:{s:o, s:O}}", "type", "object",
				 "additionalProperties", 0, "required", "forward", "properties",
				 "forward", edge_map, "reverse", edge_map);

	json_object_set_new(json_object_get(s, "properties"), "nodes",
			    json_pack("{s:s, s:s, s:o}", "type", "object", "description",
				      "function -> direction -> edge -> function, link:NAME or drop",
				      "additionalProperties", node));
	return s;
}

static json_t *plan_schema(void)
{
	json_t *links = json_array(), *nfs = json_array();

	for (unsigned int i = 0; link_at(i); i++)
		json_array_append_new(links,
				      typed(link_at(i)->name, param_schema(link_at(i)->params)));
	for (unsigned int i = 0; nf_at(i); i++)
		json_array_append_new(nfs, typed(nf_at(i)->name, param_schema(nf_at(i)->params)));
	return json_pack("{s:s, s:s, s:b, s:[s,s], s:{s:{s:i}, s:o, s:{s:s, s:{s:s}}, s:o, s:o, "
			 "s:{s:s, s:i, s:o}}}",
			 "$schema", "https://json-schema.org/draft/2020-12/schema", "type", "object",
			 "additionalProperties", 0, "required", "links", "segments", "properties",
			 "version", "const", 1, "engine", param_schema(plan_engine_params),
			 "functions", "type", "array", "items", "type", "string", "links",
			 map_of(links), "nfs", map_of(nfs), "segments", "type", "array", "minItems",
			 1, "items", segment_schema());
}

json_t *describe(void)
{
	json_t *links = json_object(), *nfs = json_object();

	for (unsigned int i = 0; link_at(i); i++)
		json_object_set_new(links, link_at(i)->name, describe_link(link_at(i)));
	for (unsigned int i = 0; nf_at(i); i++)
		json_object_set_new(nfs, nf_at(i)->name, describe_nf(nf_at(i)));
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "headrace", HEADRACE_VERSION, "dpdk",
			 rte_version(), "plan", plan_schema(), "links", links, "nfs", nfs);
}
