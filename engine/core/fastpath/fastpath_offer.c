/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offload of state, the VNF's part: what a segment does to a flow is told to the other end of its
 * link (core/offload.h), which does it to the flow's next packets; what the host counted is
 * credited here.
 */
#include <errno.h>

#include <rte_malloc.h>

#include "fastpath_packet.h"

#include "core/loop/segment.h"

/* flow_now units: how often counts are looked at (some 8 ms), which is well within FAST_REFRESH. */
#define LOOK_EVERY 16
/*
 * Packets of a flow that was told come while they were under way when it was, and when the host
 * does not have it any more: after so long (some 100 ms) it is taken back, and told again.
 */
#define TOLD_ANEW 256

static struct fast_entry *entry_of(const struct fastpath *fp, uint32_t slot,
				   enum fast_family *family, size_t *index)
{
	uint32_t entries = (fp->set_mask + 1) * FAST_WAYS;

	*family = slot < entries ? FAST_IPV4 : FAST_IPV6;
	*index = slot % entries;
	return fast_at(fp, *family, *index);
}

/* Somebody else is at the other end, or nobody: what was told is told to nobody now. */
static __rte_noinline void begin_anew(struct replica *r, struct offload_area *area, uint32_t flows,
				      uint64_t which)
{
	struct fastpath *fp = r->fast;
	struct fast_offer *o = fp->offer;
	uint32_t entries = (fp->set_mask + 1) * FAST_WAYS;

	fastpath_credit(r);
	memset(o->told, 0, offload_slots(entries) * sizeof(*o->told));
	o->n_live = o->voided = 0;
	o->head = 0;
	o->emptying = false;
	o->which = which;
	o->area = flows == entries ? area : NULL;
	fp->n_paths = 1;
	fp->valid_from = ++fp->version;
}

static void look_who_is_there(struct replica *r)
{
	struct fast_offer *o = r->fast->offer;
	struct offload_area *area;
	uint64_t which;
	uint32_t flows;

	area = o->q->link->ops->told(o->q, &flows, &which);
	if (unlikely(which != o->which))
		begin_anew(r, area, flows, which);
}

static void retract(struct fastpath *fp, uint32_t slot)
{
	struct fast_offer *o = fp->offer;
	struct fast_told *told = &o->told[slot];
	uint32_t entries = (fp->set_mask + 1) * FAST_WAYS;

	atomic_store_explicit(&offload_versions(o->area, entries)[slot], ++told->version,
			      memory_order_relaxed);
	told->state = FAST_RETRACTED;
	told->retracted = o->voided + 1;
	o->retracted_flows++;
}

/* Behind some of them: the host sees their versions when it has seen this. */
static void retracted(struct fast_offer *o)
{
	atomic_store_explicit(&o->area->voided, ++o->voided, memory_order_release);
}

/* Some table changed: all that was told is void, as the host knows by `tables`. */
static void check_tables(struct fastpath *fp)
{
	struct fast_offer *o = fp->offer;
	uint64_t changes = 0;

	for (unsigned int i = 0; i < fp->n_changes; i++)
		changes += atomic_load_explicit(fp->changes[i], memory_order_acquire);
	if (likely(changes == fp->changes_seen))
		return;
	fp->changes_seen = changes;
	fp->stats.flushes++;
	for (uint32_t i = 0; i < o->n_live; i++)
		if (o->told[o->live[i]].state == FAST_TOLD)
			retract(fp, o->live[i]);
	retracted(o);
	o->emptying = true;
}

static bool wants_note(struct fastpath *fp, const struct rte_mbuf *m, const uint64_t *key,
		       uint32_t hash, enum fast_family family, uint32_t now)
{
	size_t index;
	struct fast_entry *e = fast_find(fp, key, hash, family, &index);
	uint32_t slot;

	if (!e)
		return fast_plain(m, 1, family);
	slot = fast_slot(fp, family, index);
	switch (fp->offer->told[slot].state) {
	case FAST_TOLD:
		if ((int32_t)(now - fp->offer->told[slot].since) >= TOLD_ANEW &&
		    fast_plain(m, 1, family)) {
			retract(fp, slot);
			retracted(fp->offer);
		}
		return false;
	case FAST_RETRACTED:
		return false;
	default:
		if (e->flow.version >= fp->valid_from && e->flow.path == FAST_DECLINED &&
		    (int32_t)(now - e->flow.refresh_at) < 0)
			return false;
		return fast_plain(m, 1, family);
	}
}

