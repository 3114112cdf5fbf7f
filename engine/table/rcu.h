/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_rcu_qsbr.h>

#include "core/err.h"

/*
 * Read-copy-update for what an NF's workers read and its control thread replaces, over rte_rcu_qsbr: a
 * worker says at the start of each burst and each tick that it holds nothing from before (rcu_quiescent),
 * and what was unlinked is given back once every worker has said so since. Nobody ever waits: that is
 * looked at when more is retired. One thread at a time retires and reclaims.
 */
struct rcu_old {
	struct rcu_old *next;
	uint64_t mark;
	void (*release)(struct rcu_old *old);
};

struct rcu {
	struct rte_rcu_qsbr *readers;
	struct rcu_old *first, **end; /* oldest first */
};

/* Readers are numbered 0..readers-1, as nf_worker.index is. */
int rcu_init(struct rcu *r, unsigned int readers, struct err *err);
/* All that was retired is released; no reader is left. After a failed rcu_init, or of zeros, nothing. */
void rcu_fini(struct rcu *r);

/* Control thread. */
void rcu_online(const struct rcu *r, unsigned int reader); /* from worker_init */
void rcu_offline(const struct rcu *r, unsigned int reader);
/* It reads nothing for a while, and nobody waits for it; or it does again. */
void rcu_rest(const struct rcu *r, unsigned int reader, bool rests);
/* What is unlinked is kept in `old`, which lies in it, until no reader can have it. */
void rcu_retire(struct rcu *r, struct rcu_old *old, void (*release)(struct rcu_old *old));
void rcu_reclaim(struct rcu *r);

/* For who keeps lists of its own: what was unlinked before the mark is nobody's once it has passed. */
uint64_t rcu_mark(const struct rcu *r);
bool rcu_passed(const struct rcu *r, uint64_t mark);

/* Worker. */
static inline void rcu_quiescent(const struct rcu *r, unsigned int reader)
{
	rte_rcu_qsbr_quiescent(r->readers, reader);
}
