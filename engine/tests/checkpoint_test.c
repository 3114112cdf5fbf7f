/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function is killed, and another goes on with what it left: what becomes of known flows' packets is the
 * same to the byte as at one that was not killed, and what was lost is counted.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rte_cycles.h>

#include "core/checkpoint/area.h"
#include "core/checkpoint/checkpoint.h"
#include "kept_flows.h"
#include "packets.h"

#define SYN 0x02
#define ACK 0x10
#define FLOWS 300
#define EVERY_MS 100
#define MEMORY (1u << 20)
#define PERMIT "\"rules\": [{\"action\": \"permit\"}]"

struct life {
	struct harness *h;
	struct checkpoint *c;
};

static struct life begin(const char *type, const char *params, void *memory, uint64_t now)
{
	struct err err = {0};
	struct life l = {.h = harness_new(type, params, NULL, &err)};
	struct nf_worker *w;

	if (!l.h)
		fail_msg("%s: %s", err.path, err.msg);
	if (now)
		l.h->now = now;
	w = &l.h->workers[0];
	if (checkpoint_create(&w, 1, EVERY_MS * (rte_get_tsc_hz() / 1000), &l.c, &err))
		fail_msg("%s: %s", err.path, err.msg);
	checkpoint_attach(l.c, memory, MEMORY, true, l.h->now);
	return l;
}

static void end(struct life *l)
{
	checkpoint_free(l->c);
	harness_free(l->h);
}

/* So many ticks of a millisecond. */
static void pass(struct life *l, unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i++) {
		harness_advance(l->h, 1000000);
		checkpoint_tick(l->c, l->h->now);
	}
}

static struct craft outward(unsigned int i, bool v6)
{
	struct craft c = {.family = v6 ? 6 : 4, .proto = i % 3 ? IPPROTO_TCP : IPPROTO_UDP, .payload = 21,
			  .sport = (uint16_t)(1024 + i), .dport = 80, .tcp_flags = SYN};

	if (v6)
		craft_addrs(&c, "2001:db8::5", "2001:db8:1::9");
	else
		craft_addrs(&c, "10.0.0.5", "198.19.0.1");
	return c;
}

static void turn(struct craft *c)
{
	uint8_t addr[16];
	uint16_t port = c->sport;

	memcpy(addr, c->src, 16);
	memcpy(c->src, c->dst, 16);
	memcpy(c->dst, addr, 16);
	c->sport = c->dport;
	c->dport = port;
}

/* What leaves of one packet; NULL: nothing. */
static const struct harness_out *feed(struct life *l, enum nf_direction dir, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};

	harness_forget(l->h);
	harness_run(l->h, dir, 1, &p, 1);
	return l->h->n_out ? &l->h->out[0] : NULL;
}

/* As the packet is behind the function. */
static void follow(struct craft *c, const struct harness_out *out)
{
	const uint8_t *ip = out->data + 14, *l4 = ip + (c->family == 4 ? 20 : 40);
	unsigned int bytes = c->family == 4 ? 4 : 16;

	memcpy(c->src, ip + (c->family == 4 ? 12 : 8), bytes);
	memcpy(c->dst, ip + (c->family == 4 ? 16 : 24), bytes);
	c->sport = (uint16_t)(l4[0] << 8 | l4[1]);
	c->dport = (uint16_t)(l4[2] << 8 | l4[3]);
}

/* A flow's first packets, both ways; *c is then as its answers' answers look outside. */
static bool open_flow(struct life *l, struct craft *c)
{
	const struct harness_out *out = feed(l, NF_FORWARD, c);
	struct craft back = *c;

	if (!out)
		return false;
	follow(&back, out);
	turn(&back);
	back.tcp_flags = SYN | ACK;
	return feed(l, NF_REVERSE, &back);
}

