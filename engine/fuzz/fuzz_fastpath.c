/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain with the consolidated fast path and the same without, in lockstep: whatever comes in, in
 * either direction, again and again, with tables changing and time passing, the same packets must
 * leave and be counted at the same functions.
 *
 * Both live as long as the process, so that state builds up; HEADRACE_FUZZ_FRESH=1 makes them for
 * every input, to reproduce what does not depend on earlier ones.
 */
#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "tests/test_eal.h"
#include "tests/lockstep.h"
#include "tests/lockstep_chain.h"

#define BURST 32
#define TURNS_AFTER_A_JUMP 4
#define SMALL_STEPS_S 200 /* together at most, between jumps; all timeouts are far beyond */
#define JUMP_S 5000
#define CHANGE_EVERY 512 /* inputs: building tables anew takes a thousand times as long as a packet */
/* An input is short: state builds up from one to the next, and many short ones meet more than few long. */
#define TURNS 4
#define PACKETS 16

/* All timeouts are far longer than the 30 ms by which flows may outlive theirs with the fast path. */
#define CHAIN                                                                                      \
	LOCKSTEP_CHAIN("\"reverse\":\"swap\",",                                                    \
		       "\"flows\":256,\"half_open\":32,\"datagrams\":24,\"held_fragments\":20,"       \
		       "\"udp_timeout_s\":1000,\"udp_replied_timeout_s\":1000,"                     \
		       "\"syn_timeout_s\":1000,\"closing_timeout_s\":1000,"                         \
		       "\"icmp_timeout_s\":1000,\"other_timeout_s\":1000,"                          \
		       "\"established_timeout_s\":1000,",                                         \
		       "\"sessions\":256,\"datagrams\":24,\"held_fragments\":20,"                   \
		       "\"udp_timeout_s\":1000,\"transitory_timeout_s\":1000,"                      \
		       "\"icmp_timeout_s\":1000,\"established_timeout_s\":1000,",                   \
		       "\"flows\":512,\"idle_timeout_s\":1000,",                                  \
		       "\"flows\":128,\"idle_timeout_s\":1000,\"active_timeout_s\":1000")

enum step {
	STEP_RAW,
	STEP_CRAFT,
	STEP_AGAIN,
	STEP_AGAIN_MANY,
	STEP_TIME,
	STEP_CHANGE,
	STEP_POLL,
	STEPS,
};

struct play {
	struct input in;
	unsigned int link, queued, turns, packets;
	uint8_t last[LOCKSTEP_FRAME_MAX]; /* the packet that came last */
	uint32_t last_len;
	struct lockstep_frame left; /* and one that left then */
};

static struct rte_mempool *pool;
static struct lockstep *both;
static uint64_t small_steps, inputs, changed_at;

static void keep_one(struct play *p)
{
	for (unsigned int i = LOCKSTEP_OUT; i < both->plain.plan->n_links; i++) {
		const struct lockstep_wire *wire = &both->plain.wires[i];

		if (wire->n)
			p->left = wire->frames[wire->n - 1];
	}
}

static void poll_both(struct play *p)
{
	if (!lockstep_poll(both, LOCKSTEP_OUT)) {
		fprintf(stderr, "with the fast path it is not the same: %s\n", both->why);
		abort();
	}
	keep_one(p);
	lockstep_forget(both, LOCKSTEP_OUT);
	p->queued = 0;
	p->turns++;
}

static void put(struct play *p, const void *data, uint32_t len)
{
	lockstep_put(both, p->link, data, len);
	p->packets++;
	if (++p->queued == BURST)
		poll_both(p);
}

static void put_again(struct play *p, unsigned int times)
{
	while (p->last_len && times-- && p->packets < PACKETS)
		put(p, p->last, p->last_len);
}

