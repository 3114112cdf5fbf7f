/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chain twice: function after function, and with its middle ones side by side, whose polls come
 * in any order, late, or from threads of their own. The same packets must leave by the same links
 * in the same order, and be counted at the same functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <rte_cycles.h>

#include "core/setup/engine.h"
#include "core/pkt.h"
#include "packets.h"
#include "test_eal.h"

#define FRAMES_MAX 65536
#define FRAME_MAX 256
#define OUT_LINKS 2
#define SIDES 3

struct frame {
	uint16_t len;
	uint8_t data[FRAME_MAX];
};

/* What is to come in, or has left, from the first on. */
struct wire {
	unsigned int n, at;
	struct frame *frames;
};

struct side_under_test {
	struct plan *plan;
	struct engine engine;
	struct replica *r;
	struct wire in, out[OUT_LINKS];
};

static struct rte_mempool *pool;
static struct side_under_test plain, beside;
static unsigned int seed = 1;
static unsigned int out_room; /* what a link takes at once */

static unsigned int pick(unsigned int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static uint16_t mem_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	struct wire *wire = q->link->state;
	uint16_t got = 0;

	while (got < n && wire->at < wire->n) {
		const struct frame *f = &wire->frames[wire->at++];
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		assert_non_null(m);
		memcpy(rte_pktmbuf_append(m, f->len), f->data, f->len);
		pkts[got++] = m;
	}
	return got;
}

static uint16_t mem_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct wire *wire = q->link->state;

	(void)dest;
	n = RTE_MIN(n, (uint16_t)out_room);
	for (uint16_t i = 0; i < n; i++) {
		struct frame *f = &wire->frames[wire->n++];

		assert_true(wire->n <= FRAMES_MAX);
		assert_int_equal(rte_mbuf_refcnt_read(pkts[i]), 1);
		f->len = (uint16_t)rte_pktmbuf_pkt_len(pkts[i]);
		memcpy(f->data, rte_pktmbuf_mtod(pkts[i], void *), f->len);
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct link_ops mem_ops = {
	.name = "mem",
	.reads = true,
	.writes = true,
	.unclassified = true,
	.rx = mem_rx,
	.tx = mem_tx,
};
LINK_REGISTER(mem_ops)

/* Drops by what a later function writes: it must see the packet as it came. */
static const char *const peek_drops[] = {"odd-ttl", NULL};

static void peek_process(struct nf_worker *w, struct burst *b)
{
	for (uint16_t i = 0; i < b->n; i++)
		if (pkt_is_ipv4(b->pkts[i])) {
			const struct rte_ipv4_hdr *ip = pkt_l3_hdr(b->pkts[i]);

			w->counters[0] += ip->time_to_live;
			if (ip->time_to_live & 1)
				b->verdict[i] = NF_DROP(0);
		}
}

static const char *const peek_counters[] = {"ttls", NULL};
static const struct nf_ops peek_ops = {
	.name = "peek",
	.drops = peek_drops,
	.counters = peek_counters,
	.reads = NF_F_TTL,
	.may_drop = true,
	.category = NF_GENERAL,
	.wants_headers = true,
	.process = peek_process,
};
NF_REGISTER(peek_ops)

#define CHAIN                                                                                             \
	"{\"links\":{\"in\":{\"type\":\"mem\"},\"out0\":{\"type\":\"mem\"},\"out1\":{\"type\":\"mem\"}}," \
	"\"nfs\":{\"first\":{\"type\":\"null\"},\"slow\":{\"type\":\"delay\",\"params\":{\"cycles\":%u,"  \
	"\"touch_bytes\":64}},\"acl\":{\"type\":\"acl\",\"params\":{\"rules\":[{\"action\":\"deny\","     \
	"\"dport\":[3]},{\"action\":\"permit\"}]}},\"peek\":{\"type\":\"peek\"},"                         \
	"\"l3\":{\"type\":\"l3fwd\",\"params\":{\"next_hops\":[{},{\"edge\":1,\"dst_mac\":"               \
	"\"02:00:00:00:01:01\"}],\"routes\":[{\"prefix\":\"192.0.2.0/24\",\"next_hop\":0},"               \
	"{\"prefix\":\"203.0.113.0/24\",\"next_hop\":1}],\"ipv4_capacity\":100}},"                        \
	"\"mac\":{\"type\":\"l2fwd\"}},"                                                                  \
	"\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"inputs\":[{\"link\":\"in\",\"to\":\"first\"}],%s"   \
	"\"nodes\":{\"first\":{\"forward\":{\"out\":\"slow\"}},\"slow\":{\"forward\":{\"out\":\"acl\"}}," \
	"\"acl\":{\"forward\":{\"pass\":\"peek\"}},\"peek\":{\"forward\":{\"out\":\"l3\"}},"              \
	"\"l3\":{\"forward\":{\"out0\":\"link:out0\",\"out1\":\"mac\"}},"                                 \
	"\"mac\":{\"forward\":{\"out\":\"link:out1\"}}}}]}"
#define PARALLEL "\"parallel\":{\"nodes\":[\"slow\",\"acl\",\"peek\",\"l3\"],\"cpus\":[1,2,3]},"

static void side_open(struct side_under_test *s, const char *parallel, unsigned int cycles)
{
	struct err err = {0};
	char text[4096];
	json_t *json;

	memset(s, 0, sizeof(*s));
	s->in.frames = calloc(FRAMES_MAX, sizeof(struct frame));
	for (unsigned int i = 0; i < OUT_LINKS; i++)
		s->out[i].frames = calloc(FRAMES_MAX, sizeof(struct frame));
	snprintf(text, sizeof(text), CHAIN, cycles, parallel);
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
		l->wait = true;
		l->state = i ? &s->out[i - 1] : &s->in;
	}
	for (unsigned int i = 0; i < s->plan->n_nfs; i++) {
		struct nf *nf = &s->engine.nfs[i];

		nf->ops = s->plan->nfs[i].ops;
		nf->conf = s->plan->nfs[i].conf;
		nf->workers = 1;
		if (nf->ops->init && nf->ops->init(nf, &err))
			fail_msg("%s: %s: %s", nf->ops->name, err.path, err.msg);
	}
	if (replica_create(&s->engine, 0, 0, &s->r, &err))
		fail_msg("%s: %s", err.path, err.msg);
}

