/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/nf.h"
#include "core/pkt.h"
#include "table/flow.h"

/*
 * The flow tables of a function's workers: each has one of its own; in an elastic segment all have the
 * first one's, in a shard for each bucket.
 */

/* The first worker's state, where this one shares it and has not made it; otherwise NULL. */
static inline void *shared_first(const struct nf_worker *w)
{
	return w->owners && w->first != w ? w->first->state : NULL;
}

/* `first`: the first worker's table, where there is one. */
static inline int shared_flows(const struct nf_worker *w, const struct flow_conf *conf,
			       const struct flow_table *first, struct flow_table **out, struct err *err)
{
	struct flow_conf own = *conf;

	if (first)
		return flow_join(first, (uint8_t)w->index, out, err);
	own.owners = w->owners;
	own.shards = PKT_BUCKETS;
	own.worker = (uint8_t)w->index;
	own.tried = w->nf->checking;
	return flow_create(&own, out, err);
}

static inline unsigned int shared_buckets(const struct nf_worker *w)
{
	return w->owners ? PKT_BUCKETS : 1;
}

/* What is kept by bucket is found by this. */
static inline unsigned int shared_bucket(const struct nf_worker *w, const struct rte_mbuf *m)
{
	return w->owners ? pkt_bucket(m) : 0;
}

/* It has the bucket's packets now. */
static inline bool shared_is_own(const struct nf_worker *w, unsigned int bucket)
{
	return !w->owners ||
	       atomic_load_explicit(&w->owners[bucket], memory_order_acquire) == (uint8_t)w->index;
}
