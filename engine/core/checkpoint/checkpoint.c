/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "area.h"
#include "table/flow.h"

/* A flow table of a function's, and where its flows are kept. */
struct part {
	struct nf_worker *w;
	unsigned int table;
	struct flow_table *flows;
	uint32_t words;  /* of its keys */
	uint32_t bytes;  /* of a slot that count */
	uint32_t stride; /* whole lines */
	uint8_t *slots;
	struct checkpoint_part *head;
};

struct checkpoint {
	struct part parts[CHECKPOINT_PARTS];
	unsigned int n_parts;
	uint64_t every, layout, life;
	void *memory;
	uint32_t slots; /* of each part; 0: nowhere to write to */
	/* The pass under way. */
	uint64_t began; /* TSC */
	unsigned int at_part;
	uint32_t at, done;
	bool over;
	struct checkpoint_counts n;
	struct checkpoint_restored restored;
};

static int add_tables(struct checkpoint *c, struct nf_worker *w, struct err *err)
{
	const struct nf_keeps *keeps = w->nf->ops->keeps;
	struct flow_table *t;
	bool v6;

	for (unsigned int i = 0; (t = keeps->table(w, i, &v6)); i++) {
		struct part *p = &c->parts[c->n_parts];

		if (c->n_parts == CHECKPOINT_PARTS)
			return err_set(err, E2BIG, w->nf->name,
				       "has one more flow table than the %d of which there are checkpoints",
				       CHECKPOINT_PARTS);
		p->w = w;
		p->table = i;
		p->flows = t;
		p->words = v6 ? 5 : 2;
		p->bytes = (uint32_t)(sizeof(struct checkpoint_slot) + p->words * sizeof(uint64_t)) +
			   keeps->bytes;
		p->stride = RTE_ALIGN_CEIL(p->bytes, 64u);
		c->layout = checkpoint_mix(c->layout, w->nf->name, strlen(w->nf->name) + 1);
		c->layout = checkpoint_mix(c->layout, w->nf->ops->name, strlen(w->nf->ops->name) + 1);
		c->layout = checkpoint_mix(c->layout, &p->bytes, sizeof(p->bytes));
		c->n_parts++;
	}
	return 0;
}

static int add_worker(struct checkpoint *c, struct nf_worker *w, struct err *err)
{
	const struct nf_ops *ops = w->nf->ops;

	if (!ops->keeps && ops->state_key == NF_STATELESS)
		return 0;
	if (!ops->keeps)
		return err_set(err, EINVAL, w->nf->name,
			       "checkpoints of a segment with a %s, of whose state none is written; allowed "
			       "with checkpoints: functions that say what they keep, and those without state",
			       ops->name);
	if (w->count != 1 || w->owners)
		return err_set(err, EINVAL, w->nf->name,
			       "checkpoints of %u replicas; allowed: one, not elastic", w->count);
	return add_tables(c, w, err);
}

int checkpoint_create(struct nf_worker *const *workers, unsigned int n, uint64_t every_cycles,
		      struct checkpoint **out, struct err *err)
{
	struct checkpoint *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (!c)
		return err_set(err, ENOMEM, "", "out of memory");
	c->every = every_cycles;
	for (unsigned int i = 0; i < n && !rc; i++)
		rc = add_worker(c, workers[i], err);
	if (rc)
		free(c);
	else
		*out = c;
	return rc;
}

static void keep_nowhere(struct checkpoint *c)
{
	for (unsigned int i = 0; i < c->n_parts; i++)
		flow_keep(c->parts[i].flows, NULL);
	c->slots = 0;
}

void checkpoint_free(struct checkpoint *c)
{
	free(c);
}

