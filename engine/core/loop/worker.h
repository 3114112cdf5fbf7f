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
	_Atomic uint64_t start_tsc; /* 0 until it runs, and while it has no replica */
	uint64_t ref_before, ops_before; /* cycles until it began again with other replicas (replan.c) */
	const struct plan_wait *wait;
	const struct worker *beside; /* one that runs, too; NULL: none does */
	struct slicer slicer;
	uint64_t sleeps;
	/* A core that goes through its lines fetches those behind them, too: the next lcore's clock. */
	char apart[2 * RTE_CACHE_LINE_SIZE] __rte_cache_aligned;
} __rte_aligned(2 * RTE_CACHE_LINE_SIZE);

/* What its lcore is launched with; `arg` is the worker. Returns once `stop` is set. */
int worker_main(void *arg);
/* Waits until it has returned. */
void worker_join(struct worker *w);

/* That all that the plan's workers wait for can be waited for. */
int worker_wait_check(const struct plan *p, struct err *err);