static void side_close(struct side_under_test *s)
{
	replica_destroy(s->r);
	for (unsigned int i = 0; i < s->plan->n_nfs; i++)
		if (s->engine.nfs[i].ops->fini)
			s->engine.nfs[i].ops->fini(&s->engine.nfs[i]);
	for (unsigned int i = 0; i < OUT_LINKS; i++)
		free(s->out[i].frames);
	free(s->in.frames);
	free(s->engine.links);
	free(s->engine.nfs);
	plan_free(s->plan);
}

static unsigned int open_both(unsigned int cycles)
{
	unsigned int before = rte_mempool_in_use_count(pool);

	seed = 4711;
	out_room = UINT16_MAX;
	side_open(&plain, "", 0);
	side_open(&beside, PARALLEL, cycles);
	assert_null(plain.r->parallel);
	assert_int_equal(beside.r->parallel->n, SIDES + 1);
	/* What l3fwd writes, the others read: TTL, and the checksum behind the payload's reader. */
	assert_non_null(beside.r->parallel->members[0].copies);
	assert_null(beside.r->parallel->members[1].copies);
	assert_non_null(beside.r->parallel->members[2].copies);
	assert_null(beside.r->parallel->members[3].copies);
	return before;
}

static void close_both(unsigned int before)
{
	side_close(&plain);
	side_close(&beside);
	assert_int_equal(rte_mempool_in_use_count(pool), before);
}

static void put(const uint8_t *data, uint32_t len)
{
	struct side_under_test *both[] = {&plain, &beside};

	assert_true(len <= FRAME_MAX);
	for (unsigned int s = 0; s < 2; s++) {
		struct wire *wire = &both[s]->in;

		assert_true(wire->n < FRAMES_MAX);
		wire->frames[wire->n].len = (uint16_t)len;
		memcpy(wire->frames[wire->n++].data, data, len);
	}
}

