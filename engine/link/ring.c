/* SPDX-License-Identifier: Apache-2.0 */
/* A ring between segments of one engine: one rte_ring per reading replica. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "core/link.h"

#define SPARE_MAX 64

struct ring_conf {
	uint64_t size;
	uint32_t on_full;
	uint64_t spare;
};

enum { ON_FULL_DROP, ON_FULL_WAIT };

static const char *const on_full_names[] = {"drop", "wait", NULL};

static const struct param ring_params[] = {
	{.name = "size", .type = PARAM_UINT, .offset = offsetof(struct ring_conf, size), .min = 64,
	 .max = 1 << 20, .def = "1024", .unit = "packets",
	 .doc = "capacity of each ring; rounded up to a power of two"},
	{.name = "on_full", .type = PARAM_ENUM, .choices = on_full_names, .def = "\"drop\"",
	 .offset = offsetof(struct ring_conf, on_full),
	 .doc = "drop, as a NIC's receive queue does, or wait: the writer stops polling its inputs "
		"until there is room"},
	{.name = "spare", .type = PARAM_UINT, .offset = offsetof(struct ring_conf, spare),
	 .max = SPARE_MAX, .def = "0", .unit = "replicas",
	 .doc = "a plan that a running engine takes may have other segments write it, and others of so many "
		"replicas read it, or none for now; 0: it stays between those that it is between"},
	{0},
};

struct ring_state {
	unsigned int n;
	struct rte_ring *rings[];
};

static void ring_fini(struct link *l)
{
	struct ring_state *s = l->state;
	struct rte_mbuf *m;

	if (!s)
		return;
	for (unsigned int i = 0; i < s->n; i++) {
		while (!rte_ring_sc_dequeue(s->rings[i], (void **)&m))
			rte_pktmbuf_free(m);
		rte_ring_free(s->rings[i]);
	}
	free(s);
	l->state = NULL;
}

static int ring_init(struct link *l, struct err *err)
{
	const struct ring_conf *c = l->conf;
	/* Several writers share each ring; a single one, where it stays so, needs no atomic operation. */
	unsigned int flags = RING_F_SC_DEQ | RING_F_EXACT_SZ |
			     (l->n_txq == 1 && !c->spare ? RING_F_SP_ENQ : 0);
	struct ring_state *s;
	char name[RTE_RING_NAMESIZE];

	if (!l->n_rxq != !l->n_txq || (!l->n_rxq && !c->spare))
		return err_set(err, EINVAL, "", "a ring needs a %s: no segment names it",
			       l->n_rxq ? "writer" : "reader");
	l->spare = c->spare;
	l->n_rxq = RTE_MAX(l->n_rxq, (uint16_t)c->spare);
	s = calloc(1, sizeof(*s) + l->n_rxq * sizeof(s->rings[0]));
	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	l->state = s;
	l->wait = c->on_full == ON_FULL_WAIT;
	for (unsigned int i = 0; i < l->n_rxq; i++) {
		snprintf(name, sizeof(name), "%.20s.%u", l->name, i);
		s->rings[i] = rte_ring_create(name, c->size, l->socket_id, flags);
		if (!s->rings[i]) {
			ring_fini(l);
			return err_set(err, rte_errno, "params.size", "no memory for %lu entries",
				       (unsigned long)c->size);
		}
		s->n++;
	}
	return 0;
}

static int ring_rx_open(struct link_rxq *q, struct err *err)
{
	struct ring_state *s = q->link->state;

	(void)err;
	q->state = s->rings[q->index];
	return 0;
}

static int ring_tx_open(struct link_txq *q, struct err *err)
{
	struct ring_state *s = q->link->state;

	(void)err;
	q->state = s->rings;
	return 0;
}

static uint16_t ring_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_ring_sc_dequeue_burst(q->state, (void **)pkts, n, NULL);
}

static uint16_t ring_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct rte_ring *const *rings = q->state;

	return rte_ring_enqueue_burst(rings[dest], (void **)pkts, n, NULL);
}

static uint32_t ring_written(const struct link *l, uint16_t queue)
{
	const struct ring_state *s = l->state;

	return __atomic_load_n(&s->rings[queue]->prod.tail, __ATOMIC_ACQUIRE);
}

static bool ring_taken(const struct link *l, uint16_t queue, uint32_t mark)
{
	const struct ring_state *s = l->state;

	return (int32_t)(__atomic_load_n(&s->rings[queue]->cons.tail, __ATOMIC_ACQUIRE) - mark) >= 0;
}

static uint32_t ring_waiting(const struct link *l, uint16_t queue)
{
	const struct ring_state *s = l->state;

	return rte_ring_count(s->rings[queue]);
}

static json_t *ring_stats(struct link *l)
{
	const struct ring_conf *c = l->conf;
	struct ring_state *s = l->state;
	json_t *each = json_array();
	json_int_t used = 0;

	for (unsigned int i = 0; i < s->n; i++) {
		json_int_t one = rte_ring_count(s->rings[i]);

		json_array_append_new(each, json_integer(one));
		used += one;
	}
	return json_pack("{s:I, s:i, s:I, s:o}", "size", (json_int_t)c->size, "rings", (int)s->n, "used",
			 used, "used_each", each);
}

static const struct link_ops ring_ops = {
	.name = "ring",
	.doc = "A queue between segments of the same engine. It is DPDK's rte_ring, one per reading replica, "
	       "single-producer where one replica writes it. Writers choose the replica by flow.",
	.params = ring_params,
	.conf_size = sizeof(struct ring_conf),
	.reads = true,
	.writes = true,
	.writer_steers = true,
	.init = ring_init,
	.fini = ring_fini,
	.rx_open = ring_rx_open,
	.tx_open = ring_tx_open,
	.rx = ring_rx,
	.tx = ring_tx,
	.written = ring_written,
	.taken = ring_taken,
	.waiting = ring_waiting,
	.stats = ring_stats,
};
LINK_REGISTER(ring_ops)
