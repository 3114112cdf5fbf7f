/* SPDX-License-Identifier: Apache-2.0 */
#include "rcu.h"

#include <errno.h>
#include <stdlib.h>

int rcu_init(struct rcu *r, unsigned int readers, struct err *err)
{
	unsigned int threads = readers ? readers : 1;
	size_t bytes = RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(threads), RTE_CACHE_LINE_SIZE);

	r->first = NULL;
	r->end = &r->first;
	r->readers = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
	if (!r->readers)
		return err_set(err, ENOMEM, "", "out of memory");
	rte_rcu_qsbr_init(r->readers, threads);
	return 0;
}

static void release_first(struct rcu *r)
{
	struct rcu_old *old = r->first;

	r->first = old->next;
	if (!r->first)
		r->end = &r->first;
	old->release(old);
}

void rcu_fini(struct rcu *r)
{
	while (r->first)
		release_first(r);
	free(r->readers);
	r->readers = NULL;
}

void rcu_online(const struct rcu *r, unsigned int reader)
{
	rte_rcu_qsbr_thread_register(r->readers, reader);
	rte_rcu_qsbr_thread_online(r->readers, reader);
}

void rcu_offline(const struct rcu *r, unsigned int reader)
{
	rte_rcu_qsbr_thread_offline(r->readers, reader);
	rte_rcu_qsbr_thread_unregister(r->readers, reader);
}

void rcu_rest(const struct rcu *r, unsigned int reader, bool rests)
{
	if (rests)
		rte_rcu_qsbr_thread_offline(r->readers, reader);
	else
		rte_rcu_qsbr_thread_online(r->readers, reader);
}

uint64_t rcu_mark(const struct rcu *r)
{
	return rte_rcu_qsbr_start(r->readers);
}

bool rcu_passed(const struct rcu *r, uint64_t mark)
{
	return rte_rcu_qsbr_check(r->readers, mark, false) == 1;
}

void rcu_retire(struct rcu *r, struct rcu_old *old, void (*release)(struct rcu_old *old))
{
	old->next = NULL;
	old->mark = rcu_mark(r);
	old->release = release;
	*r->end = old;
	r->end = &old->next;
}

void rcu_reclaim(struct rcu *r)
{
	while (r->first && rcu_passed(r, r->first->mark))
		release_first(r);
}
