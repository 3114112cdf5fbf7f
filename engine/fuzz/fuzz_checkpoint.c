/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function takes over of a checkpoint's memory that anybody wrote: slots that one had left, changed as
 * the input says, copied over each other or made up, with right checks; then packets both ways, and once more
 * what the function itself has written by then. It must hold itself together, and the next has to take over
 * all that it has.
 *
 * Instances live as long as the process, as making one takes fifty times as long as an input: flows end with
 * each input, their time being over. HEADRACE_FUZZ_FRESH=1 makes new ones for each, to reproduce what does
 * not depend on earlier ones.
 */
#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "core/checkpoint/area.h"
#include "core/checkpoint/checkpoint.h"
#include "tests/kept_flows.h"

#define MEMORY (64u << 10)
#define BURST 64
#define SLOTS 64 /* that the input changes; there are more */
#define MS 1000000
#define EVERY_MS 10

struct kind {
	const char *type, *params;
	bool lasts; /* what it keeps has no end, as classes of qos have none */
};

#define HOLDS "\"held_fragments\": 0" /* as all that an input began ends with it */
/* What any flow lasts, at most: so an end is one jump in time, and the TSC has room for a night of them. */
#define LASTS_MS 30000
#define NAT_LASTS "\"established_timeout_s\": 30, \"transitory_timeout_s\": 20, \"udp_timeout_s\": 20, " \
		  "\"icmp_timeout_s\": 20, "
#define FIREWALL_LASTS "\"established_timeout_s\": 30, \"closing_timeout_s\": 20, \"icmp_timeout_s\": 20, " \
		       "\"udp_replied_timeout_s\": 20, \"other_timeout_s\": 20, "
#define BACKENDS(net) "[{\"address\": \"" net "1\"}, {\"address\": \"" net "2\"}]"
static const struct kind kinds[] = {
	{"nat", "{\"pool\": [\"203.0.113.1\", \"10.0.1.2\"], \"sessions\": 64, " HOLDS ", "
		NAT_LASTS "\"inside\": [\"10.0.0.0/8\"]}"},
	{"nat", "{\"pool\": [\"203.0.113.1\"], \"sessions\": 64, " HOLDS ", " NAT_LASTS
		"\"mapping\": \"endpoint-independent\", "
		"\"filtering\": \"endpoint-independent\", \"static\": [{\"protocol\": \"udp\", "
		"\"inside\": \"10.0.1.2\", \"inside_port\": 7, \"outside\": \"203.0.113.1\", "
		"\"outside_port\": 7}]}"},
	{"firewall", "{\"rules\": [{\"action\": \"permit\"}], \"flows\": 64, " HOLDS ", "
		     FIREWALL_LASTS "\"half_open\": 128}"},
	{"lb", "{\"vips\": [{\"address\": \"192.0.2.1\", \"backends\": " BACKENDS("198.51.100.") "}, "
	       "{\"address\": \"2001:db8:1::2\", \"backends\": " BACKENDS("2001:db8:2::") "}], "
	       "\"table_size\": 251, \"idle_timeout_s\": 20, \"flows\": 64}"},
	{"monitor", "{\"flows\": 64}"},
	{"qos", "{\"classes\": [{\"dscp\": [0], \"meter\": \"srtcm\", \"cir_bps\": 8000000}, "
		"{\"dscp\": [1], \"meter\": \"trtcm\", \"cir_bps\": 8000000, \"pir_bps\": 9000000}, "
		"{\"dscp\": [2], \"meter\": \"trtcm-4115\", \"cir_bps\": 8000000, \"pir_bps\": 100000}]}",
	 .lasts = true},
};

/* Who wrote what the input says, who takes it over, and who comes after that one. */
enum who {
	OLD,
	NEXT,
	LAST,
	LIVES,
};
static struct harness *instances[RTE_DIM(kinds)][LIVES];
static uint64_t now; /* of all of them */

struct life {
	struct harness *h;
	struct checkpoint *c;
};

