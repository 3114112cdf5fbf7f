/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>

#include "core/nf.h"
#include "core/plan/plan.h"

/*
 * Functions side by side: neighbours of a segment that work on each packet at the same time, on
 * lcores of their own (docs/design/parallel.md). The replica's lcore, the lead, puts packets into
 * slots in their order, works on them with the first function and publishes; each side works
 * through the slots in the same order and publishes how far it is; the lead merges the verdicts of
 * what all have done. One writer per index, so no locks and no atomic read-modify-write; and a
 * packet has one owner all the time, the slots, so that its reference count stays 1.
 */
#define PARALLEL_SLOTS 1024 /* a power of two */

struct replica;
struct node;

/* What one function works on, and what it said. */
struct parallel_member {
	uint16_t node;
	bool whole;               /* its copies must have the payload */
	struct rte_mbuf **pkts;   /* the group's, or its own copies */
	struct rte_mbuf **copies; /* NULL: works on the packet itself */
	uint8_t verdicts[PARALLEL_SLOTS] __rte_cache_aligned;
	_Atomic uint32_t done __rte_cache_aligned; /* slots that it is through with */
};

/* A function beside: the poll of an lcore that has only this to do for the segment. */
struct parallel_side {
	struct parallel *group;
	struct parallel_member *member;
	struct nf_worker *worker;
	uint32_t done; /* as published */
	uint64_t batches, cycles, cycles_packets;
	struct burst burst;
};

struct parallel {
	unsigned int n;
	struct rte_mbuf *pkts[PARALLEL_SLOTS];
	struct replica *sides[PARALLEL_MAX]; /* [0] is not used: the lead's own */
	uint32_t joined;                     /* lead's: slots up to here are free again */
	uint64_t full_polls; /* lead's: polls without a poll of inputs, for want of slots */
	_Atomic uint32_t head __rte_cache_aligned; /* slots up to here are filled */
	struct parallel_member members[PARALLEL_MAX];
};

/* Lead: fill slots and publish them; there must be room. Then the first function's verdicts. */
void parallel_fork(struct parallel *p, struct burst *b);
void parallel_said(struct parallel *p, const struct burst *b);

/*
 * Lead: merge up to a burst of what all have done. Drops are counted at the first function that
 * wanted them, in the chain's order, as in sequence; b gets what goes on, with the last function's
 * verdicts. How many slots became free.
 */
unsigned int parallel_join(struct parallel *p, struct replica *r, struct burst *b);

/* Side: one poll, timed or not (timing.h), how many packets; and its function's own time. */
uint32_t parallel_side_poll(struct replica *r, uint64_t *t);
void parallel_side_tick(struct replica *r, uint64_t now);

/* Lead: packets on their way, and whether the next burst and what it makes would find room. */
static inline uint32_t parallel_used(const struct parallel *p)
{
	return atomic_load_explicit(&p->head, memory_order_relaxed) - p->joined;
}

bool parallel_full(const struct parallel *p);

json_t *parallel_json(const struct parallel *p);
