/* SPDX-License-Identifier: Apache-2.0 */
/* Offload of state, the host's part: what a VNF decided is done to its flows' next packets. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rte_cycles.h>
#include <rte_lcore.h>

#include "core/mbuf_util.h"
#include "core/plain.h"
#include "offload.h"

#define TAKEN_MAX 256 /* packets of one burst that are looked at */
/* Records that are taken in at a time: their cost is of the order of a few packets', which a VNF
 * may send. */
#define INTAKE_MAX 8

/* A new peer, or none: what the one before decided is of no one. */
static __rte_noinline void begin_anew(struct shm_state *s, struct shm_offload *o)
{
	const struct shm_map *m = shm_map_of(&s->tx);

	while (o->held_n) {
		struct shm_held *h = shm_held_at(o, o->held_from);

		ends_add(&o->gone_ends, h->m, 1);
		rte_pktmbuf_free(h->m);
		o->flows[h->flow].held--;
		o->held_from++;
		o->held_n--;
	}
	o->serial = m->serial;
	o->area = shm_area(m);
	o->tail = 0;
	o->settled = 0;
	o->since++;
	o->seen = 0;
	o->tables = o->area ? atomic_load_explicit(&o->area->tables, memory_order_acquire) : 0;
	o->slots = offload_slots(m->flows);
	if (!o->area)
		return;
	o->hits_of = offload_hits(o->area);
	o->versions = offload_versions(o->area, m->flows);
}

static bool holds(const struct shm_offload *o, const struct shm_flow *f)
{
	return f->since == o->since &&
	       atomic_load_explicit(&o->versions[f->slot], memory_order_relaxed) == f->version;
}

static struct shm_flow *find(const struct shm_offload *o, const uint64_t *key,
			     enum fast_family family)
{
	unsigned int words = fast_words(family);
	uint32_t hash = shm_flow_hash(o, key, words);

	for (unsigned int i = 0; i < SHM_WAYS; i++) {
		struct shm_flow *f = &o->flows[(hash & o->set_mask) * SHM_WAYS + i];

		if (f->state != SHM_FLOW_FREE && f->family == family && f->first == key[0] &&
		    f->last == key[words - 1] &&
		    (family == FAST_IPV4 || !memcmp(f->between, key + 1, sizeof(f->between))))
			return f;
	}
	return NULL;
}

/* Its packets go to the VNF from now on, behind those that are held. */
static void take_out(struct shm_offload *o, struct shm_flow *f)
{
	f->state = f->held ? SHM_FLOW_VOID : SHM_FLOW_FREE;
	o->n.voided++;
}

/* The flow's own place, a free one, or that of another flow that nothing is held of. */
static struct shm_flow *place(struct shm_offload *o, const uint64_t *key, enum fast_family family)
{
	struct shm_flow *own = find(o, key, family), *set, *best = NULL;

	if (own)
		return own->held ? NULL : own;
	set = &o->flows[(shm_flow_hash(o, key, fast_words(family)) & o->set_mask) * SHM_WAYS];
	for (unsigned int i = 0; i < SHM_WAYS; i++) {
		if (set[i].state == SHM_FLOW_FREE || (!set[i].held && !holds(o, &set[i])))
			return &set[i];
		if (!set[i].held)
			best = &set[i];
	}
	if (best)
		o->n.evicted++;
	return best;
}

/* Whether it can be what a VNF decided: nothing else of it matters to anybody but the VNF. */
static bool sound(const struct shm_offload *o, const struct offload_record *r)
{
	return r->family < FAST_FAMILIES && r->slot < o->slots && r->ttl_needed >= r->ttl &&
	       r->sets <= (NF_SETS_DST_MAC | NF_SETS_SRC_MAC) &&
	       !(r->key[fast_words((enum fast_family)r->family) - 1] >> 48);
}

