/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments have checkpoints, and what they begin with. */
#include <errno.h>

#include <rte_cycles.h>

#include "core/checkpoint/checkpoint.h"
#include "engine.h"

/* By the first link that has them: where a segment reads two of one peer, one of these keeps them. */
static struct link *keeper(const struct replica *r)
{
	for (unsigned int i = 0; i < r->n_inlets; i++) {
		struct link *l = r->inlets[i].q.link;

		if (l->ops->checkpoint_ms && l->ops->checkpoint_ms(l))
			return l;
	}
	return NULL;
}

int checkpoint_open(struct replica *r, const struct plan_segment *s, struct err *err)
{
	struct link *l = keeper(r);
	struct nf_worker *workers[256];

	if (!l)
		return 0;
	if (s->parallel.n)
		return err_set(err, EINVAL, l->name,
			       "checkpoints of functions side by side; allowed: one after the other");
	for (unsigned int i = 0; i < r->n_nodes; i++)
		workers[i] = r->nodes[i].worker;
	r->keeper = l;
	r->has_tick = true;
	return checkpoint_create(workers, r->n_nodes,
				 l->ops->checkpoint_ms(l) * (rte_get_tsc_hz() / 1000), &r->checkpoint, err);
}

void checkpoint_begin(struct replica *r)
{
	size_t bytes;
	void *memory;

	if (!r->checkpoint)
		return;
	memory = r->keeper->ops->kept(r->keeper, &bytes);
	checkpoint_attach(r->checkpoint, memory, bytes, true, rte_rdtsc());
}
