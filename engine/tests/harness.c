/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include "core/pkt.h"
#include "test_eal.h"

#define POOL_MBUFS 8191
#define DATA_BYTES (RTE_PKTMBUF_HEADROOM + 2048)

/* In each mbuf's private area. */
struct origin {
	int64_t index;
};

static struct rte_mempool *pool;
static struct harness *current; /* whose process() runs: nf_emit is told a worker only */

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *fmt, ...)
{
	va_list ap;

	fputs("harness: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

static void *must(void *p)
{
	if (!p)
		fail("out of memory");
	return p;
}

/* Room for one more element. */
static void *grow(void *items, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return items;
	*room = *room ? *room * 2 : 256;
	return must(realloc(items, *room * size));
}

static void pool_start(void)
{
	if (pool)
		return;
	if (test_eal_start("256") < 0)
		fail("EAL does not start: %s", rte_strerror(rte_errno));
	/* No per-lcore cache: the number of mbufs in use is then exact. */
	pool = rte_pktmbuf_pool_create("harness", POOL_MBUFS, 0, sizeof(struct origin), DATA_BYTES,
				       SOCKET_ID_ANY);
	if (!pool)
		fail("no mbuf pool: %s", rte_strerror(rte_errno));
}

static struct rte_mbuf *mbuf_get(int64_t origin)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	if (m)
		((struct origin *)rte_mbuf_to_priv(m))->index = origin;
	return m;
}

/*
 * All buffers in use, from a root that LeakSanitizer sees: mbufs, and the flow tables of NFs that
 * hold packets, lie in memory that it does not look through, so that each held packet would
 * count as lost. What an NF really lost, instance_end finds.
 */
struct buffer {
	struct rte_mbuf_ext_shared_info info;
	struct buffer *next, **at;
	uint8_t *data;
};
static struct buffer *buffers;

static struct buffer *buffer_make(uint32_t bytes)
{
	struct buffer *b = must(calloc(1, sizeof(*b)));

	b->data = must(malloc(bytes ? bytes : 1));
	b->next = buffers;
	b->at = &buffers;
	if (buffers)
		buffers->at = &b->next;
	buffers = b;
	return b;
}

static void buffer_free(void *addr, void *buffer)
{
	struct buffer *b = buffer;

	*b->at = b->next;
	if (b->next)
		b->next->at = b->at;
	free(addr);
	free(b);
}

/* One segment, in a buffer of its own and of its size. */
static struct rte_mbuf *segment_make(const uint8_t *data, uint32_t len, uint16_t headroom,
				     int64_t origin)
{
	struct buffer *buffer = buffer_make(headroom + len);
	struct rte_mbuf *m = must(mbuf_get(origin));

	if (headroom + len > UINT16_MAX)
		fail("a segment of %u bytes", len);
	buffer->info.free_cb = buffer_free;
	buffer->info.fcb_opaque = buffer;
	rte_mbuf_ext_refcnt_set(&buffer->info, 1);
	rte_pktmbuf_attach_extbuf(m, buffer->data, RTE_BAD_IOVA, headroom + len, &buffer->info);
	m->data_off = headroom;
	m->data_len = len;
	m->pkt_len = len;
	m->packet_type = 0;
	memcpy(buffer->data + headroom, data, len);
	return m;
}

static struct rte_mbuf *packet_make(const struct harness *h, const struct harness_packet *p,
				    int64_t origin)
{
	uint32_t first = h->config.first_segment;
	struct rte_mbuf *m, *rest;

	if (!first || first >= p->len)
		return segment_make(p->data, p->len, h->config.headroom, origin);
	m = segment_make(p->data, first, h->config.headroom, origin);
	rest = segment_make((const uint8_t *)p->data + first, p->len - first, 0, origin);
	if (rte_pktmbuf_chain(m, rest))
		fail("cannot chain segments");
	return m;
}

static const char *const *edges(const struct nf_ops *ops)
{
	static const char *const out[] = {"out", NULL};

	return ops->edges ? ops->edges : out;
}

static unsigned int count_names(const char *const *names)
{
	unsigned int n = 0;

	while (names && names[n])
		n++;
	return n;
}

/* Copies the packet out of its segments and frees it. */
static void packet_out(struct harness *h, struct rte_mbuf *m, uint8_t edge, uint8_t dir)
{
	struct harness_out *o;

	if (edge >= count_names(edges(h->nf.ops)))
		fail("%s: no edge %u", h->nf.ops->name, edge);
	if (rte_mbuf_check(m, 1, &(const char *){NULL}))
		fail("%s: a broken mbuf was sent on", h->nf.ops->name);
	h->out = grow(h->out, h->n_out, &h->out_room, sizeof(*h->out));
	o = &h->out[h->n_out++];
	*o = (struct harness_out){
		.origin = ((struct origin *)rte_mbuf_to_priv(m))->index,
		.edge = edge,
		.direction = dir,
		.len = m->pkt_len,
		.data = must(malloc(m->pkt_len ? m->pkt_len : 1)),
	};
	for (struct rte_mbuf *s = m; s; o->data += s->data_len, s = s->next)
		memcpy(o->data, rte_pktmbuf_mtod(s, void *), s->data_len);
	o->data -= o->len;
	h->counts.out++;
	rte_pktmbuf_free(m);
}

static void packet_drop(struct harness *h, struct rte_mbuf *m, unsigned int reason)
{
	if (reason >= count_names(h->nf.ops->drops))
		fail("%s: no drop reason %u", h->nf.ops->name, reason);
	if (!h->nf.ops->may_drop)
		fail("%s: drops, but says that it does not", h->nf.ops->name);
	h->counts.dropped[reason]++;
	rte_pktmbuf_free(m);
}

static bool emit_full(struct harness *h)
{
	return h->config.emit_room && h->emitted >= h->config.emit_room;
}

int nf_emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	struct harness *h = current;

	if (emit_full(h))
		return -ENOBUFS;
	h->emitted++;
	h->counts.created++;
	((struct origin *)rte_mbuf_to_priv(m))->index = HARNESS_CREATED;
	packet_out(h, m, edge, dir);
	return 0;
}

