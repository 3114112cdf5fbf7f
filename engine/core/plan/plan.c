/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/locate.h"
#include "core/object.h"

#define PLAN_VERSION 1
#define NAME_MAX_LEN 31

static const struct param plan_class_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true, .offset = offsetof(struct plan_class, name),
	 .doc = "where packets of this class were"},
	{.name = "below_cycles", .type = PARAM_UINT, .offset = offsetof(struct plan_class, below_cycles),
	 .max = LOCATE_DISTURBED, .unit = "cycles",
	 .doc = "timed loads of fewer cycles, and not of the class before, belong to it; the last class "
		"takes the rest"},
	{0},
};

static const struct param plan_locate_params[] = {
	{.name = "every", .type = PARAM_UINT, .offset = offsetof(struct plan_locate, every),
	 .max = LOCATE_EVERY_MAX, .unit = "packets",
	 .doc = "time the first header load of one packet in this many; 0: of none"},
	{.name = "classes", .type = PARAM_OBJECT, .list = true, .fields = plan_class_params,
	 .fields_size = sizeof(struct plan_class), .offset = offsetof(struct plan_locate, classes),
	 .doc = "classes of places by time, the nearest first, as `headrace server calibrate` finds them"},
	{0},
};

static const char *const wait_modes[] = {"poll", "adaptive", "interrupt", NULL};

static const struct param plan_wait_params[] = {
	{.name = "mode", .type = PARAM_ENUM, .choices = wait_modes, .def = "\"poll\"",
	 .offset = offsetof(struct plan_wait, mode),
	 .doc = "poll: without end; adaptive: wait after `idle_polls` polls that found nothing; interrupt: "
		"wait whenever there is nothing"},
	{.name = "idle_polls", .type = PARAM_UINT, .min = 1, .max = 1000000000, .def = "1000",
	 .unit = "polls", .offset = offsetof(struct plan_wait, idle_polls), .doc = "of mode adaptive"},
	{.name = "sleep_us", .type = PARAM_UINT, .min = 1, .max = 1000000, .def = "50", .unit = "us",
	 .offset = offsetof(struct plan_wait, sleep_us),
	 .doc = "how long adaptive sleeps where some input can only be polled"},
	{0},
};

const struct param plan_engine_params[] = {
	{.name = "hugepages", .type = PARAM_BOOL, .offset = offsetof(struct plan_engine, hugepages),
	 .def = "true", .doc = "use hugepages; without them the engine runs on ordinary memory"},
	{.name = "memory_mb", .type = PARAM_UINT, .offset = offsetof(struct plan_engine, memory_mb),
	 .min = 64, .max = 1 << 20, .def = "512", .unit = "MiB", .doc = "memory for DPDK"},
	{.name = "file_prefix", .type = PARAM_STRING,
	 .offset = offsetof(struct plan_engine, file_prefix), .def = "\"headrace\"",
	 .doc = "names DPDK's run-time directory; distinct for engines that run side by side"},
	{.name = "simd_bits", .type = PARAM_UINT, .offset = offsetof(struct plan_engine, simd_bits),
	 .min = 64, .max = 512, .def = "512", .unit = "bits", .doc = "widest SIMD that DPDK may use"},
	{.name = "mbufs", .type = PARAM_UINT, .offset = offsetof(struct plan_engine, mbufs),
	 .min = 1024, .max = 1 << 26, .def = "65535", .unit = "packets", .doc = "packet buffers"},
	{.name = "mbufs_hot", .type = PARAM_UINT, .offset = offsetof(struct plan_engine, mbufs_hot),
	 .min = 0, .max = 1 << 26, .def = "0", .unit = "packets",
	 .doc = "of these, how many go round while queues are short, so that they stay in the last-level "
		"cache; 0: all"},
	{.name = "mbuf_data_bytes", .type = PARAM_UINT,
	 .offset = offsetof(struct plan_engine, mbuf_data_bytes), .min = 256, .max = 65407,
	 .def = "2048", .unit = "bytes", .doc = "room for packet data in each buffer"},
	{.name = "packets_node", .type = PARAM_UINT,
	 .offset = offsetof(struct plan_engine, packets_node), .max = POOL_ANY_NODE, .def = "1024",
	 .unit = "NUMA node", .doc = "where the packet buffers are; 1024: wherever the kernel gives them"},
	{.name = "pci", .type = PARAM_STRING, .list = true, .offset = offsetof(struct plan_engine, pci),
	 .doc = "PCI devices the engine may use; none unless named"},
	{.name = "spare_cpus", .type = PARAM_UINT, .list = true, .max = PLAN_CPU_MAX,
	 .offset = offsetof(struct plan_engine, spare_cpus),
	 .doc = "CPUs that have no segment yet, and may be given one by a later plan"},
	{.name = "locate", .type = PARAM_OBJECT, .fields = plan_locate_params,
	 .fields_size = sizeof(struct plan_locate), .offset = offsetof(struct plan_engine, locate),
	 .doc = "where packets were in the caches when a segment first touched them"},
	{.name = "wait", .type = PARAM_OBJECT, .fields = plan_wait_params,
	 .fields_size = sizeof(struct plan_wait), .offset = offsetof(struct plan_engine, wait),
	 .doc = "what workers do when no packets come: those that share a CPU must let go of it"},
	{0},
};

