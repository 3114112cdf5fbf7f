/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/nf.h"
#include "nf/lib/shared_flows.h"

/*
 * Virtual reassembly: a datagram's fragments share the fate of its first one, which has the ports,
 * and go on as they are; those that come before it are held. Bounded in datagrams and in held
 * packets, and timed from the first fragment to come, so that what never completes costs no more than
 * that; an overlap poisons the rest of the datagram (RFC 1858, RFC 3128, RFC 5722).
 */

#define FRAGMENTS_NOTE_BYTES 16

struct fragments_ops {
	/*
	 * The verdict on a first fragment, which has a whole L4 header and is shown as if it were
	 * the whole packet. `note` (zeroed) is for `later`.
	 */
	uint8_t (*first)(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir, uint32_t now,
			 void *note);
	/* Each other fragment of a datagram whose first one passed; may be NULL. */
	void (*later)(struct nf_worker *w, struct rte_mbuf *m, const void *note);
	/* Reasons: no fragment of any datagram, or too tiny; and what the words say. */
	uint8_t drop_bad, drop_overlap, drop_limit, drop_timeout;
};

/* In an elastic segment all workers have the first one's, and each what is its buckets'. */
struct fragments_shared {
	_Atomic uint64_t held;
	_Atomic uint32_t n_blocked;
	uint32_t blocked[FLOW_FAMILIES][PKT_BUCKETS]; /* see fragments.c */
};

struct fragments {
	const struct fragments_ops *ops;
	struct flow_table *datagrams[FLOW_FAMILIES];
	struct fragments_shared *shared;
	bool joined; /* it is another's */
	uint64_t held_max;
	uint32_t timeout; /* in flow_now units */
};

struct fragments_conf {
	uint64_t datagrams; /* per family */
	uint64_t held_max;
	double timeout_s;
	int socket_id;
};

/* `first`: the first worker's, where this one shares what it has (shared_first); otherwise NULL. */
int fragments_init(struct fragments *f, const struct nf_worker *w, const struct fragments *first,
		   const struct fragments_ops *ops, const struct fragments_conf *conf, struct err *err);
void fragments_fini(struct fragments *f);

/* The verdict on a packet that pkt_classify calls a fragment, NF_HOLD among them. */
uint8_t fragments_take(struct fragments *f, struct nf_worker *w, struct rte_mbuf *m,
		       enum nf_direction dir, uint32_t now);
static inline uint64_t fragments_held(const struct fragments *f)
{
	return atomic_load_explicit(&f->shared->held, memory_order_relaxed);
}

void fragments_tick(struct fragments *f, struct nf_worker *w, uint32_t now);