static void same_out(struct life *a, struct life *b, enum nf_direction dir, const struct craft *c)
{
	const struct harness_out *x = feed(a, dir, c), *y = feed(b, dir, c);

	assert_int_equal(x != NULL, y != NULL);
	assert_memory_equal(a->h->verdicts, b->h->verdicts, a->h->n_verdicts);
	if (!x)
		return;
	assert_int_equal(x->len, y->len);
	assert_memory_equal(x->data, y->data, x->len);
}

/* Established connections go on, both ways, in the one that was killed as in the other. */
static void go_on(struct life *a, struct life *b, struct craft c)
{
	const struct harness_out *out;

	c.tcp_flags = ACK;
	same_out(a, b, NF_FORWARD, &c);
	out = feed(a, NF_FORWARD, &c);
	assert_non_null(out);
	follow(&c, out);
	turn(&c);
	same_out(a, b, NF_REVERSE, &c);
	assert_int_equal(a->h->n_out, 1);
}

struct kind {
	const char *type, *params;
	bool v6;
};

#define BACKENDS(net)                                                                              \
	"[{\"address\": \"" net "1\"}, {\"address\": \"" net "2\"}, {\"address\": \"" net "3\"}]"
static const struct kind kinds[] = {
	{"nat", "{\"pool\": [\"203.0.113.1\", \"203.0.113.2\"], \"seed\": 7}", false},
	{"nat", "{\"pool\": [\"203.0.113.1\"], \"seed\": 7, \"mapping\": \"endpoint-independent\"}", false},
	{"firewall", "{" PERMIT "}", true},
	{"lb", "{\"vips\": [{\"address\": \"198.19.0.1\", \"backends\": " BACKENDS("198.51.100.") "}, "
	       "{\"address\": \"2001:db8:1::9\", \"backends\": " BACKENDS("2001:db8:2::") "}], "
	       "\"table_size\": 251}", true},
	{"monitor", "{}", true},
};

static struct craft flow_of(const struct kind *k, unsigned int i)
{
	return outward(i, k->v6 && i % 2);
}

/* All flows have been written before it is killed: none is lost. */
static void killed(const struct kind *k, void *memory)
{
	struct life whole = begin(k->type, k->params, NULL, 0), old, next;
	const struct checkpoint_restored *r;
	uint64_t flows;

	old = begin(k->type, k->params, memory, whole.h->now);
	for (unsigned int i = 0; i < FLOWS; i++) {
		struct craft c = flow_of(k, i);

		assert_true(open_flow(&whole, &c));
		assert_true(open_flow(&old, &c));
	}
	flows = kept_flows(old.h);
	assert_true(flows >= FLOWS);
	pass(&old, EVERY_MS + 1);
	pass(&whole, EVERY_MS + 1);
	next = begin(k->type, k->params, memory, old.h->now);
	r = checkpoint_restored(next.c);
	assert_int_equal(r->live, flows);
	assert_int_equal(r->restored, flows);
	assert_int_equal(r->lost + r->refused + r->expired, 0);
	assert_int_equal(kept_flows(next.h), flows);
	for (unsigned int i = 0; i < FLOWS; i++)
		go_on(&whole, &next, flow_of(k, i));
	assert_int_equal(kept_flows(next.h), flows);
	end(&old);
	end(&next);
	end(&whole);
}

static void test_known_flows_go_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < RTE_DIM(kinds); i++) {
		void *memory = aligned_alloc(4096, MEMORY);

		memset(memory, 0, MEMORY);
		killed(&kinds[i], memory);
		free(memory);
	}
}

