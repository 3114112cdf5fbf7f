/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "dpi.h"
#include "nf/lib/shared_flows.h"

#define BOUNCE_BYTES (65535 + 40) /* the largest IP packet that is no jumbogram */

static int rules_read_all(struct dpi *d, const char *path, struct err *err)
{
	const struct dpi_params *p = d->params;
	bool skip = p->unsupported;
	int rc = 0;

	d->rules.vars = p->variables;
	if (p->rules_file)
		rc = rules_load(p->rules_file, &d->rules, skip, err);
	if (!rc)
		rc = rules_add_list(&d->rules, &p->rules, path, skip, err);
	if (!rc)
		rc = rules_check(&d->rules, err);
	if (!rc)
		rc = patterns_check(&d->rules, skip, err);
	if (!rc && !d->rules.count && !p->labels)
		rc = err_set(err, EINVAL, "params",
			     "nothing to look for: rules, rules_file or labels is needed%s",
			     d->rules.skipped ? ", and all rules were skipped" : "");
	return rc;
}

static int check(const struct dpi_params *p, bool leaf, bool elastic, struct err *err)
{
	if (elastic && p->labels)
		return err_set(err, EINVAL, "params.labels",
			       "in an elastic segment, whose flows go from worker to worker, and what nDPI "
			       "remembers of them does not; allowed: false");
	if (p->label_rules.count && !p->labels)
		return err_set(err, EINVAL, "params.label_rules", "they need labels: true");
	if (p->eve_file && p->eve_socket)
		return err_set(err, EINVAL, "params.eve_socket",
			       "there is eve_file already; one of them");
	if (leaf && !p->eve_file && !p->eve_socket)
		return err_set(err, EINVAL, "params.eve_file",
			       "missing; eve_file or eve_socket is needed");
	if (p->eve_flows && !p->eve_file && !p->eve_socket)
		return err_set(err, EINVAL, "params.eve_flows", "needs eve_file or eve_socket");
	return 0;
}

static int events_start(struct dpi *d, bool checking, struct err *err)
{
	const struct dpi_params *p = d->params;
	struct eve_conf conf = {
		.file = p->eve_file,
		.socket = p->eve_socket,
		.rules = &d->rules,
		.label = d->names ? labels_name : NULL,
		.label_arg = d->names,
		.drops = !d->leaf,
	};

	if (!p->eve_file && !p->eve_socket)
		return 0;
	return checking ? eve_check(&conf, err) : eve_start(&conf, &d->eve, err);
}

int dpi_instance_init(struct nf *nf, bool leaf, struct err *err)
{
	struct dpi *d = calloc(1, sizeof(*d));
	int rc;

	nf->state = d;
	if (!d)
		return err_set(err, ENOMEM, "params", "out of memory");
	d->params = nf->conf;
	d->leaf = leaf;
	d->n_workers = nf->workers;
	d->workers = calloc(nf->workers, sizeof(*d->workers));
	rc = d->workers ? check(d->params, leaf, nf->owners, err)
			: err_set(err, ENOMEM, "params", "out of memory");
	if (!rc)
		rc = rules_read_all(d, "params.rules", err);
	if (!rc)
		rc = patterns_compile(&d->rules, &d->patterns, err);
	if (!rc && d->params->labels)
		rc = labels_create(d->params, false, &d->names, err);
	if (!rc)
		rc = events_start(d, nf->checking, err);
	if (rc)
		dpi_instance_fini(nf);
	return rc;
}

void dpi_instance_fini(struct nf *nf)
{
	struct dpi *d = nf->state;

	if (!d)
		return;
	eve_stop(d->eve);
	labels_destroy(d->names);
	patterns_free(&d->patterns);
	rules_free(&d->rules);
	free(d->workers);
	free(d);
	nf->state = NULL;
}

static int tables_create(struct dpi_worker *dw, const struct dpi_worker *first, struct err *err)
{
	const struct dpi_params *p = dw->dpi->params;
	int rc = 0;

	for (unsigned int i = 0; i < FLOW_FAMILIES && !rc; i++) {
		struct flow_conf conf = {.family = i,
					 .capacity = (uint32_t)p->flows,
					 .state_bytes = sizeof(struct dpi_flow),
					 .socket_id = dw->w->socket_id,
					 .tried = dw->w->nf->checking};

		rc = shared_flows(dw->w, &conf, first ? first->flows[i] : NULL, &dw->flows[i], err);
		if (rc)
			break;
		dw->births[i] = first ? first->births[i] : calloc(flow_capacity(dw->flows[i]),
								  sizeof(*dw->births[i]));
		if (!dw->births[i])
			rc = err_set(err, ENOMEM, "params.flows", "out of memory for %lu flows",
				     p->flows);
	}
	return rc;
}

static int segments_create(struct dpi_worker *dw, const struct dpi_worker *first)
{
	unsigned int buckets = shared_buckets(dw->w);

	if (first) {
		dw->segments = first->segments;
		dw->segment_pool = first->segment_pool;
		return 0;
	}
	if (pool_init(&dw->segment_pool, dw->dpi->params->reorder_segments, buckets))
		return -ENOMEM;
	dw->segments = calloc(pool_numbers(&dw->segment_pool, buckets), sizeof(*dw->segments));
	return dw->segments ? 0 : -ENOMEM;
}

