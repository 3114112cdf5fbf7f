/* SPDX-License-Identifier: Apache-2.0 */
/* The consolidated fast path: packets of known flows. */
#include "fastpath_priv.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "pkt.h"
#include "segment.h"

#define TCP_FIN_SYN_RST_ACK 0x17
#define TCP_ACK 0x10
#define TCP_FLAGS_AT 13
#define TCP_CSUM_AT 16
#define UDP_CSUM_AT 6
#define ASIDE_PROBE 32     /* one burst in so many still goes through a cache that is left aside */
#define ASIDE_SAMPLE 8192u /* packets, before there is an opinion */

struct batch {
	uint64_t key[BURST_MAX][2];
	uint32_t hash[BURST_MAX];
	bool keyed[BURST_MAX];
};

/* Like struct flow_key4, as two words; the zone tells runs and directions apart. */
static inline bool make_key(uint64_t key[2], const struct rte_mbuf *m, uint64_t zone)
{
	uint32_t l4 = pkt_l4(m), ports;
	const uint8_t *ip;

	if (unlikely(!pkt_is_ipv4(m) || pkt_malformed(m) ||
		     (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP)))
		return false;
	ip = pkt_l3_hdr(m);
	memcpy(&key[0], ip + offsetof(struct rte_ipv4_hdr, src_addr), sizeof(key[0]));
	memcpy(&ports, pkt_l4_hdr(m), sizeof(ports));
	key[1] = ports | (uint64_t)(l4 == RTE_PTYPE_L4_TCP ? IPPROTO_TCP : IPPROTO_UDP) << 32 |
		 zone << 48;
	return true;
}

static inline void make_keys(const struct fastpath *fp, struct batch *batch, const struct burst *b,
			     uint64_t zone)
{
	for (unsigned int i = 0; i < b->n; i++) {
		batch->keyed[i] = make_key(batch->key[i], b->pkts[i], zone);
		if (unlikely(!batch->keyed[i]))
			continue;
		batch->hash[i] = fast_hash(fp, batch->key[i]);
		rte_prefetch0(fast_set(fp, batch->hash[i]) + fast_home(batch->hash[i]));
	}
}

static inline bool is_key(const struct fastpath *fp, const struct fast_entry *e, const uint64_t key[2])
{
	return !((e->key[0] ^ key[0]) | (e->key[1] ^ key[1]) | (e->generation ^ fp->generation));
}

static inline struct fast_entry *find(const struct fastpath *fp, const uint64_t key[2], uint32_t hash)
{
	struct fast_entry *set = fast_set(fp, hash);
	unsigned int home = fast_home(hash);

	if (likely(is_key(fp, &set[home], key)))
		return &set[home];
	for (unsigned int i = 1; i < FAST_WAYS; i++)
		if (is_key(fp, &set[(home + i) % FAST_WAYS], key))
			return &set[(home + i) % FAST_WAYS];
	return NULL;
}

/* RFC 1071, of a header without options. A sum written as 0xffff is right, but is not how we write it. */
static inline bool header_sum_ok(const uint8_t *ip, uint16_t csum)
{
	uint64_t a, b, sum;
	uint32_t c;

	memcpy(&a, ip, sizeof(a));
	memcpy(&b, ip + 8, sizeof(b));
	memcpy(&c, ip + 16, sizeof(c));
	sum = (a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c;
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff && csum != 0xffff;
}

static inline bool plain_l4(const uint8_t *l4, bool tcp)
{
	uint16_t csum;

	if (!tcp)
		return true;
	memcpy(&csum, l4 + TCP_CSUM_AT, sizeof(csum));
	return (l4[TCP_FLAGS_AT] & TCP_FIN_SYN_RST_ACK) == TCP_ACK && csum != 0xffff;
}

/* What nf.h promises of packets that functions are spared. */
static inline bool is_plain(const struct rte_mbuf *m, unsigned int ttl_needed)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *), *ip = frame + FAST_L2_BYTES;
	uint16_t csum;

	if (unlikely(m->vlan_tci_outer != (FAST_L2_BYTES | FAST_L3_BYTES << 7) || frame[0] & 1))
		return false;
	memcpy(&csum, ip + offsetof(struct rte_ipv4_hdr, hdr_checksum), sizeof(csum));
	return ip[offsetof(struct rte_ipv4_hdr, time_to_live)] > ttl_needed &&
	       header_sum_ok(ip, csum) &&
	       plain_l4(ip + FAST_L3_BYTES, pkt_l4(m) == RTE_PTYPE_L4_TCP);
}

