/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>

struct replaced {
	struct rcu_old old;
	void *object;
	void (*free_object)(void *object);
};

int snapshot_init(struct snapshot *s, unsigned int readers, void *first,
		  void (*free_object)(void *object), struct err *err)
{
	int rc = rcu_init(&s->rcu, readers, err);

	if (rc) {
		free_object(first);
		return rc;
	}
	s->free_object = free_object;
	atomic_init(&s->current, first);
	return 0;
}

void snapshot_fini(struct snapshot *s)
{
	void *current = s->rcu.readers ? atomic_load(&s->current) : NULL;

	rcu_fini(&s->rcu);
	if (current)
		s->free_object(current);
}

void snapshot_online(struct snapshot *s, unsigned int reader)
{
	rcu_online(&s->rcu, reader);
}

void snapshot_offline(struct snapshot *s, unsigned int reader)
{
	rcu_offline(&s->rcu, reader);
}

void snapshot_rest(struct snapshot *s, unsigned int reader, bool rests)
{
	rcu_rest(&s->rcu, reader, rests);
}

static void replaced_release(struct rcu_old *old)
{
	struct replaced *r = container_of(old, struct replaced, old);

	r->free_object(r->object);
	free(r);
}

int snapshot_publish(struct snapshot *s, void *next, struct err *err)
{
	struct replaced *r = malloc(sizeof(*r));

	if (!r) {
		s->free_object(next);
		return err_set(err, ENOMEM, "", "out of memory");
	}
	r->object = atomic_exchange(&s->current, next);
	r->free_object = s->free_object;
	rcu_retire(&s->rcu, &r->old, replaced_release);
	rcu_reclaim(&s->rcu);
	return 0;
}

void snapshot_reclaim(struct snapshot *s)
{
	rcu_reclaim(&s->rcu);
}
