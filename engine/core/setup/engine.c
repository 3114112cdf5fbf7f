/* SPDX-License-Identifier: Apache-2.0 */
/* From a parsed plan to running workers, and back. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "core/happens.h"
#include "core/tsc.h"
#include "elastic_move.h"
#include "pool.h"

static void count_queues(const struct plan *p, unsigned int li, struct link *l)
{
	int reader = plan_reader(p, li);

	l->n_rxq = reader < 0 ? 0 : p->segments[reader].n_replicas;
	l->n_txq = plan_writers(p, li);
}

static int make_elastic(struct engine *e, struct err *err)
{
	const struct plan *p = e->plan;

	e->elastic = calloc(p->n_segments, sizeof(*e->elastic));
	if (!e->elastic)
		return err_set(err, ENOMEM, "segments", "out of memory");
	for (unsigned int i = 0; i < p->n_segments; i++) {
		const struct plan_segment *s = &p->segments[i];

		if (!s->elastic)
			continue;
		e->elastic[i] = elastic_create(s->n_replicas, s->n_cpus);
		if (!e->elastic[i])
			return err_set(err, ENOMEM, s->name, "out of memory");
	}
	return 0;
}

int engine_named(struct err *err, int rc, const char *kind, const char *name)
{
	char path[sizeof(err->path)];

	snprintf(path, sizeof(path), "%s.%s%s%.120s", kind, name,
		 *err->path == '\0'		   ? ""
		 : !strncmp(err->path, "params", 6) ? "."
						    : ": ",
		 err->path);
	memcpy(err->path, path, sizeof(path));
	return rc;
}

/* Senders, and what else names a file: devices are left alone, and so are rings. */
static bool link_needs_checking(const struct plan *p, unsigned int i)
{
	const struct link_ops *ops = p->links[i].ops;

	return ops->sends || param_names_file(ops->params, p->links[i].conf);
}

static int init_links(struct engine *e, struct err *err)
{
	const struct plan *p = e->plan;
	int rc;

	e->links = calloc(p->n_links, sizeof(*e->links));
	e->past = calloc(p->n_links, sizeof(*e->past));
	if (!e->links || !e->past)
		return err_set(err, ENOMEM, "links", "out of memory");
	for (unsigned int i = 0; i < p->n_links; i++) {
		struct link *l = &e->links[i];

		e->n_links = i;
		if (e->senders_only && !link_needs_checking(p, i))
			continue;
		l->ops = p->links[i].ops;
		snprintf(l->name, sizeof(l->name), "%s", p->links[i].name);
		l->conf = p->links[i].conf;
		l->socket_id = rte_socket_id();
		l->pool = e->pool;
		count_queues(p, i, l);
		err->path[0] = '\0';
		rc = l->ops->init ? l->ops->init(l, err) : 0;
		if (rc)
			return engine_named(err, rc, "links", l->name);
		e->n_links = i + 1;
	}
	return 0;
}

static int init_nfs(struct engine *e, struct err *err)
{
	const struct plan *p = e->plan;
	int rc;

	e->nfs = calloc(p->n_nfs + 1, sizeof(*e->nfs));
	e->owners = calloc(p->n_nfs + 1, sizeof(*e->owners));
	if (!e->nfs || !e->owners)
		return err_set(err, ENOMEM, "nfs", "out of memory");
	for (unsigned int i = 0; i < p->n_nfs; i++) {
		struct nf *nf = &e->nfs[i];

		e->n_nfs = i;
		nf->ops = p->nfs[i].ops;
		snprintf(nf->name, sizeof(nf->name), "%s", p->nfs[i].name);
		nf->conf = p->nfs[i].conf;
		nf->workers = p->nfs[i].segment < 0 ? 0 : p->segments[p->nfs[i].segment].n_replicas;
		if (p->nfs[i].segment >= 0 && e->elastic[p->nfs[i].segment]) {
			nf->owners = e->owners[i];
			elastic_tell(e, i);
		}
		nf->socket_id = rte_socket_id();
		nf->checking = e->checking;
		err->path[0] = '\0';
		rc = nf->ops->init ? nf->ops->init(nf, err) : 0;
		if (rc)
			return engine_named(err, rc, "nfs", nf->name);
		e->n_nfs = i + 1;
	}
	return 0;
}