static int buffers_create(struct dpi_worker *dw, const struct dpi_worker *first, struct err *err)
{
	const struct dpi_params *p = dw->dpi->params;

	dw->hits = calloc(dw->dpi->rules.count + 1, sizeof(*dw->hits));
	dw->bounce = malloc(BOUNCE_BYTES);
	if (segments_create(dw, first) || !dw->hits || !dw->bounce)
		return err_set(err, ENOMEM, "params.reorder_segments",
			       "out of memory for %lu segments", p->reorder_segments);
	return 0;
}

int dpi_worker_init(struct nf_worker *w, struct err *err)
{
	struct dpi_worker *dw = w->state = calloc(1, sizeof(*dw));
	const struct dpi_worker *first = shared_first(w);
	struct dpi *d = w->nf->state;
	const struct dpi_params *p = d->params;
	int rc;

	if (!dw)
		return err_set(err, ENOMEM, "params", "out of memory");
	dw->w = w;
	dw->dpi = d;
	dw->idle = flow_ticks((uint64_t)(p->idle_s * 1000));
	dw->closed = flow_ticks((uint64_t)(p->closed_s * 1000));
	dw->next_id = (uint64_t)(w->index + 1) << 40;
	rc = tables_create(dw, first, err);
	if (!rc)
		rc = buffers_create(dw, first, err);
	if (!rc)
		rc = scan_init(dw, first, err);
	if (!rc && p->labels)
		rc = labels_create(p, true, &dw->labels, err);
	if (!rc && d->eve) {
		dw->ring = eve_ring_add(d->eve, rte_align32pow2((uint32_t)p->eve_events));
		if (!dw->ring)
			rc = err_set(err, ENOMEM, "params.eve_events",
				     "out of memory for %lu events", p->eve_events);
	}
	w->counters[C_RULES] = w->index ? 0 : d->rules.count;
	w->counters[C_RULES_SKIPPED] = w->index ? 0 : d->rules.skipped;
	d->workers[w->index] = dw;
	if (rc)
		dpi_worker_fini(w);
	return rc;
}

/* What is still in the table ends with it. */
static void end_all(struct dpi_worker *dw)
{
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++)
		for (uint32_t n = 0; dw->flows[i] && n < flow_capacity(dw->flows[i]); n++) {
			struct flow *f = flow_at(dw->flows[i], n);

			if (f)
				dpi_flow_end(dw, i, f);
		}
}

void dpi_worker_fini(struct nf_worker *w)
{
	struct dpi_worker *dw = w->state;
	bool shares = shared_first(w);

	if (!dw)
		return;
	/* Shared flows end with the first worker, which is the last. */
	if (!shares)
		end_all(dw);
	dw->dpi->workers[w->index] = NULL;
	labels_destroy(dw->labels);
	scan_fini(dw, shares);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		flow_destroy(dw->flows[i]);
		if (!shares)
			free(dw->births[i]);
	}
	if (!shares) {
		free(dw->segments);
		pool_free(&dw->segment_pool);
	}
	free(dw->hits);
	free(dw->bounce);
	free(dw);
	w->state = NULL;
}

struct ageing {
	struct dpi_worker *dw;
	enum flow_family family;
};

static bool gone(void *arg, struct flow *f)
{
	const struct ageing *a = arg;

	dpi_flow_end(a->dw, a->family, f);
	return true;
}

void dpi_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct dpi_worker *dw = w->state;
	uint32_t flows = 0;

	dw->now_tsc = now_tsc;
	dw->now = flow_now(now_tsc);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		struct ageing a = {dw, i};

		flow_age(dw->flows[i], dw->now, gone, &a);
		flows += flow_count(dw->flows[i]);
	}
	w->counters[C_FLOWS] = flows;
	w->counters[C_STREAMS] = pool_used(&dw->stream_pool, w);
}

void dpi_rest(struct nf_worker *w, bool rests)
{
	if (rests)
		w->counters[C_FLOWS] = w->counters[C_STREAMS] = 0;
}

static json_t *show_rules(const struct dpi *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->rules.count; i++) {
		uint64_t hits = 0;

		for (unsigned int k = 0; k < d->n_workers; k++)
			hits += d->workers[k] ? d->workers[k]->hits[i] : 0;
		json_array_append_new(list, json_pack("{s:I, s:I, s:I}", "sid",
						      (json_int_t)d->rules.items[i].sid, "gid",
						      (json_int_t)d->rules.items[i].gid, "hits",
						      (json_int_t)hits));
	}
	return list;
}

static json_t *show_labels(const struct dpi *d)
{
	json_t *to = json_object();

	for (unsigned int k = 0; k < d->n_workers; k++)
		if (d->workers[k] && d->workers[k]->labels)
			labels_count(d->workers[k]->labels, to);
	return to;
}

/* Nothing can be changed while it runs; what it has found can be asked for. */
int dpi_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	const struct dpi *d = nf->state;
	const char *show = json_string_value(json_object_get(op, "show"));

	if (json_object_size(op) != 1 || !show)
		return err_set(err, EINVAL, "op",
			       "allowed: {\"show\": \"rules\"}, {\"show\": \"labels\"}, "
			       "{\"show\": \"events\"}");
	if (!strcmp(show, "rules"))
		*reply = json_pack("{s:o}", "rules", show_rules(d));
	else if (!strcmp(show, "labels"))
		*reply = json_pack("{s:o}", "labels", show_labels(d));
	else if (!strcmp(show, "events"))
		*reply = json_pack("{s:I}", "not-taken",
				   (json_int_t)(d->eve ? eve_lost(d->eve) : 0));
	else
		return err_set(err, EINVAL, "op.show", "\"%.40s\"; allowed: rules, labels, events",
			       show);
	return 0;
}
