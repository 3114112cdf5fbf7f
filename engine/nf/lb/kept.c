/* SPDX-License-Identifier: Apache-2.0 */
/* Flows in checkpoints, each with its backend. */
#include <string.h>

#include "lb.h"

static struct flow_table *table(struct nf_worker *w, unsigned int i, bool *v6)
{
	struct lb_worker *lw = w->state;

	*v6 = i == FLOW_IPV6;
	return i < FLOW_FAMILIES ? lw->flows[i] : NULL;
}

/* Whom a number means; another instance may have given it to another one. */
static uint64_t who(const struct lb_backend *be)
{
	uint64_t words[] = {be->port, be->vip, 0, 0};
	uint64_t h = 0;

	memcpy(words + 2, be->addr, sizeof(be->addr));
	for (unsigned int i = 0; i < RTE_DIM(words); i++)
		h = flow_fold_mul(h ^ words[i], 0x9e3779b97f4a7c15 + i);
	return h;
}

static bool save(struct nf_worker *w, unsigned int i, struct flow *f, void *own, uint32_t *expires)
{
	const struct lb_worker *lw = w->state;
	const struct lb_config *c = snapshot_read(&lw->lb->config, w->index);
	uint64_t backend = who(&c->backends[f->user]);

	(void)i;
	(void)expires;
	memcpy(own, &backend, sizeof(backend));
	return true;
}

static struct flow *restore(struct nf_worker *w, unsigned int i, const struct nf_kept *kept)
{
	struct lb_worker *lw = w->state;
	const struct lb_config *c = snapshot_read(&lw->lb->config, w->index);
	bool v6 = i == FLOW_IPV6;
	uint64_t key[5] = {0}, backend;
	const struct flow_key4 *k4 = (const struct flow_key4 *)key;
	const struct flow_key6 *k6 = (const struct flow_key6 *)key;
	struct flow *f;

	memcpy(key, kept->key, v6 ? sizeof(*k6) : sizeof(*k4));
	memcpy(&backend, kept->own, sizeof(backend));
	if ((v6 ? k6->shard | k6->zone : k4->shard | k4->zone) || kept->user >= c->n_backends ||
	    c->backends[kept->user].gone || who(&c->backends[kept->user]) != backend ||
	    lb_find_vip(c, key, v6) != c->backends[kept->user].vip ||
	    flow_find(lw->flows[i], key))
		return NULL;
	f = flow_insert(lw->flows[i], key);
	if (!f)
		return NULL;
	f->user = kept->user;
	f->expires = flow_bounded(kept->expires, kept->now, lw->timeout);
	return f;
}

const struct nf_keeps lb_keeps = {
	.bytes = sizeof(uint64_t),
	.records = 1,
	.table = table,
	.save = save,
	.restore = restore,
};
