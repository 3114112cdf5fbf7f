/* SPDX-License-Identifier: Apache-2.0 */
/* Packets without a stamp of this trial: those of replayed captures are known by their digest. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_mbuf.h>

#include "sink.h"

static bool sends(const struct trial *trial, const char *name)
{
	for (unsigned int i = 0; i < trial->n_links; i++)
		if (trial->links[i].ops->sends && !strcmp(trial->links[i].name, name))
			return true;
	return false;
}

int sink_check_sources(const struct link *l, const struct trial *trial, const struct param_list *sources,
		       struct err *err)
{
	char *const *names = sources->items;
	char path[64];

	for (size_t k = 0; k < sources->count; k++) {
		if (sends(trial, names[k]))
			continue;
		snprintf(path, sizeof(path), "links.%s.params.sources", l->name);
		return err_set(err, EINVAL, path, "\"%.40s\" is no source of this plan", names[k]);
	}
	return 0;
}

void sink_take_replays(struct sink_trial *t, const struct trial *trial, const struct param_list *sources)
{
	char *const *names = sources->items;

	for (unsigned int i = 0; i < trial->n_replays; i++) {
		bool own = !sources->count;

		for (size_t k = 0; k < sources->count; k++)
			own |= !strcmp(trial->replays[i].sender, names[k]);
		if (own)
			t->replays[t->n_replays++] = trial->replays[i].replay;
	}
}

/* Of all captures that have such a packet; how many. */
static unsigned int slots_of(const struct sink_trial *t, struct rte_mbuf *m, struct replay_slot **slots)
{
	unsigned int n = 0;
	uint64_t digest;

	if (!t->n_replays || !rte_pktmbuf_is_contiguous(m))
		return 0;
	digest = replay_digest(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	for (unsigned int i = 0; i < t->n_replays; i++) {
		slots[n] = replay_find(t->replays[i], digest);
		n += slots[n] != NULL;
	}
	return n;
}

/* The time of the first slot's last one; read before `sent`, see struct replay_slot. */
static uint32_t sent_of(struct replay_slot *const *slots, unsigned int n, uint64_t *tsc)
{
	uint32_t sent = 0;

	*tsc = atomic_load_explicit(&slots[0]->sent_tsc, memory_order_acquire);
	for (unsigned int i = 0; i < n; i++)
		sent += atomic_load_explicit(&slots[i]->sent, memory_order_acquire);
	return sent;
}

static void see_replayed(struct sink_trial *t, struct rte_mbuf *m, struct replay_slot *const *slots,
			 unsigned int n, uint64_t now, uint64_t mult)
{
	/* What was sent is read after: then it has at least all that have come, to whatever lcore. */
	uint32_t received = atomic_fetch_add_explicit(&slots[0]->received, 1, memory_order_acq_rel) + 1;
	uint64_t tsc, ns;
	uint32_t sent = sent_of(slots, n, &tsc);

	t->matched++;
	if (received > sent) {
		t->duplicated++;
		sink_see_other(t, m);
		return;
	}
	/* With more than one on its way, or captures that it may be of, nobody can tell which this is. */
	if (received != sent || n > 1) {
		t->ambiguous++;
		return;
	}
	ns = sink_ns(now - tsc, mult);
	ns = RTE_MIN(ns, (1ull << HIST_MAX_BITS) - 1);
	hist_record(&t->slice, ns);
	t->slice.count++;
	t->slice.sum += ns;
	t->slice.min = RTE_MIN(t->slice.min, ns);
	t->slice.max = RTE_MAX(t->slice.max, ns);
}

void sink_see_unstamped(struct sink_trial *t, struct rte_mbuf *m, uint64_t magic, uint64_t now,
			uint64_t mult)
{
	struct replay_slot *slots[TRIAL_REPLAYS_MAX];
	unsigned int n;

	if (m->ol_flags & PKT_CREATED) {
		t->created++;
		sink_see_other(t, m);
		return;
	}
	/* Same mark, other trial: a straggler. */
	if (magic >> 56 == 'H' && magic != t->magic) {
		t->late++;
		sink_see_other(t, m);
		return;
	}
	n = slots_of(t, m, slots);
	if (n) {
		see_replayed(t, m, slots, n, now, mult);
		return;
	}
	t->unknown++;
	if (!t->blind)
		sink_see_other(t, m);
}
