/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "segment.h"

/*
 * What a verdict counts as. Here alone, for packets that a function has seen, that the fast path spared
 * it, that functions side by side have worked on, and that a function emits: so that in + created =
 * out + dropped + aborted + consumed + change in held, whichever way a packet took.
 */

/* Where a packet counts whose way this verdict ends. */
static inline struct ends *verdict_ends(struct node_stats *s, uint8_t verdict)
{
	if (verdict == NF_CONSUME)
		return &s->consumed;
	if (verdict >= NF_DROP(0) && verdict < NF_DROP(NF_DROPS_MAX))
		return &s->dropped[verdict - NF_DROP(0)];
	return &s->aborted;
}

/* Whether it is an edge that the plan leads on from. */
static inline bool verdict_goes_on(const struct node *node, uint8_t dir, uint8_t verdict)
{
	return verdict < node->n_edges && node->next[dir][verdict].kind != TO_DROP;
}

/* Packets that leave by one edge; where to. */
static inline struct target count_out(struct node *node, uint8_t dir, unsigned int edge,
				      struct rte_mbuf *const *pkts, uint16_t n)
{
	struct target to = node->next[dir][edge];

	if (unlikely(to.kind == TO_DROP))
		ends_add_burst(&node->stats.no_route, pkts, n);
	else
		node->stats.out[edge] += n;
	return to;
}

/* A packet whose verdict is no edge; false: the function keeps it. */
static inline bool count_end(struct node *node, uint8_t verdict, const struct rte_mbuf *m)
{
	if (verdict == NF_HOLD) {
		node->stats.held++;
		ends_add(&node->stats.held_ends, m, 1);
		return false;
	}
	ends_add(verdict_ends(&node->stats, verdict), m, 1);
	return true;
}

/* One packet, whatever its verdict; whether it goes on. */
static inline bool count_verdict(struct node *node, uint8_t dir, uint8_t verdict, struct rte_mbuf *m)
{
	if (likely(verdict < node->n_edges))
		return count_out(node, dir, verdict, &m, 1).kind != TO_DROP;
	count_end(node, verdict, m);
	return false;
}

/* Packets that a function was spared; those that end there have their count_verdict, one by one. */
static inline void count_spared(struct node *node, uint8_t dir, uint8_t verdict, uint32_t n)
{
	node->stats.in += n;
	if (verdict_goes_on(node, dir, verdict))
		node->stats.out[verdict] += n;
}

/* A packet that was held is no more. */
static inline void count_let_go(struct node *node, const struct rte_mbuf *m)
{
	node->stats.held--;
	ends_add(&node->stats.held_ends, m, -1);
}
