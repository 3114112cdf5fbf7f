/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function takes over of a checkpoint's memory that anybody wrote: slots whose checks are right and
 * whose contents are the input's, then packets both ways, and once more what the function itself has written
 * by then. It must hold itself together, and the next has to take over all that it has.
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
#define MS 1000000
#define EVERY_MS 10

struct kind {
	const char *type, *params;
};

#define HOLDS "\"held_fragments\": 0" /* as an instance ends with each input */
#define BACKENDS(net) "[{\"address\": \"" net "1\"}, {\"address\": \"" net "2\"}]"
static const struct kind kinds[] = {
	{"nat", "{\"pool\": [\"203.0.113.1\", \"10.0.1.2\"], \"sessions\": 64, " HOLDS ", "
		"\"inside\": [\"10.0.0.0/8\"]}"},
	{"nat", "{\"pool\": [\"203.0.113.1\"], \"sessions\": 64, " HOLDS ", "
		"\"mapping\": \"endpoint-independent\", "
		"\"filtering\": \"endpoint-independent\", \"static\": [{\"protocol\": \"udp\", "
		"\"inside\": \"10.0.1.2\", \"inside_port\": 7, \"outside\": \"203.0.113.1\", "
		"\"outside_port\": 7}]}"},
	{"firewall", "{\"rules\": [{\"action\": \"permit\"}], \"flows\": 64, " HOLDS ", "
		     "\"half_open\": 128}"},
	{"lb", "{\"vips\": [{\"address\": \"192.0.2.1\", \"backends\": " BACKENDS("198.51.100.") "}, "
	       "{\"address\": \"2001:db8:1::2\", \"backends\": " BACKENDS("2001:db8:2::") "}], "
	       "\"table_size\": 251, \"flows\": 64}"},
	{"monitor", "{\"flows\": 64}"},
};

struct life {
	struct harness *h;
	struct checkpoint *c;
};

static struct life begin(const struct kind *k, void *memory, uint64_t now)
{
	struct err err = {0};
	struct life l = {.h = harness_new(k->type, k->params, NULL, &err)};
	struct nf_worker *w;

	if (l.h && now)
		l.h->now = now;
	w = l.h ? &l.h->workers[0] : NULL;
	if (!w || checkpoint_create(&w, 1, EVERY_MS * (rte_get_tsc_hz() / 1000), &l.c, &err)) {
		fprintf(stderr, "%s: %s: %s\n", k->type, err.path, err.msg);
		abort();
	}
	checkpoint_attach(l.c, memory, MEMORY, true, l.h->now);
	return l;
}

static void end(struct life *l)
{
	checkpoint_free(l->c);
	harness_free(l->h);
}

/* One slot of the input's, as the function would have left it, some of its bytes near what is right. */
static void write_slot(struct input *in, const struct life *l, struct checkpoint_half *half, uint8_t *at,
		       uint32_t bytes, uint32_t index)
{
	struct checkpoint_slot *s = (struct checkpoint_slot *)at;

	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)take(in, 1);
	s->written = flow_now(l->h->now) - (take(in, 1) & 15);
	if (take(in, 1) & 7)
		s->expires = flow_now(l->h->now) + (take(in, 1) << (take(in, 1) & 15));
	if (take(in, 1) & 7)
		s->user &= 0x30f;
	atomic_store(&s->check, checkpoint_check(s, bytes, half->life, index));
}

static void write_part(struct input *in, const struct life *l, struct checkpoint_half *half,
		       struct checkpoint_part *part, uint8_t *slots, bool v6)
{
	uint32_t bytes = (uint32_t)(sizeof(struct checkpoint_slot) + (v6 ? 40 : 16)) +
			 l->h->nf.ops->keeps->bytes;
	unsigned int n = take(in, 1) & 31;

	for (unsigned int i = 0; i < n && in->at < in->end; i++)
		write_slot(in, l, half, slots + i * RTE_ALIGN_CEIL(bytes, 64u), bytes, i);
	atomic_store(&part->top, take(in, 1) & 1 ? n : take(in, 4));
	atomic_store(&part->live, take(in, 1) & 1 ? n : take(in, 4));
}

static void packets(struct input *in, struct life *l)
{
	static const char *const ip4[] = {"10.0.0.1", "10.0.1.2", "192.0.2.1", "203.0.113.1"};
	static const char *const ip6[] = {"2001:db8::1", "2001:db8:1::2", "2001:db8:2::1", "ff02::1"};
	struct craft_list list = {0};
	uint8_t buf[CRAFT_MAX];

	while (in->at < in->end && list.n < 256)
		craft_add_bytes(&list, buf, take_packet(in, ip4, ip6, buf));
	harness_run(l->h, NF_FORWARD, BURST, list.packets, list.n);
	harness_run(l->h, NF_REVERSE, BURST, list.packets, list.n);
	craft_list_free(&list);
}

/* All that lives has its slot by now, and what has one was let in by the function: it is again. */
static void taken_again(const struct kind *k, struct life *old, void *memory)
{
	const struct checkpoint_restored *r;
	struct life next;
	uint64_t flows;

	for (unsigned int i = 0; i < 2 * EVERY_MS + 1; i++) {
		harness_advance(old->h, MS);
		checkpoint_tick(old->c, old->h->now);
	}
	flows = kept_flows(old->h);
	next = begin(k, memory, old->h->now);
	r = checkpoint_restored(next.c);
	if (r->refused || r->lost || r->live != flows || r->restored + r->expired != flows) {
		fprintf(stderr,
			"%s: of %lu flows %lu live, %lu restored, %lu expired, %lu refused, %lu lost\n",
			k->type, flows, r->live, r->restored, r->expired, r->refused, r->lost);
		abort();
	}
	end(&next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t memory[MEMORY] __rte_aligned(4096);
	struct input in = {data, data + size};
	const struct kind *k = &kinds[take(&in, 1) % RTE_DIM(kinds)];
	struct checkpoint_half *half = (struct checkpoint_half *)(memory + sizeof(struct checkpoint_area));
	struct flow_table *t;
	struct life old, next;
	uint8_t *slots = half->slots;
	bool v6;

	memset(memory, 0, sizeof(memory));
	old = begin(k, memory, 0);
	for (unsigned int i = 0; (t = old.h->nf.ops->keeps->table(&old.h->workers[0], i, &v6)); i++) {
		uint32_t stride = RTE_ALIGN_CEIL((uint32_t)(sizeof(struct checkpoint_slot) + (v6 ? 40 : 16)) +
							 old.h->nf.ops->keeps->bytes, 64u);

		write_part(&in, &old, half, &half->parts[i], slots, v6);
		slots += (size_t)checkpoint_slots(old.c) * stride;
	}
	next = begin(k, memory, old.h->now);
	packets(&in, &next);
	taken_again(k, &next, memory);
	end(&next);
	end(&old);
	return 0;
}
