/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's segments: inputs, nodes and the edges between them, resolved and checked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_priv.h"

#define NODES_MAX 256
#define PORT_MAX (NF_EDGES_MAX - 1)
#define PORT_NONE (PORT_MAX + 1)

struct input_conf {
	char *link, *to;
	uint32_t direction;
	uint64_t port;
};

struct parallel_conf {
	struct param_list nodes, cpus;
};

struct segment_conf {
	char *name;
	struct param_list cpus;
	uint64_t burst;
	uint64_t fastpath;
	uint64_t elastic;
	uint32_t steer;
	struct param_list inputs;
	struct parallel_conf parallel;
};

static const char *const direction_names[] = {"forward", "reverse", NULL};
static const char *const steer_names[] = {"hash", "even", NULL};

static const struct param input_params[] = {
	{.name = "link", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct input_conf, link), .doc = "name of the link to read"},
	{.name = "to", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct input_conf, to), .doc = "first node, link:NAME or drop"},
	{.name = "direction", .type = PARAM_ENUM, .choices = direction_names,
	 .offset = offsetof(struct input_conf, direction), .def = "\"forward\"",
	 .doc = "which way its packets go through the chain"},
	{.name = "port", .type = PARAM_UINT, .max = PORT_NONE, .def = "64",
	 .offset = offsetof(struct input_conf, port),
	 .doc = "for a bridge: which of its ports the link is; 64: none"},
	{0},
};

static const struct param parallel_params[] = {
	{.name = "nodes", .type = PARAM_STRING, .list = true,
	 .offset = offsetof(struct parallel_conf, nodes),
	 .doc = "functions of this segment that follow each other, in the chain's order"},
	{.name = "cpus", .type = PARAM_UINT, .list = true, .max = PLAN_CPU_MAX,
	 .offset = offsetof(struct parallel_conf, cpus),
	 .doc = "for each function but the first, which is the replica's own, a CPU for each replica"},
	{0},
};

const struct param plan_segment_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct segment_conf, name), .doc = "name of the segment"},
	{.name = "cpus", .type = PARAM_UINT, .list = true, .required = true, .max = PLAN_CPU_MAX,
	 .offset = offsetof(struct segment_conf, cpus), .doc = "one replica on each of these CPUs"},
	{.name = "burst", .type = PARAM_UINT, .min = 1, .max = BURST_MAX, .def = "32",
	 .offset = offsetof(struct segment_conf, burst), .unit = "packets",
	 .doc = "most packets taken at one poll"},
	{.name = "fastpath", .type = PARAM_UINT, .max = 1 << 24, .def = "0",
	 .offset = offsetof(struct segment_conf, fastpath), .unit = "flows",
	 .doc = "size of each replica's cache of flows whose way through neighbouring functions is known, "
		"64 bytes and 48 a flow, made a power of two; 0: every packet goes through every function"},
	{.name = "elastic", .type = PARAM_UINT, .max = ELASTIC_REPLICAS_MAX, .def = "0",
	 .offset = offsetof(struct segment_conf, elastic), .unit = "replicas",
	 .doc = "most replicas that it may have: then a plan that a running engine takes may have more or "
		"fewer CPUs than before, and flows go to others with what is kept of them; 0: as many as it "
		"begins with"},
	{.name = "steer", .type = PARAM_ENUM, .choices = steer_names, .def = "\"hash\"",
	 .offset = offsetof(struct segment_conf, steer),
	 .doc = "how flows are spread over the replicas: by symmetric hash, or each new one to the "
		"next replica in turn"},
	{.name = "inputs", .type = PARAM_OBJECT, .list = true, .required = true,
	 .fields = input_params, .fields_size = sizeof(struct input_conf),
	 .offset = offsetof(struct segment_conf, inputs), .doc = "links it reads"},
	{.name = "parallel", .type = PARAM_OBJECT, .fields = parallel_params,
	 .fields_size = sizeof(struct parallel_conf), .offset = offsetof(struct segment_conf, parallel),
	 .doc = "neighbouring functions that work on each packet at the same time, on CPUs of their own; "
		"what comes out is as in sequence"},
	{0},
};

