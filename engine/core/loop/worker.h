/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

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
	_Atomic bool hold, held; /* while it stops: it stays on its lcore; and does by now */
	_Atomic uint64_t start_tsc; /* 0 until it runs, and while it has no replica */
	uint64_t ref_before, ops_before; /* cycles until it began again with other replicas (replan.c) */
	const struct plan_wait *wait;
	const struct worker *beside; /* one that runs, too; NULL: none does */
	struct slicer slicer;
	uint64_t sleeps;
	_Atomic uint64_t asleep; /* TSC since when; 0: it polls */
	struct beacon beacon;
	/* A core that goes through its lines fetches those behind them, too: the next lcore's. */
	char apart[2 * RTE_CACHE_LINE_SIZE] __rte_cache_aligned;
} __rte_aligned(2 * RTE_CACHE_LINE_SIZE);

/* What its lcore is launched with; `arg` is the worker. Returns once `stop` is set, and `hold` is not. */
int worker_main(void *arg);
/*
 * Polls no more, once worker_held() returns, but stays on its lcore: to wake a thread takes some 50 us, to
 * let one go on that spins less than one.
 */
void worker_hold(struct worker *w);
void worker_held(struct worker *w);
/*
 * Goes on, or begins, which is not waited for: nor need others wait for it, as it may need the CPU that this
 * thread has. False: its lcore cannot be launched.
 */
bool worker_go_on(struct worker *w);
/* Waits until it runs, and says since when. */
uint64_t worker_runs(const struct worker *w);
/* Waits until it has returned, also from being held. */
void worker_join(struct worker *w);

/* That all that the plan's workers wait for can be waited for. */
int worker_wait_check(const struct plan *p, struct err *err);
