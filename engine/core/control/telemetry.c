/* SPDX-License-Identifier: Apache-2.0 */
/* /headrace/... on DPDK's telemetry socket: the control socket's names, for everybody else's tools. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "core/dpdk.h"

#define TEXT_MAX (8u << 20)

static struct engine *served; /* the telemetry API passes no context */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static int add_value(struct rte_tel_data *d, const char *key, const json_t *v);

static int add_members(struct rte_tel_data *d, const json_t *obj)
{
	const char *key;
	json_t *v;
	int rc = 0;

	json_object_foreach((json_t *)obj, key, v) {
		rc = add_value(d, key, v);
		if (rc)
			return rc;
	}
	return 0;
}

/* Telemetry keys may hold letters, digits, '_' and '/' only. */
static void clean_key(const char *key, char *out, size_t size)
{
	size_t i;

	for (i = 0; key[i] && i < size - 1; i++)
		out[i] = strchr("-. ", key[i]) ? '_' : key[i];
	out[i] = '\0';
}

static int add_container(struct rte_tel_data *d, const char *key, const json_t *v)
{
	struct rte_tel_data *sub = rte_tel_data_alloc();
	char name[32];
	json_t *item;
	size_t i;
	int rc = 0;

	if (!sub)
		return -ENOMEM;
	rte_tel_data_start_dict(sub);
	if (json_is_object(v)) {
		rc = add_members(sub, v);
	} else {
		json_array_foreach((json_t *)v, i, item) {
			snprintf(name, sizeof(name), "%zu", i);
			rc = rc ? rc : add_value(sub, name, item);
		}
	}
	return rc ? rc : rte_tel_data_add_dict_container(d, key, sub, 0);
}

static int add_value(struct rte_tel_data *d, const char *raw, const json_t *v)
{
	char key[RTE_TEL_MAX_STRING_LEN], text[64];

	clean_key(raw, key, sizeof(key));
	switch (json_typeof(v)) {
	case JSON_INTEGER:
		return json_integer_value(v) < 0
			       ? rte_tel_data_add_dict_int(d, key, (int)json_integer_value(v))
			       : rte_tel_data_add_dict_uint(d, key, json_integer_value(v));
	case JSON_REAL:
		snprintf(text, sizeof(text), "%.9g", json_real_value(v));
		return rte_tel_data_add_dict_string(d, key, text);
	case JSON_STRING:
		/* A histogram does not fit a telemetry string; it is on the control socket. */
		if (json_string_length(v) >= RTE_TEL_MAX_STRING_LEN)
			return 0;
		return rte_tel_data_add_dict_string(d, key, json_string_value(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return rte_tel_data_add_dict_uint(d, key, json_is_true(v));
	case JSON_OBJECT:
	case JSON_ARRAY:
		return add_container(d, key, v);
	default:
		return 0;
	}
}

static int reply_object(struct rte_tel_data *d, json_t *o)
{
	int rc;

	rte_tel_data_start_dict(d);
	rc = add_members(d, o);
	json_decref(o);
	return rc;
}

static int tel_info(const char *params, struct rte_tel_data *d)
{
	(void)params;
	return reply_object(d, stats_info(served));
}

static int tel_workers(const char *params, struct rte_tel_data *d)
{
	(void)params;
	return reply_object(d, stats_workers(served));
}

static int tel_segments(const char *params, struct rte_tel_data *d)
{
	(void)params;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; i < served->plan->n_segments; i++)
		rte_tel_data_add_array_string(d, served->plan->segments[i].name);
	return 0;
}

static int tel_links(const char *params, struct rte_tel_data *d)
{
	(void)params;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; i < served->n_links; i++)
		rte_tel_data_add_array_string(d, served->links[i].name);
	return 0;
}

static int tel_segment(const char *params, struct rte_tel_data *d)
{
	for (unsigned int i = 0; params && i < served->plan->n_segments; i++)
		if (!strcmp(served->plan->segments[i].name, params))
			return reply_object(
				d, json_pack("{s:o}", "replicas", stats_segment(served, i)));
	return -ENOENT;
}

static int tel_link(const char *params, struct rte_tel_data *d)
{
	for (unsigned int i = 0; params && i < served->n_links; i++)
		if (!strcmp(served->links[i].name, params))
			return reply_object(d, stats_link(served, i));
	return -ENOENT;
}

static const struct {
	const char *cmd;
	int (*read)(const char *params, struct rte_tel_data *d);
	const char *help;
} commands[] = {
	{"/headrace/info", tel_info, "Version, build, clock. No parameters"},
	{"/headrace/workers", tel_workers, "Busy (OPS) and total (REF) cycles per CPU"},
	{"/headrace/segments", tel_segments, "Names of segments"},
	{"/headrace/segment", tel_segment, "Counters of a segment. Parameter: its name"},
	{"/headrace/links", tel_links, "Names of links"},
	{"/headrace/link", tel_link, "Counters of a link. Parameter: its name"},
};

/* Called in a thread of DPDK's for each client, also while the engine ends. */
static int answer(const char *cmd, const char *params, struct rte_tel_data *d)
{
	int rc = -ENOENT;

	telemetry_pause();
	for (unsigned int i = 0; served && i < RTE_DIM(commands); i++)
		if (!strcmp(commands[i].cmd, cmd))
			rc = commands[i].read(params, d);
	telemetry_resume();
	return rc;
}

void telemetry_pause(void)
{
	pthread_mutex_lock(&reading);
}

void telemetry_resume(void)
{
	pthread_mutex_unlock(&reading);
}

int telemetry_register(struct engine *e)
{
	static bool registered;
	int rc = 0;

	telemetry_pause();
	served = e;
	telemetry_resume();
	for (unsigned int i = 0; !registered && i < RTE_DIM(commands); i++)
		rc |= rte_telemetry_register_cmd(commands[i].cmd, answer, commands[i].help);
	registered = true;
	return rc;
}