static int link_index(const struct plan *p, const char *name)
{
	for (unsigned int i = 0; i < p->n_links; i++)
		if (!strcmp(p->links[i].name, name))
			return i;
	return -1;
}

static int node_index(const struct plan *p, const struct plan_segment *s, const char *name)
{
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (!strcmp(p->nfs[s->nodes[i].nf].name, name))
			return i;
	return -1;
}

static int resolve_target(const struct plan *p, const struct plan_segment *s, const char *text,
			  const char *path, struct target *t, struct err *err)
{
	int i;

	if (!strcmp(text, "drop")) {
		*t = (struct target){.kind = TO_DROP};
		return 0;
	}
	if (!strncmp(text, "link:", 5)) {
		i = link_index(p, text + 5);
		if (i < 0)
			return err_set(err, EINVAL, path, "there is no link \"%.40s\"", text + 5);
		if (!p->links[i].ops->writes)
			return err_set(err, EINVAL, path, "a %s link (\"%s\") cannot be written to",
				       p->links[i].ops->name, p->links[i].name);
		*t = (struct target){.kind = TO_LINK, .index = i};
		return 0;
	}
	i = node_index(p, s, text);
	if (i < 0)
		return err_set(err, EINVAL, path,
			       "\"%.40s\" is no node of this segment; allowed: one of its nodes, "
			       "link:NAME or drop",
			       text);
	*t = (struct target){.kind = TO_NODE, .index = i};
	return 0;
}

static int parse_edges(const struct plan *p, const struct plan_segment *s, struct plan_node *n,
		       enum nf_direction d, const json_t *obj, const char *path, struct err *err)
{
	const struct nf_ops *ops = p->nfs[n->nf].ops;
	bool given[NF_EDGES_MAX] = {0};
	char sub[192];
	const char *key;
	json_t *v;
	int edge, rc;

	if (!json_is_object(obj))
		return err_set(err, EINVAL, path, "must be an object: edge -> target");
	json_object_foreach((json_t *)obj, key, v) {
		snprintf(sub, sizeof(sub), "%.150s.%.32s", path, key);
		edge = nf_edge_find(ops, key);
		if (edge < 0)
			return err_set(err, EINVAL, sub, "function %s has no such edge; its first is \"%s\"",
				       ops->name, nf_edge_name(ops, 0));
		if (!json_is_string(v))
			return err_set(err, EINVAL, sub, "a target must be a string");
		rc = resolve_target(p, s, json_string_value(v), sub, &n->next[d][edge], err);
		if (rc)
			return rc;
		given[edge] = true;
	}
	if (!given[0])
		return err_set(err, EINVAL, path, "edge \"%s\" needs a target",
			       nf_edge_name(ops, 0));
	for (unsigned int e = 1; e < n->n_edges; e++)
		if (!given[e])
			n->next[d][e] = n->next[d][0];
	return 0;
}

static int parse_node_edges(const struct plan *p, const struct plan_segment *s,
			    struct plan_node *n, const json_t *obj, const char *path,
			    struct err *err)
{
	const json_t *rev;
	char sub[192];
	const char *key;
	json_t *v;
	int rc;

	if (!json_is_object(obj))
		return err_set(err, EINVAL, path, "must be an object with forward and reverse");
	json_object_foreach((json_t *)obj, key, v) {
		if (strcmp(key, "forward") && strcmp(key, "reverse"))
			return err_set(err, EINVAL, path,
				       "unknown key \"%.40s\"; allowed: forward, reverse", key);
	}
	snprintf(sub, sizeof(sub), "%.170s.forward", path);
	rc = parse_edges(p, s, n, NF_FORWARD, json_object_get(obj, "forward"), sub, err);
	if (rc)
		return rc;
	rev = json_object_get(obj, "reverse");
	if (!rev) {
		memcpy(n->next[NF_REVERSE], n->next[NF_FORWARD], sizeof(n->next[0]));
		return 0;
	}
	snprintf(sub, sizeof(sub), "%.170s.reverse", path);
	return parse_edges(p, s, n, NF_REVERSE, rev, sub, err);
}

