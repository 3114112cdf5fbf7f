/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer behind a link is replaced by another one, which goes on with what it kept
 * (docs/design/checkpoints.md): `hold` lets packets for it wait, `leave` has it end once nothing is under
 * way in it and all of its flows are written, `release` lets those that waited go to its successor.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>

#include "control.h"
#include "core/checkpoint/checkpoint.h"
#include "core/setup/elastic_move.h"
#include "core/setup/replan.h"

#define NAP_NS 1000000

static uint64_t end_within(unsigned int within_ms)
{
	return rte_rdtsc() + within_ms * rte_get_tsc_hz() / 1000;
}

static bool nap_until(uint64_t end)
{
	const struct timespec nap = {0, NAP_NS};

	nanosleep(&nap, NULL);
	return rte_rdtsc() < end;
}

static double ns_since(uint64_t began)
{
	return (double)(rte_rdtsc() - began) * 1e9 / (double)rte_get_tsc_hz();
}

static int holding_link(struct engine *e, const json_t *req, struct link **out, struct err *err)
{
	int rc = command_link(e, req, out, err);

	if (!rc && !(*out)->ops->hold)
		return err_set(err, ENOTSUP, "link",
			       "\"%s\" is a %s; allowed: an shm link, whose peer may be replaced",
			       (*out)->name, (*out)->ops->name);
	return rc;
}

/* While no lcore polls: none is about to write. */
static int quiescent(struct engine *e, struct link *l, int (*change)(struct link *l, struct err *err),
		     struct err *err)
{
	struct err late = {0};
	int rc;

	engine_pause(e);
	rc = change(l, err);
	if (engine_launch(e, &late) && !rc) {
		*err = late;
		rc = -EBUSY;
	}
	return rc;
}

int handover_cmd_hold(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	struct link *l = NULL;
	int rc = holding_link(e, req, &l, err);

	if (!rc)
		rc = quiescent(e, l, l->ops->hold, err);
	if (!rc)
		*reply = json_pack("{s:b, s:I}", "ok", 1, "paused_ns",
				   (json_int_t)((double)engine_paused(e) * 1e9 / (double)rte_get_tsc_hz()));
	return rc;
}

int handover_cmd_release(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	uint64_t began = rte_rdtsc(), end;
	unsigned int within_ms;
	struct link_held held;
	struct link *l = NULL;
	bool waits;
	int rc = elastic_within(req, &within_ms, err);

	if (!rc)
		rc = holding_link(e, req, &l, err);
	if (!rc)
		rc = quiescent(e, l, l->ops->release, err);
	if (rc)
		return rc;
	end = end_within(within_ms);
	while ((waits = l->ops->holds(l, &held)) && nap_until(end))
		;
	*reply = json_pack("{s:b, s:I, s:I, s:I}", "ok", 1, "waited", (json_int_t)held.waited, "most",
			   (json_int_t)held.most, "took_ns", (json_int_t)ns_since(began));
	if (waits)
		json_object_set_new(*reply, "late",
				    json_sprintf("%u packets wait for room, or for others behind them",
						 held.now));
	return 0;
}

/* What is read has an end: of who is told that it writes no more. */
static int all_end(const struct engine *e, struct err *err)
{
	for (unsigned int l = 0; l < e->n_links; l++)
		if (!e->links[l].ops->writer_steers &&
		    (!e->links[l].ops->drained || e->links[l].ops->drained(&e->links[l]) < 0))
			return err_set(err, ENOTSUP, e->links[l].name,
				       "is a %s, by which more may come at any time; allowed: rings, and "
				       "clients' ends of shm links", e->links[l].ops->name);
	return 0;
}

/* NULL: nothing is under way; otherwise where something is. While no lcore polls. */
static const char *under_way(const struct engine *e)
{
	for (unsigned int l = 0; l < e->n_links; l++) {
		const struct link *link = &e->links[l];

		if (link->ops->drained && !link->ops->drained(link))
			return link->name;
		for (uint16_t q = 0; link->ops->writer_steers && q < link->n_rxq; q++)
			if (link->ops->waiting(link, q))
				return link->name;
	}
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++) {
			const struct replica *r = e->replicas[s][i];

			if (r->pending)
				return e->plan->segments[s].name;
			for (unsigned int n = 0; n < r->n_nodes; n++)
				if (r->nodes[n].stats.held)
					return r->nodes[n].worker->nf->name;
		}
	return NULL;
}

static uint64_t write_all(struct engine *e)
{
	uint64_t flows = 0;

	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++)
			if (e->replicas[s][i]->checkpoint)
				flows += checkpoint_finish(e->replicas[s][i]->checkpoint, rte_rdtsc());
	return flows;
}

int handover_cmd_leave(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	uint64_t began = rte_rdtsc(), flows, end;
	unsigned int within_ms;
	const char *where;
	int rc = elastic_within(req, &within_ms, err);

	if (!rc)
		rc = all_end(e, err);
	if (rc)
		return rc;
	end = end_within(within_ms);
	for (;;) {
		engine_pause(e);
		where = under_way(e);
		if (!where)
			break;
		rc = engine_launch(e, err);
		if (rc)
			return rc;
		if (!nap_until(end))
			return err_set(err, EBUSY, where,
				       "has packets after %u ms; allowed: once `hold` lets those for this "
				       "engine wait; it goes on", within_ms);
	}
	/* Its lcores stay as they are, until the engine ends. */
	flows = write_all(e);
	*reply = json_pack("{s:b, s:I, s:I}", "ok", 1, "flows", (json_int_t)flows, "took_ns",
			   (json_int_t)ns_since(began));
	return 0;
}
