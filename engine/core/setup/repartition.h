/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine.h"

/*
 * Other segments under traffic (docs/design/elastic.md): functions go from one to another, segments are
 * joined and cut, with what functions keep.
 */

/* On its way from one partition of the functions to another. */
struct repartition {
	struct engine *e;
	struct engine to;    /* as it will be */
	struct plan *next;
	bool *leaves;        /* by segment as it is: it will be no more as it is */
	int *stays;          /* by segment as it will be: which it is now; -1: it is made anew */
	struct elastic *gate; /* nobody has a bucket: writers into elastic segments that leave steer by it */
	struct replica ***lists; /* by worker: room for those that it may get */
	uint64_t end;        /* TSC until which is waited */
	uint64_t paused; /* cycles, in all */
	unsigned int pauses;
	uint64_t waited;     /* packets */
};

/* -errno and the reason, unless functions can be as in `next` while packets come; fills leaves, stays. */
int repartition_check(struct repartition *c, struct err *err);
/* All that takes memory: links' ways, replicas without functions. */
int repartition_make(struct repartition *c, struct err *err);
/* What was made for nothing, or is no more. */
void repartition_free(struct repartition *c);
/* While all workers pause, and nothing is in segments that leave. */
void repartition_switch(struct repartition *c);

/* What a former replica of this name had counted; NULL: there was none. */
struct replica_past *replica_past(struct engine *e, const char *name, unsigned int index);
/* A link that somebody who stays writes, and a segment that leaves reads. */
bool repartition_enters(const struct repartition *c, unsigned int link);

/*
 * `next` has the running plan's engine, links and functions, in their order; it is spent: the former segments
 * are in it then. An error: nothing has changed.
 */
int engine_repartition(struct engine *e, struct plan *next, unsigned int within_ms, json_t **reply,
		       struct err *err);