static void install(struct shm_state *s, struct shm_offload *o, const struct offload_record *r)
{
	struct shm_flow *f;

	if (r->tables != o->tables) {
		o->n.stale++;
		return;
	}
	f = place(o, r->key, (enum fast_family)r->family);
	if (!f) {
		o->n.no_room++;
		return;
	}
	memset(f, 0, sizeof(*f));
	f->first = r->key[0];
	f->last = r->key[fast_words((enum fast_family)r->family) - 1];
	memcpy(f->between, r->key + 1, sizeof(f->between));
	memcpy(f->addrs4, r->addrs, sizeof(f->addrs4));
	memcpy(f->addrs, r->addrs, sizeof(f->addrs));
	memcpy(f->macs, r->macs, sizeof(f->macs));
	f->ports = r->ports;
	f->l3_delta = r->l3_delta;
	f->l4_delta = r->l4_delta;
	f->sets = r->sets;
	f->ttl = r->ttl;
	f->ttl_needed = r->ttl_needed;
	f->family = r->family;
	f->slot = r->slot;
	f->version = r->version;
	f->since = o->since;
	/* Any packet that went to the VNF so far may be this flow's. */
	f->after = (uint32_t)shm_at(&s->tx);
	f->state = SHM_FLOW_WAITS;
	o->n.published++;
}

static void take_in(struct shm_state *s, struct shm_offload *o)
{
	uint64_t n = atomic_load_explicit(&o->area->head, memory_order_acquire) - o->tail;
	struct offload_record r;

	if (likely(!n))
		return;
	if (unlikely(n > OFFLOAD_RECORDS)) {
		o->n.refused++;
		o->tail += n;
		n = 0;
	}
	n = RTE_MIN(n, (uint64_t)INTAKE_MAX);
	for (uint64_t i = 0; i < n; i++) {
		memcpy(&r, &o->area->records[(o->tail + i) % OFFLOAD_RECORDS], sizeof(r));
		rte_compiler_barrier(); /* what is looked at is the copy, which the peer cannot
					   change */
		if (o->apart || !sound(o, &r))
			o->n.refused++;
		else
			install(s, o, &r);
	}
	o->tail += n;
	atomic_store_explicit(&o->area->tail, o->tail, memory_order_release);
}

/*
 * What the VNF said since the last burst. What is void by `voided` and `tables` as they are read
 * here is seen to be in all that follows, and what was done before is counted before it is told
 * that it was seen.
 */
static void listen_to(struct shm_offload *o)
{
	uint32_t voided = atomic_load_explicit(&o->area->voided, memory_order_acquire);
	uint32_t tables = atomic_load_explicit(&o->area->tables, memory_order_acquire);

	if (unlikely(tables != o->tables)) {
		o->tables = tables;
		o->since++;
		o->n.tables++;
	}
	if (unlikely(voided != o->seen)) {
		o->seen = voided;
		atomic_store_explicit(&o->area->seen, voided, memory_order_release);
	}
}

/* Up to which packet all that the VNF made of them has been read from its ring. */
static void settle(struct shm_state *s, struct shm_offload *o)
{
	uint64_t done = atomic_load_explicit(&o->area->done, memory_order_acquire);
	const struct shm_map *rx = shm_map_of(&s->rx);

	if (rx && rx->serial == o->serial &&
	    (int32_t)((uint32_t)shm_at(&s->rx) - (uint32_t)done) >= 0)
		o->settled = (uint32_t)(done >> 32);
}

static bool reached(const struct shm_offload *o, const struct shm_flow *f)
{
	return (int32_t)(o->settled - f->after) >= 0;
}

static bool give_back(struct shm_offload *o, struct rte_mbuf *m)
{
	if (o->back_n > o->ring_mask)
		return false;
	o->back[(o->back_from + o->back_n++) & o->ring_mask] = m;
	return true;
}

/* Held packets whose flow has none inside the VNF any more; those that are for it after all go
 * there. */
static __rte_noinline void release(struct shm_state *s, struct shm_offload *o)
{
	settle(s, o);
	while (o->held_n) {
		struct shm_held *h = shm_held_at(o, o->held_from);
		struct shm_flow *f = &o->flows[h->flow];

		if (h->raw) {
			if (!atomic_load_explicit(&s->up, memory_order_acquire) || !shm_room(s, 1))
				break;
			shm_put(s, h->m, rte_rdtsc());
		} else if (!reached(o, f) || !give_back(o, h->m)) {
			break;
		}
		o->held_from++;
		o->held_n--;
		if (!--f->held && f->state == SHM_FLOW_VOID)
			f->state = SHM_FLOW_FREE;
	}
}

