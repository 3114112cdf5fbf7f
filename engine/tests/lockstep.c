/* SPDX-License-Identifier: Apache-2.0 */
#include "lockstep.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_hash_crc.h>

#include "core/pkt.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "lockstep: %s\n", what);
	abort();
}

/* What of a frame is one flow's. A tuple is one only of packets that are neither tagged nor fragments. */
struct tuple {
	uint8_t family[4], proto[3]; /* this with the fragment's offset */
	uint8_t ends[36];            /* addresses and ports */
};

static struct tuple tuple_of(const uint8_t *data)
{
	bool v6 = data[12] == 0x86;
	struct tuple t = {0};

	memcpy(t.family, data + 12, v6 ? 3 : 4);
	if (v6) {
		t.proto[0] = data[20];
	} else {
		memcpy(t.proto, data + 20, 2);
		t.proto[2] = data[23];
	}
	memcpy(t.ends, data + (v6 ? 22 : 26), v6 ? 36 : 12);
	return t;
}

static uint16_t mem_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	struct lockstep_wire *wire = q->link->state;
	uint16_t got = 0;

	while (got < n && got < wire->n) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(q->link->pool);
		struct tuple tuple;

		must(m, "no mbuf");
		memcpy(rte_pktmbuf_append(m, wire->frames[got].len), wire->frames[got].data,
		       wire->frames[got].len);
		tuple = tuple_of(wire->frames[got].data);
		/* As a NIC's hash, which leads nowhere. */
		pkt_set_trail(m, (uint32_t *)(uintptr_t)0x5555555555);
		m->dynfield1[0] = rte_hash_crc(&tuple, sizeof(tuple), 1);
		pkts[got++] = m;
	}
	memmove(wire->frames, wire->frames + got, (wire->n - got) * sizeof(wire->frames[0]));
	wire->n -= got;
	return got;
}