/* What begins behind the last checkpoint is lost, what ends is not taken up again; each is counted. */
static void test_lost_and_ended(void **state)
{
	const char *params = "{" PERMIT ", \"udp_timeout_s\": 2, \"half_open\": 1000}";
	void *memory = aligned_alloc(4096, MEMORY);
	const struct checkpoint_restored *r;
	struct life old, next;

	(void)state;
	memset(memory, 0, MEMORY);
	old = begin("firewall", params, memory, 0);
	for (unsigned int i = 0; i < 90; i++) {
		struct craft c = outward(i, false);

		feed(&old, NF_FORWARD, &c);
	}
	pass(&old, EVERY_MS + 1);
	/* The 30 of UDP end; the others are half open and stay. */
	pass(&old, 4000);
	assert_int_equal(kept_flows(old.h), 60);
	for (unsigned int i = 0; i < 6; i++) {
		struct craft c = outward(1000 + i, false);

		feed(&old, NF_FORWARD, &c);
	}
	next = begin("firewall", params, memory, old.h->now);
	r = checkpoint_restored(next.c);
	assert_int_equal(r->live, 66);
	assert_int_equal(r->whole, 60);
	assert_int_equal(r->restored, 60);
	assert_int_equal(r->lost, 6);
	assert_true(r->oldest_ns > 0 && r->oldest_ns < 2 * EVERY_MS * 1000000ull);
	harness_advance(next.h, 1000000);
	assert_int_equal(harness_counter(next.h, "half-open"), 60);
	end(&old);
	/* It was killed before it wrote anything anew: what it took over is there all the same. */
	old = next;
	next = begin("firewall", params, memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->restored, 60);
	assert_int_equal(checkpoint_restored(next.c)->lost, 0);
	end(&old);
	/* So long after that their time is over. */
	old = next;
	next = begin("firewall", params, memory, old.h->now + 40 * rte_get_tsc_hz());
	assert_int_equal(checkpoint_restored(next.c)->expired, 60);
	assert_int_equal(checkpoint_restored(next.c)->lost, 0);
	assert_int_equal(kept_flows(next.h), 0);
	end(&old);
	end(&next);
	free(memory);
}

/* Flows that no ordinary packet begins: by a first fragment, by ICMPv6 in IPv4 and the other way round. */
static void test_odd_beginnings(void **state)
{
	void *memory = aligned_alloc(4096, MEMORY);
	struct craft odd[] = {outward(3, false), outward(1, false), outward(0, false), outward(0, true)};
	struct life old, next;

	(void)state;
	memset(memory, 0, MEMORY);
	odd[0].fragment = odd[0].more_fragments = true;
	odd[1].proto = IPPROTO_SCTP;
	odd[2].proto = IPPROTO_ICMPV6;
	odd[3].proto = IPPROTO_ICMP;
	odd[2].icmp_type = odd[3].icmp_type = 8;
	old = begin("firewall", "{" PERMIT "}", memory, 0);
	for (size_t i = 0; i < RTE_DIM(odd); i++)
		feed(&old, NF_FORWARD, &odd[i]);
	pass(&old, EVERY_MS + 1);
	assert_true(kept_flows(old.h) >= 3);
	next = begin("firewall", "{" PERMIT "}", memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->restored, kept_flows(old.h));
	assert_int_equal(checkpoint_restored(next.c)->refused, 0);
	end(&old);
	end(&next);
	free(memory);
}

/* Whatever the one before gave it, a flow lives no longer than this one's timeouts say. */
static void test_other_timeouts(void **state)
{
	void *memory = aligned_alloc(4096, MEMORY);
	struct life old, next;

	(void)state;
	memset(memory, 0, MEMORY);
	old = begin("firewall", "{" PERMIT ", \"syn_timeout_s\": 1000}", memory, 0);
	for (unsigned int i = 0; i < 30; i++) {
		struct craft c = outward(3 * i + 1, false);

		feed(&old, NF_FORWARD, &c);
	}
	pass(&old, EVERY_MS + 1);
	next = begin("firewall", "{" PERMIT ", \"syn_timeout_s\": 2}", memory,
		     old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->restored, 30);
	pass(&next, 4000);
	assert_int_equal(kept_flows(next.h), 0);
	end(&old);
	end(&next);
	free(memory);
}

