/* SPDX-License-Identifier: Apache-2.0 */
/* The consolidated fast path: packets of known flows. */
#include "fastpath_packet.h"

#include <rte_prefetch.h>

#include "core/loop/verdict.h"

#define ASIDE_PROBE 32     /* one burst in so many still goes through a cache that is left aside */
#define ASIDE_SAMPLE 8192u /* packets, before there is an opinion */

struct batch {
	uint64_t key[BURST_MAX][FAST_KEY6_WORDS];
	uint32_t hash[BURST_MAX];
	int8_t family[BURST_MAX]; /* -1: not for us */
	unsigned int n; /* of the burst's packets that may be taken: those in front of a fragment */
};

static __rte_always_inline void make_key(const struct fastpath *fp, struct batch *batch, unsigned int i,
					 const struct rte_mbuf *m, uint64_t zone, enum fast_family family)
{
	const uint8_t *home;
	uint32_t hash;

	fast_key(batch->key[i], m, zone, family);
	hash = batch->hash[i] = fast_hash(fp, batch->key[i], family);
	home = (const uint8_t *)fast_at(fp, family, fast_index(fp, hash, fast_home(hash)));
	rte_prefetch0(home);
	if (family == FAST_IPV6)
		rte_prefetch0(home + RTE_CACHE_LINE_SIZE);
}

static inline void make_keys(const struct fastpath *fp, struct batch *batch, const struct burst *b,
			     uint64_t zone)
{
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		const struct rte_mbuf *m = b->pkts[i];
		int family = fast_family(m);

		batch->family[i] = (int8_t)family;
		if (likely(family == FAST_IPV4))
			make_key(fp, batch, i, m, zone, FAST_IPV4);
		else if (family == FAST_IPV6)
			make_key(fp, batch, i, m, zone, FAST_IPV6);
		else if (pkt_l4(m) == RTE_PTYPE_L4_FRAG)
			break; /* it may end a connection that its ports would tell of */
	}
	batch->n = i;
}

/* Something changed since the entry was last seen to hold: was it of this flow? */
static __rte_noinline bool still_holds(const struct fastpath *fp, struct fast_flow *f)
{
	if (f->version < fp->valid_from)
		return false;
	if (f->path != FAST_DECLINED && fast_epochs(&fp->paths[f->path], f) != f->epochs)
		return false;
	f->version = fp->version;
	return true;
}

__rte_noinline void fast_refresh(struct fast_flow *f, const struct fast_timers *t, uint32_t now)
{
	for (unsigned int i = 0; i < FAST_FLOWS_MAX; i++)
		if (t->expires[i])
			*t->expires[i] = now + t->timeout[i] + FAST_REFRESH;
	f->refresh_at = now + FAST_REFRESH;
}

static inline void take(struct fastpath *fp, struct fast_hits *hits, struct rte_mbuf *m,
			const struct fast_flow *f, const struct fast_path *p)
{
	fast_credit_path(fp, f->path, 1);
	if (unlikely(p->n_accounts))
		hits->accounted[hits->n_accounted++] = (struct fast_accounted){f, m};
	if (!hits->n)
		hits->to = p->to;
	hits->mixed |= (p->to.kind ^ hits->to.kind) | (p->to.index ^ hits->to.index);
	hits->path[hits->n] = f->path;
	hits->pkts[hits->n++] = m;
}

/*
 * A firewall's record is of both ways: what opens or ends a connection is not overtaken by what goes the
 * other way and came behind it, either.
 */
static void forget_swapped(const struct fastpath *fp, const uint64_t *key, enum fast_family family)
{
	uint64_t swapped[FAST_KEY6_WORDS];
	struct fast_entry *e;
	size_t index;

	fast_swap_key(swapped, key, family);
	e = fast_find(fp, swapped, fast_hash(fp, swapped, family), family, &index);
	if (e)
		e->flow.version = 0;
}

/* A packet whose flow is not known, or not like this one: whether its way is to be noted. */
static __rte_noinline bool to_be_noted(const struct fastpath *fp, struct fast_entry *e,
				       const struct rte_mbuf *m, const uint64_t *key, uint32_t now,
				       enum fast_family family)
{
	bool plain = fast_plain(m, 1, family);

	if (!plain)
		forget_swapped(fp, key, family);
	/* Asked again after a while. */
	if (e && e->flow.version && e->flow.path == FAST_DECLINED &&
	    (int32_t)(now - e->flow.refresh_at) < 0)
		return false;
	/* With it go the packets of its flow behind it in this burst: they must not overtake it. */
	if (e)
		e->flow.version = 0;
	return plain;
}

