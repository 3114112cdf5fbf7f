/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>

struct snapshot_old {
	struct snapshot_old *next;
	void *object;
	uint64_t token;
};

int snapshot_init(struct snapshot *s, unsigned int readers, void *first,
		  void (*free_object)(void *object), struct err *err)
{
	unsigned int threads = readers ? readers : 1;
	size_t bytes = RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(threads), RTE_CACHE_LINE_SIZE);

	s->old = NULL;
	s->free_object = free_object;
	s->readers = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
	if (!s->readers) {
		free_object(first);
		return err_set(err, ENOMEM, "", "out of memory");
	}
	rte_rcu_qsbr_init(s->readers, threads);
	atomic_init(&s->current, first);
	return 0;
}

static void free_old(struct snapshot *s, bool all)
{
	struct snapshot_old **link = &s->old, *o;

	while ((o = *link)) {
		if (!all && rte_rcu_qsbr_check(s->readers, o->token, false) != 1) {
			link = &o->next;
			continue;
		}
		*link = o->next;
		s->free_object(o->object);
		free(o);
	}
}

void snapshot_fini(struct snapshot *s)
{
	void *current = s->readers ? atomic_load(&s->current) : NULL;

	free_old(s, true);
	if (current)
		s->free_object(current);
	free(s->readers);
	s->readers = NULL;
}

void snapshot_online(struct snapshot *s, unsigned int reader)
{
	rte_rcu_qsbr_thread_register(s->readers, reader);
	rte_rcu_qsbr_thread_online(s->readers, reader);
}

void snapshot_offline(struct snapshot *s, unsigned int reader)
{
	rte_rcu_qsbr_thread_offline(s->readers, reader);
	rte_rcu_qsbr_thread_unregister(s->readers, reader);
}

void *snapshot_get(struct snapshot *s)
{
	return atomic_load(&s->current);
}

int snapshot_publish(struct snapshot *s, void *next, struct err *err)
{
	struct snapshot_old *o = malloc(sizeof(*o));

	if (!o) {
		s->free_object(next);
		return err_set(err, ENOMEM, "", "out of memory");
	}
	o->object = atomic_exchange(&s->current, next);
	o->token = rte_rcu_qsbr_start(s->readers);
	o->next = s->old;
	s->old = o;
	free_old(s, false);
	return 0;
}