static bool hold(struct shm_offload *o, struct shm_flow *f, struct rte_mbuf *m, bool raw)
{
	if (o->held_n > o->ring_mask)
		return false;
	*shm_held_at(o, o->held_from + o->held_n++) = (struct shm_held){
		.m = m, .flow = (uint32_t)(f - o->flows), .raw = raw};
	f->held++;
	o->n.held++;
	return true;
}

static void rewrite(struct shm_offload *o, const struct shm_flow *f, struct rte_mbuf *m,
		    enum fast_family family)
{
	struct flow_rewrite to = {.addrs = family == FAST_IPV4 ? f->addrs4 : f->addrs,
				  .ports = f->ports,
				  .l3_delta = f->l3_delta,
				  .l4_delta = f->l4_delta,
				  .ttl = f->ttl};
	_Atomic uint64_t *hits = &o->hits_of[f->slot];
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	rewrite_macs(frame, f->macs, f->sets);
	rewrite_ip(m, frame, &to, family);
	atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + 1,
			      memory_order_release);
	o->n.hits++;
}

enum way { TO_VNF, TAKEN, NO_ROOM };

/* What opens or ends a connection takes out what goes the other way, too (fastpath.c). */
static void take_out_swapped(struct shm_offload *o, const uint64_t *key, enum fast_family family)
{
	uint64_t swapped[FAST_KEY6_WORDS];
	struct shm_flow *f;

	fast_swap_key(swapped, key, family);
	f = find(o, swapped, family);
	if (f && f->state == SHM_FLOW_WAITS)
		take_out(o, f);
}

static enum way known(struct shm_offload *o, struct shm_flow *f, struct rte_mbuf *m,
		      const uint64_t *key, enum fast_family family)
{
	bool plain = fast_plain(m, f->ttl_needed, family) && rte_mbuf_refcnt_read(m) == 1 &&
		     RTE_MBUF_DIRECT(m) && m->nb_segs == 1;

	if (f->state != SHM_FLOW_VOID && (!plain || !holds(o, f))) {
		if (!plain)
			take_out_swapped(o, key, family);
		take_out(o, f);
	}
	if (f->state == SHM_FLOW_FREE)
		return TO_VNF;
	if (f->state == SHM_FLOW_VOID)
		return hold(o, f, m, true) ? TAKEN : NO_ROOM;
	if (unlikely(f->held || !reached(o, f))) {
		if (o->held_n > o->ring_mask)
			return NO_ROOM;
		rewrite(o, f, m, family);
		hold(o, f, m, false);
		return TAKEN;
	}
	if (o->back_n > o->ring_mask)
		return NO_ROOM;
	rewrite(o, f, m, family);
	give_back(o, m);
	return TAKEN;
}

/* It does not tell its ports, and may be of any flow: none is to overtake it, and it overtakes
 * none. */
static __rte_noinline enum way fragment(struct shm_offload *o, struct rte_mbuf *m)
{
	o->since++;
	o->n.fragments++;
	if (!o->held_n)
		return TO_VNF;
	return hold(o, &o->flows[shm_held_at(o, o->held_from + o->held_n - 1)->flow], m, true)
		       ? TAKEN
		       : NO_ROOM;
}

static enum way way_of(struct shm_offload *o, struct rte_mbuf *m)
{
	uint64_t key[FAST_KEY6_WORDS];
	struct shm_flow *f;
	int family;

	if (!(m->packet_type & PKT_CLASSIFIED))
		pkt_classify(m);
	family = fast_family(m);
	if (unlikely(family < 0))
		return pkt_l4(m) == RTE_PTYPE_L4_FRAG ? fragment(o, m) : TO_VNF;
	fast_key(key, m, 0, (enum fast_family)family);
	f = find(o, key, (enum fast_family)family);
	if (likely(f != NULL))
		return known(o, f, m, key, (enum fast_family)family);
	if (!fast_plain(m, 1, (enum fast_family)family))
		take_out_swapped(o, key, (enum fast_family)family);
	return TO_VNF;
}

static bool begin(struct shm_state *s, struct shm_offload *o)
{
	if (unlikely(shm_map_of(&s->tx)->serial != o->serial))
		begin_anew(s, o);
	if (unlikely(!o->area))
		return false;
	listen_to(o);
	take_in(s, o);
	if (o->held_n)
		release(s, o);
	else
		settle(s, o);
	return true;
}

