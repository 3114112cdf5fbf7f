/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chain twice, in lockstep on one virtual clock: with the fast path and without. Random traffic
 * both ways, packets that are not plain among it, connections that open and close, flows that time
 * out, and every table changed meanwhile: the same packets must leave, in the same order within a
 * flow, and be counted at the same functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_cycles.h>
#include <rte_random.h>

#include "core/engine.h"
#include "nf/craft.h"
#include "nf/test_eal.h"
#include "nf/virtual_tsc.h"

#define FLOWS 48
#define STEPS 20000
#define OUT_LINKS 3
#define FRAME_MAX 192
#define LEFT_MAX 512

/* What left by a link in one step, and what is to come in. */
struct frame {
	uint16_t len;
	uint8_t data[FRAME_MAX];
};

struct wire {
	unsigned int n;
	struct frame frames[LEFT_MAX];
};

struct side {
	struct plan *plan;
	struct engine engine;
	struct replica *r;
	struct wire in[2], out[OUT_LINKS];
};

static struct rte_mempool *pool;
static unsigned int seed = 1;

static unsigned int pick(unsigned int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* Links of this test's: memory. The link's number is its name's last letter. */
static struct wire *wire_of(struct link *l)
{
	return l->state;
}

static uint16_t mem_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	struct wire *wire = wire_of(q->link);
	uint16_t got = 0;

	while (got < n && got < wire->n) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		assert_non_null(m);
		memcpy(rte_pktmbuf_append(m, wire->frames[got].len), wire->frames[got].data,
		       wire->frames[got].len);
		pkts[got++] = m;
	}
	memmove(wire->frames, wire->frames + got, (wire->n - got) * sizeof(wire->frames[0]));
	wire->n -= got;
	return got;
}

