/* SPDX-License-Identifier: Apache-2.0 */
/* The consolidated fast path: where it can be, and its memory. */
#include "fastpath_priv.h"

#include <errno.h>
#include <sys/random.h>

#include <rte_malloc.h>

#include "core/loop/segment.h"

static void mark_nodes(struct replica *r, const struct plan_segment *s, int d)
{
	bool from_able[256] = {0}, goes_on[256] = {0};

	for (unsigned int i = 0; i < s->n_nodes; i++) {
		for (unsigned int e = 0; e < s->nodes[i].n_edges; e++) {
			const struct target *t = &s->nodes[i].next[d][e];

			if (t->kind != TO_NODE || !r->nodes[i].fast_able || !r->nodes[t->index].fast_able)
				continue;
			goes_on[i] = true;
			from_able[t->index] = true;
		}
	}
	/* One function alone would only be replaced by a lookup of ours. */
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (goes_on[i] && !from_able[i])
			r->nodes[i].fast_head |= (uint8_t)(1 << d);
}

static bool mark(struct replica *r, const struct plan_segment *s)
{
	bool any = false;

	for (unsigned int i = 0; i < s->n_nodes; i++)
		r->nodes[i].fast_able = r->nodes[i].worker->nf->ops->flow_action != NULL;
	for (int d = 0; d < NF_DIRECTIONS; d++)
		mark_nodes(r, s, d);
	for (unsigned int i = 0; i < s->n_nodes; i++)
		any |= r->nodes[i].fast_head != 0;
	return any;
}

static void *hot(size_t bytes)
{
	return rte_zmalloc("fastpath", bytes, RTE_CACHE_LINE_SIZE);
}

static int allocate(struct fastpath *fp, uint32_t entries, unsigned int nodes)
{
	for (int family = 0; family < FAST_FAMILIES; family++) {
		struct fast_table *t = &fp->tables[family];

		t->entries = hot(entries * fast_entry_bytes((enum fast_family)family));
		t->timers = hot(entries * sizeof(*t->timers));
		if (!t->entries || !t->timers)
			return -ENOMEM;
	}
	fp->paths = hot(FAST_PATHS_MAX * sizeof(*fp->paths));
	fp->changes = hot(nodes * sizeof(*fp->changes));
	fp->accountants = hot(nodes * sizeof(*fp->accountants));
	return fp->paths && fp->changes && fp->accountants ? 0 : -ENOMEM;
}

int fastpath_open(struct replica *r, const struct plan_segment *s, struct err *err)
{
	uint32_t entries = rte_align32pow2(RTE_MAX(s->fastpath, (unsigned int)FAST_WAYS));
	struct fastpath *fp;

	if (!s->fastpath || !mark(r, s))
		return 0;
	fp = r->fast = hot(sizeof(*fp));
	if (!fp || allocate(fp, entries, s->n_nodes))
		return err_set(err, ENOMEM, s->name,
			       "no memory for a fast path of %u flows: give the engine more memory_mb",
			       entries);
	fp->set_mask = entries / FAST_WAYS - 1;
	fp->version = fp->valid_from = 1;
	fp->n_paths = 1;
	fp->paths[FAST_DECLINED].ttl_needed = UINT8_MAX; /* so that no packet is plain */
	if (getrandom(&fp->seed, sizeof(fp->seed), 0) != sizeof(fp->seed))
		return err_set(err, EIO, s->name, "no random numbers");
	for (unsigned int i = 0; i < s->n_nodes; i++) {
		const struct nf *nf = r->nodes[i].worker->nf;

		if (r->nodes[i].fast_able)
			fp->changes[fp->n_changes++] = &nf->changes;
		if (nf->ops->flow_account)
			fp->accountants[fp->n_accountants++] = (uint16_t)i;
	}
	return 0;
}

void fastpath_close(struct fastpath *fp)
{
	if (!fp)
		return;
	for (int family = 0; family < FAST_FAMILIES; family++) {
		rte_free(fp->tables[family].entries);
		rte_free(fp->tables[family].timers);
	}
	rte_free(fp->paths);
	rte_free(fp->changes);
	rte_free(fp->accountants);
	if (fp->offer) {
		rte_free(fp->offer->told);
		rte_free(fp->offer->live);
	}
	rte_free(fp->offer);
	rte_free(fp);
}