void fastpath_offer_look(struct replica *r, const struct burst *b, unsigned int node)
{
	struct fastpath *fp = r->fast;
	struct fast_offer *o = fp->offer;
	uint64_t zone = node << 1 | b->direction;
	uint32_t now = flow_now(b->now);

	fp->n_records = 0;
	look_who_is_there(r);
	fp->stats.misses += b->n;
	if (!o->area || node != o->node || b->direction != o->direction)
		return;
	/* Before the tables are looked at: what is found in older ones is told as of before. */
	o->tables = atomic_load_explicit(&o->area->tables, memory_order_acquire);
	check_tables(fp);
	if (o->emptying)
		return;
	for (unsigned int i = 0; i < b->n; i++) {
		const struct rte_mbuf *m = b->pkts[i];
		uint64_t key[FAST_KEY6_WORDS];
		int family = fast_family(m);
		uint32_t hash;

		if (family < 0)
			continue;
		fast_key(key, m, zone, (enum fast_family)family);
		hash = fast_hash(fp, key, (enum fast_family)family);
		if (wants_note(fp, m, key, hash, (enum fast_family)family, now))
			fast_note_begin(fp, b->pkts[i], key, hash, (enum fast_family)family,
					b->direction);
	}
}

bool fast_may_tell(const struct fastpath *fp, const struct fast_record *rec,
		   const struct target *to)
{
	const struct fast_offer *o = fp->offer;

	return to && to->kind == TO_LINK && to->index == o->outlet && !rec->n_accounts;
}

static void fill_record(const struct fastpath *fp, const struct fast_record *rec,
			struct fast_entry *e, struct offload_record *to)
{
	const struct fast_path *p = &fp->paths[e->flow.path];
	unsigned int words = fast_words(rec->family);

	memset(to, 0, sizeof(*to));
	memcpy(to->key, rec->key, words * sizeof(to->key[0]));
	to->key[words - 1] &= (1ull << 48) - 1;
	if (rec->family == FAST_IPV4) {
		const struct fast_rewrite4 *as = fast_rewrite4(e);

		memcpy(to->addrs, &as->src, 8);
		to->ports = as->ports;
		to->l3_delta = as->l3_delta;
	} else {
		memcpy(to->addrs, fast_rewrite6(e)->addrs, sizeof(to->addrs));
		to->ports = fast_rewrite6(e)->ports;
	}
	to->l4_delta = e->flow.l4_delta;
	memcpy(to->macs, p->macs, sizeof(to->macs));
	to->sets = p->sets;
	to->ttl = p->ttl;
	to->ttl_needed = p->ttl_needed;
	to->family = (uint8_t)rec->family;
}

void fast_tell(struct fastpath *fp, const struct fast_record *rec, struct fast_entry *e,
	       size_t index, uint32_t now)
{
	struct fast_offer *o = fp->offer;
	uint32_t slot = fast_slot(fp, rec->family, index);
	struct offload_record *to = &o->area->records[o->head % OFFLOAD_RECORDS];
	struct fast_told *told = &o->told[slot];

	if (o->head - atomic_load_explicit(&o->area->tail, memory_order_acquire) >=
	    OFFLOAD_RECORDS) {
		e->flow.version = 0;
		o->no_room++;
		return;
	}
	/* Its functions' records must not age before the host's first count is looked at. */
	fast_refresh(&e->flow, &fp->tables[rec->family].timers[index], now);
	fill_record(fp, rec, e, to);
	told->state = FAST_TOLD;
	told->since = now;
	to->slot = slot;
	to->version = told->version;
	to->tables = o->tables;
	o->live[o->n_live++] = slot;
	o->told_flows++;
	atomic_store_explicit(&o->area->head, ++o->head, memory_order_release);
}

/* What the host did to a flow's packets since: counted, and the flow kept alive. */
static void credit(struct fastpath *fp, uint32_t slot, uint32_t now)
{
	struct fast_offer *o = fp->offer;
	struct fast_told *told = &o->told[slot];
	uint64_t hits = atomic_load_explicit(&offload_hits(o->area)[slot], memory_order_relaxed);
	enum fast_family family;
	struct fast_entry *e;
	size_t index;

	if (hits == told->hits)
		return;
	e = entry_of(fp, slot, &family, &index);
	fast_credit_path(fp, e->flow.path, (uint32_t)(hits - told->hits));
	o->spared += hits - told->hits;
	told->hits = hits;
	if (told->state == FAST_TOLD)
		fast_refresh(&e->flow, &fp->tables[family].timers[index], now);
}

