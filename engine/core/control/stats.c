/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as JSON. Workers write them without locks; a reader sees each as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_version.h>

#include "control.h"
#include "core/checkpoint/checkpoint.h"
#include "core/fastpath/fastpath.h"
#include "core/tsc.h"

#define CLOCK_READS 64
#define WORKER_LOOKS 8

static void set_int(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

/* Whose packets they were whose way ended here, or that are held. */
static json_t *node_ends(const struct nf_ops *ops, const struct node_stats *st)
{
	json_t *o = json_object();

	for (unsigned int d = 0; ops->drops && ops->drops[d]; d++)
		ends_put(o, ops->drops[d], &st->dropped[d]);
	ends_put(o, "no-route-out", &st->no_route);
	ends_put(o, "malformed", &st->aborted);
	ends_put(o, "consumed", &st->consumed);
	ends_put(o, "held", &st->held_ends);
	return o;
}

static json_t *node_json(const struct node *n)
{
	const struct nf_ops *ops = n->worker->nf->ops;
	const struct node_stats *st = &n->stats;
	json_t *o = json_object(), *out = json_object(), *drops = json_object(),
	       *counters = json_object();

	for (unsigned int e = 0; e < n->n_edges; e++)
		set_int(out, nf_edge_name(ops, e), st->out[e]);
	for (unsigned int d = 0; ops->drops && ops->drops[d]; d++)
		set_int(drops, ops->drops[d], ends_sum(&st->dropped[d]));
	if (ends_sum(&st->no_route))
		set_int(drops, "no-route-out", ends_sum(&st->no_route));
	for (unsigned int c = 0; ops->counters && ops->counters[c]; c++)
		set_int(counters, ops->counters[c], n->worker->counters[c]);
	json_object_set_new(o, "type", json_string(ops->name));
	set_int(o, "in", st->in);
	set_int(o, "created", st->created);
	json_object_set_new(o, "out", out);
	json_object_set_new(o, "dropped", drops);
	set_int(o, "consumed", ends_sum(&st->consumed));
	set_int(o, "aborted", ends_sum(&st->aborted));
	json_object_set_new(o, "ended", node_ends(ops, st));
	json_object_set_new(o, "held", json_integer(st->held));
	set_int(o, "batches", node_batches(n));
	set_int(o, "cycles", node_cycles(n));
	set_int(o, "cycles_packets", node_cycles_packets(n));
	json_object_set_new(o, "counters", counters);
	return o;
}

static uint64_t out_packets(const struct replica *r, uint64_t *full)
{
	uint64_t packets = 0;

	*full = 0;
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		packets += r->outlets[i].count.packets;
		*full += r->outlets[i].count.full;
	}
	return packets;
}

static json_t *located_all(struct engine *e, const struct replica *r)
{
	json_t *inputs = json_object(), *nfs = json_object();

	for (unsigned int i = 0; i < r->n_inlets; i++)
		json_object_set_new(inputs, e->links[r->inlets[i].link].name,
				    located_json(r->inlets[i].located, r->locate));
	/* What only ever gets packets from inputs has no samples of its own. */
	for (unsigned int i = 0; i < r->n_nodes; i++)
		if (r->nodes[i].located->samples)
			json_object_set_new(nfs, r->nodes[i].worker->nf->name,
					    located_json(r->nodes[i].located, r->locate));
	return json_pack("{s:o, s:o}", "inputs", inputs, "nfs", nfs);
}

static json_t *turns_json(const struct busy_turns *t)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "n", (json_int_t)t->n, "packets",
			 (json_int_t)t->packets, "packets_squared", (json_int_t)t->packets_squared,
			 "cycles", (json_int_t)t->cycles, "cycles_by_packets",
			 (json_int_t)t->cycles_by_packets);
}