/* The keys of `nodes` become the segment's nodes, so that edges can name them. */
static int list_nodes(struct plan *p, unsigned int si, const json_t *nodes, const char *path,
		      struct err *err)
{
	struct plan_segment *s = &p->segments[si];
	const char *key;
	json_t *v;

	s->nodes = calloc(json_object_size(nodes) + 1, sizeof(*s->nodes));
	if (!s->nodes)
		return err_set(err, ENOMEM, path, "out of memory");
	json_object_foreach((json_t *)nodes, key, v) {
		unsigned int i = 0;

		while (i < p->n_nfs && strcmp(p->nfs[i].name, key))
			i++;
		if (i == p->n_nfs)
			return err_set(err, EINVAL, path, "\"%.40s\" is not in nfs", key);
		if (p->nfs[i].segment >= 0)
			return err_set(err, EINVAL, path,
				       "function \"%s\" is in segment \"%s\" already; it can be in one only",
				       key, p->segments[p->nfs[i].segment].name);
		p->nfs[i].segment = si;
		s->nodes[s->n_nodes].nf = i;
		s->nodes[s->n_nodes++].n_edges = nf_edge_count(p->nfs[i].ops);
	}
	return 0;
}

/*
 * Each direction is checked apart: the two run opposite ways through the same nodes, and the
 * segment keeps an order for each.
 */
static int check_acyclic(const struct plan_segment *s, int d, const char *path, struct err *err)
{
	/* Longest path by relaxation: more rounds than nodes means a cycle. */
	unsigned int depth[NODES_MAX] = {0}, rounds;
	bool changed = true;

	if (s->n_nodes > NODES_MAX)
		return err_set(err, EINVAL, path, "%u nodes; at most %d are allowed", s->n_nodes,
			       NODES_MAX);
	for (rounds = 0; changed && rounds <= s->n_nodes; rounds++) {
		changed = false;
		for (unsigned int i = 0; i < s->n_nodes; i++)
			for (unsigned int e = 0; e < s->nodes[i].n_edges; e++) {
				const struct target *t = &s->nodes[i].next[d][e];

				if (t->kind == TO_NODE && depth[t->index] <= depth[i]) {
					depth[t->index] = depth[i] + 1;
					changed = true;
				}
			}
	}
	if (changed)
		return err_set(err, EINVAL, path, "its %s edges form a cycle", direction_names[d]);
	return 0;
}

static int input_port(const struct plan *p, const struct plan_segment *s,
		      const struct plan_input *in, const struct input_conf *c, const char *path,
		      struct err *err)
{
	const struct plan_nf *nf = in->to.kind == TO_NODE ? &p->nfs[s->nodes[in->to.index].nf] : NULL;

	if (c->port == PORT_NONE && nf && nf->ops->wants_port && !p->links[in->link].ops->marks_port)
		return err_set(err, EINVAL, path,
			       "\"port\" is missing: function \"%.40s\" must know which of its ports, 0 "
			       "to %d, the link is", nf->name, PORT_MAX);
	return c->port == PORT_NONE ? -1 : (int)c->port;
}

