/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include <rte_mempool.h>

#include "link.h"
#include "nf.h"
#include "plan.h"
#include "segment.h"

/*
 * One per CPU that any segment uses; polls its replicas in turn. By two lines, as processors fetch them
 * in pairs: each turn writes its clock, which no other lcore's turn may wait for.
 */
struct worker {
	unsigned int cpu, lcore;
	struct replica **replicas;
	unsigned int n_replicas;
	struct busy_clock clock;
	_Atomic bool stop;
	_Atomic uint64_t start_tsc; /* 0 until it runs, and while it has no replica */
	uint64_t ref_before, ops_before; /* cycles until it began again with other replicas (replan.c) */
	const struct plan_wait *wait;
	uint64_t sleeps, sleep_cycles;
} __rte_aligned(2 * RTE_CACHE_LINE_SIZE);

struct engine {
	struct plan *plan;
	struct rte_mempool *pool;
	struct link *links;          /* as plan->links */
	unsigned int n_links;        /* initialised so far */
	struct nf *nfs;              /* as plan->nfs */
	unsigned int n_nfs;          /* initialised so far */
	struct even_table **even;    /* per segment, when it steers evenly */
	struct replica ***replicas;  /* [segment][replica] */
	struct worker *workers;
	unsigned int n_workers;
	bool checking;      /* nothing will run: of the links, only what makes packets or reads files */
	unsigned int epoch; /* of trials */
	struct busy_window window; /* the last one's */
	_Atomic uint64_t locate_every; /* packets; as the plan has it until `locate` says otherwise */
	uint64_t clock_tsc, clock_ns; /* read together at the start: what the TSC's rate is held against */
};

/* EAL must be up. On error everything is undone. */
int engine_start(struct engine *e, struct plan *plan, struct err *err);
void engine_stop(struct engine *e);
/* Workers that have replicas begin, or begin again. */
int engine_launch(struct engine *e, struct err *err);
/* A new version of the plan, while it runs (replan.c). */
int engine_replan(struct engine *e, json_t *plan, json_t **reply, struct err *err);

/* EAL must be up. Makes every function and source, from its files, as a start would; no more. */
int engine_check(struct plan *plan, struct err *err);

/* Workers that wait (wait.c); that every input can be waited on, where that is asked for. */
int worker_wait_main(struct worker *worker, const struct plan_wait *conf);
int wait_check(struct engine *e, struct err *err);

/* Trials (trial.c): start every named source at one instant. */
int trial_start(struct engine *e, const json_t *sources, json_t **reply, struct err *err);
void trial_stop(struct engine *e);

/* All counters, as docs/design/contracts.md has them. */
json_t *stats_read(struct engine *e);
json_t *stats_segment(struct engine *e, unsigned int segment);
json_t *stats_link(struct engine *e, unsigned int link);
json_t *stats_workers(struct engine *e);
json_t *stats_info(struct engine *e);
void clock_pair(uint64_t *tsc, uint64_t *ns);
char *stats_prometheus(struct engine *e);

/*
 * Control socket. Once open the path is this engine's; a client can connect when it listens,
 * which says that the links are up. Serves until `quit` or a signal sets *stop.
 */
struct control {
	const char *path;
	int fd, claim;
	bool device; /* not a socket: its other end is the one client, without which nobody is left */
	bool with_client; /* ends when the first client goes, as if it had said `quit` */
};

int control_open(struct control *c, const char *path, struct err *err);
int control_listen(const struct control *c, struct err *err);
void control_serve(struct engine *e, const struct control *c, const volatile sig_atomic_t *stop);
void control_close(struct control *c);

int telemetry_register(struct engine *e);

/* EAL arguments from the plan, with its telemetry socket or without; once per process. */
int eal_start(const struct plan *plan, bool telemetry, struct err *err);
void eal_stop(void);
int cpu_to_lcore(const struct plan *plan, unsigned int cpu);

json_t *describe(void);
