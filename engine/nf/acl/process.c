/* SPDX-License-Identifier: Apache-2.0 */
#include "acl.h"

#include <string.h>

#include "core/pkt.h"

/*
 * The packet path. Keys are the packets themselves wherever the headers lie as in set.h, which
 * is so for TCP, UDP and SCTP without IP options: then a packet costs a pointer, and rte_acl.
 */

/* The packets of one kind in a burst. */
struct acl_group {
	const uint8_t *key[BURST_MAX];
	uint8_t at[BURST_MAX]; /* position in the burst */
};

struct acl_groups {
	uint32_t n[ACL_KINDS];
	struct acl_group of[ACL_KINDS];
	/* Keys of packets that are laid out otherwise. */
	union {
		uint8_t ip4[ACL_IP4_KEY_BYTES];
		uint8_t ip6[ACL_IP6_KEY_BYTES];
		struct acl_bare_key bare;
	} copy[BURST_MAX];
};

static inline void add(struct acl_groups *g, enum acl_kind kind, const void *key, unsigned int at)
{
	uint32_t n = g->n[kind]++;

	g->of[kind].key[n] = key;
	g->of[kind].at[n] = at;
}

static inline bool l4_has_ports(uint32_t ptype)
{
	const uint32_t with_ports = 1u << (RTE_PTYPE_L4_TCP >> 8) | 1u << (RTE_PTYPE_L4_UDP >> 8) |
				    1u << (RTE_PTYPE_L4_SCTP >> 8);

	return with_ports >> ((ptype & RTE_PTYPE_L4_MASK) >> 8) & 1;
}

/* Source and destination, addresses of `len` bytes each. */
static inline void copy_pair(uint8_t *to, const uint8_t *from, size_t len, bool swap)
{
	memcpy(to, from + (swap ? len : 0), len);
	memcpy(to + len, from + (swap ? 0 : len), len);
}