/* A tick looks at so many at most, and a pass over more of them takes longer. */
static void test_bounded(void **state)
{
	void *memory = aligned_alloc(4096, MEMORY);
	struct life l;

	(void)state;
	memset(memory, 0, MEMORY);
	l = begin("firewall", "{" PERMIT "}", memory, 0);
	for (unsigned int i = 0; i < 20000; i++) {
		struct craft c = outward(3 * i % 60000, false);

		feed(&l, NF_FORWARD, &c);
	}
	/* The worker slept: all of it is due at once. */
	harness_advance(l.h, EVERY_MS * 1000000);
	checkpoint_tick(l.c, l.h->now);
	assert_int_equal(checkpoint_counts(l.c)->most_at_once, CHECKPOINT_AT_ONCE);
	assert_int_equal(checkpoint_counts(l.c)->saved, CHECKPOINT_AT_ONCE);
	assert_int_equal(checkpoint_counts(l.c)->passes, 0);
	pass(&l, 8);
	assert_int_equal(checkpoint_counts(l.c)->passes, 1);
	end(&l);
	free(memory);
}

/* Half a slot, another's slot, other parameters, another segment: nothing is believed. */
static void test_what_cannot_be(void **state)
{
	const char *nat = "{\"pool\": [\"203.0.113.1\"], \"seed\": 7}";
	uint8_t *memory = aligned_alloc(4096, MEMORY);
	struct checkpoint_half *half;
	struct life old, next;

	(void)state;
	memset(memory, 0, MEMORY);
	old = begin("nat", nat, memory, 0);
	for (unsigned int i = 0; i < 10; i++) {
		struct craft c = outward(i, false);

		assert_true(open_flow(&old, &c));
	}
	pass(&old, EVERY_MS + 1);
	half = (struct checkpoint_half *)(memory + sizeof(struct checkpoint_area));
	((struct checkpoint_slot *)half->slots)->key[0] ^= 1; /* and its check is as it was */
	memcpy(half->slots + 2 * 64, half->slots + 4 * 64, 64);
	next = begin("nat", nat, memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->live, 10);
	assert_int_equal(checkpoint_restored(next.c)->restored, 8);
	assert_int_equal(checkpoint_restored(next.c)->lost, 2);
	end(&old);
	/* Its addresses are another pool's now. */
	old = next;
	next = begin("nat", "{\"pool\": [\"203.0.113.9\"]}", memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->refused, 8);
	assert_int_equal(checkpoint_restored(next.c)->lost, 8);
	assert_int_equal(kept_flows(next.h), 0);
	end(&old);
	old = next;
	next = begin("firewall", "{}", memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->live, 0);
	end(&old);
	end(&next);
	free(memory);
}

#define CLASS(dscp, meter, rates)                                                                  \
	"{\"dscp\": [" dscp "], \"meter\": \"" meter "\", \"cir_bps\": 400000, \"cbs_bytes\": 3000, "   \
	"\"pbs_bytes\": 5000" rates "}"
#define CLASSES                                                                                    \
	"{\"classes\": [{\"dscp\": [3]}, " CLASS("0", "srtcm", "") ", "                             \
	CLASS("1", "trtcm", ", \"pir_bps\": 800000") ", "                                         \
	CLASS("2", "trtcm-4115", ", \"pir_bps\": 200000") "]}"

static uint8_t color_of(struct life *l, unsigned int class)
{
	struct craft c = outward(0, false);

	c.tos = (uint8_t)(class << 2);
	c.payload = 400;
	feed(l, NF_FORWARD, &c);
	return l->h->verdicts[0];
}

static uint64_t reds(struct life *l)
{
	return harness_counter(l->h, "red");
}