static inline uint16_t add_delta(uint16_t csum, uint16_t delta)
{
	uint32_t sum = (uint16_t)~csum + (uint32_t)delta;

	return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

static inline void rewrite_l4(uint8_t *l4, const struct fast_entry *e, bool tcp)
{
	uint16_t *csum = (uint16_t *)(l4 + (tcp ? TCP_CSUM_AT : UDP_CSUM_AT)), sum;

	memcpy(l4, &e->ports, sizeof(e->ports));
	if (!tcp && !*csum) /* there is none, RFC 768 */
		return;
	sum = add_delta(*csum, e->l4_delta);
	*csum = !tcp && !sum ? 0xffff : sum;
}

static inline void rewrite_macs(uint8_t *frame, const struct fast_path *p)
{
	if (likely(p->sets == (NF_SETS_DST_MAC | NF_SETS_SRC_MAC)))
		memcpy(frame, p->macs, 12);
	else if (p->sets)
		memcpy(frame + (p->sets == NF_SETS_DST_MAC ? 0 : 6),
		       p->macs + (p->sets == NF_SETS_DST_MAC ? 0 : 6), 6);
}

/* All that the run's functions would have written, once. */
static inline void rewrite(struct rte_mbuf *m, const struct fast_entry *e, const struct fast_path *p)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + FAST_L2_BYTES);

	rewrite_macs(frame, p);
	ip->time_to_live -= p->ttl;
	ip->hdr_checksum = add_delta(ip->hdr_checksum, e->l3_delta);
	if (!e->l4_delta)
		return;
	ip->src_addr = e->src;
	ip->dst_addr = e->dst;
	rewrite_l4((uint8_t *)(ip + 1), e, pkt_l4(m) == RTE_PTYPE_L4_TCP);
}

/* Flows age by what their functions' records say; often enough is enough. */
static __rte_noinline void refresh(struct fastpath *fp, struct fast_entry *e, uint32_t now)
{
	const struct fast_timers *t = &fp->timers[e - fp->entries];

	for (unsigned int i = 0; i < FAST_FLOWS_MAX; i++)
		if (t->expires[i])
			*t->expires[i] = now + t->timeout[i] + FAST_REFRESH;
	e->refresh_at = now + FAST_REFRESH;
}

static inline void touch(struct fastpath *fp, struct fast_path *p, uint16_t number)
{
	if (!p->packets++)
		fp->touched[fp->n_touched++] = number;
}

/* The entry that answers for a packet; NULL: it goes the plain way, to be noted when *learn. */
static inline struct fast_entry *answer(struct fastpath *fp, const struct rte_mbuf *m,
					const uint64_t key[2], uint32_t hash, uint32_t now, bool *learn)
{
	struct fast_entry *e = find(fp, key, hash);
	const struct fast_path *p;

	*learn = false;
	if (unlikely(!e)) {
		*learn = is_plain(m, 1);
		return NULL;
	}
	p = &fp->paths[e->path];
	if (unlikely(e->path == FAST_DECLINED)) {
		/* Asked again after a while. */
		if ((int32_t)(now - e->refresh_at) < 0)
			return NULL;
	} else if (likely(fast_epochs(p, e) == e->epochs && is_plain(m, p->ttl_needed))) {
		if (unlikely((int32_t)(now - e->refresh_at) >= 0))
			refresh(fp, e, now);
		return e;
	}
	/* With it go the packets of its flow behind it in this burst: they must not overtake it. */
	e->generation = 0;
	*learn = is_plain(m, 1);
	return NULL;
}