int nf_release(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	struct harness *h = current;

	if (emit_full(h))
		return -ENOBUFS;
	if (!h->counts.held)
		fail("%s: releases a packet, but holds none", h->nf.ops->name);
	h->emitted++;
	h->counts.held--;
	packet_out(h, m, edge, dir);
	return 0;
}

void nf_drop_held(struct nf_worker *w, struct rte_mbuf *m, unsigned int reason)
{
	if (!current->counts.held)
		fail("%s: drops a held packet, but holds none", current->nf.ops->name);
	current->counts.held--;
	packet_drop(current, m, reason);
}

struct rte_mbuf *nf_alloc(struct nf_worker *w)
{
	return mbuf_get(HARNESS_CREATED);
}

static void verdict_apply(struct harness *h, struct rte_mbuf *m, uint8_t verdict, uint8_t dir)
{
	switch (verdict) {
	case NF_CONSUME:
		h->counts.consumed++;
		rte_pktmbuf_free(m);
		return;
	case NF_ABORT:
		h->counts.aborted++;
		rte_pktmbuf_free(m);
		return;
	case NF_HOLD:
		return; /* counted before process() can release it: see burst_run */
	}
	if (verdict >= NF_DROP(0))
		packet_drop(h, m, verdict - NF_DROP(0));
	else
		packet_out(h, m, verdict, dir);
}

static void check(const struct harness *h)
{
	const struct harness_counts *c = &h->counts;
	uint64_t dropped = 0;

	for (unsigned int i = 0; i < NF_DROPS_MAX; i++)
		dropped += c->dropped[i];
	/* Held may be more while a burst's own packets are released within the burst. */
	if (c->in + c->created != c->out + dropped + c->consumed + c->aborted + c->held)
		fail("%s: packets are not conserved: in %lu + created %lu, but out %lu + dropped "
		     "%lu + consumed %lu + aborted %lu + held %lu",
		     h->nf.ops->name, c->in, c->created, c->out, dropped, c->consumed, c->aborted,
		     c->held);
	if (rte_mempool_in_use_count(pool) < c->held)
		fail("%s: holds %lu packets, but only %u mbufs are in use", h->nf.ops->name,
		     c->held, rte_mempool_in_use_count(pool));
}

static void burst_run(struct harness *h, struct burst *b)
{
	struct nf_worker *w = &h->workers[h->worker];
	uint64_t held;

	current = h;
	h->emitted = 0;
	h->counts.in += b->n;
	/* A packet may be held and released within one burst: until verdicts are in, all count. */
	h->counts.held += b->n;
	h->nf.ops->process(w, b);
	held = 0;
	for (unsigned int i = 0; i < b->n; i++)
		held += b->verdict[i] == NF_HOLD;
	if (h->counts.held < b->n - held)
		fail("%s: released a packet that it did not hold", h->nf.ops->name);
	h->counts.held -= b->n - held;
	for (unsigned int i = 0; i < b->n; i++) {
		h->verdicts = grow(h->verdicts, h->n_verdicts, &h->verdicts_room, 1);
		h->verdicts[h->n_verdicts++] = b->verdict[i];
		verdict_apply(h, b->pkts[i], b->verdict[i], b->direction);
	}
	check(h);
}

