/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/plain.h"
#include "fastpath_priv.h"

/* What the fast path reads and writes in packets. */

/* All that the run's functions would have written, once. */
static __rte_always_inline void fast_rewrite(struct rte_mbuf *m, struct fast_entry *e,
					     const struct fast_path *p, enum fast_family family)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct flow_rewrite to = {.l4_delta = e->flow.l4_delta, .ttl = p->ttl};

	if (family == FAST_IPV4) {
		const struct fast_rewrite4 *as = fast_rewrite4(e);

		to.addrs = (const uint8_t *)&as->src;
		to.ports = as->ports;
		to.l3_delta = as->l3_delta;
	} else {
		to.addrs = fast_rewrite6(e)->addrs;
		to.ports = fast_rewrite6(e)->ports;
	}
	rewrite_macs(frame, p->macs, p->sets);
	rewrite_ip(m, frame, &to, family);
}

/* The tuple that the next function finds. */
static inline void fast_see_tuple(struct fast_record *rec)
{
	const uint8_t *frame = rte_pktmbuf_mtod(rec->m, const uint8_t *),
		      *l3 = frame + FAST_L2_BYTES;

	if (rec->family == FAST_IPV4) {
		memcpy(&rec->at.src, l3 + offsetof(struct rte_ipv4_hdr, src_addr), 8);
		memcpy(&rec->at.sport, l3 + FAST_L3_BYTES, 4);
	} else {
		memcpy(rec->at.src6, l3 + offsetof(struct rte_ipv6_hdr, src_addr), 32);
		memcpy(&rec->at.sport, l3 + FAST_L3_BYTES6, 4);
	}
}