static void put_random(unsigned int number)
{
	static const char *const to[] = {"192.0.2.9", "203.0.113.1", "8.8.8.8"};
	struct craft c = {.family = 4, .proto = number % 2 ? 17 : 6, .tcp_flags = 0x10};
	uint8_t data[CRAFT_MAX];
	uint32_t len;

	craft_addrs(&c, "10.0.0.1", to[pick(20) ? pick(2) : 2]);
	c.sport = (uint16_t)number;
	c.dport = (uint16_t)(1 + pick(8));
	c.ttl = (uint8_t)(pick(4) ? 64 : 1 + pick(66));
	c.options = pick(8) ? 0 : pick(4);
	c.vlans = pick(16) ? 0 : 1;
	c.payload = (uint16_t)pick(64);
	len = craft_build(&c, data);
	if (!pick(40))
		data[24] ^= 1; /* header checksum */
	if (!pick(40))
		data[14] = 0x41; /* malformed */
	put(data, pick(40) ? len : 14 + pick(len - 14));
}

static void compare_out(void)
{
	for (unsigned int l = 0; l < OUT_LINKS; l++) {
		const struct wire *a = &plain.out[l], *b = &beside.out[l];

		assert_int_equal(a->n, b->n);
		for (unsigned int i = 0; i < a->n; i++)
			if (a->frames[i].len != b->frames[i].len ||
			    memcmp(a->frames[i].data, b->frames[i].data, a->frames[i].len))
				fail_msg("link %u: packet %u of %u differs", l, i, a->n);
	}
}

static uint64_t sum(const uint64_t *values, unsigned int n)
{
	uint64_t total = 0;

	while (n)
		total += values[--n];
	return total;
}

static uint64_t dropped(const struct node_stats *st)
{
	uint64_t total = 0;

	for (unsigned int i = 0; i < NF_DROPS_MAX; i++)
		total += ends_sum(&st->dropped[i]);
	return total;
}

static void compare_counters(void)
{
	for (unsigned int i = 0; i < plain.plan->n_nfs; i++) {
		const struct node_stats *a = &plain.r->nodes[i].stats,
					*b = &beside.r->nodes[i].stats;

		assert_int_equal(a->in, b->in);
		assert_memory_equal(&a->aborted, &b->aborted, sizeof(a->aborted));
		assert_memory_equal(a->out, b->out, sizeof(a->out));
		assert_memory_equal(a->dropped, b->dropped, sizeof(a->dropped));
		assert_int_equal(b->in, sum(b->out, NF_EDGES_MAX) + dropped(b) +
						ends_sum(&b->no_route) + ends_sum(&b->consumed) +
						ends_sum(&b->aborted));
	}
}

static void drain_plain(void)
{
	unsigned int room = out_room;

	out_room = UINT16_MAX;
	do {
		replica_poll(plain.r);
	} while (plain.in.at < plain.in.n || plain.r->pending);
	out_room = room;
}

static void poll_side(unsigned int side)
{
	replica_poll(beside.r->parallel->sides[1 + side]);
}

static bool under_way(void)
{
	return beside.in.at < beside.in.n || parallel_used(beside.r->parallel) || beside.r->pending;
}

/* Each kind of end must have been seen, or the comparison says little. */
static void assert_all_ways(void)
{
	assert_true(dropped(&plain.r->nodes[2].stats) > 100);
	assert_true(ends_sum(&plain.r->nodes[2].stats.aborted) > 10);
	assert_true(ends_sum(&plain.r->nodes[3].stats.dropped[0]) > 100);
	assert_true(dropped(&plain.r->nodes[4].stats) > 100);
	assert_true(plain.out[0].n > 1000 && plain.out[1].n > 1000);
}

static void test_any_order(void **state)
{
	unsigned int before = open_both(0), steps = 0;

	(void)state;
	for (unsigned int i = 0; i < 20000; i++)
		put_random(i);
	drain_plain();
	while (under_way()) {
		unsigned int who = pick(4);

		/* One of them falls behind for a while, a link is full. */
		if (who == 3 || pick(2))
			replica_poll(beside.r);
		else if (who != steps / 500 % 4)
			poll_side(who);
		out_room = pick(8) ? UINT16_MAX : pick(20);
		assert_true(++steps < 1000000);
	}
	compare_out();
	compare_counters();
	assert_all_ways();
	/* A packet that acl drops was looked at by peek all the same, and counts for nothing there.
	 */
	assert_true(beside.r->nodes[3].worker->counters[0] > plain.r->nodes[3].worker->counters[0]);
	close_both(before);
}