/* To the worker that has its packet now, as if it had been moved there just before. */
static void bucket_give(struct harness *h, struct rte_mbuf *m)
{
	uint8_t bucket = (uint8_t)(pkt_flow_hash(m) >> 24);

	pkt_set_bucket(m, bucket);
	atomic_store(&h->owners[bucket], (uint8_t)h->worker);
}

void harness_run(struct harness *h, enum nf_direction dir, unsigned int burst,
		 const struct harness_packet *in, size_t n)
{
	for (size_t done = 0; done < n; done += burst) {
		struct burst b = {
			.n = RTE_MIN(burst, n - done),
			.direction = dir,
			.now = h->now,
		};

		for (unsigned int i = 0; i < b.n; i++) {
			b.pkts[i] = packet_make(h, &in[done + i], h->n_verdicts + i);
			b.pkts[i]->port = in[done + i].port;
			if (h->nf.ops->wants_headers)
				pkt_classify(b.pkts[i]);
			if (h->config.elastic)
				bucket_give(h, b.pkts[i]);
		}
		burst_run(h, &b);
	}
}

void harness_poll(struct harness *h)
{
	current = h;
	for (unsigned int i = 0; h->nf.ops->poll && i < h->nf.workers; i++) {
		h->emitted = 0;
		h->nf.ops->poll(&h->workers[i]);
	}
	check(h);
}

void harness_advance(struct harness *h, uint64_t ns)
{
	h->now += (uint64_t)((double)ns * rte_get_tsc_hz() / 1e9);
	current = h;
	for (unsigned int i = 0; h->nf.ops->tick && i < h->nf.workers; i++) {
		h->emitted = 0;
		h->nf.ops->tick(&h->workers[i], h->now);
	}
	harness_poll(h);
}

int harness_update(struct harness *h, const char *op, json_t **reply, struct err *err)
{
	json_t *none = NULL, *json = json_loads(op, 0, NULL);
	int rc;

	if (!json || !h->nf.ops->update)
		fail("%s: update with %s", h->nf.ops->name, op);
	rc = h->nf.ops->update(&h->nf, json, reply ? reply : &none, err);
	json_decref(none);
	json_decref(json);
	return rc;
}

void harness_forget(struct harness *h)
{
	for (size_t i = 0; i < h->n_out; i++)
		free(h->out[i].data);
	h->n_out = 0;
	h->n_verdicts = 0;
}

/* What runs differ in is what is tested: what a function chooses at random is the same in all. */
static void fix_seed(const struct param *params, json_t *json)
{
	for (const struct param *p = params; p && p->name; p++)
		if (!strcmp(p->name, "seed") && !json_object_get(json, "seed"))
			json_object_set_new(json, "seed", json_integer(1));
}

static int conf_parse(struct harness *h, const char *params, struct err *err)
{
	json_error_t where;
	json_t *json = json_loads(params ? params : "{}", 0, &where);
	int rc;

	if (!json)
		return err_set(err, EINVAL, "params", "not JSON: %s", where.text);
	h->conf = must(calloc(1, h->nf.ops->conf_size + 1));
	h->nf.conf = h->conf;
	fix_seed(h->nf.ops->params, json);
	rc = param_parse(h->nf.ops->params, json, "params", h->conf, err);
	json_decref(json);
	if (rc) {
		free(h->conf);
		h->conf = NULL;
	}
	return rc;
}

/* Ends the workers before `workers` and the instance. */
static void nf_end(struct harness *h, unsigned int workers)
{
	const struct nf_ops *ops = h->nf.ops;

	current = h;
	while (workers--)
		if (ops->worker_fini)
			ops->worker_fini(&h->workers[workers]);
	if (ops->fini)
		ops->fini(&h->nf);
}

static int nf_start(struct harness *h, struct err *err)
{
	const struct nf_ops *ops = h->nf.ops;
	int rc = ops->init ? ops->init(&h->nf, err) : 0;

	for (unsigned int i = 0; !rc && i < h->nf.workers; i++) {
		h->workers[i] = (struct nf_worker){
			.nf = &h->nf,
			.index = i,
			.count = h->nf.workers,
			.socket_id = SOCKET_ID_ANY,
			.owners = h->nf.owners,
			.first = h->workers,
		};
		rc = ops->worker_init ? ops->worker_init(&h->workers[i], err) : 0;
		if (rc)
			nf_end(h, i);
	}
	return rc;
}

static void memory_free(struct harness *h)
{
	harness_forget(h);
	if (h->conf)
		param_free(h->nf.ops->params, h->conf);
	free(h->conf);
	free(h->workers);
	free(h->verdicts);
	free(h->out);
	free(h);
}