/* What was done while sources sent; NULL: nobody looked twice within that time. */
static json_t *sending_json(struct engine *e, const struct busy_within *in)
{
	if (in->window != atomic_load(&e->window.start) || in->last_tsc <= in->first_tsc)
		return NULL;
	return json_pack("{s:I, s:I, s:I}", "ref_cycles", (json_int_t)(in->last_tsc - in->first_tsc),
			 "ops_cycles", (json_int_t)(in->last_ops - in->first_ops), "pauses_cycles",
			 (json_int_t)(in->last_pauses - in->first_pauses));
}

static json_t *replica_json(struct engine *e, const struct replica *r)
{
	json_t *o = json_object(), *in = json_object(), *out = json_object(), *nfs = json_object();
	uint64_t received = 0, rx_cycles = 0, headers = 0, timed = 0, full;

	for (unsigned int i = 0; i < r->n_inlets; i++) {
		const struct inlet *l = &r->inlets[i];

		received += l->count.packets;
		rx_cycles += l->count.cycles;
		headers += l->count.headers_cycles;
		timed += l->count.timed_packets;
		json_object_set_new(in, e->links[l->link].name,
				    json_pack("{s:I, s:I, s:I}", "packets", (json_int_t)l->count.packets,
					      "cycles", (json_int_t)l->count.cycles, "cycles_packets",
					      (json_int_t)l->count.timed_packets));
	}
	for (unsigned int i = 0; i < r->n_outlets; i++) {
		const struct outlet *l = &r->outlets[i];
		json_t *one = json_pack("{s:I, s:I}", "packets", (json_int_t)l->count.packets, "full",
					(json_int_t)l->count.full);

		ends_put(one, "ended", &l->count.full_ends);
		if (l->way)
			json_object_set_new(one, "waiting", elastic_way_json(l->way));
		json_object_set_new(out, e->links[l->link].name, one);
	}
	for (unsigned int i = 0; i < r->n_nodes; i++)
		json_object_set_new(nfs, r->nodes[i].worker->nf->name, node_json(&r->nodes[i]));
	set_int(o, "cpu", r->cpu);
	set_int(o, "in", received);
	set_int(o, "out", out_packets(r, &full));
	set_int(o, "full", full);
	set_int(o, "pending", r->pending);
	set_int(o, "polls", r->count.polls);
	set_int(o, "idle_polls", r->count.idle_polls);
	set_int(o, "ops_cycles", r->busy.ops);
	json_object_set_new(o, "sending", sending_json(e, &r->busy.within));
	set_int(o, "burst", r->burst);
	json_object_set_new(o, "turns", turns_json(&r->busy.turns));
	json_object_set_new(o, "io",
			    json_pack("{s:I, s:I, s:I, s:I}", "rx_cycles", (json_int_t)rx_cycles,
				      "headers_cycles", (json_int_t)headers, "tx_cycles",
				      (json_int_t)r->count.tx_cycles, "packets", (json_int_t)timed));
	json_object_set_new(o, "inputs", in);
	json_object_set_new(o, "outputs", out);
	json_object_set_new(o, "nfs", nfs);
	if (r->elastic)
		json_object_set_new(o, "elastic", elastic_json(r->elastic, r->index, r->rests));
	if (r->fast)
		json_object_set_new(o, "fastpath", fastpath_json(r->fast));
	if (r->checkpoint)
		json_object_set_new(o, "checkpoint", checkpoint_json(r->checkpoint));
	if (r->parallel)
		json_object_set_new(o, "parallel", parallel_json(r->parallel));
	if (r->locate)
		json_object_set_new(o, "located", located_all(e, r));
	return o;
}

json_t *stats_segment(struct engine *e, unsigned int segment)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < e->plan->segments[segment].n_replicas; i++)
		json_array_append_new(list, replica_json(e, e->replicas[segment][i]));
	return list;
}