/* One record into its slot. `check` is 0 while the slot is not whole. */
static void save(struct checkpoint *c, const struct part *p, uint32_t i)
{
	struct checkpoint_slot *s = (struct checkpoint_slot *)(p->slots + (size_t)i * p->stride);
	struct flow *f = flow_at(p->flows, i);
	uint64_t own[CHECKPOINT_SLOT_MAX / sizeof(uint64_t) + 1] = {0};
	struct checkpoint_slot *next = (struct checkpoint_slot *)own;

	if (!f)
		return; /* its end has made the slot void */
	next->expires = f->expires;
	next->user = f->user;
	next->written = flow_now(c->began);
	memcpy(next->key, f->key, p->words * sizeof(uint64_t));
	if (!p->w->nf->ops->keeps->save(p->w, p->table, f, next->key + p->words, &next->expires))
		return;
	atomic_store_explicit(&s->check, 0, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* a kill comes between two instructions */
	memcpy((uint8_t *)s + sizeof(s->check), (uint8_t *)next + sizeof(s->check),
	       p->bytes - sizeof(s->check));
	if (i >= atomic_load_explicit(&p->head->top, memory_order_relaxed))
		atomic_store_explicit(&p->head->top, i + 1, memory_order_relaxed);
	atomic_store_explicit(&s->check, checkpoint_check(next, p->bytes, c->life, i), memory_order_release);
	c->n.saved++;
}

/* What is left of a part at the end of its old life: copied first, as who wrote it may still do so. */
static bool slot_of(const struct part *p, const struct checkpoint_half *half, const uint8_t *slots,
		    uint32_t i, struct checkpoint_slot *copy)
{
	uint64_t life = atomic_load_explicit(&half->life, memory_order_relaxed);

	memcpy(copy, slots + (size_t)i * p->stride, p->bytes);
	return copy->check && copy->check == checkpoint_check(copy, p->bytes, life, i);
}

static void restore_slot(struct checkpoint *c, struct part *p, const struct checkpoint_slot *s, uint32_t now)
{
	const struct nf_kept kept = {.key = s->key, .own = s->key + p->words, .expires = s->expires,
				     .now = now, .user = s->user};
	struct checkpoint_restored *r = &c->restored;
	uint64_t age = (uint64_t)(now - s->written) << 20;
	struct flow *f;

	r->whole++;
	if ((int32_t)(now - s->expires) >= 0) {
		r->expired++;
		return;
	}
	f = p->w->nf->ops->keeps->restore(p->w, p->table, &kept);
	if (!f) {
		r->refused++;
		return;
	}
	r->restored++;
	r->oldest_ns = RTE_MAX(r->oldest_ns, (uint64_t)((double)age * 1e9 / (double)rte_get_tsc_hz()));
	if (flow_index(p->flows, f) < c->slots)
		save(c, p, flow_index(p->flows, f));
}

static size_t part_bytes(const struct checkpoint *c, const struct part *p)
{
	return (size_t)c->slots * p->stride;
}

static void restore(struct checkpoint *c, const struct checkpoint_half *half, uint32_t now)
{
	uint64_t copy[CHECKPOINT_SLOT_MAX / sizeof(uint64_t) + 1];
	const uint8_t *slots = half->slots;

	for (unsigned int i = 0; i < c->n_parts; i++) {
		struct part *p = &c->parts[i];
		uint32_t top = atomic_load_explicit(&half->parts[i].top, memory_order_relaxed);

		c->restored.live += atomic_load_explicit(&half->parts[i].live, memory_order_relaxed) /
				    p->w->nf->ops->keeps->records;
		for (uint32_t n = 0; n < RTE_MIN(top, c->slots); n++)
			if (slot_of(p, half, slots, n, (struct checkpoint_slot *)copy))
				restore_slot(c, p, (const struct checkpoint_slot *)copy, now);
		slots += part_bytes(c, p);
	}
	if (c->restored.live > c->restored.restored + c->restored.expired)
		c->restored.lost = c->restored.live - c->restored.restored - c->restored.expired;
}

/* As many slots of each part as fit twice. */
static uint32_t slots_in(const struct checkpoint *c, size_t bytes)
{
	size_t fixed = sizeof(struct checkpoint_area) + 2 * sizeof(struct checkpoint_half), each = 0;

	for (unsigned int i = 0; i < c->n_parts; i++)
		each += 2 * c->parts[i].stride;
	return each && bytes > fixed ? (uint32_t)RTE_MIN((bytes - fixed) / each, UINT32_MAX / 2u) : 0;
}

static struct checkpoint_half *half_at(const struct checkpoint *c, uint32_t which)
{
	size_t bytes = sizeof(struct checkpoint_half);

	for (unsigned int i = 0; i < c->n_parts; i++)
		bytes += part_bytes(c, &c->parts[i]);
	return (struct checkpoint_half *)((uint8_t *)c->memory + sizeof(struct checkpoint_area) +
					  which * bytes);
}

/* Who wrote there before is said to be gone first: its slots are void by that. */
static void begin_half(struct checkpoint *c, struct checkpoint_half *half, uint64_t now)
{
	uint8_t *slots = half->slots;

	c->life = now | 1;
	c->began = now;
	atomic_store_explicit(&half->life, 0, memory_order_relaxed);
	for (unsigned int i = 0; i < CHECKPOINT_PARTS; i++) {
		atomic_store_explicit(&half->parts[i].top, 0, memory_order_relaxed);
		atomic_store_explicit(&half->parts[i].live, 0, memory_order_relaxed);
	}
	half->layout = c->layout;
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&half->life, c->life, memory_order_release);
	for (unsigned int i = 0; i < c->n_parts; i++) {
		struct part *p = &c->parts[i];
		struct flow_kept kept;

		p->slots = slots;
		p->head = &half->parts[i];
		kept = (struct flow_kept){.live = &p->head->live, .slots = p->slots, .n = c->slots,
					  .stride = p->stride};
		flow_keep(p->flows, &kept);
		slots += part_bytes(c, p);
	}
	c->at_part = c->at = c->done = 0;
	c->over = false;
}