/* A slow one stops the intake when its slots are full; nothing is lost, and it ends when it catches
 * up. */
static void test_slow_side(void **state)
{
	unsigned int before = open_both(0), taken;

	(void)state;
	for (unsigned int i = 0; i < 3000; i++)
		put_random(i);
	drain_plain();
	for (unsigned int i = 0; i < 1000; i++) {
		replica_poll(beside.r);
		poll_side(0);
		poll_side(2);
	}
	taken = beside.in.at;
	assert_true(taken > PARALLEL_SLOTS / 2 && taken <= PARALLEL_SLOTS);
	assert_int_equal(parallel_used(beside.r->parallel), taken);
	assert_int_equal(beside.out[0].n + beside.out[1].n, 0);
	assert_true(beside.r->parallel->full_polls > 900);
	while (under_way())
		for (unsigned int i = 0; i < SIDES; i++) {
			replica_poll(beside.r);
			poll_side(i);
		}
	compare_out();
	compare_counters();
	close_both(before);
}

/* What a side's packets take is not known before its first batch: however long that was, it counts. */
static void test_first_batch(void **state)
{
	unsigned int before = open_both(0);
	struct replica *side = beside.r->parallel->sides[1];

	(void)state;
	put_random(0);
	drain_plain();
	replica_poll(beside.r);
	side->clock->pause = 0; /* any turn is doubted that takes long for its packets */
	side->clock->mark = rte_rdtsc();
	poll_side(0);
	assert_int_equal(side->side->batches, 1);
	assert_int_equal(side->side->cycles_packets, 1);
	assert_true(side->side->cycles > 0);
	close_both(before);
}

/* Stopped with packets under way: they go back to their pool. */
static void test_stop(void **state)
{
	unsigned int before = open_both(0);

	(void)state;
	for (unsigned int i = 0; i < 500; i++)
		put_random(i);
	for (unsigned int i = 0; i < 20; i++) {
		replica_poll(beside.r);
		poll_side(pick(2));
	}
	assert_true(parallel_used(beside.r->parallel) > 100);
	close_both(before);
}

static _Atomic bool stop_threads;

static void *side_thread(void *arg)
{
	struct replica *r = arg;

	while (!atomic_load(&stop_threads)) {
		uint64_t idle = r->count.idle_polls;

		replica_poll(r);
		/* Two CPUs at most, and four of us. */
		if (r->count.idle_polls != idle)
			sched_yield();
	}
	return NULL;
}

static void test_threads(void **state)
{
	unsigned int before = open_both(200);
	uint64_t end = rte_rdtsc() + 100 * rte_get_tsc_hz();
	pthread_t threads[SIDES];

	(void)state;
	for (unsigned int i = 0; i < 40000; i++)
		put_random(i);
	drain_plain();
	atomic_store(&stop_threads, false);
	for (unsigned int i = 0; i < SIDES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, side_thread,
						beside.r->parallel->sides[1 + i]),
				 0);
	while (under_way() && rte_rdtsc() < end) {
		uint64_t full = beside.r->parallel->full_polls;

		replica_poll(beside.r);
		if (beside.r->parallel->full_polls != full)
			sched_yield();
	}
	atomic_store(&stop_threads, true);
	for (unsigned int i = 0; i < SIDES; i++)
		pthread_join(threads[i], NULL);
	assert_false(under_way());
	compare_out();
	compare_counters();
	assert_all_ways();
	close_both(before);
}

static int start(void **state)
{
	(void)state;
	if (test_eal_start("256") < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("test", 8191, 0, 0, RTE_PKTMBUF_HEADROOM + 512,
				       SOCKET_ID_ANY);
	return pool ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_slow_side),
		cmocka_unit_test(test_first_batch),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
