/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chain twice, in lockstep on one virtual clock: with the fast path, or with trails alone, and without.
 * Random traffic of both families and both ways, packets that are not plain among it, connections that open
 * and close, flows that time out, and every table changed meanwhile: the same packets must leave, in the
 * same order within a flow, and be counted at the same functions.
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

#include "lockstep.h"
#include "lockstep_chain.h"
#include "packets.h"
#include "nf/monitor/monitor.h"
#include "test_eal.h"
#include "virtual_tsc.h"
#include "table/flow.h"

#define FLOWS 48
#define STEPS 20000

#define CHAIN                                                                                      \
	LOCKSTEP_CHAIN("",                                                                         \
		       "\"udp_timeout_s\":1,\"udp_replied_timeout_s\":2,\"syn_timeout_s\":1,"      \
		       "\"closing_timeout_s\":1,\"established_timeout_s\":2000,",                 \
		       "\"udp_timeout_s\":3,\"transitory_timeout_s\":3,"                          \
		       "\"established_timeout_s\":2000,",                                         \
		       "\"idle_timeout_s\":2000,",                                                \
		       "\"flows\":4096,\"idle_timeout_s\":1,\"active_timeout_s\":4")

static struct rte_mempool *pool;
static struct lockstep both;
static unsigned int seed = 1;