unsigned int str_list_len(const char *const *list)
{
	unsigned int n = 0;

	while (list && list[n])
		n++;
	return n;
}

unsigned int nf_edge_count(const struct nf_ops *ops)
{
	return ops->edges ? str_list_len(ops->edges) : 1;
}

const char *nf_edge_name(const struct nf_ops *ops, unsigned int edge)
{
	return ops->edges ? ops->edges[edge] : "out";
}

int nf_edge_find(const struct nf_ops *ops, const char *name)
{
	for (unsigned int i = 0; i < nf_edge_count(ops); i++)
		if (!strcmp(nf_edge_name(ops, i), name))
			return i;
	return -1;
}

int plan_check_name(const char *name, const char *path, struct err *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	size_t len = strlen(name);

	if (!len || len > NAME_MAX_LEN || strspn(name, allowed) != len)
		return err_set(err, EINVAL, path,
			       "\"%.40s\" is no name: 1 to %d letters, digits, '_', '.' or '-'", name,
			       NAME_MAX_LEN);
	return 0;
}

/* `{type: T, params: {...}}`: check the shape and return T. */
static int typed_object(const json_t *obj, const char *path, const char **type,
			const json_t **params, struct err *err)
{
	const char *key;
	json_t *v;

	if (!json_is_object(obj))
		return err_set(err, EINVAL, path, "must be an object with type and params");
	json_object_foreach((json_t *)obj, key, v) {
		if (strcmp(key, "type") && strcmp(key, "params"))
			return err_set(err, EINVAL, path,
				       "unknown key \"%.40s\"; allowed: type, params", key);
	}
	*type = json_string_value(json_object_get(obj, "type"));
	if (!*type)
		return err_set(err, EINVAL, path, "\"type\" is missing or no string");
	*params = json_object_get(obj, "params");
	return 0;
}

static int parse_conf(const struct param *table, size_t size, const json_t *params,
		      const char *path, void **conf, struct err *err)
{
	char sub[192];
	int rc;

	snprintf(sub, sizeof(sub), "%s.params", path);
	*conf = calloc(1, size ? size : 1);
	if (!*conf)
		return err_set(err, ENOMEM, sub, "out of memory");
	rc = param_parse(table, params, sub, *conf, err);
	if (rc) {
		free(*conf);
		*conf = NULL;
	}
	return rc;
}

static void list_types(char *buf, size_t size, bool links)
{
	const char *name;

	*buf = '\0';
	for (unsigned int i = 0;; i++) {
		if (links)
			name = link_at(i) ? link_at(i)->name : NULL;
		else
			name = nf_at(i) ? nf_at(i)->name : NULL;
		if (!name)
			return;
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? ", " : "", name);
	}
}

static int parse_link(const char *name, const json_t *obj, struct plan_link *l, struct err *err)
{
	char path[64], allowed[200];
	const char *type = NULL;
	const json_t *params = NULL;
	int rc;

	snprintf(path, sizeof(path), "links.%.40s", name);
	rc = plan_check_name(name, path, err);
	if (!rc)
		rc = typed_object(obj, path, &type, &params, err);
	if (rc)
		return rc;
	l->name = name;
	l->ops = link_find(type);
	if (!l->ops) {
		list_types(allowed, sizeof(allowed), true);
		return err_set(err, EINVAL, path, "link type \"%.40s\" is not known; allowed: %s",
			       type, allowed);
	}
	return parse_conf(l->ops->params, l->ops->conf_size, params, path, &l->conf, err);
}

