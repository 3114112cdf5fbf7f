/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dry run: the plan's own packets go through its own functions in this thread, without an lcore,
 * so that somebody can be told what would become of them.
 */
#include <rte_cycles.h>

#include "control.h"

/* Functions may hold packets; what they have not let go by then is not waited for. */
#define DRY_MAX_S 2
#define DRY_DRAIN_MAX_S 1 /* what is under way then comes through, lest it count as lost */
#define DRY_STILL_TURNS 256 /* without a packet: all are through */

/* One turn of every replica; how many of them found packets. */
static unsigned int turn(struct engine *e)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < e->n_workers; i++)
		for (unsigned int j = 0; j < e->workers[i].n_replicas; j++) {
			struct replica *r = e->workers[i].replicas[j];
			uint64_t busy = r->count.polls - r->count.idle_polls;

			replica_poll(r);
			found += r->count.polls - r->count.idle_polls != busy;
		}
	return found;
}

static bool sending(const struct engine *e)
{
	for (unsigned int i = 0; i < e->n_links; i++)
		if (e->links[i].ops->sends && e->links[i].ops->sends->busy(&e->links[i]))
			return true;
	return false;
}

static int begin(struct engine *e, uint64_t packets, struct err *err)
{
	json_t *sources = json_object(), *reply = NULL;
	int rc;

	for (unsigned int i = 0; i < e->n_links; i++)
		if (e->links[i].ops->sends)
			json_object_set_new(sources, e->links[i].name,
					    json_pack("{s:I}", "packets", (json_int_t)packets));
	rc = trial_start(e, sources, &reply, err);
	json_decref(sources);
	json_decref(reply);
	return rc;
}

/* Until nothing has moved for a while, or so long. */
static void turns(struct engine *e, unsigned int max_s)
{
	uint64_t end = rte_rdtsc() + max_s * rte_get_tsc_hz();
	unsigned int still = 0;

	while (still < DRY_STILL_TURNS && rte_rdtsc() < end)
		still = turn(e) || sending(e) ? 0 : still + 1;
}

static int whole(const struct engine *e, struct err *err)
{
	for (unsigned int i = 0; i < e->n_nfs; i++)
		if (e->nfs[i].partial)
			return err_set(err, ENOMEM, e->nfs[i].name,
				       "its table is too large to be made for a trial");
	return 0;
}

int dry_run(struct plan *plan, uint64_t packets, json_t **reading, struct err *err)
{
	struct engine e = {.checking = true};
	int rc = engine_make(&e, plan, err);

	if (rc)
		return rc;
	for (unsigned int i = 0; i < e.n_workers; i++) {
		struct worker *w = &e.workers[i];

		busy_begin(&w->clock);
		slicer_begin(&w->slicer, &w->clock, &w->beacon, NULL, w->replicas, w->n_replicas);
	}
	rc = whole(&e, err);
	if (!rc)
		rc = begin(&e, packets, err);
	if (!rc) {
		turns(&e, DRY_MAX_S);
		trial_stop(&e);
		turns(&e, DRY_DRAIN_MAX_S);
		*reading = stats_read(&e);
	}
	engine_stop(&e);
	return rc;
}