static struct harness *instance(unsigned int kind, enum who who)
{
	struct harness **h = &instances[kind][who];
	struct err err = {0};

	if (!*h)
		*h = harness_new(kinds[kind].type, kinds[kind].params, NULL, &err);
	if (!*h) {
		fprintf(stderr, "%s: %s: %s\n", kinds[kind].type, err.path, err.msg);
		abort();
	}
	return *h;
}

static void free_instances(void)
{
	for (unsigned int i = 0; i < RTE_DIM(kinds) * LIVES; i++) {
		harness_free(instances[i / LIVES][i % LIVES]);
		instances[i / LIVES][i % LIVES] = NULL;
	}
}

static struct life begin(unsigned int kind, enum who who, void *memory)
{
	struct life l = {.h = instance(kind, who)};
	struct nf_worker *w = &l.h->workers[0];
	struct err err = {0};

	l.h->now = now;
	if (checkpoint_create(&w, 1, EVERY_MS * (rte_get_tsc_hz() / 1000), &l.c, &err)) {
		fprintf(stderr, "%s: %s: %s\n", kinds[kind].type, err.path, err.msg);
		abort();
	}
	checkpoint_attach(l.c, memory, MEMORY, true, now);
	return l;
}

/* Its flows' time is over, so that its instance is as good as new. */
static void end(unsigned int kind, struct life *l)
{
	checkpoint_attach(l->c, NULL, 0, false, now);
	checkpoint_free(l->c);
	harness_advance(l->h, (uint64_t)LASTS_MS * MS);
	harness_advance(l->h, MS);
	harness_forget(l->h);
	now = RTE_MAX(now, l->h->now);
	if (!kinds[kind].lasts && kept_flows(l->h)) {
		fprintf(stderr, "%s: %lu flows outlive their time\n", l->h->nf.ops->name, kept_flows(l->h));
		abort();
	}
}

/* Of one flow table: its slots, and what is said of them. */
struct part {
	struct checkpoint_part *head;
	uint8_t *slots;
	uint32_t bytes, stride;
};

static unsigned int parts_of(const struct life *l, struct checkpoint_half *half,
			     struct part parts[FLOW_FAMILIES])
{
	const struct nf_keeps *keeps = l->h->nf.ops->keeps;
	uint8_t *slots = half->slots;
	unsigned int n = 0;
	bool v6;

	for (; keeps->table(&l->h->workers[0], n, &v6); n++) {
		struct part *p = &parts[n];

		p->head = &half->parts[n];
		p->bytes = (uint32_t)(sizeof(struct checkpoint_slot) + (v6 ? 40 : 16)) + keeps->bytes;
		p->stride = RTE_ALIGN_CEIL(p->bytes, 64u);
		p->slots = slots;
		slots += (size_t)checkpoint_slots(l->c) * p->stride;
	}
	return n;
}

/* One slot as the input has it; its check is right. */
static void change_slot(struct input *in, const struct part *p, uint64_t life, uint32_t now_flow)
{
	unsigned int how = take(in, 1), index = take(in, 1) % SLOTS;
	struct checkpoint_slot *s = (struct checkpoint_slot *)(p->slots + index * p->stride);
	uint8_t *at = (uint8_t *)s;

	switch (how & 3) {
	case 0:
		memcpy(at, p->slots + take(in, 1) % SLOTS * p->stride, p->bytes);
		break;
	case 1:
		for (uint32_t i = 0; i < p->bytes; i++)
			at[i] = (uint8_t)take(in, 1);
		break;
	}
	for (unsigned int edits = how >> 2 & 3; edits; edits--)
		at[take(in, 1) % p->bytes] ^= (uint8_t)take(in, 1);
	if (how & 16)
		s->written = now_flow - (take(in, 1) & 15);
	if (how & 32)
		s->expires = now_flow + (take(in, 1) << (take(in, 1) & 15));
	if (index >= atomic_load(&p->head->top))
		atomic_store(&p->head->top, how & 64 ? take(in, 4) : index + 1);
	atomic_store(&s->check, checkpoint_check(s, p->bytes, life, index));
}