static int parse_nf(const char *name, const json_t *obj, struct plan_nf *nf, struct err *err)
{
	char path[64], allowed[256];
	const char *type = NULL;
	const json_t *params = NULL;
	int rc;

	snprintf(path, sizeof(path), "nfs.%.40s", name);
	nf->segment = -1;
	rc = plan_check_name(name, path, err);
	if (!rc)
		rc = typed_object(obj, path, &type, &params, err);
	if (rc)
		return rc;
	nf->name = name;
	nf->ops = nf_find(type);
	if (!nf->ops) {
		list_types(allowed, sizeof(allowed), false);
		return err_set(err, EINVAL, path, "function \"%.40s\" is not known; allowed: %s",
			       type, allowed);
	}
	return parse_conf(nf->ops->params, nf->ops->conf_size, params, path, &nf->conf, err);
}

static int parse_links(struct plan *p, const json_t *obj, struct err *err)
{
	const char *key;
	json_t *v;
	int rc;

	if (!json_is_object(obj) || !json_object_size(obj))
		return err_set(err, EINVAL, "links", "must be an object of at least one link");
	p->links = calloc(json_object_size(obj), sizeof(*p->links));
	if (!p->links)
		return err_set(err, ENOMEM, "links", "out of memory");
	json_object_foreach((json_t *)obj, key, v) {
		rc = parse_link(key, v, &p->links[p->n_links++], err);
		if (rc)
			return rc;
	}
	return 0;
}

static int parse_nfs(struct plan *p, const json_t *obj, struct err *err)
{
	const char *key;
	json_t *v;
	int rc;

	if (!obj)
		return 0;
	if (!json_is_object(obj))
		return err_set(err, EINVAL, "nfs", "must be an object");
	p->nfs = calloc(json_object_size(obj) + 1, sizeof(*p->nfs));
	if (!p->nfs)
		return err_set(err, ENOMEM, "nfs", "out of memory");
	json_object_foreach((json_t *)obj, key, v) {
		rc = parse_nf(key, v, &p->nfs[p->n_nfs++], err);
		if (rc)
			return rc;
	}
	return 0;
}

static int parse_segments(struct plan *p, const json_t *list, struct err *err)
{
	int rc;

	if (!json_is_array(list) || !json_array_size(list))
		return err_set(err, EINVAL, "segments", "must be a list of at least one segment");
	p->segments = calloc(json_array_size(list), sizeof(*p->segments));
	if (!p->segments)
		return err_set(err, ENOMEM, "segments", "out of memory");
	for (unsigned int i = 0; i < json_array_size(list); i++) {
		p->n_segments = i + 1;
		rc = plan_parse_segment(p, i, json_array_get(list, i), err);
		if (rc)
			return rc;
		for (unsigned int j = 0; j < i; j++)
			if (!strcmp(p->segments[j].name, p->segments[i].name))
				return err_set(err, EINVAL, "segments",
					       "two segments are named \"%s\"", p->segments[i].name);
	}
	return 0;
}

/* A link is read by one segment (its replicas share the queues), or nobody knows whose packet it is. */
static int check_readers(const struct plan *p, struct err *err)
{
	for (unsigned int l = 0; l < p->n_links; l++) {
		int reader = -1;

		for (unsigned int s = 0; s < p->n_segments; s++)
			for (unsigned int i = 0; i < p->segments[s].n_inputs; i++) {
				if (p->segments[s].inputs[i].link != l)
					continue;
				if (reader >= 0)
					return err_set(err, EINVAL, "segments",
						       "link \"%s\" is read twice, by \"%s\" and \"%s\"",
						       p->links[l].name, p->segments[reader].name,
						       p->segments[s].name);
				reader = s;
			}
	}
	return 0;
}

static int check_top(const json_t *json, struct err *err)
{
	static const char *const keys[] = {"version", "engine", "functions", "links",
					  "nfs", "segments", NULL};
	const json_t *version = json_object_get(json, "version");
	const char *key;
	json_t *v;

	if (!json_is_object(json))
		return err_set(err, EINVAL, "plan", "must be a JSON object");
	json_object_foreach((json_t *)json, key, v) {
		unsigned int i = 0;

		while (keys[i] && strcmp(keys[i], key))
			i++;
		if (!keys[i])
			return err_set(err, EINVAL, "plan",
				       "unknown key \"%.40s\"; allowed: version, engine, functions, "
				       "links, nfs, segments",
				       key);
	}
	if (version && json_integer_value(version) != PLAN_VERSION)
		return err_set(err, EINVAL, "version", "this engine reads version %d", PLAN_VERSION);
	return 0;
}