/* Packets that writers found no room for, summed over all of them. */
static uint64_t link_full(struct engine *e, unsigned int link)
{
	uint64_t full = e->past[link].out.full;

	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++) {
			const struct replica *r = e->replicas[s][i];

			for (unsigned int o = 0; o < r->n_outlets; o++)
				if (r->outlets[o].link == link)
					full += r->outlets[o].count.full;
		}
	return full;
}

json_t *stats_link(struct engine *e, unsigned int link)
{
	struct link *l = &e->links[link];
	json_t *o = l->ops->stats ? l->ops->stats(l) : json_object();

	json_object_set_new(o, "type", json_string(l->ops->name));
	if (l->n_txq || l->spare)
		set_int(o, "full", link_full(e, link));
	ends_put(o, "ended", &e->past[link].out.full_ends);
	return o;
}

/* Replicas of an lcore look at nearly the same times. */
static void add_within(struct busy_within *all, const struct busy_within *in)
{
	if (in->window != all->window)
		return;
	all->last_tsc = RTE_MAX(all->last_tsc, in->last_tsc - in->first_tsc);
	all->last_ops += in->last_ops - in->first_ops;
	all->last_pauses = RTE_MAX(all->last_pauses, in->last_pauses - in->first_pauses);
}

/* [[how many, cycles of all of them], ...], by powers of two. */
static json_t *gaps_json(const struct busy_gaps *g)
{
	json_t *classes = json_array();

	for (unsigned int i = 0; i < BUSY_GAPS; i++)
		json_array_append_new(classes, json_pack("[I, I]", (json_int_t)g->n[i],
							 (json_int_t)g->cycles[i]));
	return classes;
}

/* The most that a turn's packets take, in BUSY_USUALths of a cycle; 0: of some replica nobody knows. */
static uint64_t longest_usual(const struct worker *w)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < w->n_replicas; i++) {
		const struct replica *r = w->replicas[i];

		if (!r->busy.usual)
			return 0;
		most = RTE_MAX(most, busy_usual(&r->busy, r->burst));
	}
	return most;
}

struct worked {
	struct busy_told told;
	uint64_t ops, idle;
};

/* The lcore goes on while it is looked at, and this thread may be kept from it: then it looks again. */
static struct worked worker_worked(const struct worker *w)
{
	uint64_t most = atomic_load(&w->stop) ? 0 : longest_usual(w);
	struct worked all;

	for (int looks = 0; looks < WORKER_LOOKS; looks++) {
		uint64_t asleep = atomic_load(&w->asleep);

		all.told = busy_so_far(&w->clock, asleep, most, rte_rdtsc());
		all.idle = w->clock.idle;
		all.ops = w->ops_before;
		for (unsigned int i = 0; i < w->n_replicas; i++)
			all.ops += w->replicas[i]->busy.ops - w->replicas[i]->ops_elsewhere;
		rte_compiler_barrier();
		if (w->clock.mark < all.told.until + w->clock.pause)
			break;
	}
	return all;
}

json_t *stats_workers(struct engine *e)
{
	json_t *all = json_object();

	for (unsigned int i = 0; i < e->n_workers; i++) {
		const struct worker *w = &e->workers[i];
		json_t *names = json_array(), *o = json_object();
		struct busy_within within = {.window = atomic_load(&e->window.start)};
		uint64_t since = atomic_load(&w->start_tsc), samples = 0, cycles = 0, wide = 0;
		struct worked worked = worker_worked(w);
		char buf[64];

		for (unsigned int j = 0; j < w->n_replicas; j++) {
			const struct replica *r = w->replicas[j];

			add_within(&within, &r->busy.within);
			samples += r->pace.samples;
			cycles += r->pace.cycles;
			wide += r->pace.wide_cycles;
			snprintf(buf, sizeof(buf), "%s.%u", e->plan->segments[r->segment].name,
				 r->index);
			json_array_append_new(names, json_string(buf));
		}
		set_int(o, "ref_cycles", w->ref_before + (since ? worked.told.until - since : 0));
		set_int(o, "ops_cycles", worked.ops);
		set_int(o, "idle_cycles", worked.idle);
		json_object_set_new(o, "sending", sending_json(e, &within));
		set_int(o, "sleeps", w->sleeps);
		set_int(o, "sleep_cycles", worked.told.slept);
		json_object_set_new(o, "segments", names);
		json_object_set_new(o, "gaps", gaps_json(&w->clock.gaps));
		json_object_set_new(o, "pace",
				    json_pack("{s:I, s:I, s:I, s:I, s:I}", "additions",
					      (json_int_t)(samples * PACE_ADDITIONS), "cycles",
					      (json_int_t)cycles, "wide_cycles",
					      (json_int_t)wide, "pauses_cycles",
					      (json_int_t)worked.told.pauses, "standstill_cycles",
					      (json_int_t)worked.told.standstill));
		snprintf(buf, sizeof(buf), "%u", w->cpu);
		json_object_set_new(all, buf, o);
	}
	return all;
}

