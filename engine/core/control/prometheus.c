/* SPDX-License-Identifier: Apache-2.0 */
/* The counters in Prometheus' text exposition format (0.0.4). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

static void sample(FILE *f, const char *metric, const char *labels, uint64_t value)
{
	fprintf(f, "headrace_%s{%s} %llu\n", metric, labels, (unsigned long long)value);
}

static void node_samples(FILE *f, const struct node *n, const char *replica)
{
	const struct nf_ops *ops = n->worker->nf->ops;
	const struct node_stats *st = &n->stats;
	char nf[256], labels[384];

	snprintf(nf, sizeof(nf), "%s,nf=\"%s\",type=\"%s\"", replica, n->worker->nf->name, ops->name);
	sample(f, "nf_packets_in_total", nf, st->in);
	sample(f, "nf_packets_created_total", nf, st->created);
	sample(f, "nf_packets_consumed_total", nf, ends_sum(&st->consumed));
	sample(f, "nf_packets_aborted_total", nf, ends_sum(&st->aborted));
	fprintf(f, "headrace_nf_packets_held{%s} %lld\n", nf, (long long)st->held);
	sample(f, "nf_batches_total", nf, node_batches(n));
	sample(f, "nf_sampled_cycles_total", nf, node_cycles(n));
	sample(f, "nf_sampled_packets_total", nf, node_cycles_packets(n));
	for (unsigned int e = 0; e < n->n_edges; e++) {
		snprintf(labels, sizeof(labels), "%s,edge=\"%s\"", nf, nf_edge_name(ops, e));
		sample(f, "nf_packets_out_total", labels, st->out[e]);
	}
	for (unsigned int d = 0; ops->drops && ops->drops[d]; d++) {
		snprintf(labels, sizeof(labels), "%s,reason=\"%s\"", nf, ops->drops[d]);
		sample(f, "nf_packets_dropped_total", labels, ends_sum(&st->dropped[d]));
	}
	for (unsigned int c = 0; ops->counters && ops->counters[c]; c++) {
		snprintf(labels, sizeof(labels), "%s,counter=\"%s\"", nf, ops->counters[c]);
		sample(f, "nf_counter_total", labels, n->worker->counters[c]);
	}
}

static void replica_samples(FILE *f, struct engine *e, const struct replica *r)
{
	char labels[160], link[256];

	snprintf(labels, sizeof(labels), "segment=\"%s\",replica=\"%u\",cpu=\"%u\"",
		 e->plan->segments[r->segment].name, r->index, r->cpu);
	sample(f, "segment_polls_total", labels, r->count.polls);
	sample(f, "segment_idle_polls_total", labels, r->count.idle_polls);
	sample(f, "segment_ops_cycles_total", labels, r->busy.ops);
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		snprintf(link, sizeof(link), "%s,link=\"%s\"", labels,
			 e->links[r->inlets[i].link].name);
		sample(f, "segment_packets_in_total", link, r->inlets[i].count.packets);
	}
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		snprintf(link, sizeof(link), "%s,link=\"%s\"", labels,
			 e->links[r->outlets[i].link].name);
		sample(f, "segment_packets_out_total", link, r->outlets[i].count.packets);
		sample(f, "segment_packets_full_total", link, r->outlets[i].count.full);
	}
	for (unsigned int i = 0; i < r->n_nodes; i++)
		node_samples(f, &r->nodes[i], labels);
}

/* A link's own whole numbers: headrace_link{link,type,name}. */
static void link_samples(FILE *f, struct engine *e, unsigned int i)
{
	json_t *stats = stats_link(e, i), *v;
	const char *key;
	char labels[160];

	json_object_foreach(stats, key, v) {
		if (!json_is_integer(v))
			continue;
		snprintf(labels, sizeof(labels), "link=\"%s\",type=\"%s\",name=\"%s\"",
			 e->links[i].name, e->links[i].ops->name, key);
		fprintf(f, "headrace_link{%s} %lld\n", labels, (long long)json_integer_value(v));
	}
	json_decref(stats);
}

static void worker_samples(FILE *f, struct engine *e)
{
	json_t *workers = stats_workers(e), *w;
	const char *cpu;
	char labels[32];

	json_object_foreach(workers, cpu, w) {
		snprintf(labels, sizeof(labels), "cpu=\"%s\"", cpu);
		sample(f, "worker_ref_cycles_total", labels,
		       json_integer_value(json_object_get(w, "ref_cycles")));
		sample(f, "worker_ops_cycles_total", labels,
		       json_integer_value(json_object_get(w, "ops_cycles")));
	}
	json_decref(workers);
}

char *stats_prometheus(struct engine *e)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	worker_samples(f, e);
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++)
			replica_samples(f, e, e->replicas[s][i]);
	for (unsigned int i = 0; i < e->n_links; i++)
		link_samples(f, e, i);
	fclose(f);
	return text;
}