static int check_locate(const struct plan_locate *l, struct err *err)
{
	const struct plan_class *classes = l->classes.items;

	if (l->classes.count > PLAN_CLASSES_MAX)
		return err_set(err, EINVAL, "engine.locate.classes", "%zu classes; allowed: at most %d",
			       l->classes.count, PLAN_CLASSES_MAX);
	for (size_t i = 1; i + 1 < l->classes.count; i++)
		if (classes[i].below_cycles <= classes[i - 1].below_cycles)
			return err_set(err, EINVAL, "engine.locate.classes",
				       "below_cycles of \"%.40s\" is %lu; allowed: more than the %lu of the "
				       "class before", classes[i].name,
				       (unsigned long)classes[i].below_cycles,
				       (unsigned long)classes[i - 1].below_cycles);
	return 0;
}

/*
 * Shared objects with functions. Only whoever starts the engine may have them loaded: a plan that comes
 * over the control socket later names those that are there.
 */
static int parse_functions(const json_t *list, bool load, struct err *err)
{
	size_t i;
	json_t *v;

	if (!list)
		return 0;
	if (!json_is_array(list))
		return err_set(err, EINVAL, "functions", "must be a list of shared objects");
	json_array_foreach(list, i, v) {
		const char *file = json_string_value(v);
		char path[32];
		int rc;

		snprintf(path, sizeof(path), "functions[%zu]", i);
		if (!file)
			return err_set(err, EINVAL, path, "must be a path");
		rc = load ? nf_object_load(file, path, err) : 0;
		if (rc)
			return rc;
		if (!nf_object_loaded(file))
			return err_set(err, EINVAL, path, "was not loaded when the engine started, which "
				       "is when it loads functions");
	}
	return 0;
}

int plan_parse(json_t *json, struct plan **plan, struct err *err)
{
	struct plan *p;
	int rc;

	rc = check_top(json, err);
	if (!rc)
		rc = parse_functions(json_object_get(json, "functions"), false, err);
	if (rc)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, ENOMEM, "plan", "out of memory");
	p->json = json_incref(json);
	rc = param_parse(plan_engine_params, json_object_get(json, "engine"), "engine", &p->engine,
			 err);
	if (!rc)
		rc = check_locate(&p->engine.locate, err);
	if (!rc)
		rc = parse_links(p, json_object_get(json, "links"), err);
	if (!rc)
		rc = parse_nfs(p, json_object_get(json, "nfs"), err);
	if (!rc)
		rc = parse_segments(p, json_object_get(json, "segments"), err);
	if (!rc)
		rc = check_readers(p, err);
	if (!rc)
		rc = plan_check_elastic(p, err);
	if (rc) {
		plan_free(p);
		return rc;
	}
	*plan = p;
	return 0;
}

int plan_load(const char *file, struct plan **plan, struct err *err)
{
	json_error_t jerr;
	json_t *json;
	int rc;

	json = json_load_file(file, JSON_REJECT_DUPLICATES, &jerr);
	if (!json) {
		char place[160];

		snprintf(place, sizeof(place), "%.140s:%d", file, jerr.line > 0 ? jerr.line : 0);
		return err_set(err, EINVAL, place, "%s", jerr.text);
	}
	rc = parse_functions(json_object_get(json, "functions"), true, err);
	if (!rc)
		rc = plan_parse(json, plan, err);
	json_decref(json);
	return rc;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	param_free(plan_engine_params, &p->engine);
	for (unsigned int i = 0; i < p->n_links; i++) {
		if (p->links[i].conf)
			param_free(p->links[i].ops->params, p->links[i].conf);
		free(p->links[i].conf);
	}
	for (unsigned int i = 0; i < p->n_nfs; i++) {
		if (p->nfs[i].conf)
			param_free(p->nfs[i].ops->params, p->nfs[i].conf);
		free(p->nfs[i].conf);
	}
	for (unsigned int i = 0; i < p->n_segments; i++) {
		free(p->segments[i].cpus);
		free(p->segments[i].inputs);
		free(p->segments[i].nodes);
	}
	free(p->links);
	free(p->nfs);
	free(p->segments);
	json_decref(p->json);
	free(p);
}
