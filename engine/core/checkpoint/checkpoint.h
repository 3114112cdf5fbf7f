/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/nf.h"

/*
 * Checkpoints (docs/design/checkpoints.md): what a segment's functions keep of flows is written, a part at
 * each tick, into memory that outlives the engine, and the next engine with that memory goes on with it.
 */
struct checkpoint;

/* What became of the flows that a predecessor left. */
struct checkpoint_restored {
	uint64_t live;     /* that it had when it ended */
	uint64_t whole;    /* of which a whole slot was there */
	uint64_t restored; /* that go on */
	uint64_t expired;  /* whose time was over */
	uint64_t refused;  /* by their function, as they are */
	uint64_t lost;     /* of `live`, neither restored nor expired */
	uint64_t oldest_ns; /* that one of those restored was written before */
};

struct checkpoint_counts {
	uint64_t passes;       /* over all flows */
	uint64_t pass_ns;      /* that the longest took */
	uint64_t saved;        /* slots written */
	uint64_t most_at_once; /* records looked at by one tick */
	uint64_t cycles, longest_cycles; /* in all, and of one tick */
};

/*
 * For these workers, each the only one of its function; a checkpoint of each flow every `every_cycles`. An
 * error names the function that cannot.
 */
int checkpoint_create(struct nf_worker *const *workers, unsigned int n, uint64_t every_cycles,
		      struct checkpoint **out, struct err *err);
void checkpoint_free(struct checkpoint *c);

/*
 * Writes go to this memory from now on; NULL: nowhere. `restore`: what is there goes on in the workers, who
 * have had no packet. It may be anything: it is checked, and never believed to be the same twice.
 */
void checkpoint_attach(struct checkpoint *c, void *memory, size_t bytes, bool restore, uint64_t now);
const void *checkpoint_memory(const struct checkpoint *c);
/* Worker lcore, at each tick of the segment. */
void checkpoint_tick(struct checkpoint *c, uint64_t now);
/* Control thread, while no lcore polls, at the end: all flows as they are; how many slots that took. */
uint64_t checkpoint_finish(struct checkpoint *c, uint64_t now);

/* Of each flow table. */
uint32_t checkpoint_slots(const struct checkpoint *c);
const struct checkpoint_restored *checkpoint_restored(const struct checkpoint *c);
const struct checkpoint_counts *checkpoint_counts(const struct checkpoint *c);
json_t *checkpoint_json(const struct checkpoint *c);
