/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine.h"

/* The quiescent point: all workers have ended their poll, and stop. */
void engine_pause(struct engine *e);
/* Cycles from there until all had gone on (engine_launch). */
static inline uint64_t engine_paused(const struct engine *e)
{
	return e->runs_since - e->paused_at;
}
/* Each replica to the worker on its CPU in `next`, while they stop; as many run as that says. */
void engine_assign(struct engine *e, const struct plan *next);
/* -EINVAL of a CPU that no worker has. */
int engine_has_cpus(const struct engine *e, const struct plan_segment *s, const char *path,
		    struct err *err);
/* Two segments are the same but for their CPUs. */
bool segments_alike(const json_t *a, const json_t *b);
