/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets for a client that is about to be replaced (docs/design/checkpoints.md): they wait here, bounded and
 * in their order, until its successor has taken over what it kept. The lcore that writes the link does all of
 * it; the control thread begins and ends it while no lcore polls.
 */
#include <errno.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_lcore.h>

#include "shm.h"

static uint32_t waiting(const struct shm_hold *h)
{
	return atomic_load_explicit(&h->n, memory_order_relaxed);
}

static void set_waiting(struct shm_hold *h, uint32_t n)
{
	atomic_store_explicit(&h->n, n, memory_order_relaxed);
}

int shm_hold(struct link *l, struct err *err)
{
	struct shm_state *s = l->state;

	if (s->offload)
		return err_set(err, ENOTSUP, l->name,
			       "with offload, whose decisions its client takes along; allowed: without");
	if (atomic_load(&s->holds))
		return err_set(err, EBUSY, l->name, "its packets wait already; allowed: `release`");
	if (!s->hold)
		s->hold = calloc(1, sizeof(*s->hold));
	if (!s->hold)
		return err_set(err, ENOMEM, l->name, "out of memory");
	s->hold->lets_go = false;
	s->hold->lcore = LCORE_ID_ANY;
	atomic_store(&s->holds, true);
	return 0;
}

int shm_release(struct link *l, struct err *err)
{
	struct shm_state *s = l->state;

	if (!atomic_load(&s->holds))
		return err_set(err, EINVAL, l->name, "its packets do not wait; allowed: behind `hold`");
	s->hold->lets_go = true;
	if (!waiting(s->hold))
		atomic_store(&s->holds, false);
	return 0;
}

bool shm_holds(const struct link *l, struct link_held *held)
{
	const struct shm_state *s = l->state;
	const struct shm_hold *h = s->hold;

	*held = (struct link_held){0};
	if (h)
		*held = (struct link_held){.waited = h->waited, .most = h->most, .now = waiting(h)};
	return atomic_load(&s->holds);
}

/* What waits goes before what comes. True: all of it has gone. */
static bool let_go(struct shm_state *s)
{
	struct shm_hold *h = s->hold;
	uint64_t now = rte_rdtsc();
	uint32_t n = waiting(h);

	while (n && shm_writes(s) && shm_room(s, 1)) {
		shm_put(s, h->waiting[h->first], now);
		h->first = (h->first + 1) % SHM_WAITING;
		n--;
	}
	set_waiting(h, n);
	if (!n)
		atomic_store_explicit(&s->holds, false, memory_order_relaxed);
	return !n;
}

uint16_t shm_hold_tx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, bool *gone)
{
	struct shm_hold *h = s->hold;
	uint32_t waits;

	h->lcore = rte_lcore_id();
	*gone = h->lets_go && let_go(s);
	if (*gone)
		return 0;
	waits = waiting(h);
	n = (uint16_t)RTE_MIN(n, SHM_WAITING - waits);
	for (uint16_t i = 0; i < n; i++)
		h->waiting[(h->first + waits + i) % SHM_WAITING] = pkts[i];
	set_waiting(h, waits + n);
	h->waited += n;
	h->most = RTE_MAX(h->most, waits + n);
	return n;
}

void shm_hold_look(struct shm_state *s)
{
	if (s->hold->lets_go && s->hold->lcore == rte_lcore_id())
		let_go(s);
}

uint64_t shm_hold_used(const struct shm_state *s)
{
	return s->hold ? waiting(s->hold) : 0;
}

void shm_hold_close(struct shm_state *s)
{
	struct shm_hold *h = s->hold;

	for (uint32_t i = 0; h && i < waiting(h); i++)
		rte_pktmbuf_free(h->waiting[(h->first + i) % SHM_WAITING]);
	free(h);
	s->hold = NULL;
}