static void change(struct input *in, const struct life *old, struct checkpoint_half *half)
{
	struct part parts[FLOW_FAMILIES];
	unsigned int n = parts_of(old, half, parts);

	for (unsigned int changes = take(in, 1) & 15; changes && in->at < in->end; changes--)
		change_slot(in, &parts[take(in, 1) % n], half->life, flow_now(old->h->now));
	for (unsigned int i = 0; i < n && take(in, 1) & 1; i++)
		atomic_store(&parts[i].head->live, take(in, 4));
}

static void packets(struct input *in, struct life *l, unsigned int most)
{
	static const char *const ip4[] = {"10.0.0.1", "10.0.1.2", "192.0.2.1", "203.0.113.1"};
	static const char *const ip6[] = {"2001:db8::1", "2001:db8:1::2", "2001:db8:2::1", "ff02::1"};
	struct craft_list list = {0};
	uint8_t buf[CRAFT_MAX];

	while (in->at < in->end && list.n < most)
		craft_add_bytes(&list, buf, take_packet(in, ip4, ip6, buf));
	harness_run(l->h, NF_FORWARD, BURST, list.packets, list.n);
	harness_run(l->h, NF_REVERSE, BURST, list.packets, list.n);
	craft_list_free(&list);
}

/* Until a pass that was under way is over, and a whole one. */
static void pass(struct life *l)
{
	for (unsigned int i = 0; i < 5; i++) {
		harness_advance(l->h, EVERY_MS / 2 * MS);
		checkpoint_tick(l->c, l->h->now);
	}
	now = l->h->now;
}

/* Each flow is what its key leads to: no two have the same, whatever slots said. */
static void found_by_their_keys(struct harness *h)
{
	struct flow_table *t;
	struct flow *f;
	bool v6;

	for (unsigned int i = 0; (t = h->nf.ops->keeps->table(&h->workers[0], i, &v6)); i++)
		for (uint32_t at = 0; at < flow_top(t); at++) {
			f = flow_at(t, at);
			if (!f || flow_find(t, f->key) == f)
				continue;
			fprintf(stderr, "%s: two flows have the key of record %u\n", h->nf.ops->name, at);
			abort();
		}
}

/* All that lives has its slot by now, and what has one was let in by the function: it is again. */
static void taken_again(unsigned int kind, struct life *old, void *memory)
{
	const struct checkpoint_restored *r;
	struct life last;
	uint64_t flows;

	pass(old);
	flows = kept_flows(old->h);
	last = begin(kind, LAST, memory);
	r = checkpoint_restored(last.c);
	if (r->refused || r->lost || r->live != flows || r->restored + r->expired != flows) {
		fprintf(stderr,
			"%s: of %lu flows %lu live, %lu restored, %lu expired, %lu refused, %lu lost\n",
			kinds[kind].type, flows, r->live, r->restored, r->expired, r->refused, r->lost);
		abort();
	}
	end(kind, &last);
}

static void play(unsigned int kind, struct input *in)
{
	static uint8_t memory[MEMORY] __rte_aligned(4096);
	struct checkpoint_half *half = (struct checkpoint_half *)(memory + sizeof(struct checkpoint_area));
	struct life old, next;

	memset(memory, 0, sizeof(memory));
	old = begin(kind, OLD, memory);
	packets(in, &old, take(in, 1) & 15);
	pass(&old);
	change(in, &old, half);
	next = begin(kind, NEXT, memory);
	found_by_their_keys(next.h);
	packets(in, &next, 64);
	taken_again(kind, &next, memory);
	end(kind, &next);
	end(kind, &old);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fresh = -1;
	struct input in = {data, data + size};
	unsigned int kind = take(&in, 1) % RTE_DIM(kinds);

	if (fresh < 0) {
		fresh = getenv("HEADRACE_FUZZ_FRESH") != NULL;
		now = rte_rdtsc();
		atexit(free_instances);
	}
	play(kind, &in);
	if (fresh)
		free_instances();
	return 0;
}