/* The packet of a known flow is rewritten and taken; any other goes the plain way. */
static __rte_always_inline bool serve(struct fastpath *fp, struct fast_hits *hits, struct rte_mbuf *m,
				      const uint64_t *key, uint32_t hash, uint32_t now, bool *note,
				      enum fast_family family)
{
	size_t index;
	struct fast_entry *e = fast_find(fp, key, hash, family, &index);
	struct fast_path *p;

	if (unlikely(!e)) {
		*note = to_be_noted(fp, NULL, m, key, now, family);
		return false;
	}
	if (unlikely(e->flow.version != fp->version) && !still_holds(fp, &e->flow))
		e->flow.version = 0;
	p = &fp->paths[e->flow.path];
	/* FAST_DECLINED needs a TTL that there is not. */
	if (unlikely(!e->flow.version || !fast_plain(m, p->ttl_needed, family))) {
		*note = to_be_noted(fp, e, m, key, now, family);
		return false;
	}
	if (unlikely((int32_t)(now - e->flow.refresh_at) >= 0))
		fast_refresh(&e->flow, &fp->tables[family].timers[index], now);
	fast_rewrite(m, e, p, family);
	take(fp, hits, m, &e->flow, p);
	return true;
}

void fast_note_begin(struct fastpath *fp, struct rte_mbuf *m, const uint64_t *key, uint32_t hash,
		     enum fast_family family, uint8_t direction)
{
	struct fast_record *rec = &fp->records[fp->n_records++];

	rec->m = m;
	rec->family = family;
	memcpy(rec->key, key, fast_words(family) * sizeof(*key));
	rec->hash = hash;
	rec->open = true;
	rec->n_steps = rec->n_flows = rec->n_accounts = rec->sets = 0;
	rec->epoch_sum = 0;
	memset(&rec->timers, 0, sizeof(rec->timers));
	memcpy(rec->before, rte_pktmbuf_mtod(m, void *),
	       RTE_MIN((size_t)m->data_len, sizeof(rec->before)));
	rec->at = (struct nf_flow){.v6 = family == FAST_IPV6,
				   .direction = direction,
				   .proto = pkt_l4(m) == RTE_PTYPE_L4_TCP ? IPPROTO_TCP
									  : IPPROTO_UDP};
	fast_see_tuple(rec);
}

static void credit_path(struct replica *r, struct fast_path *p)
{
	uint32_t n = p->packets;

	p->packets = 0;
	for (unsigned int i = 0; i < p->n_steps; i++) {
		const struct fast_step *step = &p->steps[i];
		struct node *node = &r->nodes[step->node];

		count_spared(node, p->direction, step->verdict, n);
		for (uint32_t bits = step->counters; bits; bits &= bits - 1)
			node->worker->counters[__builtin_ctz(bits)] += n;
	}
}

void fastpath_credit(struct replica *r)
{
	struct fastpath *fp = r->fast;

	for (unsigned int i = 0; i < fp->n_touched; i++)
		credit_path(r, &fp->paths[fp->touched[i]]);
	fp->n_touched = 0;
}

/* Before 2^32 changes are through, what has not been asked for since must not look valid again. */
static __rte_noinline void forget_all(struct fastpath *fp)
{
	size_t n = (size_t)(fp->set_mask + 1) * FAST_WAYS;

	for (int family = 0; family < FAST_FAMILIES; family++)
		for (size_t i = 0; i < n; i++)
			fast_at(fp, family, i)->flow.version = 0;
	fp->version = fp->valid_from = 1;
}

static inline void next_version(struct fastpath *fp)
{
	if (unlikely(!++fp->version))
		forget_all(fp);
}

/* Some table of some function changed: nothing that was known is any more. */
static __rte_noinline void flush(struct replica *r)
{
	struct fastpath *fp = r->fast;

	fp->stats.flushes++;
	fastpath_credit(r);
	fp->n_paths = 1;
	next_version(fp);
	fp->valid_from = fp->version;
}

/* Once a burst, for all its packets: functions run behind us only. */
static inline void check_changes(struct replica *r)
{
	struct fastpath *fp = r->fast;
	uint64_t changes = 0, flows = 0;

	for (unsigned int i = 0; i < fp->n_changes; i++)
		changes += atomic_load_explicit(fp->changes[i], memory_order_acquire);
	if (unlikely(changes != fp->changes_seen)) {
		fp->changes_seen = changes;
		flush(r);
	}
	for (unsigned int i = 0; i < fp->n_watched; i++)
		flows += fp->watched[i]->any;
	if (flows != fp->flows_seen) {
		fp->flows_seen = flows;
		next_version(fp);
	}
}