/* Buckets are as full as at the one that was killed: what they let through, packet for packet. */
static void test_meters_go_on(void **state)
{
	void *memory = aligned_alloc(4096, MEMORY);
	struct life old, next, anew;
	unsigned int random = 1;
	uint64_t had;

	(void)state;
	memset(memory, 0, MEMORY);
	old = begin("qos", CLASSES, memory, 0);
	for (unsigned int i = 0; i < 300; i++)
		color_of(&old, (unsigned int)rand_r(&random) % 4);
	pass(&old, EVERY_MS + 1);
	next = begin("qos", CLASSES, memory, old.h->now);
	assert_int_equal(checkpoint_restored(next.c)->live, 3);
	assert_int_equal(checkpoint_restored(next.c)->restored, 3);
	anew = begin("qos", CLASSES, NULL, old.h->now);
	had = reds(&old);
	for (unsigned int i = 0; i < 1000; i++) {
		unsigned int class = (unsigned int)rand_r(&random) % 4;
		uint64_t ns = (uint64_t)rand_r(&random) % 2 * 1000000;

		assert_int_equal(color_of(&old, class), color_of(&next, class));
		color_of(&anew, class);
		harness_advance(old.h, ns);
		harness_advance(next.h, ns);
		harness_advance(anew.h, ns);
	}
	assert_int_equal(reds(&old) - had, reds(&next));
	/* Who begins with full buckets lets more through, or the comparison would say nothing. */
	assert_true(reds(&next) > reds(&anew) + 5);
	end(&old);
	end(&next);
	end(&anew);
	free(memory);
}

/* Fuller than full, filled later than now, another meter's, a class that is none. */
static void test_meters_that_cannot_be(void **state)
{
	const union {
		uint64_t word;
		struct flow_key4 key;
	} none = {.key = {.src = 7}};

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		uint8_t *memory = aligned_alloc(4096, MEMORY);
		struct checkpoint_half *half =
			(struct checkpoint_half *)(memory + sizeof(struct checkpoint_area));
		struct checkpoint_slot *s = (struct checkpoint_slot *)half->slots; /* srtcm's */
		uint64_t *own = s->key + 2; /* time, tc, te */
		struct life old, next;

		memset(memory, 0, MEMORY);
		old = begin("qos", CLASSES, memory, 0);
		pass(&old, EVERY_MS + 1);
		switch (i) {
		case 0:
			own[1] = 3001;
			break;
		case 1:
			own[2] = UINT64_MAX;
			break;
		case 2:
			own[0] = old.h->now + (1u << 21);
			break;
		case 3:
			s->user = 3;
			break;
		case 4:
			s->key[0] = none.word;
			break;
		}
		atomic_store(&s->check, checkpoint_check(s, sizeof(*s) + 16 + 32, half->life, 0));
		next = begin("qos", CLASSES, memory, old.h->now);
		assert_int_equal(checkpoint_restored(next.c)->refused, 1);
		assert_int_equal(checkpoint_restored(next.c)->restored, 2);
		end(&old);
		end(&next);
		free(memory);
	}
}

static void test_who_cannot(void **state)
{
	static const char *const types[] = {"veb", "nat"};
	static const char *const params[] = {"{\"ports\": [{}, {}]}", "{\"pool\": [\"203.0.113.1\"]}"};

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(types); i++) {
		struct harness_config config = {.workers = i ? 2 : 1};
		struct err err = {0};
		struct harness *h = harness_new(types[i], params[i], &config, &err);
		struct checkpoint *c = NULL;
		struct nf_worker *w;

		if (!h)
			fail_msg("%s: %s", err.path, err.msg);
		w = &h->workers[0];
		assert_int_not_equal(checkpoint_create(&w, 1, 1, &c, &err), 0);
		assert_non_null(strstr(err.msg, "allowed"));
		harness_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_flows_go_on), cmocka_unit_test(test_lost_and_ended),
		cmocka_unit_test(test_odd_beginnings),
		cmocka_unit_test(test_meters_go_on),	  cmocka_unit_test(test_meters_that_cannot_be),
		cmocka_unit_test(test_other_timeouts),    cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_what_cannot_be),    cmocka_unit_test(test_who_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
