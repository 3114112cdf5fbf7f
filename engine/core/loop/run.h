/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "segment.h"

/* A burst's way through the functions of a segment; `t` is the last reading of a timed poll (timing.h). */

/* From what waits at function `first` on; what leaves the segment lies in its outlets' queues. */
void run_nodes(struct replica *r, unsigned int first, uint8_t dir, uint64_t *t);
/* What functions emitted goes on from where they were, in a run of its own. */
void run_emitted(struct replica *r);
/* By their verdicts, packets leave a function. */
void dispatch(struct replica *r, struct node *node, struct burst *b);
