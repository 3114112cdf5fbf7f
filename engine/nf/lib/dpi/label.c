/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Application labels by nDPI, asked as its ndpiReader does: the first packets of a flow, 80 of TCP
 * and 24 of UDP at most, until the label is known and nothing more can be learned about it; where
 * nothing is found, nDPI guesses by ports and addresses.
 */
#include "dpi.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <ndpi_api.h>
#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#define TCP_PACKETS_MAX 80
#define UDP_PACKETS_MAX 24

struct labels {
	struct ndpi_detection_module_struct *module;
	unsigned int n; /* labels */
	uint8_t *flows;
	size_t flow_bytes;
	struct pool pool;
	uint64_t bytes_max;
	uint64_t *counts; /* flows, by label */
	uint8_t *action;  /* by label: 1 + enum rule_action, 0: none */
};

/*
 * nDPI takes memory as it goes, for host names and certificates. How much there is in use is
 * counted over all instances, so that new flows go without a label while it is too much.
 */
static _Atomic int64_t in_use;

static void *counted_malloc(size_t size)
{
	void *p = malloc(size);

	if (p)
		atomic_fetch_add_explicit(&in_use, (int64_t)malloc_usable_size(p),
					  memory_order_relaxed);
	return p;
}

static void counted_free(void *p)
{
	if (!p)
		return;
	atomic_fetch_sub_explicit(&in_use, (int64_t)malloc_usable_size(p), memory_order_relaxed);
	free(p);
}

static int resolve(const struct dpi_params *p, struct labels *l, struct err *err)
{
	const struct dpi_label_rule *rules = p->label_rules.items;
	char path[64];

	for (size_t i = 0; i < p->label_rules.count; i++) {
		int id = ndpi_get_protocol_id(l->module, rules[i].label);

		if (id < 0 || (unsigned int)id >= l->n) {
			snprintf(path, sizeof(path), "params.label_rules[%zu].label", i);
			return err_set(
				err, EINVAL, path,
				"\"%.60s\" is not an application that nDPI %s knows; they are "
				"listed by ndpiReader -h",
				rules[i].label, ndpi_revision());
		}
		l->action[id] = (uint8_t)(1 + rules[i].action);
	}
	return 0;
}

static int module_create(struct labels *l, struct err *err)
{
	NDPI_PROTOCOL_BITMASK all;

	set_ndpi_malloc(counted_malloc);
	set_ndpi_free(counted_free);
	l->module = ndpi_init_detection_module(ndpi_no_prefs);
	if (!l->module)
		return err_set(err, ENOMEM, "params.labels", "nDPI does not start");
	NDPI_BITMASK_SET_ALL(all);
	ndpi_set_protocol_detection_bitmask2(l->module, &all);
	ndpi_finalize_initialization(l->module);
	l->n = ndpi_get_num_supported_protocols(l->module);
	return 0;
}

int labels_create(const struct dpi_params *p, bool flows, struct labels **out, struct err *err)
{
	struct labels *l = calloc(1, sizeof(*l));
	int rc;

	*out = l;
	if (!l)
		return err_set(err, ENOMEM, "params.labels", "out of memory");
	rc = module_create(l, err);
	if (rc)
		goto fail;
	l->flow_bytes = (ndpi_detection_get_sizeof_ndpi_flow_struct() + 63u) & ~(size_t)63;
	l->counts = calloc(l->n, sizeof(*l->counts));
	l->action = calloc(l->n, 1);
	l->bytes_max = p->label_memory_mb << 20;
	if (flows)
		l->flows = calloc(p->label_flows, l->flow_bytes);
	if (!l->counts || !l->action || (flows && !l->flows) ||
	    (flows && pool_init(&l->pool, p->label_flows, 1))) {
		rc = err_set(err, ENOMEM, "params.label_flows", "out of memory for %lu flows",
			     p->label_flows);
		goto fail;
	}
	rc = resolve(p, l, err);
	if (!rc)
		return 0;
fail:
	labels_destroy(l);
	*out = NULL;
	return rc;
}

void labels_destroy(struct labels *l)
{
	if (!l)
		return;
	if (l->module)
		ndpi_exit_detection_module(l->module);
	free(l->flows);
	pool_free(&l->pool);
	free(l->counts);
	free(l->action);
	free(l);
}