void checkpoint_attach(struct checkpoint *c, void *memory, size_t bytes, bool restores, uint64_t now)
{
	struct checkpoint_area *area = memory;
	uint32_t whole = 0;

	keep_nowhere(c);
	c->memory = memory;
	c->slots = memory ? slots_in(c, bytes) : 0;
	if (!c->slots)
		return;
	if (area->magic == CHECKPOINT_MAGIC && area->version == CHECKPOINT_VERSION)
		whole = atomic_load(&area->whole);
	whole = whole <= 2 ? whole : 0;
	begin_half(c, half_at(c, whole == 1), now);
	if (whole && restores && half_at(c, whole - 1)->layout == c->layout)
		restore(c, half_at(c, whole - 1), flow_now(now));
	area->magic = CHECKPOINT_MAGIC;
	area->version = CHECKPOINT_VERSION;
	atomic_store(&area->whole, whole == 1 ? 2 : 1);
}

const void *checkpoint_memory(const struct checkpoint *c)
{
	return c->memory;
}

static uint32_t part_top(const struct checkpoint *c, const struct part *p)
{
	return RTE_MIN(flow_top(p->flows), c->slots);
}

static void save_some(struct checkpoint *c, uint32_t n)
{
	while (n && c->at_part < c->n_parts) {
		struct part *p = &c->parts[c->at_part];
		uint32_t top = part_top(c, p);

		for (; n && c->at < top; n--, c->done++) {
			rte_prefetch0(flow_record(p->flows, RTE_MIN(c->at + 8, top - 1)));
			save(c, p, c->at++);
		}
		if (c->at >= top) {
			c->at_part++;
			c->at = 0;
		}
	}
}

/* So many records as are due by now, of all that there are; a pass that is behind takes longer instead. */
static uint32_t due(const struct checkpoint *c, uint64_t now)
{
	uint64_t total = 0, elapsed = RTE_MIN(now - c->began, c->every);

	for (unsigned int i = 0; i < c->n_parts; i++)
		total += part_top(c, &c->parts[i]);
	total = (uint64_t)((double)total * (double)elapsed / (double)c->every);
	return total > c->done ? (uint32_t)RTE_MIN(total - c->done, (uint64_t)CHECKPOINT_AT_ONCE) : 0;
}

static void end_pass(struct checkpoint *c, uint64_t now)
{
	c->over = true;
	c->n.passes++;
	c->n.pass_ns = RTE_MAX(c->n.pass_ns, (uint64_t)((double)(now - c->began) * 1e9 /
							 (double)rte_get_tsc_hz()));
}

void checkpoint_tick(struct checkpoint *c, uint64_t now)
{
	uint64_t from, took;
	uint32_t n;

	if (!c->slots)
		return;
	if (c->over && now - c->began >= c->every) {
		c->began = now;
		c->at_part = c->at = c->done = 0;
		c->over = false;
	}
	if (c->over)
		return;
	from = rte_rdtsc();
	n = due(c, now);
	save_some(c, n);
	if (c->at_part == c->n_parts || (!n && now - c->began >= c->every))
		end_pass(c, now);
	took = rte_rdtsc() - from;
	c->n.most_at_once = RTE_MAX(c->n.most_at_once, (uint64_t)n);
	c->n.cycles += took;
	c->n.longest_cycles = RTE_MAX(c->n.longest_cycles, took);
}

uint64_t checkpoint_finish(struct checkpoint *c, uint64_t now)
{
	uint64_t before = c->n.saved;

	if (!c->slots)
		return 0;
	c->began = now;
	c->at_part = c->at = c->done = 0;
	save_some(c, UINT32_MAX);
	end_pass(c, now);
	return c->n.saved - before;
}

uint32_t checkpoint_slots(const struct checkpoint *c)
{
	return c->slots;
}

const struct checkpoint_restored *checkpoint_restored(const struct checkpoint *c)
{
	return &c->restored;
}

const struct checkpoint_counts *checkpoint_counts(const struct checkpoint *c)
{
	return &c->n;
}

json_t *checkpoint_json(const struct checkpoint *c)
{
	const struct checkpoint_restored *r = &c->restored;
	uint64_t beyond = 0;

	for (unsigned int i = 0; i < c->n_parts; i++)
		if (flow_top(c->parts[i].flows) > c->slots)
			beyond += flow_top(c->parts[i].flows) - c->slots;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}}",
			 "slots", (json_int_t)c->slots, "beyond", (json_int_t)beyond, "passes",
			 (json_int_t)c->n.passes, "pass_ns", (json_int_t)c->n.pass_ns, "saved",
			 (json_int_t)c->n.saved, "most_at_once", (json_int_t)c->n.most_at_once, "cycles",
			 (json_int_t)c->n.cycles, "longest_cycles", (json_int_t)c->n.longest_cycles,
			 "restored", "live", (json_int_t)r->live, "whole", (json_int_t)r->whole,
			 "restored", (json_int_t)r->restored, "expired", (json_int_t)r->expired,
			 "refused", (json_int_t)r->refused, "lost", (json_int_t)r->lost, "oldest_ns",
			 (json_int_t)r->oldest_ns);
}