static inline uint8_t tcp_flags(const struct rte_mbuf *m)
{
	return pkt_l4(m) == RTE_PTYPE_L4_TCP
		       ? ((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags
		       : 0;
}

static void copy_ip4_ports(uint8_t key[ACL_IP4_KEY_BYTES], const struct rte_mbuf *m, bool swap)
{
	const uint8_t *ip = pkt_l3_hdr(m);

	memset(key, 0, ACL_IP4_KEY_BYTES);
	key[9] = ip[9];
	copy_pair(key + 12, ip + 12, 4, swap);
	copy_pair(key + 20, pkt_l4_hdr(m), 2, swap);
	key[33] = tcp_flags(m);
}

static void copy_ip6_ports(uint8_t key[ACL_IP6_KEY_BYTES], const struct rte_mbuf *m, bool swap)
{
	const uint8_t *ip = pkt_l3_hdr(m);

	memset(key, 0, ACL_IP6_KEY_BYTES);
	key[6] = pkt_ipv6_proto(m);
	copy_pair(key + 8, ip + 8, 16, swap);
	copy_pair(key + 40, pkt_l4_hdr(m), 2, swap);
	key[53] = tcp_flags(m);
}

static void copy_bare(struct acl_bare_key *key, const struct rte_mbuf *m, bool swap)
{
	const uint8_t *ip = pkt_l3_hdr(m);

	memset(key, 0, sizeof(*key));
	if (pkt_is_ipv4(m)) {
		key->proto = ip[9];
		copy_pair(key->addrs, ip + 12, 4, swap);
	} else {
		key->proto = pkt_ipv6_proto(m);
		copy_pair(key->addrs, ip + 8, 16, swap);
	}
	if (pkt_l4(m) == RTE_PTYPE_L4_ICMP) {
		const uint8_t *icmp = pkt_l4_hdr(m);

		key->icmp_type = icmp[0];
		key->icmp_code = icmp[1];
		key->icmp = 1;
	}
}

/* Everything but the common case. */
static __rte_noinline void gather_other(struct acl_groups *g, struct nf_worker *w, struct burst *b,
					unsigned int i, bool swap)
{
	const struct acl_conf *conf = w->nf->conf;
	const struct rte_mbuf *m = b->pkts[i];
	bool ip4 = pkt_is_ipv4(m);

	if (pkt_malformed(m)) {
		b->verdict[i] = NF_ABORT;
	} else if (!ip4 && !pkt_is_ipv6(m)) {
		w->counters[ACL_COUNT_NON_IP]++;
		if (conf->non_ip == ACL_DENY)
			b->verdict[i] = NF_DROP(ACL_DROP_NON_IP);
	} else if (l4_has_ports(m->packet_type)) {
		if (ip4)
			copy_ip4_ports(g->copy[i].ip4, m, swap);
		else
			copy_ip6_ports(g->copy[i].ip6, m, swap);
		add(g, ip4 ? ACL_IP4_PORTS : ACL_IP6_PORTS, &g->copy[i], i);
	} else if (pkt_l4(m) == RTE_PTYPE_L4_FRAG && conf->fragments == ACL_FRAGMENTS_DENY) {
		b->verdict[i] = NF_DROP(ACL_DROP_FRAGMENT);
	} else {
		w->counters[ACL_COUNT_NO_PORTS]++;
		copy_bare(&g->copy[i].bare, m, swap);
		add(g, ip4 ? ACL_IP4_BARE : ACL_IP6_BARE, &g->copy[i], i);
	}
}

/*
 * How far behind its IP header a packet must reach to be its own key. pkt_classify has seen to
 * the ports; the flags' place lies past the end of a short UDP packet.
 */
struct acl_reach {
	uint32_t ip4, ip6;
};

static inline struct acl_reach reach(const struct acl_set *set, bool swap)
{
	if (swap)
		return (struct acl_reach){UINT32_MAX, UINT32_MAX};
	if (set->flags)
		return (struct acl_reach){ACL_IP4_KEY_BYTES, ACL_IP6_KEY_BYTES};
	return (struct acl_reach){0, 0};
}

static inline void gather(struct acl_groups *g, struct nf_worker *w, struct burst *b,
			  const struct acl_set *set, bool swap)
{
	const uint32_t l3 = PKT_MALFORMED | RTE_PTYPE_L3_MASK;
	const struct acl_reach need = reach(set, swap);

	memset(g->n, 0, sizeof(g->n));
	for (unsigned int i = 0; i < b->n; i++) {
		const struct rte_mbuf *m = b->pkts[i];
		uint32_t ptype = m->packet_type, have = m->data_len - pkt_l2_len(m);

		/* RTE_PTYPE_L3_IPV4 and _IPV6: without options and extension headers. */
		if (likely((ptype & l3) == RTE_PTYPE_L3_IPV4 && l4_has_ports(ptype) &&
			   have >= need.ip4))
			add(g, ACL_IP4_PORTS, pkt_l3_hdr(m), i);
		else if ((ptype & l3) == RTE_PTYPE_L3_IPV6 && l4_has_ports(ptype) &&
			 have >= need.ip6)
			add(g, ACL_IP6_PORTS, pkt_l3_hdr(m), i);
		else
			gather_other(g, w, b, i, swap);
	}
}

static inline void verdicts(struct nf_worker *w, struct burst *b, const struct acl_set *set,
			    const uint8_t *at, const uint32_t *match, uint32_t n)
{
	const uint8_t verdict[] = {
		[0] = set->default_verdict,
		[ACL_MATCH_PERMIT] = 0,
		[ACL_MATCH_DENY] = NF_DROP(ACL_DROP_DENIED),
	};
	uint32_t none = 0, permitted = 0;

	for (uint32_t i = 0; i < n; i++) {
		b->verdict[at[i]] = verdict[match[i]];
		none += match[i] == 0;
		permitted += match[i] == ACL_MATCH_PERMIT;
	}
	w->counters[ACL_COUNT_DEFAULT] += none;
	w->counters[ACL_COUNT_PERMITTED] += permitted;
}

/* One burst in so many still goes through a cache that is left aside: traffic changes. */
#define CACHE_PROBE 32

static inline bool cache_use(struct acl_worker *worker, const struct acl_set *set)
{
	if (!worker->cache || (worker->aside && worker->bursts++ % CACHE_PROBE))
		return false;
	if (unlikely(worker->cache_set != set->serial)) {
		memset(worker->cache, 0, (worker->cache_mask + 1ul) * sizeof(*worker->cache));
		worker->cache_set = set->serial;
	}
	return true;
}

/* What the cache does not know, from rte_acl; then it knows. */
static void cache_fill(struct acl_worker *worker, const struct acl_set *set,
		       const struct acl_group *g, const struct acl_cache_key *key,
		       struct acl_bucket *const *bucket, uint32_t *match, const uint8_t *miss,
		       uint32_t n)
{
	const uint8_t *packet[BURST_MAX];
	uint32_t answer[BURST_MAX];

	for (uint32_t i = 0; i < n; i++)
		packet[i] = g->key[miss[i]];
	rte_acl_classify(set->ctx[ACL_IP4_PORTS], packet, answer, n, 1);
	for (uint32_t i = 0; i < n; i++) {
		match[miss[i]] = answer[i];
		acl_cache_put(bucket[miss[i]], key[miss[i]], answer[i],
			      worker->way++ % ACL_CACHE_WAYS);
	}
}

static void classify_cached(struct acl_worker *worker, const struct acl_set *set,
			    const struct acl_group *g, uint32_t *match, uint32_t n)
{
	struct acl_cache_key key[BURST_MAX];
	struct acl_bucket *bucket[BURST_MAX];
	uint8_t miss[BURST_MAX];
	uint32_t missed = 0;

	for (uint32_t i = 0; i < n; i++) {
		key[i] = acl_cache_key(g->key[i], set->flags);
		bucket[i] = &worker->cache[acl_cache_hash(key[i]) & worker->cache_mask];
		rte_prefetch0(bucket[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t found = acl_cache_find(bucket[i], key[i]);

		match[i] = found - 1;
		miss[missed] = i;
		missed += found == 0;
	}
	worker->hits += n - missed;
	worker->misses += missed;
	if (missed)
		cache_fill(worker, set, g, key, bucket, match, miss, missed);
}

/*
 * A miss costs about a third of a lookup in rte_acl on top of it, so that a cache which hits
 * less than a third of the time does not pay.
 */
#define CACHE_WORTH(hits, misses) ((hits)*2 >= (misses))
#define CACHE_SAMPLE 256 /* packets, before there is an opinion */

void acl_cache_tick(struct nf_worker *w)
{
	struct acl_worker *worker = w->state;

	w->counters[ACL_COUNT_CACHE_HITS] += worker->hits;
	w->counters[ACL_COUNT_CACHE_MISSES] += worker->misses;
	/* A tick sees few packets of a cache left aside: without a memory it would stay so. */
	worker->judged_hits += worker->hits;
	worker->judged_misses += worker->misses;
	worker->hits = 0;
	worker->misses = 0;
	if (worker->judged_hits + worker->judged_misses < CACHE_SAMPLE)
		return;
	worker->aside = !CACHE_WORTH(worker->judged_hits, worker->judged_misses);
	worker->judged_hits = 0;
	worker->judged_misses = 0;
}

void acl_process(struct nf_worker *w, struct burst *b)
{
	struct acl *acl = w->nf->state;
	const struct acl_conf *conf = w->nf->conf;
	const struct acl_set *set = snapshot_read(&acl->set, w->index);
	bool swap = b->direction == NF_REVERSE && conf->reverse == ACL_REVERSE_SWAP;
	uint32_t match[BURST_MAX];
	struct acl_groups g;

	if (b->direction == NF_REVERSE && conf->reverse == ACL_REVERSE_PERMIT)
		return;
	gather(&g, w, b, set, swap);
	for (enum acl_kind kind = 0; kind < ACL_KINDS; kind++) {
		uint32_t n = g.n[kind];

		if (!n)
			continue;
		if (kind == ACL_IP4_PORTS && set->ctx[kind] && cache_use(w->state, set))
			classify_cached(w->state, set, &g.of[kind], match, n);
		else if (set->ctx[kind])
			rte_acl_classify(set->ctx[kind], g.of[kind].key, match, n, 1);
		else
			memset(match, 0, n * sizeof(*match));
		verdicts(w, b, set, g.of[kind].at, match, n);
	}
}