uint16_t shm_offload_tx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, uint16_t *left)
{
	struct shm_offload *o = s->offload;
	uint16_t most = RTE_MIN(n, (uint16_t)TAKEN_MAX), out = 0, room, no_room = 0;
	uint32_t longest = shm_map_of(&s->tx)->stride - (uint32_t)sizeof(struct shm_slot);
	struct rte_mbuf *others[TAKEN_MAX];
	uint64_t now = rte_rdtsc();

	o->lcore = rte_lcore_id();
	begin(s, o);
	room = (uint16_t)RTE_MIN(shm_room(s, most), (uint32_t)TAKEN_MAX);
	for (uint16_t i = 0; i < most; i++) {
		struct rte_mbuf *m = pkts[i];
		enum way way = o->area && m->pkt_len <= longest ? way_of(o, m) : TO_VNF;

		if (way == TAKEN)
			shm_note_stay(s, m, now);
		else if (way == TO_VNF && out < room)
			pkts[out++] = m;
		else
			others[no_room++] = m;
	}
	*left = out;
	memcpy(pkts + most - no_room, others, no_room * sizeof(*others));
	return most - no_room;
}

uint16_t shm_offload_rx(struct shm_state *s, struct rte_mbuf **pkts, uint16_t n, bool *more)
{
	struct shm_offload *o = s->offload;
	uint16_t got = 0;

	if (o->lcore != rte_lcore_id()) {
		o->apart |= o->lcore != LCORE_ID_ANY;
		return 0;
	}
	if (shm_map_of(&s->tx))
		begin(s, o);
	for (uint64_t now = rte_rdtsc(); got < n && o->back_n; got++) {
		struct rte_mbuf *m = o->back[o->back_from++ & o->ring_mask];

		o->back_n--;
		/* As a packet that comes from a VNF: what was known of it is of another. */
		m->packet_type = 0;
		m->ol_flags &= PKT_MARKS;
		if (s->stay_ns)
			shm_stamp(m, now);
		pkts[got] = m;
	}
	*more = o->back_n;
	return got;
}

int shm_offload_open(struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;
	struct shm_offload *o = calloc(1, sizeof(*o));
	size_t entries = 2 * c->offload;

	s->offload = o;
	if (o) {
		o->flows = aligned_alloc(64, entries * sizeof(*o->flows));
		o->back = calloc(c->slots, sizeof(struct rte_mbuf *));
		o->held = calloc(c->slots, sizeof(*o->held));
	}
	if (!o || !o->flows || !o->back || !o->held)
		return err_set(err, ENOMEM, "params.offload", "out of memory");
	memset(o->flows, 0, entries * sizeof(*o->flows));
	o->set_mask = (uint32_t)(entries / SHM_WAYS - 1);
	o->ring_mask = (uint32_t)c->slots - 1;
	o->lcore = LCORE_ID_ANY;
	if (getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed))
		return err_set(err, EIO, "params.offload", "no random numbers");
	return 0;
}

void shm_offload_close(struct shm_offload *o)
{
	if (!o)
		return;
	for (; o->back_n; o->back_n--)
		rte_pktmbuf_free(o->back[o->back_from++ & o->ring_mask]);
	for (; o->held_n; o->held_n--)
		rte_pktmbuf_free(shm_held_at(o, o->held_from++)->m);
	free(o->flows);
	free(o->back);
	free(o->held);
	free(o);
}

uint64_t shm_offload_used(const struct shm_offload *o)
{
	return o ? o->back_n + o->held_n : 0;
}

json_t *shm_offload_json(const struct shm_offload *o, json_t *ended)
{
	ends_put(ended, "gone", &o->gone_ends);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "hits",
			 (json_int_t)o->n.hits, "held", (json_int_t)o->n.held, "published",
			 (json_int_t)o->n.published, "voided", (json_int_t)o->n.voided, "stale",
			 (json_int_t)o->n.stale, "no_room", (json_int_t)o->n.no_room, "evicted",
			 (json_int_t)o->n.evicted, "refused", (json_int_t)o->n.refused, "fragments",
			 (json_int_t)o->n.fragments, "apart", o->apart);
}