static uint16_t mem_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct lockstep_wire *wire = q->link->state;

	(void)dest;
	for (uint16_t i = 0; i < n; i++) {
		struct lockstep_frame *f;

		must(wire->n < LOCKSTEP_LEFT_MAX, "too many packets left at once");
		f = &wire->frames[wire->n++];
		f->len = (uint16_t)rte_pktmbuf_pkt_len(pkts[i]);
		f->flow = pkts[i]->dynfield1[0];
		must(rte_pktmbuf_data_len(pkts[i]) == f->len && f->len <= LOCKSTEP_FRAME_MAX,
		     "a packet that left is too long");
		memset(f->data, 0, 64); /* what is compared of short ones */
		memcpy(f->data, rte_pktmbuf_mtod(pkts[i], void *), f->len);
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct link_ops mem_ops = {
	.name = "mem", .reads = true, .writes = true, .unclassified = true, .rx = mem_rx, .tx = mem_tx,
};
LINK_REGISTER(mem_ops)

static void must_do(int rc, const struct err *err)
{
	char text[sizeof(err->path) + sizeof(err->msg) + 2];

	snprintf(text, sizeof(text), "%s: %s", err->path, err->msg);
	must(!rc, text);
}

static void open_links(struct lockstep_side *s, struct rte_mempool *pool)
{
	s->engine.links = calloc(s->plan->n_links, sizeof(struct link));
	s->wires = calloc(s->plan->n_links, sizeof(*s->wires));
	must(s->engine.links && s->wires, "no memory");
	for (unsigned int i = 0; i < s->plan->n_links; i++) {
		struct link *l = &s->engine.links[i];

		l->ops = s->plan->links[i].ops;
		l->pool = pool;
		l->state = &s->wires[i];
	}
}

static void open_nfs(struct lockstep_side *s)
{
	struct err err = {0};

	s->engine.nfs = calloc(s->plan->n_nfs, sizeof(struct nf));
	must(s->engine.nfs, "no memory");
	for (unsigned int i = 0; i < s->plan->n_nfs; i++) {
		struct nf *nf = &s->engine.nfs[i];

		nf->ops = s->plan->nfs[i].ops;
		nf->conf = s->plan->nfs[i].conf;
		nf->workers = 1;
		if (nf->ops->init)
			must_do(nf->ops->init(nf, &err), &err);
	}
}

static void side_open(struct lockstep_side *s, const char *chain, unsigned int flows,
		      struct rte_mempool *pool)
{
	struct err err = {0};
	char text[16384];
	json_t *json;

	memset(s, 0, sizeof(*s));
	snprintf(text, sizeof(text), chain, flows);
	json = json_loads(text, 0, NULL);
	must(json, "the plan is not JSON");
	must_do(plan_parse(json, &s->plan, &err), &err);
	json_decref(json);
	s->engine = (struct engine){.plan = s->plan, .pool = pool};
	open_links(s, pool);
	open_nfs(s);
	must_do(replica_create(&s->engine, 0, 0, &s->r, &err), &err);
}

static void side_close(struct lockstep_side *s)
{
	replica_destroy(s->r);
	for (unsigned int i = 0; i < s->plan->n_nfs; i++)
		if (s->engine.nfs[i].ops->fini)
			s->engine.nfs[i].ops->fini(&s->engine.nfs[i]);
	free(s->engine.links);
	free(s->engine.nfs);
	free(s->wires);
	plan_free(s->plan);
}

void lockstep_open(struct lockstep *l, const char *chain, unsigned int flows, struct rte_mempool *pool)
{
	side_open(&l->plain, chain, 0, pool);
	side_open(&l->fast, chain, flows, pool);
	must(!l->plain.r->fast && !l->fast.r->fast == !flows,
	     "the fast path is where it should not be, or is not");
	must(l->plain.r->trails && l->fast.r->trails, "functions leave no trails");
	l->plain.r->trails = false;
	l->why[0] = '\0';
}

void lockstep_close(struct lockstep *l)
{
	side_close(&l->plain);
	side_close(&l->fast);
}

static void put(struct lockstep_wire *wire, const void *data, uint32_t len)
{
	struct lockstep_frame *f = &wire->frames[wire->n];

	must(wire->n < LOCKSTEP_LEFT_MAX && len <= LOCKSTEP_FRAME_MAX, "no room for a packet");
	wire->n++;
	f->len = (uint16_t)len;
	memset(f->data, 0, 64); /* what is looked at of short ones */
	memcpy(f->data, data, len);
}

void lockstep_put(struct lockstep *l, unsigned int link, const void *data, uint32_t len)
{
	put(&l->plain.wires[link], data, len);
	put(&l->fast.wires[link], data, len);
}

static int change(struct lockstep_side *s, const char *nf, const char *text)
{
	json_t *op = json_loads(text, 0, NULL), *reply = NULL;
	struct err err = {0};
	int rc = 0;

	must(op, "an update is not JSON");
	for (unsigned int i = 0; i < s->plan->n_nfs; i++)
		if (!strcmp(s->plan->nfs[i].name, nf))
			rc = nf_update(&s->engine.nfs[i], op, &reply, &err);
	json_decref(reply);
	json_decref(op);
	return rc;
}

int lockstep_change(struct lockstep *l, const char *nf, const char *op)
{
	int rc = change(&l->plain, nf, op);

	must(change(&l->fast, nf, op) == rc, "an update is taken by one side only");
	return rc;
}

/* Of two that leave: by their tuples as they leave, then as they came; what is of one flow in its order. */
static int by_flow(const void *a, const void *b)
{
	const struct lockstep_frame *const *x = a, *const *y = b;
	struct tuple p = tuple_of((*x)->data), q = tuple_of((*y)->data);
	int order = memcmp(&p, &q, sizeof(p));

	order = order ? order : ((*x)->flow > (*y)->flow) - ((*x)->flow < (*y)->flow);
	return order ? order : (*x > *y) - (*x < *y);
}

static void say_difference(struct lockstep *l, unsigned int link, const struct lockstep_frame *plain,
			   const struct lockstep_frame *fast)
{
	char hex[2][2 * LOCKSTEP_FRAME_MAX + 1];
	unsigned int at = 0;

	for (; at < plain->len && at < fast->len && plain->data[at] == fast->data[at]; at++)
		;
	for (unsigned int side = 0; side < 2; side++) {
		const struct lockstep_frame *f = side ? fast : plain;

		hex[side][0] = 0;
		for (unsigned int i = 0; i < f->len; i++)
			snprintf(hex[side] + 2 * i, 3, "%02x", f->data[i]);
	}
	snprintf(l->why, sizeof(l->why),
		 "link %s: a packet differs from byte %u on:\n  without it %s\n  with it    %s",
		 l->plain.plan->links[link].name, at, hex[0], hex[1]);
}

static bool same_packets(struct lockstep *l, unsigned int link)
{
	const struct lockstep_wire *a = &l->plain.wires[link], *b = &l->fast.wires[link];
	const struct lockstep_frame *x[LOCKSTEP_LEFT_MAX], *y[LOCKSTEP_LEFT_MAX];

	for (unsigned int i = 0; i < a->n; i++) {
		x[i] = &a->frames[i];
		y[i] = &b->frames[i];
	}
	qsort(x, a->n, sizeof(x[0]), by_flow);
	qsort(y, b->n, sizeof(y[0]), by_flow);
	for (unsigned int i = 0; i < a->n; i++) {
		if (x[i]->len == y[i]->len && !memcmp(x[i]->data, y[i]->data, x[i]->len))
			continue;
		say_difference(l, link, x[i], y[i]);
		return false;
	}
	return true;
}

bool lockstep_poll(struct lockstep *l, unsigned int first)
{
	replica_poll(l->plain.r);
	replica_poll(l->fast.r);
	for (unsigned int i = first; i < l->plain.plan->n_links; i++) {
		unsigned int plain = l->plain.wires[i].n, fast = l->fast.wires[i].n;

		if (plain != fast) {
			snprintf(l->why, sizeof(l->why), "link %s: %u packets without and %u with it",
				 l->plain.plan->links[i].name, plain, fast);
			return false;
		}
		if (plain && !same_packets(l, i))
			return false;
	}
	return true;
}

void lockstep_forget(struct lockstep *l, unsigned int first)
{
	for (unsigned int i = first; i < l->plain.plan->n_links; i++)
		l->plain.wires[i].n = l->fast.wires[i].n = 0;
}

/* In one piece: under a fuzzer each memcmp is looked at, whatever it compares. */
static bool same_ends(const struct node_stats *a, const struct node_stats *b)
{
	static_assert(offsetof(struct node_stats, no_route) == offsetof(struct node_stats, aborted) +
		      sizeof(a->aborted) && offsetof(struct node_stats, dropped) ==
		      offsetof(struct node_stats, no_route) + sizeof(a->no_route), "one behind the other");
	return !memcmp(&a->aborted, &b->aborted,
		       sizeof(*a) - offsetof(struct node_stats, aborted));
}

static bool same_node(struct lockstep *l, unsigned int i)
{
	const struct node *a = &l->plain.r->nodes[i], *b = &l->fast.r->nodes[i];
	const struct nf_ops *ops = a->worker->nf->ops;

	if (a->stats.in != b->stats.in || a->stats.held != b->stats.held ||
	    memcmp(a->stats.out, b->stats.out, sizeof(a->stats.out)) ||
	    !same_ends(&a->stats, &b->stats)) {
		snprintf(l->why, sizeof(l->why), "%s: packets are counted otherwise", ops->name);
		return false;
	}
	for (unsigned int c = 0; ops->counters && ops->counters[c]; c++) {
		if (a->worker->counters[c] == b->worker->counters[c] ||
		    !strncmp(ops->counters[c], "cache-", 6))
			continue;
		snprintf(l->why, sizeof(l->why), "%s %s: %lu without and %lu with it", ops->name,
			 ops->counters[c], a->worker->counters[c], b->worker->counters[c]);
		return false;
	}
	return true;
}

bool lockstep_same_counts(struct lockstep *l)
{
	if (l->fast.r->fast)
		fastpath_credit(l->fast.r);
	for (unsigned int i = 0; i < l->plain.r->n_nodes; i++)
		if (!same_node(l, i))
			return false;
	return true;
}