static struct ndpi_flow_struct *state_of(const struct labels *l, const struct dpi_flow *flow)
{
	return (void *)(l->flows + (flow->label - 1) * l->flow_bytes);
}

/* The first packet takes a state; a flow that gets none stays without a label. */
static bool state_take(struct dpi_worker *dw, struct dpi_flow *flow)
{
	struct labels *l = dw->labels;
	uint32_t number;

	if (flow->label)
		return true;
	if (flow->flags & FLOW_LABELLED)
		return false;
	if ((uint64_t)atomic_load_explicit(&in_use, memory_order_relaxed) > l->bytes_max ||
	    !pool_take(&l->pool, 0, &number)) {
		flow->flags |= FLOW_LABELLED;
		dw->w->counters[C_LABELS_EXHAUSTED]++;
		return false;
	}
	flow->label = number + 1;
	return true;
}

static void finish(struct dpi_worker *dw, struct dpi_flow *flow, ndpi_protocol proto)
{
	struct labels *l = dw->labels;
	struct ndpi_flow_struct *state = state_of(l, flow);
	uint16_t shown;
	u_int8_t guessed;

	if (proto.app_protocol == NDPI_PROTOCOL_UNKNOWN)
		proto = ndpi_detection_giveup(l->module, state, 1, &guessed);
	flow->app[0] = proto.master_protocol;
	flow->app[1] = proto.app_protocol;
	shown = flow->app[1] ? flow->app[1] : flow->app[0];
	if (shown < l->n)
		l->counts[shown]++;
	dw->w->counters[C_LABELLED] += shown != NDPI_PROTOCOL_UNKNOWN;
	ndpi_free_flow_data(state);
	memset(state, 0, l->flow_bytes);
	pool_give(&l->pool, flow->label - 1);
	flow->label = 0;
	flow->flags |= FLOW_LABELLED;
}

bool labels_packet(struct inspection *in)
{
	struct dpi_worker *dw = in->dw;
	struct dpi_flow *flow = in->flow;
	struct labels *l = dw->labels;
	struct ndpi_flow_struct *state;
	uint32_t seen = flow->packets[0] + flow->packets[1];
	uint64_t ms = dw->now_tsc / (rte_get_tsc_hz() / 1000);
	ndpi_protocol proto;
	bool enough;

	if (!state_take(dw, flow))
		return false;
	state = state_of(l, flow);
	proto = ndpi_detection_process_packet(l->module, state, in->l3,
					      (uint16_t)RTE_MIN(in->l3_len, UINT16_MAX), ms);
	enough = (in->packet.proto == IPPROTO_TCP && seen > TCP_PACKETS_MAX) ||
		 (in->packet.proto == IPPROTO_UDP && seen > UDP_PACKETS_MAX);
	if (!enough && (proto.app_protocol == NDPI_PROTOCOL_UNKNOWN ||
			ndpi_extra_dissection_possible(l->module, state)))
		return false;
	finish(dw, flow, proto);
	return true;
}

void labels_end(struct dpi_worker *dw, struct dpi_flow *flow)
{
	const struct ndpi_flow_struct *state;
	ndpi_protocol proto = {0};

	if (!flow->label)
		return;
	/* Found, but more could have been learned. */
	state = state_of(dw->labels, flow);
	proto.master_protocol = state->detected_protocol_stack[1];
	proto.app_protocol = state->detected_protocol_stack[0];
	finish(dw, flow, proto);
}

uint8_t labels_action(const struct labels *l, const struct dpi_flow *flow)
{
	uint8_t action = 0;

	for (unsigned int i = 0; i < 2; i++)
		if (flow->app[i] < l->n && l->action[flow->app[i]] > action)
			action = l->action[flow->app[i]];
	return action;
}

const char *labels_name(void *arg, const uint16_t label[2], char *buf, unsigned int size)
{
	struct labels *l = arg;
	ndpi_protocol proto = {.master_protocol = label[0], .app_protocol = label[1]};

	return ndpi_protocol2name(l->module, proto, buf, size);
}

void labels_count(const struct labels *l, json_t *to)
{
	for (unsigned int i = 0; i < l->n; i++) {
		const char *name = ndpi_get_proto_name(l->module, (uint16_t)i);
		json_int_t had = json_integer_value(json_object_get(to, name));

		if (l->counts[i])
			json_object_set_new(to, name, json_integer(had + (json_int_t)l->counts[i]));
	}
}