static int make_replicas(struct engine *e, struct err *err)
{
	const struct plan *p = e->plan;
	int rc;

	e->replicas = calloc(p->n_segments, sizeof(*e->replicas));
	e->even = calloc(p->n_segments, sizeof(*e->even));
	if (!e->replicas || !e->even)
		return err_set(err, ENOMEM, "segments", "out of memory");
	for (unsigned int i = 0; i < p->n_segments; i++) {
		if (p->segments[i].steer != STEER_EVEN)
			continue;
		e->even[i] = even_table_create(p->segments[i].n_cpus);
		if (!e->even[i])
			return err_set(err, ENOMEM, p->segments[i].name, "out of memory");
	}
	for (unsigned int i = 0; i < p->n_segments; i++) {
		e->replicas[i] = calloc(p->segments[i].n_replicas, sizeof(*e->replicas[i]));
		if (!e->replicas[i])
			return err_set(err, ENOMEM, p->segments[i].name, "out of memory");
		for (unsigned int j = 0; j < p->segments[i].n_replicas; j++) {
			err->path[0] = '\0';
			rc = replica_create(e, i, j, &e->replicas[i][j], err);
			if (rc && strncmp(err->path, "nfs.", 4)) /* what a function refuses has its name */
				return engine_named(err, rc, "segments", p->segments[i].name);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* NULL: out of memory. With room for `total` replicas, as many as there are. */
static struct worker *worker_of(struct engine *e, unsigned int cpu, unsigned int total)
{
	struct worker *w;

	for (unsigned int i = 0; i < e->n_workers; i++)
		if (e->workers[i].cpu == cpu)
			return &e->workers[i];
	w = &e->workers[e->n_workers++];
	w->cpu = cpu;
	w->lcore = cpu_to_lcore(e->plan, cpu);
	w->wait = &e->plan->engine.wait;
	w->replicas = calloc(total, sizeof(*w->replicas));
	return w->replicas ? w : NULL;
}

static bool give_worker(struct engine *e, struct replica *r, unsigned int total)
{
	struct worker *w = worker_of(e, r->cpu, total);

	if (!w)
		return false;
	w->replicas[w->n_replicas++] = r;
	r->clock = &w->clock;
	r->slicer = &w->slicer;
	return true;
}

static int make_workers(struct engine *e, struct err *err)
{
	const struct plan *p = e->plan;
	const struct param_list *spare = &p->engine.spare_cpus;
	unsigned int total = 0;

	for (unsigned int i = 0; i < p->n_segments; i++)
		total += RTE_MAX(p->segments[i].n_all_cpus, p->segments[i].n_replicas);
	e->workers = rte_zmalloc("workers", (total + spare->count) * sizeof(*e->workers),
				 2 * RTE_CACHE_LINE_SIZE);
	if (!e->workers)
		return err_set(err, ENOMEM, "segments", "out of memory");
	for (unsigned int i = 0; i < p->n_segments; i++)
		for (unsigned int j = p->segments[i].n_cpus; j < p->segments[i].n_replicas; j++)
			replica_rest(e->replicas[i][j], true);
	for (unsigned int i = 0; i < p->n_segments; i++)
		for (unsigned int j = 0; j < p->segments[i].n_cpus; j++) {
			struct replica *r = e->replicas[i][j];
			bool ok = give_worker(e, r, total);

			for (unsigned int k = 1; ok && r->parallel && k < r->parallel->n; k++)
				ok = give_worker(e, r->parallel->sides[k], total);
			if (!ok)
				return err_set(err, ENOMEM, "segments", "out of memory");
		}
	for (size_t i = 0; i < spare->count; i++)
		if (!worker_of(e, (unsigned int)((const uint64_t *)spare->items)[i], total))
			return err_set(err, ENOMEM, "engine.spare_cpus", "out of memory");
	return 0;
}

/* Each looks at the next that runs, so that all lcores are looked at. */
static void pair_workers(struct engine *e)
{
	for (unsigned int i = 0; i < e->n_workers; i++) {
		e->workers[i].beside = NULL;
		for (unsigned int j = 1; j < e->n_workers && !e->workers[i].beside; j++) {
			struct worker *other = &e->workers[(i + j) % e->n_workers];

			if (other->n_replicas)
				e->workers[i].beside = other;
		}
	}
}

int engine_launch(struct engine *e, struct err *err)
{
	unsigned int n = e->idle ? 0 : e->n_workers;
	int rc = 0;

	pair_workers(e);
	e->runs_since = rte_rdtsc();
	for (unsigned int i = 0; i < n; i++)
		if (e->workers[i].n_replicas && !worker_go_on(&e->workers[i])) {
			rc = err_set(err, EBUSY, "segments", "lcore of CPU %u does not start",
				     e->workers[i].cpu);
			n = i; /* those before it run, and will have to be ended */
		}
	for (unsigned int i = 0; i < n; i++) {
		struct worker *w = &e->workers[i];

		if (w->n_replicas)
			e->runs_since = RTE_MAX(e->runs_since, worker_runs(w));
		else if (atomic_load(&w->hold))
			worker_join(w);
	}
	return rc;
}

static int check_waits(struct engine *e, struct err *err)
{
	return worker_wait_check(e->plan, err);
}

static int make_pool(struct engine *e, struct err *err)
{
	e->pool = pool_make(&e->plan->engine, err);
	return e->pool ? 0 : -ENOMEM;
}

int engine_make(struct engine *e, struct plan *plan, struct err *err)
{
	static int (*const steps[])(struct engine *, struct err *) = {
		check_waits, make_pool, make_elastic, init_links, init_nfs, make_replicas, make_workers,
	};
	int rc = 0;

	e->plan = plan;
	clock_pair(&e->clock_tsc, &e->clock_ns);
	for (unsigned int i = 0; i < RTE_DIM(steps) && !rc; i++)
		rc = steps[i](e, err);
	if (rc)
		engine_stop(e);
	return rc;
}

int engine_start(struct engine *e, struct plan *plan, struct err *err)
{
	int rc;

	memset(e, 0, sizeof(*e));
	rc = engine_make(e, plan, err);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < plan->n_segments; i++)
		for (unsigned int j = 0; j < plan->segments[i].n_replicas; j++)
			checkpoint_begin(e->replicas[i][j]);
	rc = engine_launch(e, err);
	if (rc)
		engine_stop(e);
	return rc;
}

int engine_check(struct plan *plan, struct err *err)
{
	struct engine e = {.plan = plan, .checking = true, .senders_only = true};
	int rc = make_pool(&e, err);

	if (!rc)
		rc = init_links(&e, err);
	if (!rc)
		rc = make_elastic(&e, err); /* functions refuse in it what they allow elsewhere */
	if (!rc)
		rc = init_nfs(&e, err);
	engine_stop(&e);
	return rc;
}

static void stop_workers(struct engine *e)
{
	for (unsigned int i = 0; i < e->n_workers; i++)
		atomic_store(&e->workers[i].stop, true);
	for (unsigned int i = 0; i < e->n_workers; i++) {
		if (atomic_load(&e->workers[i].start_tsc) || atomic_load(&e->workers[i].hold))
			worker_join(&e->workers[i]);
		free(e->workers[i].replicas);
	}
	rte_free(e->workers);
}

uint64_t engine_keeps(const struct engine *e)
{
	uint64_t keep = 0;

	for (unsigned int i = 0; i < e->n_links; i++)
		if (e->links[i].ops->keeps)
			keep |= e->links[i].ops->keeps(&e->links[i]);
	return keep;
}

void engine_stop(struct engine *e)
{
	const struct plan *p = e->plan;

	stop_workers(e);
	for (unsigned int i = 0; e->replicas && i < p->n_segments; i++) {
		/* The first one last: in an elastic segment the others have what is its own. */
		for (unsigned int j = p->segments[i].n_replicas; e->replicas[i] && j-- > 0;)
			replica_destroy(e->replicas[i][j]);
		free(e->replicas[i]);
	}
	for (unsigned int i = 0; e->even && i < p->n_segments; i++)
		even_table_free(e->even[i]);
	for (unsigned int i = 0; e->elastic && i < p->n_segments; i++)
		elastic_free(e->elastic[i]);
	for (unsigned int i = 0; i < e->n_nfs; i++)
		if (e->nfs[i].ops && e->nfs[i].ops->fini)
			e->nfs[i].ops->fini(&e->nfs[i]);
	for (unsigned int i = e->n_links; i-- > 0;)
		if (e->links[i].ops && e->links[i].ops->fini)
			e->links[i].ops->fini(&e->links[i]);
	rte_mempool_free(e->pool);
	free(e->replicas);
	free(e->even);
	free(e->elastic);
	free(e->owners);
	free(e->nfs);
	free(e->links);
	free(e->past);
	free(e->replicas_past);
	memset(e, 0, sizeof(*e));
}