static void swap(uint8_t *a, uint8_t *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uint8_t kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

/*
 * What the other end of a flow would send: which address and port nat has given it is nothing that
 * an input can guess. Checksums stay right, as sums do not depend on the order.
 */
static void put_answer(struct play *p)
{
	struct lockstep_frame *f = &p->left;
	bool v6 = f->data[12] == 0x86;
	unsigned int addrs = v6 ? 22 : 26, bytes = v6 ? 16 : 4, ports = addrs + 2 * bytes;

	if (f->len < ports + 4 || p->packets >= PACKETS)
		return;
	swap(f->data + addrs, f->data + addrs + bytes, bytes);
	swap(f->data + ports, f->data + ports + 2, 2);
	p->link = LOCKSTEP_BACK;
	memcpy(p->last, f->data, f->len);
	p->last_len = f->len;
	put(p, p->last, p->last_len);
}

static void put_raw(struct play *p)
{
	uint32_t len = take(&p->in, 1);

	len = RTE_MIN(len, (uint32_t)(p->in.end - p->in.at));
	put(p, p->in.at, len);
	p->in.at += len;
}

static void put_craft(struct play *p)
{
	static const char *const ip4[] = {"10.0.0.1", "192.0.2.1", "203.0.113.1", "198.51.100.7"};
	static const char *const ip6[] = {"2001:db8:a::1", "2001:db8:b::1", "2001:db8:c::1",
					  "2001:db8:c::2"};
	uint8_t buf[CRAFT_MAX];
	uint32_t len = take_packet(&p->in, ip4, ip6, buf);

	p->last_len = RTE_MIN(len, (uint32_t)sizeof(p->last));
	memcpy(p->last, buf, p->last_len);
	put(p, p->last, p->last_len);
}

/* 1 us to half a second; or so long that all flows end, and their tables are swept. */
static void pass_time(struct play *p, unsigned int much)
{
	uint64_t hz = rte_get_tsc_hz(), step = (hz / 1000000) << much % 20;

	poll_both(p);
	if (much < 31 && small_steps + step < SMALL_STEPS_S * hz) {
		small_steps += step;
		fuzz_tsc += step;
		return;
	}
	small_steps = 0;
	fuzz_tsc += JUMP_S * hz;
	for (unsigned int i = 0; i < TURNS_AFTER_A_JUMP; i++) {
		fuzz_tsc += hz;
		poll_both(p);
	}
}

static void change(struct play *p)
{
	static const struct {
		const char *nf, *op;
	} changes[] = {
		{"acl", "{\"rules\":[{\"action\":\"deny\",\"dport\":[7]}],\"default\":\"permit\"}"},
		{"acl", "{\"rules\":[{\"action\":\"permit\",\"dport\":[0,99]}],\"default\":\"deny\"}"},
		{"fw", "{\"rules\":[{\"action\":\"deny\",\"dport\":[9]},{\"action\":\"permit\"}]}"},
		{"fw", "{\"rules\":[{\"action\":\"permit\"}]}"},
		{"nat", "{\"op\":\"add\",\"protocol\":\"udp\",\"inside\":\"10.0.0.1\",\"inside_port\":5,"
			"\"outside\":\"198.51.100.7\",\"outside_port\":2000}"},
		{"nat", "{\"op\":\"remove\",\"protocol\":\"udp\",\"inside\":\"10.0.0.1\",\"inside_port\":5,"
			"\"outside\":\"198.51.100.7\",\"outside_port\":2000}"},
		{"lb", "{\"op\":\"drain\",\"address\":\"192.0.2.2\"}"},
		{"lb", "{\"op\":\"remove\",\"address\":\"192.0.2.1\"}"},
		{"lb", "{\"op\":\"add\",\"address\":\"192.0.2.1\"}"},
		{"lb", "{\"op\":\"remove\",\"vip\":1,\"address\":\"2001:db8:c::1\"}"},
		{"lb", "{\"op\":\"add\",\"vip\":1,\"address\":\"2001:db8:c::1\"}"},
		{"l3", "{\"routes\":[{\"op\":\"replace\",\"prefix\":\"192.0.2.1/32\",\"next_hop\":1}]}"},
		{"l3", "{\"routes\":[{\"op\":\"del\",\"prefix\":\"192.0.2.1/32\"}]}"},
		{"l3", "{\"routes\":[{\"op\":\"replace\",\"prefix\":\"2001:db8:c::1/128\",\"next_hop\":1}]}"},
		{"l3", "{\"routes\":[{\"op\":\"del\",\"prefix\":\"2001:db8:c::1/128\"}]}"},
	};
	unsigned int which = take(&p->in, 1) % RTE_DIM(changes);

	poll_both(p);
	lockstep_change(both, changes[which].nf, changes[which].op);
}

/* One that is tried alone may each time. */
static bool may_change(void)
{
	if (inputs < changed_at + CHANGE_EVERY && !getenv("HEADRACE_FUZZ_FRESH"))
		return false;
	changed_at = inputs;
	return true;
}

static void play(struct play *p)
{
	while (p->in.at < p->in.end && p->turns < TURNS && p->packets < PACKETS) {
		unsigned int op = take(&p->in, 1);

		switch ((enum step)(op % STEPS)) {
		case STEP_RAW:
			put_raw(p);
			break;
		case STEP_CRAFT:
			put_craft(p);
			break;
		case STEP_AGAIN:
			put_again(p, 1);
			break;
		case STEP_AGAIN_MANY:
			put_again(p, 2 + op / STEPS);
			break;
		case STEP_TIME:
			pass_time(p, op / STEPS);
			break;
		case STEP_CHANGE:
			if (may_change())
				change(p);
			else
				poll_both(p);
			break;
		default:
			poll_both(p);
			p->link = op / STEPS & 1 ? LOCKSTEP_BACK : LOCKSTEP_IN;
			if (op / STEPS & 2)
				put_answer(p);
		}
	}
	poll_both(p);
	if (!lockstep_same_counts(both)) {
		fprintf(stderr, "with the fast path it is not the same: %s\n", both->why);
		abort();
	}
}

static void end(void)
{
	lockstep_close(both);
	free(both);
	both = NULL;
}

static void begin(void)
{
	both = calloc(1, sizeof(*both));
	if (!both)
		abort();
	lockstep_open(both, CHAIN, 64, pool);
}

static void start(void)
{
	if (test_eal_start("512") < 0)
		abort();
	fuzz_tsc = rte_rdtsc(); /* from here on it moves as the inputs say */
	pool = rte_pktmbuf_pool_create("fuzz", 4095, 256, 0, RTE_PKTMBUF_HEADROOM + 512, SOCKET_ID_ANY);
	if (!pool)
		abort();
	if (!getenv("HEADRACE_FUZZ_FRESH")) {
		begin();
		atexit(end);
	}
}

/* As in fuzz_nf.c: what is held at an input's end is no leak, but looking for one takes milliseconds. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return both != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play p = {.in = {data, data + size}, .link = LOCKSTEP_IN};
	bool fresh;

	if (!pool)
		start();
	inputs++;
	fresh = !both;
	if (fresh)
		begin();
	play(&p);
	if (fresh)
		end();
	return 0;
}
