/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "rcu.h"

/*
 * One read-mostly object that the workers of an NF read and its control thread replaces whole.
 *
 * What a worker got from snapshot_read is valid until its next snapshot_read, so it calls that once at
 * the start of each burst and each tick. A replaced object is freed by a later publish or reclaim, when
 * every worker has read since; at the latest by snapshot_fini.
 */
struct snapshot {
	void *_Atomic current;
	struct rcu rcu;
	void (*free_object)(void *object);
};

/* Takes `first` over. Readers are numbered 0..readers-1, as nf_worker.index is. */
int snapshot_init(struct snapshot *s, unsigned int readers, void *first,
		  void (*free_object)(void *object), struct err *err);
void snapshot_fini(struct snapshot *s);

/* Control thread. */
void snapshot_online(struct snapshot *s, unsigned int reader); /* from worker_init */
void snapshot_offline(struct snapshot *s, unsigned int reader);
void snapshot_rest(struct snapshot *s, unsigned int reader, bool rests); /* as rcu_rest */
int snapshot_publish(struct snapshot *s, void *next, struct err *err); /* on error `next` is freed */
void snapshot_reclaim(struct snapshot *s);

/* Control thread; or a worker, between two reads: what it got or a later one, valid as long. */
static inline void *snapshot_get(struct snapshot *s)
{
	return atomic_load_explicit(&s->current, memory_order_acquire);
}

/* Worker. */
static inline void *snapshot_read(struct snapshot *s, unsigned int reader)
{
	rcu_quiescent(&s->rcu, reader);
	return snapshot_get(s);
}
