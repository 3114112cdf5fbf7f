/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "core/nf.h"
#include "core/pkt.h"

/*
 * A copy of a packet's first `bytes`, as far as they fit into one mbuf; NULL when there is none. The
 * bytes are copied: mbufs that share them (rte_pktmbuf_clone) would show one reader what later
 * NFs write for another.
 */
static inline struct rte_mbuf *nf_copy_packet(struct nf_worker *w, const struct rte_mbuf *m,
					      uint32_t bytes)
{
	struct rte_mbuf *copy = nf_alloc(w);
	const void *from;
	char *to;

	if (!copy)
		return NULL;
	bytes = RTE_MIN(bytes, (uint32_t)rte_pktmbuf_tailroom(copy));
	to = rte_pktmbuf_append(copy, (uint16_t)bytes);
	from = rte_pktmbuf_read(m, 0, bytes, to); /* copies by itself when segments are several */
	if (from != to)
		memcpy(to, from, bytes);
	/* What other NFs know of the original is true of its copy, unless the end is missing. */
	pkt_set_class(copy, m->packet_type, pkt_lens(m));
	copy->port = m->port;
	if (copy->pkt_len != m->pkt_len)
		pkt_classify(copy);
	return copy;
}