static int parse_inputs(struct plan *p, struct plan_segment *s, const struct segment_conf *c,
			const char *path, struct err *err)
{
	const struct input_conf *in = c->inputs.items;
	char sub[192];
	int li, rc;

	if (!c->inputs.count)
		return err_set(err, EINVAL, path, "\"inputs\" is empty: a segment reads at least one link");
	s->inputs = calloc(c->inputs.count, sizeof(*s->inputs));
	if (!s->inputs)
		return err_set(err, ENOMEM, path, "out of memory");
	s->n_inputs = c->inputs.count;
	for (unsigned int i = 0; i < s->n_inputs; i++) {
		snprintf(sub, sizeof(sub), "%.150s.inputs[%u]", path, i);
		li = link_index(p, in[i].link);
		if (li < 0)
			return err_set(err, EINVAL, sub, "there is no link \"%.40s\"", in[i].link);
		if (!p->links[li].ops->reads)
			return err_set(err, EINVAL, sub, "a %s link (\"%s\") cannot be read",
				       p->links[li].ops->name, in[i].link);
		s->inputs[i].link = li;
		s->inputs[i].direction = in[i].direction;
		rc = resolve_target(p, s, in[i].to, sub, &s->inputs[i].to, err);
		if (rc)
			return rc;
		s->inputs[i].port = input_port(p, s, &s->inputs[i], &in[i], sub, err);
		if (s->inputs[i].port < -1)
			return s->inputs[i].port;
	}
	return 0;
}

static int parse_cpus(struct plan_segment *s, const struct segment_conf *c, const char *path,
		      struct err *err)
{
	const uint64_t *cpu = c->cpus.items;

	if (!c->cpus.count)
		return err_set(err, EINVAL, path, "\"cpus\" is empty: a segment needs at least one CPU");
	s->n_replicas = RTE_MAX((unsigned int)c->cpus.count, s->elastic);
	s->cpus = calloc(s->n_replicas, sizeof(*s->cpus));
	if (!s->cpus)
		return err_set(err, ENOMEM, path, "out of memory");
	s->n_cpus = s->n_all_cpus = c->cpus.count;
	for (unsigned int i = 0; i < s->n_cpus; i++)
		s->cpus[i] = cpu[i];
	return 0;
}

static int parse_segment_nodes(struct plan *p, unsigned int si, const json_t *nodes,
			       const char *path, struct err *err)
{
	struct plan_segment *s = &p->segments[si];
	char sub[192];
	int rc;

	if (nodes && !json_is_object(nodes))
		return err_set(err, EINVAL, path, "\"nodes\" must be an object");
	rc = list_nodes(p, si, nodes, path, err);
	for (unsigned int i = 0; i < s->n_nodes && !rc; i++) {
		const char *name = p->nfs[s->nodes[i].nf].name;

		snprintf(sub, sizeof(sub), "%.120s.nodes.%s", path, name);
		rc = parse_node_edges(p, s, &s->nodes[i], json_object_get(nodes, name), sub, err);
	}
	for (int d = 0; d < NF_DIRECTIONS && !rc; d++)
		rc = check_acyclic(s, d, path, err);
	return rc;
}

int plan_parse_segment(struct plan *p, unsigned int si, json_t *obj, struct err *err)
{
	struct plan_segment *s = &p->segments[si];
	struct segment_conf conf = {0};
	json_t *plain, *nodes;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "segments[%u]", si);
	if (!json_is_object(obj))
		return err_set(err, EINVAL, path, "must be an object");
	plain = json_copy(obj);
	nodes = json_object_get(obj, "nodes");
	json_object_del(plain, "nodes");
	rc = param_parse(plan_segment_params, plain, path, &conf, err);
	json_decref(plain);
	if (rc)
		return rc;
	s->name = json_string_value(json_object_get(obj, "name"));
	s->burst = conf.burst;
	s->fastpath = conf.fastpath;
	s->elastic = conf.elastic;
	s->steer = conf.steer;
	rc = plan_check_name(s->name, path, err);
	if (!rc)
		rc = parse_cpus(s, &conf, path, err);
	if (!rc)
		rc = parse_segment_nodes(p, si, nodes, path, err);
	if (!rc)
		rc = parse_inputs(p, s, &conf, path, err);
	if (!rc)
		rc = plan_parse_parallel(p, s, &conf.parallel.nodes, &conf.parallel.cpus, path, err);
	param_free(plan_segment_params, &conf);
	return rc;
}