void fastpath_offer_before_tick(struct replica *r, uint64_t now_tsc)
{
	struct fastpath *fp = r->fast;
	struct fast_offer *o = fp->offer;
	uint32_t now = flow_now(now_tsc), seen, i = 0;
	enum fast_family family;
	size_t index;

	look_who_is_there(r);
	if (!o->area)
		return;
	check_tables(fp);
	if ((int32_t)(now - o->looked) < LOOK_EVERY && !o->emptying)
		return;
	o->looked = now;
	/* Before the counts: those of what the host has seen to be void are the last. */
	seen = atomic_load_explicit(&o->area->seen, memory_order_acquire);
	while (i < o->n_live) {
		uint32_t slot = o->live[i];
		struct fast_told *told = &o->told[slot];
		bool over = told->state == FAST_RETRACTED && (int32_t)(seen - told->retracted) >= 0;

		credit(fp, slot, now);
		if (!over) {
			i++;
			continue;
		}
		told->state = FAST_UNTOLD;
		entry_of(fp, slot, &family, &index)->flow.version = 0;
		o->live[i] = o->live[--o->n_live];
	}
	if (!o->emptying || o->n_live)
		return;
	fastpath_credit(r);
	o->emptying = false;
	fp->n_paths = 1;
	fp->valid_from = ++fp->version;
}

void fastpath_offer_behind_tick(struct replica *r)
{
	struct fastpath *fp = r->fast;
	struct fast_offer *o = fp->offer;
	uint64_t flows = 0;
	bool any = false;

	for (unsigned int i = 0; i < fp->n_watched; i++)
		flows += fp->watched[i]->any;
	if (!o->area || flows == o->flows_seen)
		return;
	o->flows_seen = flows;
	for (uint32_t i = 0; i < o->n_live; i++) {
		uint32_t slot = o->live[i];
		enum fast_family family;
		struct fast_entry *e;
		size_t index;

		if (o->told[slot].state != FAST_TOLD)
			continue;
		e = entry_of(fp, slot, &family, &index);
		if (fast_epochs(&fp->paths[e->flow.path], &e->flow) == e->flow.epochs)
			continue;
		retract(fp, slot);
		any = true;
	}
	if (any)
		retracted(o);
}

static const char *why_not(const struct replica *r, const struct plan_segment *s,
			   const struct link *l, uint32_t *outlet)
{
	const struct inlet *in = &r->inlets[0];

	if (s->parallel.n || s->elastic || s->n_replicas != 1 || s->n_inputs != 1)
		return "its segment reads it alone, on one lcore, and is neither elastic nor parallel";
	for (*outlet = 0; *outlet < r->n_outlets; ++*outlet)
		if (r->outlets[*outlet].q.link == l)
			break;
	if (*outlet == r->n_outlets)
		return "its segment's packets leave by the same link";
	if (!r->fast || in->to.kind != TO_NODE ||
	    !(r->nodes[in->to.index].fast_head & 1 << in->direction))
		return "its segment has a `fastpath`, and begins with two functions that say what they do";
	return NULL;
}

int fastpath_offer_open(struct replica *r, const struct plan_segment *s, struct err *err)
{
	struct link *l = r->n_inlets ? r->inlets[0].q.link : NULL;
	uint32_t flows = 0, outlet = 0;
	struct fast_offer *o;
	const char *only;

	for (unsigned int i = 0; i < r->n_inlets && !flows; i++) {
		l = r->inlets[i].q.link;
		flows = l->ops->tells ? l->ops->tells(l) : 0;
	}
	if (!flows)
		return 0;
	only = why_not(r, s, l, &outlet);
	if (only)
		return err_set(err, EINVAL, l->name, "offload: allowed where %s", only);
	if (flows != (r->fast->set_mask + 1) * FAST_WAYS)
		return err_set(err, EINVAL, l->name,
			       "offload: %u; allowed: the segment's fastpath, %u", flows,
			       (r->fast->set_mask + 1) * FAST_WAYS);
	o = r->fast->offer = rte_zmalloc("fastpath", sizeof(*o), RTE_CACHE_LINE_SIZE);
	if (o) {
		o->told = rte_zmalloc("fastpath", offload_slots(flows) * sizeof(*o->told), 0);
		o->live = rte_zmalloc("fastpath", offload_slots(flows) * sizeof(*o->live), 0);
	}
	if (!o || !o->told || !o->live)
		return err_set(err, ENOMEM, l->name,
			       "no memory to tell of %u flows: give the engine more "
			       "memory_mb",
			       flows);
	o->q = &r->inlets[0].q;
	o->node = r->inlets[0].to.index;
	o->outlet = (uint16_t)outlet;
	o->direction = r->inlets[0].direction;
	r->has_tick = true; /* counts are looked at, whatever the functions have to do */
	return 0;
}