static void note_begin(struct fastpath *fp, struct rte_mbuf *m, const uint64_t key[2], uint32_t hash,
		       uint8_t direction)
{
	struct fast_record *rec = &fp->records[fp->n_records++];
	uint32_t bytes = RTE_MIN((uint32_t)m->data_len, sizeof(rec->before));

	rec->m = m;
	rec->key[0] = key[0];
	rec->key[1] = key[1];
	rec->hash = hash;
	rec->open = true;
	rec->n_steps = rec->n_flows = rec->sets = 0;
	rec->epoch_sum = 0;
	memset(&rec->timers, 0, sizeof(rec->timers));
	memcpy(rec->before, rte_pktmbuf_mtod(m, void *), bytes);
	memcpy(&rec->at, key, 13);
	rec->at.direction = direction;
}
static_assert(offsetof(struct nf_flow, proto) == 12, "as the key has it");

static void credit_path(struct replica *r, struct fast_path *p)
{
	uint32_t n = p->packets;

	p->packets = 0;
	for (unsigned int i = 0; i < p->n_steps; i++) {
		const struct fast_step *step = &p->steps[i];
		struct node *node = &r->nodes[step->node];

		node->stats.in += n;
		if (step->verdict >= node->n_edges)
			node->stats.dropped[step->verdict - NF_DROP(0)] += n;
		else if (node->next[p->direction][step->verdict].kind == TO_DROP)
			node->stats.no_route += n;
		else
			node->stats.out[step->verdict] += n;
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

/* Some table of some function changed: nothing that was known is any more. */
static inline void check_tables(struct replica *r)
{
	struct fastpath *fp = r->fast;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < fp->n_tables; i++)
		sum += atomic_load_explicit(fp->tables[i], memory_order_acquire);
	if (likely(sum == fp->tables_seen))
		return;
	fp->tables_seen = sum;
	fp->stats.flushes++;
	fastpath_credit(r);
	fp->n_paths = 1;
	/* 0 is the generation of what is free: not before 2^32 changes is it met again. */
	fp->generation += fp->generation == UINT32_MAX ? 2 : 1;
}

/* Flows that come once, that are too many, or that some function must see, cost and gain nothing. */
static void judge(struct fastpath *fp)
{
	fp->aside = fp->lost > 2 * fp->gained;
	fp->seen = fp->gained = fp->lost = 0;
}

void fastpath_take(struct replica *r, struct burst *b, unsigned int node, struct fast_hits *hits)
{
	struct fastpath *fp = r->fast;
	uint64_t zone = node << 1 | b->direction;
	uint32_t now = (uint32_t)(b->now >> 20); /* flow_now() */
	struct batch batch;
	unsigned int left = 0;

	hits->n = 0;
	fp->n_records = 0;
	check_tables(r);
	if (unlikely(fp->aside && fp->bursts++ % ASIDE_PROBE)) {
		fp->stats.misses += b->n;
		return;
	}
	make_keys(fp, &batch, b, zone);
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		struct fast_entry *e = NULL;
		bool learn = false;

		if (likely(batch.keyed[i]))
			e = answer(fp, m, batch.key[i], batch.hash[i], now, &learn);
		if (likely(e)) {
			struct fast_path *p = &fp->paths[e->path];

			rewrite(m, e, p);
			touch(fp, p, e->path);
			hits->path[hits->n] = e->path;
			hits->pkts[hits->n++] = m;
			continue;
		}
		if (learn)
			note_begin(fp, m, batch.key[i], batch.hash[i], b->direction);
		b->pkts[left++] = m;
	}
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

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "flows",
			 (json_int_t)(fp->set_mask + 1) * FAST_WAYS, "hits", (json_int_t)s->hits,
			 "misses", (json_int_t)s->misses, "recorded", (json_int_t)s->recorded,
			 "declined", (json_int_t)s->declined, "evicted", (json_int_t)s->evicted,
			 "flushes", (json_int_t)s->flushes, "cycles", (json_int_t)s->cycles,
			 "cycles_packets", (json_int_t)s->cycles_packets);
}
