/* SPDX-License-Identifier: Apache-2.0 */
/* Flows in checkpoints, each with what was counted of it by then. */
#include <string.h>

#include "monitor.h"

static struct flow_table *table(struct nf_worker *w, unsigned int i, bool *v6)
{
	struct mon_worker *mw = w->state;

	*v6 = i == FLOW_IPV6;
	return i < FLOW_FAMILIES ? mw->flows[i] : NULL;
}

static bool save(struct nf_worker *w, unsigned int i, struct flow *f, void *own, uint32_t *expires)
{
	(void)w;
	(void)expires;
	memcpy(own, i == FLOW_IPV6 ? flow_state6(f) : flow_state4(f), sizeof(struct mon_state));
	return true;
}

/* It was seen first, then last, and not later than now; what it was counted is its own affair. */
static bool sound_times(const struct mon_state *s, const struct nf_kept *kept)
{
	return (int32_t)(s->last - s->first) >= 0 && (int32_t)(kept->now - s->last) >= 0;
}

static struct flow *restore(struct nf_worker *w, unsigned int i, const struct nf_kept *kept)
{
	struct mon_worker *mw = w->state;
	bool v6 = i == FLOW_IPV6;
	uint64_t key[5] = {0};
	const struct flow_key4 *k4 = (const struct flow_key4 *)key;
	const struct flow_key6 *k6 = (const struct flow_key6 *)key;
	struct mon_state state;
	struct flow *f;

	memcpy(key, kept->key, v6 ? sizeof(*k6) : sizeof(*k4));
	memcpy(&state, kept->own, sizeof(state));
	if ((v6 ? k6->shard | k6->zone : k4->shard | k4->zone) || !sound_times(&state, kept) ||
	    flow_find(mw->flows[i], key))
		return NULL;
	f = flow_insert(mw->flows[i], key);
	if (!f)
		return NULL;
	memcpy(v6 ? flow_state6(f) : flow_state4(f), &state, sizeof(state));
	f->user = kept->user;
	f->expires = flow_bounded(kept->expires, kept->now, RTE_MIN(mw->idle, mw->active));
	return f;
}

const struct nf_keeps mon_keeps = {
	.bytes = sizeof(struct mon_state),
	.records = 1,
	.table = table,
	.save = save,
	.restore = restore,
};