static uint16_t mem_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct wire *wire = wire_of(q->link);

	(void)dest;
	for (uint16_t i = 0; i < n; i++) {
		struct frame *f = &wire->frames[wire->n++];

		assert_true(wire->n <= LEFT_MAX);
		f->len = (uint16_t)rte_pktmbuf_pkt_len(pkts[i]);
		assert_int_equal(rte_pktmbuf_data_len(pkts[i]), f->len);
		memcpy(f->data, rte_pktmbuf_mtod(pkts[i], void *), f->len);
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct link_ops mem_ops = {
	.name = "mem", .reads = true, .writes = true, .unclassified = true, .rx = mem_rx, .tx = mem_tx,
};
LINK_REGISTER(mem_ops)

#define CHAIN                                                                                      \
	"{\"links\":{\"in\":{\"type\":\"mem\"},\"back\":{\"type\":\"mem\"},\"out0\":{\"type\":"     \
	"\"mem\"},\"out1\":{\"type\":\"mem\"},\"out2\":{\"type\":\"mem\"}},"                        \
	"\"nfs\":{\"acl\":{\"type\":\"acl\",\"params\":{\"rules\":[{\"action\":\"deny\","          \
	"\"dport\":[6]},{\"action\":\"permit\"}]}},"                                               \
	"\"fw\":{\"type\":\"firewall\",\"params\":{\"rules\":[{\"action\":\"permit\"}],"           \
	"\"udp_timeout_s\":1,\"udp_replied_timeout_s\":2,\"syn_timeout_s\":1,"                      \
	"\"closing_timeout_s\":1,\"established_timeout_s\":2000,"                                 \
	"\"tcp_loose\":true}},"                                                                    \
	"\"nat\":{\"type\":\"nat\",\"params\":{\"pool\":[\"198.51.100.7\"],\"inside\":"            \
	"[\"10.0.0.0/9\"],\"udp_timeout_s\":3,\"transitory_timeout_s\":3,"                         \
	"\"established_timeout_s\":2000}},"                                                        \
	"\"lb\":{\"type\":\"lb\",\"params\":{\"idle_timeout_s\":2000,\"table_size\":251,\"vips\":["  \
	"{\"address\":\"203.0.113.1\",\"backends\":[{\"address\":\"192.0.2.1\"},{\"address\":"     \
	"\"192.0.2.2\"},{\"address\":\"192.0.2.3\",\"port\":0}]}]}},"                              \
	"\"l3\":{\"type\":\"l3fwd\",\"params\":{\"next_hops\":[{},{\"edge\":1,\"dst_mac\":"        \
	"\"02:00:00:00:01:01\"}],\"routes\":[{\"prefix\":\"192.0.2.0/24\",\"next_hop\":0},"        \
	"{\"prefix\":\"203.0.113.0/24\",\"next_hop\":1},{\"prefix\":\"10.0.0.0/8\",\"next_hop\":0},"  \
	"{\"prefix\":\"198.51.100.0/24\",\"next_hop\":1}"                                       \
	"],\"ipv4_capacity\":100}}},"                                                              \
	"\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"fastpath\":%u,\"inputs\":["                  \
	"{\"link\":\"in\",\"to\":\"acl\"},{\"link\":\"back\",\"to\":\"l3\",\"direction\":"         \
	"\"reverse\"}],\"nodes\":{"                                                                \
	"\"acl\":{\"forward\":{\"pass\":\"fw\"},\"reverse\":{\"pass\":\"link:out2\"}},"            \
	"\"fw\":{\"forward\":{\"pass\":\"nat\"},\"reverse\":{\"pass\":\"acl\"}},"                  \
	"\"nat\":{\"forward\":{\"out\":\"lb\"},\"reverse\":{\"out\":\"fw\"}},"                     \
	"\"lb\":{\"forward\":{\"out\":\"l3\"},\"reverse\":{\"out\":\"nat\"}},"                     \
	"\"l3\":{\"forward\":{\"out0\":\"link:out0\",\"out1\":\"link:out1\"},\"reverse\":"         \
	"{\"out0\":\"lb\"}}}}]}"

static void side_open(struct side *s, unsigned int flows)
{
	struct err err = {0};
	char text[8192];
	json_t *json;

	memset(s, 0, sizeof(*s));
	snprintf(text, sizeof(text), CHAIN, flows);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	if (plan_parse(json, &s->plan, &err))
		fail_msg("%s: %s", err.path, err.msg);
	json_decref(json);
	s->engine = (struct engine){.plan = s->plan, .pool = pool};
	s->engine.links = calloc(s->plan->n_links, sizeof(struct link));
	s->engine.nfs = calloc(s->plan->n_nfs, sizeof(struct nf));
	for (unsigned int i = 0; i < s->plan->n_links; i++) {
		struct link *l = &s->engine.links[i];

		l->ops = s->plan->links[i].ops;
		l->pool = pool;
		l->state = i < 2 ? &s->in[i] : &s->out[i - 2];
	}
	for (unsigned int i = 0; i < s->plan->n_nfs; i++) {
		struct nf *nf = &s->engine.nfs[i];

		nf->ops = s->plan->nfs[i].ops;
		nf->conf = s->plan->nfs[i].conf;
		nf->workers = 1;
		if (nf->ops->init(nf, &err))
			fail_msg("%s: %s: %s", nf->ops->name, err.path, err.msg);
	}
	if (replica_create(&s->engine, 0, 0, &s->r, &err))
		fail_msg("%s: %s", err.path, err.msg);
}

static void side_close(struct side *s)
{
	replica_destroy(&s->engine, s->r);
	for (unsigned int i = 0; i < s->plan->n_nfs; i++)
		s->engine.nfs[i].ops->fini(&s->engine.nfs[i]);
	free(s->engine.links);
	free(s->engine.nfs);
	plan_free(s->plan);
}

static struct side plain, fast;

static void change(const char *nf, const char *text)
{
	struct side *sides[] = {&plain, &fast};
	int rc[2];

	for (unsigned int s = 0; s < 2; s++) {
		for (unsigned int i = 0; i < sides[s]->plan->n_nfs; i++) {
			json_t *op, *reply = NULL;
			struct err err;

			if (strcmp(sides[s]->plan->nfs[i].name, nf))
				continue;
			op = json_loads(text, 0, NULL);
			assert_non_null(op);
			rc[s] = nf_update(&sides[s]->engine.nfs[i], op, &reply, &err);
			json_decref(reply);
			json_decref(op);
		}
	}
	assert_int_equal(rc[0], rc[1]);
}

static void change_any(void)
{
	char text[256];

	switch (pick(6)) {
	case 0:
		snprintf(text, sizeof(text),
			 "{\"rules\":[{\"action\":\"deny\",\"dport\":[%u]}],\"default\":\"%s\"}",
			 1 + pick(8), pick(8) ? "permit" : "deny");
		change("acl", text);
		break;
	case 1:
		snprintf(text, sizeof(text),
			 "{\"routes\":[{\"op\":\"replace\",\"prefix\":\"192.0.2.%u/32\",\"next_hop\":%u}]}",
			 1 + pick(4), pick(2));
		change("l3", text);
		break;
	case 2:
		/* Refused where it is not there, and undone where the second cannot be made. */
		snprintf(text, sizeof(text),
			 "{\"routes\":[{\"op\":\"del\",\"prefix\":\"192.0.2.%u/32\"},{\"op\":\"%s\","
			 "\"prefix\":\"192.0.2.0/24\",\"next_hop\":0}]}",
			 1 + pick(4), pick(2) ? "add" : "replace");
		change("l3", text);
		break;
	case 3:
		snprintf(text, sizeof(text), "{\"op\":\"%s\",\"address\":\"192.0.2.%u\"}",
			 (const char *[]){"add", "drain", "remove"}[pick(3)], 1 + pick(4));
		change("lb", text);
		break;
	case 4:
		snprintf(text, sizeof(text),
			 "{\"op\":\"%s\",\"protocol\":\"udp\",\"inside\":\"10.0.0.9\",\"inside_port\":5,"
			 "\"outside\":\"198.51.100.7\",\"outside_port\":%u}",
			 pick(2) ? "add" : "remove", 2000 + pick(3));
		change("nat", text);
		break;
	case 5:
		snprintf(text, sizeof(text),
			 "{\"rules\":[{\"action\":\"deny\",\"dport\":[%u]},{\"action\":\"permit\"}]}",
			 1 + pick(8));
		change("fw", text);
		break;
	}
}

static void put(unsigned int link, const uint8_t *data, uint32_t len)
{
	struct side *sides[] = {&plain, &fast};

	for (unsigned int s = 0; s < 2; s++) {
		struct wire *wire = &sides[s]->in[link];

		assert_true(wire->n < LEFT_MAX && len <= FRAME_MAX);
		wire->frames[wire->n].len = (uint16_t)len;
		memcpy(wire->frames[wire->n++].data, data, len);
	}
}

/* What makes a packet one that functions must see, now and then. */
static void spoil(struct craft *c)
{
	switch (pick(24)) {
	case 0: c->ttl = (uint8_t)(1 + pick(2)); break;
	case 1: c->options = 1; break;
	case 2: c->vlans = 1; break;
	case 3: c->fragment = true; c->more_fragments = true; c->payload = 64; break;
	case 4: c->tcp_flags = (uint8_t[]){0x02, 0x11, 0x14, 0x00, 0x18}[pick(5)]; break;
	case 5: c->proto = 1; c->icmp_type = 8; break;
	case 6: c->tos = 0xb8; break;
	case 7: c->payload = 60; break;
	}
}

static void forward_packet(unsigned int flow)
{
	struct craft c = {.family = 4, .proto = flow % 2 ? 17 : 6, .tcp_flags = 0x10};
	uint8_t data[CRAFT_MAX];
	char src[32];
	uint32_t len;

	/* The upper half of the addresses is not inside for nat. */
	snprintf(src, sizeof(src), "10.%u.0.%u", flow % 5 ? 0 : 200, 1 + flow % 7);
	craft_addrs(&c, src, flow % 3 ? "203.0.113.1" : flow % 9 ? "192.0.2.9" : "8.8.8.8");
	c.sport = (uint16_t)(1000 + flow);
	c.dport = (uint16_t)(1 + flow % 8);
	spoil(&c);
	len = craft_build(&c, data);
	if (!pick(40))
		data[24] ^= 1; /* header checksum */
	if (!pick(10) && c.proto == 17 && !c.options && !c.vlans)
		data[40] = data[41] = 0; /* no UDP checksum */
	if (!pick(60))
		data[0] |= 1; /* multicast MAC */
	if (!pick(5))
		data[11] ^= (uint8_t)pick(256); /* a station behind another way */
	put(0, data, len);
}

/* An answer to something that left: a packet with its ends swapped. */
static void answer(const struct frame *f)
{
	struct craft c = {.family = 4, .proto = f->data[23], .tcp_flags = pick(6) ? 0x10 : 0x12};
	uint8_t data[CRAFT_MAX];

	if (f->data[12] != 8 || f->data[14] != 0x45 || (c.proto != 6 && c.proto != 17))
		return;
	memcpy(c.src, f->data + 30, 4);
	memcpy(c.dst, f->data + 26, 4);
	c.sport = (uint16_t)(f->data[36] << 8 | f->data[37]);
	c.dport = (uint16_t)(f->data[34] << 8 | f->data[35]);
	spoil(&c);
	put(1, data, craft_build(&c, data));
}

/* Flows apart, each in its order. */
static int by_flow(const void *a, const void *b)
{
	const struct frame *const *x = a, *const *y = b;
	const uint8_t *p = (*x)->data, *q = (*y)->data;
	int order = memcmp(p + 12, q + 12, 4);

	order = order ? order : memcmp(p + 20, q + 20, 2);
	order = order ? order : p[23] - q[23];
	order = order ? order : memcmp(p + 26, q + 26, 12);
	return order ? order : (*x > *y) - (*x < *y);
}

/* With the clock its own again first: cmocka's last words read it when our handler is gone. */
#define FAIL(...)                                                                                  \
	do {                                                                                       \
		virtual_tsc_stop();                                                                \
		fail_msg(__VA_ARGS__);                                                             \
	} while (0)

static void compare(const struct wire *a, const struct wire *b, unsigned int step, unsigned int link)
{
	const struct frame *x[LEFT_MAX], *y[LEFT_MAX];

	if (a->n != b->n)
		FAIL("step %u, link %u: %u packets without and %u with it", step, link, a->n, b->n);
	for (unsigned int i = 0; i < a->n; i++) {
		x[i] = &a->frames[i];
		y[i] = &b->frames[i];
	}
	qsort(x, a->n, sizeof(x[0]), by_flow);
	qsort(y, b->n, sizeof(y[0]), by_flow);
	for (unsigned int i = 0; i < a->n; i++)
		if (x[i]->len != y[i]->len || memcmp(x[i]->data, y[i]->data, x[i]->len))
			FAIL("step %u, link %u: packet %u of a flow-wise order differs", step, link, i);
}

/* Everything but what acl's own cache did. */
static void compare_counters(void)
{
	fastpath_credit(fast.r);
	for (unsigned int i = 0; i < plain.plan->n_nfs; i++) {
		const struct node *a = &plain.r->nodes[i], *b = &fast.r->nodes[i];
		const struct nf_ops *ops = plain.plan->nfs[i].ops;

		assert_int_equal(a->stats.in, b->stats.in);
		assert_int_equal(a->stats.aborted, b->stats.aborted);
		assert_int_equal(a->stats.held, b->stats.held);
		assert_memory_equal(a->stats.out, b->stats.out, sizeof(a->stats.out));
		assert_memory_equal(a->stats.dropped, b->stats.dropped, sizeof(a->stats.dropped));
		for (unsigned int c = 0; ops->counters && ops->counters[c]; c++)
			if (strncmp(ops->counters[c], "cache-", 6) &&
			    a->worker->counters[c] != b->worker->counters[c])
				FAIL("%s %s: %lu without and %lu with it", ops->name, ops->counters[c],
					 a->worker->counters[c], b->worker->counters[c]);
	}
}

static void poll_both(unsigned int step)
{
	replica_poll(plain.r);
	replica_poll(fast.r);
	for (unsigned int i = 0; i < OUT_LINKS; i++)
		compare(&plain.out[i], &fast.out[i], step, i);
}

static void forget(void)
{
	for (unsigned int i = 0; i < OUT_LINKS; i++)
		plain.out[i].n = fast.out[i].n = 0;
}

/* Answers to some of what left forward come in by the next poll. */
static void answer_some(void)
{
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int p = 0; p < plain.out[i].n; p++)
			if (!pick(3))
				answer(&plain.out[i].frames[p]);
}