/* Flows that come once, that are too many, or that some function must see, cost and gain nothing. */
static void judge(struct fastpath *fp)
{
	fp->aside = fp->lost > 2 * fp->gained;
	fp->seen = fp->gained = fp->lost = 0;
}

/* Functions that keep something of each packet are told of theirs, a burst at a time. */
static __rte_noinline void account(struct replica *r, const struct fast_hits *hits, uint64_t now)
{
	const struct fastpath *fp = r->fast;

	for (unsigned int a = 0; a < fp->n_accountants; a++) {
		struct nf_worker *w = r->nodes[fp->accountants[a]].worker;
		struct rte_mbuf *pkts[BURST_MAX];
		uint32_t flows[BURST_MAX];
		unsigned int n = 0;

		for (unsigned int i = 0; i < hits->n_accounted; i++) {
			const struct fast_flow *f = hits->accounted[i].flow;
			const struct fast_path *p = &fp->paths[f->path];

			for (unsigned int k = 0; k < p->n_accounts; k++) {
				if (p->accounts[k].node != fp->accountants[a])
					continue;
				flows[n] = f->flow[p->accounts[k].flow];
				pkts[n++] = hits->accounted[i].m;
			}
		}
		if (n)
			w->nf->ops->flow_account(w, flows, pkts, n, now);
	}
}

void fastpath_take(struct replica *r, struct burst *b, unsigned int node, struct fast_hits *hits)
{
	struct fastpath *fp = r->fast;
	uint64_t zone = node << 1 | b->direction;
	uint32_t now = flow_now(b->now);
	struct batch batch;
	unsigned int left = 0;

	hits->n = hits->n_accounted = 0;
	hits->mixed = false;
	fp->n_records = 0;
	check_changes(r);
	if (unlikely(fp->aside && fp->bursts++ % ASIDE_PROBE)) {
		fp->stats.misses += b->n;
		return;
	}
	make_keys(fp, &batch, b, zone);
	for (unsigned int i = 0; i < batch.n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		bool known = false, note = false;

		if (likely(batch.family[i] == FAST_IPV4))
			known = serve(fp, hits, m, batch.key[i], batch.hash[i], now, &note, FAST_IPV4);
		else if (batch.family[i] == FAST_IPV6)
			known = serve(fp, hits, m, batch.key[i], batch.hash[i], now, &note, FAST_IPV6);
		if (likely(known))
			continue;
		if (note)
			fast_note_begin(fp, m, batch.key[i], batch.hash[i],
					(enum fast_family)batch.family[i], b->direction);
		b->pkts[left++] = m;
	}
	for (unsigned int i = batch.n; i < b->n; i++)
		b->pkts[left++] = b->pkts[i];
	if (unlikely(hits->n_accounted))
		account(r, hits, b->now);
	fp->stats.hits += hits->n;
	fp->stats.misses += left;
	fp->gained += hits->n;
	fp->seen += b->n;
	b->n = (uint16_t)left;
	if (unlikely(fp->seen >= ASIDE_SAMPLE))
		judge(fp);
}

void fastpath_spared(struct replica *r, const struct fast_hits *hits)
{
	for (unsigned int i = 0; i < hits->n; i++) {
		const struct fast_path *p = &r->fast->paths[hits->path[i]];

		for (unsigned int s = 0; s < p->n_steps; s++)
			r->nodes[p->steps[s].node].stats.cycles_packets++;
	}
}

json_t *fastpath_json(const struct fastpath *fp)
{
	const struct fast_stats *s = &fp->stats;
	const struct fast_offer *told = fp->offer;
	json_t *o;

	o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "flows",
		      (json_int_t)(fp->set_mask + 1) * FAST_WAYS, "hits", (json_int_t)s->hits,
		      "misses", (json_int_t)s->misses, "recorded", (json_int_t)s->recorded,
		      "declined", (json_int_t)s->declined, "evicted", (json_int_t)s->evicted,
		      "flushes", (json_int_t)s->flushes, "cycles", (json_int_t)s->cycles,
		      "cycles_packets", (json_int_t)s->cycles_packets);
	if (told)
		json_object_set_new(
			o, "told",
			json_pack("{s:I, s:I, s:I, s:I}", "flows", (json_int_t)told->told_flows,
				  "retracted", (json_int_t)told->retracted_flows, "no_room",
				  (json_int_t)told->no_room, "spared", (json_int_t)told->spared));
	return o;
}
