/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_mbuf.h>

/*
 * Free a burst. Nearly always all are whole, unshared and from one pool; then the mempool takes
 * them at once and mbufs' second cache lines stay untouched (nb_segs == 1 implies next == NULL).
 */
static inline void mbuf_free_burst(struct rte_mbuf **pkts, unsigned int n)
{
	struct rte_mempool *pool;
	unsigned int i;

	if (!n)
		return;
	pool = pkts[0]->pool;
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = pkts[i];

		if (unlikely(m->pool != pool || m->nb_segs != 1 || !RTE_MBUF_DIRECT(m) ||
			     rte_mbuf_refcnt_read(m) != 1))
			break;
	}
	if (likely(i == n))
		rte_mempool_put_bulk(pool, (void **)pkts, n);
	else
		rte_pktmbuf_free_bulk(pkts, n);
}