/*
 * Flows that time out do so at the same time only when it is not a matter of the moment: the fast
 * path lets them live up to FAST_REFRESH longer. So time goes in small steps, or jumps.
 */
static void pass_time(void)
{
	uint64_t hz = rte_get_tsc_hz();

	virtual_tsc += pick(8) ? hz / 20000 : hz / 500;
	if (pick(2500))
		return;
	virtual_tsc += 6 * hz;
	for (unsigned int i = 0; i < 4000; i++) {
		virtual_tsc += hz / 1000;
		replica_poll(plain.r);
		replica_poll(fast.r);
	}
}

static void run(unsigned int steps, unsigned int flows, bool changes)
{
	for (unsigned int step = 0; step < steps; step++) {
		unsigned int base = pick(flows), n = pick(33);

		for (unsigned int i = 0; i < n; i++)
			forward_packet((base + pick(6)) % flows);
		answer_some();
		forget();
		poll_both(step);
		if (changes && !pick(60))
			change_any();
		pass_time();
	}
	virtual_tsc_stop();
	compare_counters();
}

static void begin(unsigned int cache)
{
	seed = 12345;
	/* Here, as cmocka takes the signal for itself before each test. */
	assert_true(virtual_tsc_start());
	side_open(&plain, 0);
	side_open(&fast, cache);
	assert_null(plain.r->fast);
	assert_non_null(fast.r->fast);
}