json_t *stats_read(struct engine *e)
{
	json_t *o = json_object(), *segments = json_object(), *links = json_object();

	json_object_set_new(o, "ok", json_true());
	set_int(o, "tsc", rte_rdtsc());
	set_int(o, "tsc_hz", rte_get_tsc_hz());
	set_int(o, "mbufs_in_use", rte_mempool_in_use_count(e->pool));
	json_object_set_new(o, "workers", stats_workers(e));
	for (unsigned int i = 0; i < e->plan->n_segments; i++)
		json_object_set_new(segments, e->plan->segments[i].name, stats_segment(e, i));
	for (unsigned int i = 0; i < e->plan->n_links; i++)
		json_object_set_new(links, e->links[i].name, stats_link(e, i));
	json_object_set_new(o, "segments", segments);
	json_object_set_new(o, "links", links);
	return o;
}

static uint64_t read_cost(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CLOCK_READS; i++) {
		uint64_t start = rte_rdtsc_precise(), last = start;

		for (int j = 0; j < 16; j++)
			last = rte_rdtsc();
		best = RTE_MIN(best, (last - start) / 16);
	}
	return best;
}

/* How far the TSC's assumed rate is from the kernel's clock since the engine started. */
static double tsc_error_ppm(const struct engine *e)
{
	uint64_t tsc = 0, ns = 0;
	double by_tsc, by_clock;

	clock_pair(&tsc, &ns);
	by_tsc = (double)(tsc - e->clock_tsc) * 1e9 / (double)rte_get_tsc_hz();
	by_clock = (double)(ns - e->clock_ns);
	return by_clock > 1e8 ? (by_tsc / by_clock - 1) * 1e6 : 0;
}

/* What DPDK's heaps have given out: tables and packet buffers. */
static size_t heap_bytes(void)
{
	struct rte_malloc_socket_stats stats;
	size_t total = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (!rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats))
			total += stats.heap_allocsz_bytes;
	return total;
}

json_t *stats_info(struct engine *e)
{
	json_t *cpus = json_array();

	for (unsigned int i = 0; i < e->n_workers; i++)
		json_array_append_new(cpus, json_integer(e->workers[i].cpu));
	return json_pack("{s:b, s:s, s:s, s:s, s:I, s:i, s:b, s:I, s:I, s:o, s:{s:I, s:f}}", "ok", 1,
			 "version", HEADRACE_VERSION, "dpdk", rte_version(), "build",
			 HEADRACE_BUILD, "tsc_hz", (json_int_t)rte_get_tsc_hz(), "pid", getpid(),
			 "hugepages", e->plan->engine.hugepages, "simd_bits",
			 (json_int_t)e->plan->engine.simd_bits, "heap_bytes",
			 (json_int_t)heap_bytes(), "cpus", cpus, "clock",
			 "read_cost_cycles", (json_int_t)read_cost(), "tsc_error_ppm",
			 tsc_error_ppm(e));
}
