/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/setup/engine.h"

/*
 * One chain twice, in lockstep on one clock: plainly, each function by its own index, and with the fast path,
 * or without it but with the trails that functions leave each other. Links are memory; what leaves must be
 * the same packets, in the same order within a flow, and be counted at the same functions. A flow is one as
 * it came: what a nat makes of two may leave with one tuple, in whatever order. What cannot be an input's
 * fault ends the program.
 */

#define LOCKSTEP_FRAME_MAX 256
#define LOCKSTEP_LEFT_MAX 512

struct lockstep_frame {
	uint16_t len;
	uint32_t flow; /* of what leaves: a hash of its tuple as it came */
	uint8_t data[LOCKSTEP_FRAME_MAX];
};

/* What is to come in by a link, or left by it. */
struct lockstep_wire {
	unsigned int n;
	struct lockstep_frame frames[LOCKSTEP_LEFT_MAX];
};

struct lockstep_side {
	struct plan *plan;
	struct engine engine;
	struct replica *r;
	struct lockstep_wire *wires; /* as the plan's links */
};

struct lockstep {
	struct lockstep_side plain, fast;
	char why[4 * LOCKSTEP_FRAME_MAX + 160];
};

/*
 * `flows`: of the fast path; 0: there is none. `chain`: a plan of one segment with a %u for that number, and
 * links of type "mem". The pool is shared, and must outlive both.
 */
void lockstep_open(struct lockstep *l, const char *chain, unsigned int flows, struct rte_mempool *pool);
void lockstep_close(struct lockstep *l);

/* A packet into both, by the link of this number. */
void lockstep_put(struct lockstep *l, unsigned int link, const void *data, uint32_t len);
/* A table of both changed; as the NF's update: 0, or -errno of both. */
int lockstep_change(struct lockstep *l, const char *nf, const char *op);
/* One turn of both; false when not the same left by the links from `first` on, `why` says what. */
bool lockstep_poll(struct lockstep *l, unsigned int first);
/* Forget what left. */
void lockstep_forget(struct lockstep *l, unsigned int first);
/* Are functions' counts the same? All but what acl's own cache did. */
bool lockstep_same_counts(struct lockstep *l);