static void end(void)
{
	side_close(&plain);
	side_close(&fast);
}

static void test_changing_tables(void **state)
{
	(void)state;
	begin(1024);
	run(STEPS, FLOWS, true);
	/* It must have been at work, and have been void at times. */
	assert_true(fast.r->fast->stats.hits > fast.r->fast->stats.misses / 3);
	assert_true(fast.r->fast->stats.flushes > STEPS / 200);
	assert_true(fast.r->fast->stats.recorded > 1000);
	end();
}

/* More flows than there is room for: flows lose their places to others all the time. */
static void test_small_cache(void **state)
{
	(void)state;
	begin(16);
	run(STEPS / 4, FLOWS * 3, true);
	assert_true(fast.r->fast->stats.evicted > 100);
	end();
}

/* Nothing changes but the flows themselves; a third of the packets is not plain. */
static void test_still_tables(void **state)
{
	(void)state;
	begin(4096);
	run(STEPS / 4, FLOWS, false);
	assert_int_equal(fast.r->fast->stats.flushes, 0);
	assert_true(fast.r->fast->stats.hits > fast.r->fast->stats.misses / 3);
	end();
}

static int start(void **state)
{
	(void)state;
	if (test_eal_start("512") < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("test", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + 512, SOCKET_ID_ANY);
	return pool ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changing_tables),
		cmocka_unit_test(test_small_cache),
		cmocka_unit_test(test_still_tables),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
