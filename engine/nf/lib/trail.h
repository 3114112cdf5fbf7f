/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/nf.h"
#include "core/pkt.h"
#include "table/flow.h"

/*
 * Looking a batch's packets up: trail_begin as soon as a packet's key is known, then trail_find for all, and
 * trail_leave for each that has a record. Beside the batch's keys, by the same index.
 */
struct trail_looks {
	bool any; /* a packet has a trail */
	uint64_t hints[BURST_MAX];
	uint32_t *trails[BURST_MAX];
	struct flow *flows[BURST_MAX];
};

static inline void trail_start(struct trail_looks *l)
{
	l->any = false;
}

static __rte_always_inline void trail_begin(struct trail_looks *l, unsigned int i,
					    const struct flow_table *t, const void *key, bool v6,
					    const struct burst *b, const struct rte_mbuf *m)
{
	if (b->trails) {
		l->trails[i] = pkt_trail(m);
		l->flows[i] = v6 ? flow_guess6(t, l->trails[i]) : flow_guess4(t, l->trails[i]);
		if (l->trails[i])
			l->any = true;
		if (likely(l->flows[i]))
			return;
	}
	l->hints[i] = v6 ? flow_hint6(t, key) : flow_hint4(t, key);
}

static __rte_always_inline void trail_find(struct trail_looks *l, const struct flow_table *t,
					   const void *keys, bool v6, unsigned int n)
{
	if (v6 && l->any)
		flow_lookup6_trailed(t, keys, l->hints, l->trails, n, l->flows);
	else if (v6)
		flow_lookup6_hinted(t, keys, l->hints, n, l->flows);
	else if (l->any)
		flow_lookup4_trailed(t, keys, l->hints, l->trails, n, l->flows);
	else
		flow_lookup4_hinted(t, keys, l->hints, n, l->flows);
}

static __rte_always_inline void trail_leave(const struct burst *b, struct rte_mbuf *m,
					    const struct flow_table *t, struct flow *f)
{
	if (b->trails)
		pkt_set_trail(m, flow_trail(t, f, b->direction));
}
