/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <rte_mempool.h>

#include "core/link.h"
#include "core/loop/segment.h"
#include "core/loop/worker.h"
#include "core/nf.h"
#include "core/plan/plan.h"

/* What segments that are no more had counted of a link that nobody reads, or writes, just now. */
struct link_past {
	struct inlet_count in;   /* by readers */
	struct outlet_count out; /* by writers */
};

/* What a replica had counted of itself when its segment went: for one of its name that comes again. */
struct replica_past {
	char name[32];
	unsigned int index;
	struct replica_count count;
	uint64_t ops;
	struct busy_turns turns;
};
#define REPLICAS_PAST 256 /* names and replicas; a partition that would need more is refused */

/* A plan that runs: everything that was made from it. */
struct engine {
	struct plan *plan;
	struct rte_mempool *pool;
	struct link *links;          /* as plan->links */
	unsigned int n_links;        /* initialised so far */
	struct nf *nfs;              /* as plan->nfs */
	unsigned int n_nfs;          /* initialised so far */
	struct even_table **even;    /* per segment, when it steers evenly */
	struct elastic **elastic;    /* per segment, when it is */
	_Atomic uint8_t (*owners)[PKT_BUCKETS]; /* as nfs: its segment's, when that is elastic */
	struct link_past *past;      /* as links */
	struct replica_past *replicas_past;
	unsigned int n_replicas_past;
	const struct engine *was;    /* while its segments change: this is what it will be; NULL: it is */
	/* For tests, whose one thread is all lcores: done while they are waited for. Otherwise NULL. */
	void (*idle)(struct engine *e);
	const atomic_bool *ends; /* set: nobody is waited for any more; or NULL */
	struct replica ***replicas;  /* [segment][replica] */
	struct worker *workers;
	unsigned int n_workers;
	uint64_t paused_at, runs_since; /* TSC: told to stop, and the last of them going on */
	bool checking;     /* nothing will run on lcores (nf.h) */
	bool senders_only; /* of the links, only what makes packets or reads files */
	unsigned int epoch; /* of trials */
	struct busy_window window; /* the last one's */
	_Atomic uint64_t locate_every; /* packets; as the plan has it until `locate` says otherwise */
	uint64_t clock_tsc, clock_ns; /* read together at the start: what the TSC's rate is held against */
};

/* EAL must be up. On error everything is undone. `engine_make`: all of it but the lcores' start. */
int engine_make(struct engine *e, struct plan *plan, struct err *err);
int engine_start(struct engine *e, struct plan *plan, struct err *err);
void engine_stop(struct engine *e);
/* Capabilities (1 << CAP_...) that taking its links down needs in the control thread. */
uint64_t engine_keeps(const struct engine *e);
/* Workers that have replicas begin, or begin again. */
int engine_launch(struct engine *e, struct err *err);
/*
 * A new version of the plan, while it runs (replan.c); `within_ms`: for each move of buckets. An error:
 * it is not in force, though buckets of segments before the one that is named may have left replicas that
 * would have rested; -EBUSY of an lcore that does not start is the exception. What comes late of one that is
 * in force is said in the reply.
 */
int engine_replan(struct engine *e, json_t *plan, unsigned int within_ms, json_t **reply,
		  struct err *err);

/* A replica of an elastic segment has no lcore from now on, or has one again; while it does not run. */
void replica_rest(struct replica *r, bool rests);

/* Who reads this outlet's link says which bucket a packet of it is of; the outlet has a way. */
void replica_aim(const struct engine *e, const struct replica *r, const struct outlet *o);
/* Where a function is in one of its segment's replicas. */
struct node *replica_node(const struct engine *e, unsigned int nf, unsigned int index);

/* EAL must be up. Makes every function and sender, from its files, as a start would; no more. */
int engine_check(struct plan *plan, struct err *err);

/* An error of a link or NF names a parameter or a file; says whose, and returns `rc`. */
int engine_named(struct err *err, int rc, const char *kind, const char *name);

/* Build replica `index` of segment `si`; link queues are opened. -errno. */
int replica_create(struct engine *e, unsigned int si, unsigned int index, struct replica **out,
		   struct err *err);
void replica_destroy(struct replica *r);

/* Checkpoints, where a link that the segment reads has them; then what is there goes on (checkpoint.h). */
int checkpoint_open(struct replica *r, const struct plan_segment *s, struct err *err);
void checkpoint_begin(struct replica *r);

/* Functions side by side, where the segment has them. */
int parallel_open(struct engine *e, struct replica *r, const struct plan_segment *s,
		  struct err *err);
void parallel_close(struct parallel *p);

/* EAL arguments from the plan, with its telemetry socket or without; once per process. */
int eal_start(const struct plan *plan, bool telemetry, struct err *err);
void eal_stop(void);
int cpu_to_lcore(const struct plan *plan, unsigned int cpu);