static unsigned int pick(unsigned int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void change_any(void)
{
	char text[256];

	switch (pick(8)) {
	case 0:
		snprintf(text, sizeof(text),
			 "{\"rules\":[{\"action\":\"deny\",\"dport\":[%u]}],\"default\":\"%s\"}",
			 1 + pick(8), pick(8) ? "permit" : "deny");
		lockstep_change(&both, "acl", text);
		break;
	case 1:
		snprintf(text, sizeof(text),
			 "{\"routes\":[{\"op\":\"replace\",\"prefix\":\"192.0.2.%u/32\",\"next_hop\":%u}]}",
			 1 + pick(4), pick(2));
		lockstep_change(&both, "l3", text);
		break;
	case 2:
		/* Refused where it is not there, and undone where the second cannot be made. */
		snprintf(text, sizeof(text),
			 "{\"routes\":[{\"op\":\"del\",\"prefix\":\"192.0.2.%u/32\"},{\"op\":\"%s\","
			 "\"prefix\":\"192.0.2.0/24\",\"next_hop\":0}]}",
			 1 + pick(4), pick(2) ? "add" : "replace");
		lockstep_change(&both, "l3", text);
		break;
	case 3:
		snprintf(text, sizeof(text), "{\"op\":\"%s\",\"address\":\"192.0.2.%u\"}",
			 (const char *[]){"add", "drain", "remove"}[pick(3)], 1 + pick(4));
		lockstep_change(&both, "lb", text);
		break;
	case 4:
		snprintf(text, sizeof(text),
			 "{\"op\":\"%s\",\"protocol\":\"udp\",\"inside\":\"10.0.0.9\",\"inside_port\":5,"
			 "\"outside\":\"198.51.100.7\",\"outside_port\":%u}",
			 pick(2) ? "add" : "remove", 2000 + pick(3));
		lockstep_change(&both, "nat", text);
		break;
	case 5:
		snprintf(text, sizeof(text),
			 "{\"rules\":[{\"action\":\"deny\",\"dport\":[%u]},{\"action\":\"permit\"}]}",
			 1 + pick(8));
		lockstep_change(&both, "fw", text);
		break;
	case 6:
		snprintf(text, sizeof(text),
			 "{\"routes\":[{\"op\":\"replace\",\"prefix\":\"2001:db8:c::%u/128\","
			 "\"next_hop\":%u}]}",
			 1 + pick(3), pick(2));
		lockstep_change(&both, "l3", text);
		break;
	case 7:
		snprintf(text, sizeof(text),
			 "{\"op\":\"%s\",\"vip\":1,\"address\":\"2001:db8:c::%u\"}",
			 (const char *[]){"add", "drain", "remove"}[pick(3)], 1 + pick(3));
		lockstep_change(&both, "lb", text);
		break;
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

static void craft_flow(struct craft *c, unsigned int flow, bool v6)
{
	char src[32];

	*c = (struct craft){.proto = flow % 2 ? 17 : 6, .tcp_flags = 0x10};
	if (v6) {
		snprintf(src, sizeof(src), "2001:db8:a::%x", 1 + flow % 7);
		craft_addrs(c, src, flow % 3 ? "2001:db8:b::1" : flow % 9 ? "2001:db8:c::9" : "2001:db9::1");
	} else {
		/* The upper half of the addresses is not inside for nat. */
		snprintf(src, sizeof(src), "10.%u.0.%u", flow % 5 ? 0 : 200, 1 + flow % 7);
		craft_addrs(c, src, flow % 3 ? "203.0.113.1" : flow % 9 ? "192.0.2.9" : "8.8.8.8");
	}
	c->sport = (uint16_t)(1000 + flow);
	c->dport = (uint16_t)(1 + flow % 8);
}

static void forward_packet(unsigned int flow)
{
	bool v6 = flow % 5 == 3;
	uint8_t data[CRAFT_MAX];
	struct craft c;
	uint32_t len;

	craft_flow(&c, flow, v6);
	spoil(&c);
	len = craft_build(&c, data);
	if (!pick(40))
		data[24] ^= 1; /* header checksum */
	if (!pick(10) && c.proto == 17 && !c.options && !c.vlans)
		data[v6 ? 60 : 40] = data[v6 ? 61 : 41] = 0; /* no UDP checksum */
	if (!pick(60))
		data[0] |= 1; /* multicast MAC */
	if (!pick(5))
		data[11] ^= (uint8_t)pick(256); /* a station behind another way */
	lockstep_put(&both, LOCKSTEP_IN, data, len);
}

/* An answer to something that left: a packet with its ends swapped. */
static void answer(const struct lockstep_frame *f)
{
	bool v6 = f->data[12] == 0x86;
	unsigned int addrs = v6 ? 22 : 26, bytes = v6 ? 16 : 4, ports = v6 ? 54 : 34;
	struct craft c = {.family = v6 ? 6 : 4, .proto = f->data[v6 ? 20 : 23],
			  .tcp_flags = pick(6) ? 0x10 : 0x12};
	uint8_t data[CRAFT_MAX];

	if ((!v6 && (f->data[12] != 8 || f->data[14] != 0x45)) || (c.proto != 6 && c.proto != 17))
		return;
	memcpy(c.src, f->data + addrs + bytes, bytes);
	memcpy(c.dst, f->data + addrs, bytes);
	c.sport = (uint16_t)(f->data[ports + 2] << 8 | f->data[ports + 3]);
	c.dport = (uint16_t)(f->data[ports] << 8 | f->data[ports + 1]);
	spoil(&c);
	lockstep_put(&both, LOCKSTEP_BACK, data, craft_build(&c, data));
}

/* With the clock its own again first: cmocka's last words read it when our handler is gone. */
#define FAIL(...)                                                                                  \
	do {                                                                                       \
		virtual_tsc_stop();                                                                \
		fail_msg(__VA_ARGS__);                                                             \
	} while (0)

/* What the monitor has of each flow. */
static void compare_records(enum flow_family family)
{
	unsigned int node = 1;
	const struct mon_worker *a = both.plain.r->nodes[node].worker->state,
				*b = both.fast.r->nodes[node].worker->state;
	const struct flow_table *t = a->flows[family], *u = b->flows[family];

	assert_string_equal(both.plain.r->nodes[node].worker->nf->ops->name, "monitor");
	assert_int_equal(flow_count(t), flow_count(u));
	for (uint32_t i = 0; i < flow_capacity(t); i++) {
		struct flow *f = flow_at(t, i), *g;

		if (!f)
			continue;
		g = flow_find(u, f->key);
		assert_non_null(g);
		assert_int_equal(f->user, g->user);
		assert_int_equal(f->expires, g->expires);
		assert_memory_equal(family == FLOW_IPV4 ? flow_state4(f) : flow_state6(f),
				    family == FLOW_IPV4 ? flow_state4(g) : flow_state6(g),
				    sizeof(struct mon_state));
	}
}

static void poll_both(unsigned int step)
{
	if (!lockstep_poll(&both, LOCKSTEP_OUT))
		FAIL("step %u, %s", step, both.why);
}

/* Answers to some of what left forward come in by the next poll. */
static void answer_some(void)
{
	for (unsigned int i = LOCKSTEP_OUT; i < LOCKSTEP_OUT + 2; i++)
		for (unsigned int p = 0; p < both.plain.wires[i].n; p++)
			if (!pick(3))
				answer(&both.plain.wires[i].frames[p]);
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
		replica_poll(both.plain.r);
		replica_poll(both.fast.r);
	}
}

static void run(unsigned int steps, unsigned int flows, bool changes)
{
	for (unsigned int step = 0; step < steps; step++) {
		unsigned int base = pick(flows), n = pick(33);

		for (unsigned int i = 0; i < n; i++)
			forward_packet((base + pick(6)) % flows);
		answer_some();
		lockstep_forget(&both, LOCKSTEP_OUT);
		poll_both(step);
		if (changes && !pick(60))
			change_any();
		pass_time();
	}
	virtual_tsc_stop();
	if (!lockstep_same_counts(&both))
		fail_msg("%s", both.why);
	compare_records(FLOW_IPV4);
	compare_records(FLOW_IPV6);
}

static void begin(unsigned int cache)
{
	seed = 12345;
	/* Here, as cmocka takes the signal for itself before each test. */
	assert_true(virtual_tsc_start());
	lockstep_open(&both, CHAIN, cache, pool);
}

static void test_changing_tables(void **state)
{
	(void)state;
	begin(1024);
	run(STEPS, FLOWS, true);
	/* It must have been at work, and have been void at times. */
	assert_true(both.fast.r->fast->stats.hits > both.fast.r->fast->stats.misses / 3);
	assert_true(both.fast.r->fast->stats.flushes > STEPS / 200);
	assert_true(both.fast.r->fast->stats.recorded > 1000);
	lockstep_close(&both);
}

/* More flows than there is room for: flows lose their places to others all the time. */
static void test_small_cache(void **state)
{
	(void)state;
	begin(16);
	run(STEPS / 4, FLOWS * 3, true);
	assert_true(both.fast.r->fast->stats.evicted > 100);
	lockstep_close(&both);
}

/* Nothing changes but the flows themselves; a third of the packets is not plain. */
static void test_still_tables(void **state)
{
	(void)state;
	begin(4096);
	run(STEPS / 4, FLOWS, false);
	assert_int_equal(both.fast.r->fast->stats.flushes, 0);
	assert_true(both.fast.r->fast->stats.hits > both.fast.r->fast->stats.misses / 3);
	lockstep_close(&both);
}

/* Numbers of records that functions behind each other kept: of all of their flows, or most. */
static unsigned int numbers_kept(unsigned int node, enum flow_family family, unsigned int direction)
{
	const struct mon_worker *w = both.fast.r->nodes[node].worker->state;
	struct flow_table *t = w->flows[family];
	unsigned int kept = 0;

	assert_string_equal(both.fast.r->nodes[node].worker->nf->ops->name, "monitor");
	for (uint32_t i = 0; i < flow_capacity(t); i++) {
		struct flow *f = flow_at(t, i);

		kept += f && *flow_trail(t, f, direction);
	}
	return kept;
}

/* No fast path: each function finds by the trail of the one before, or by its index. */
static void test_trails(void **state)
{
	(void)state;
	begin(0);
	run(STEPS / 2, FLOWS, true);
	assert_true(numbers_kept(1, FLOW_IPV4, NF_FORWARD) > 10);
	assert_true(numbers_kept(1, FLOW_IPV6, NF_FORWARD) > 10);
	lockstep_close(&both);
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
		cmocka_unit_test(test_trails),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