struct harness *harness_new(const char *type, const char *params,
			    const struct harness_config *config, struct err *err)
{
	struct harness *h = must(calloc(1, sizeof(*h)));

	pool_start();
	if (config)
		h->config = *config;
	h->now = rte_rdtsc();
	h->nf.ops = nf_find(type);
	if (!h->nf.ops)
		fail("no NF named %s", type);
	h->nf.workers = h->config.workers ? h->config.workers : 1;
	h->nf.socket_id = SOCKET_ID_ANY;
	h->nf.owners = h->config.elastic ? h->owners : NULL;
	memset(h->owners, UINT8_MAX, sizeof(h->owners)); /* nobody's */
	snprintf(h->nf.name, sizeof(h->nf.name), "%s", type);
	h->workers = must(calloc(h->nf.workers, sizeof(*h->workers)));
	if (conf_parse(h, params, err) || nf_start(h, err)) {
		memory_free(h);
		return NULL;
	}
	return h;
}

static void instance_end(struct harness *h)
{
	unsigned int left;

	nf_end(h, h->nf.workers);
	left = rte_mempool_in_use_count(pool);
	if (left)
		fail("%s: %u mbufs were not given back", h->nf.ops->name, left);
}

void harness_free(struct harness *h)
{
	if (!h)
		return;
	instance_end(h);
	memory_free(h);
}

static int out_order(const void *a, const void *b)
{
	const struct harness_out *x = a, *y = b;

	if (x->origin != y->origin)
		return x->origin < y->origin ? -1 : 1;
	if (x->edge != y->edge || x->direction != y->direction || x->len != y->len)
		return memcmp(&(int[]){y->edge, y->direction, y->len},
			      &(int[]){x->edge, x->direction, x->len}, 3 * sizeof(int));
	return memcmp(x->data, y->data, x->len);
}

/* In an order that does not depend on when an NF emitted what. */
static struct harness_out *out_sorted(const struct harness *h)
{
	struct harness_out *out = must(malloc((h->n_out + 1) * sizeof(*out)));

	if (h->n_out)
		memcpy(out, h->out, h->n_out * sizeof(*out));
	qsort(out, h->n_out, sizeof(*out), out_order);
	return out;
}

static void compare(const struct harness *a, const struct harness *b, unsigned int burst)
{
	struct harness_out *x = out_sorted(a), *y = out_sorted(b);
	const char *name = a->nf.ops->name;

	for (size_t i = 0; i < a->n_verdicts; i++)
		if (a->verdicts[i] != b->verdicts[i])
			fail("%s: packet %zu: verdict 0x%02x at burst 1, but 0x%02x at burst %u",
			     name, i, a->verdicts[i], b->verdicts[i], burst);
	if (a->n_out != b->n_out)
		fail("%s: %zu packets out at burst 1, but %zu at burst %u", name, a->n_out,
		     b->n_out, burst);
	for (size_t i = 0; i < a->n_out; i++)
		if (out_order(&x[i], &y[i]))
			fail("%s: what came out of packet %ld differs between burst 1 and %u", name,
			     x[i].origin, burst);
	free(x);
	free(y);
}

struct harness *harness_run_all(const char *type, const char *params,
				const struct harness_config *config, enum nf_direction dir,
				const struct harness_packet *in, size_t n, struct err *err)
{
	static const unsigned int bursts[] = {7, 32, 64};
	struct harness *one = harness_new(type, params, config, err), *h = NULL;

	if (!one)
		return NULL;
	harness_run(one, dir, 1, in, n);
	instance_end(one); /* its results stay: mbufs in use are then the next one's */
	for (unsigned int i = 0; i < RTE_DIM(bursts); i++) {
		harness_free(h);
		h = harness_new(type, params, config, err);
		if (!h)
			fail("%s: refused the second time: %s: %s", type, err->path, err->msg);
		harness_run(h, dir, bursts[i], in, n);
		compare(one, h, bursts[i]);
	}
	memory_free(one);
	return h;
}

static unsigned int index_of(const char *const *names, const char *name)
{
	for (unsigned int i = 0; names && names[i]; i++)
		if (!strcmp(names[i], name))
			return i;
	fail("no name %s", name);
}

uint64_t harness_counter(const struct harness *h, const char *name)
{
	unsigned int i = index_of(h->nf.ops->counters, name);
	uint64_t sum = 0;

	for (unsigned int w = 0; w < h->nf.workers; w++)
		sum += h->workers[w].counters[i];
	return sum;
}

uint64_t harness_dropped(const struct harness *h, const char *reason)
{
	return h->counts.dropped[index_of(h->nf.ops->drops, reason)];
}

uint8_t harness_drop(const struct harness *h, const char *reason)
{
	return NF_DROP(index_of(h->nf.ops->drops, reason));
}
