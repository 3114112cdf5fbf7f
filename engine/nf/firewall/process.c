/* SPDX-License-Identifier: Apache-2.0 */
#include "firewall.h"

#include <string.h>

#include <rte_branch_prediction.h>

#include "nf/lib/trail.h"
#include "nf/lib/tuple.h"

/* TCP and UDP packets of one family out of a burst. */
struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	bool low[BURST_MAX];
	union {
		struct flow_key4 v4[BURST_MAX];
		struct flow_key6 v6[BURST_MAX];
	} keys;
	struct trail_looks looks;
};

/* Endpoints as numbers of 48 bits, whatever the byte order: any order will do. */
static __rte_always_inline bool key4_words(struct flow_key4 *k, uint64_t src, uint64_t dst,
					   uint8_t proto, uint8_t bucket)
{
	bool low = src < dst;
	uint64_t lesser = low ? src : dst, greater = low ? dst : src;
	/* What identifies a shard stands where struct flow_key4 has it. */
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
	uint64_t words[2] = {lesser | greater << 48,
			     greater >> 16 | (uint64_t)proto << 32 | (uint64_t)bucket << 40};
#else
	uint64_t words[2] = {lesser | greater << 48, greater >> 16 << 32 | (uint64_t)proto << 24 |
							     (uint64_t)bucket << 16};
#endif

	memcpy(k, words, sizeof(words));
	return low;
}

bool fw_key4_make(struct flow_key4 *k, const void *src, const void *dst, uint16_t sport,
		  uint16_t dport, uint8_t proto, uint8_t bucket)
{
	uint32_t s, d;

	memcpy(&s, src, sizeof(s));
	memcpy(&d, dst, sizeof(d));
	return key4_words(k, (uint64_t)s << 16 | sport, (uint64_t)d << 16 | dport, proto, bucket);
}

bool fw_key4_sound(const struct flow_key4 *k)
{
	uint64_t words[2];

	memcpy(words, k, sizeof(words));
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
	words[1] &= UINT32_MAX;
#else
	words[1] >>= 32;
#endif
	return !k->shard && !k->zone &&
	       (words[0] & 0xffffffffffff) <= (words[1] << 16 | words[0] >> 48);
}

bool fw_key6_make(struct flow_key6 *k, const void *src, const void *dst, uint16_t sport,
		  uint16_t dport, uint8_t proto, uint8_t bucket)
{
	int order = memcmp(src, dst, 16);
	bool low = order < 0 || (!order && sport < dport);

	memcpy(k->src, low ? src : dst, 16);
	memcpy(k->dst, low ? dst : src, 16);
	k->sport = low ? sport : dport;
	k->dport = low ? dport : sport;
	k->proto = proto;
	k->shard = bucket;
	k->zone = 0;
	return low;
}

static __rte_always_inline bool packet_key4(struct flow_key4 *k, const struct rte_mbuf *m,
					    uint8_t proto)
{
	const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
	const struct rte_udp_hdr *l4 = pkt_l4_hdr(m);

	return key4_words(k, (uint64_t)ip->src_addr << 16 | l4->src_port,
			  (uint64_t)ip->dst_addr << 16 | l4->dst_port, proto, pkt_bucket(m));
}

static bool packet_key6(struct flow_key6 *k, const struct rte_mbuf *m, uint8_t proto)
{
	const struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);
	const struct rte_udp_hdr *l4 = pkt_l4_hdr(m);

	return fw_key6_make(k, ipv6_src(ip), ipv6_dst(ip), l4->src_port, l4->dst_port, proto,
			    pkt_bucket(m));
}

static inline enum track_event packet_event(const struct rte_mbuf *m)
{
	if (pkt_l4(m) != RTE_PTYPE_L4_TCP)
		return TRACK_ACK;
	return track_tcp_event(((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags);
}

uint8_t fw_known_flow(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		      struct flow *f, const union fw_key *key, bool v6, bool low,
		      enum nf_direction dir, uint32_t now)
{
	struct fw_worker *fw = w->state;
	struct flow_table *flows = fw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4];
	enum track_state state = FW_STATE(f->user), next;
	bool reply = low != !!(f->user & FW_ORIGIN_LOW);

	next = track_next[state][reply ? TRACK_REPLY : TRACK_ORIGIN][packet_event(m)];
	if (unlikely(next != state)) {
		if (next == TRACK_INVALID)
			return NF_DROP(DROP_INVALID_STATE);
		if (next == TRACK_REOPEN) {
			fw_gone(&(struct fw_end){fw, flows}, f);
			flow_delete(flows, f);
			return fw_new_flow(w, rules, m, key, v6, low, dir, now);
		}
		fw->half_open[flow_shard(flows, f)] -= fw_half_open(state) && !fw_half_open(next);
		f->user = (uint16_t)((f->user & 0xff00) | next);
		flow_changed(flows, f);
	}
	flow_touch(f, now, fw->timeouts[next]);
	w->counters[C_HITS]++;
	return 0;
}

uint8_t fw_known_or_new(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
			const union fw_key *key, bool v6, bool low, enum nf_direction dir,
			uint32_t now)
{
	struct fw_worker *fw = w->state;
	struct flow *f = flow_find(fw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], key);

	return f ? fw_known_flow(w, rules, m, f, key, v6, low, dir, now)
		 : fw_new_flow(w, rules, m, key, v6, low, dir, now);
}

uint8_t fw_first_fragment(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir, uint32_t now,
			  void *note)
{
	const struct fw_rules *rules = ((struct fw_worker *)w->state)->current;
	uint8_t proto = tuple_proto(m);
	bool v6 = !pkt_is_ipv4(m), low;
	union fw_key key;

	(void)note;
	if (!proto)
		return fw_other(w, rules, m, dir, now);
	low = v6 ? packet_key6(&key.v6, m, proto) : packet_key4(&key.v4, m, proto);
	return fw_known_or_new(w, rules, m, &key, v6, low, dir, now);
}

static __rte_noinline uint8_t without_ports(struct nf_worker *w, struct rte_mbuf *m,
					    enum nf_direction dir, uint32_t now)
{
	struct fw_worker *fw = w->state;

	if (!pkt_malformed(m) && pkt_l4(m) == RTE_PTYPE_L4_FRAG)
		return fragments_take(&fw->fragments, w, m, dir, now);
	return fw_other(w, fw->current, m, dir, now);
}

static __rte_always_inline void filter(struct nf_worker *w, const struct fw_rules *rules,
				       struct burst *b, struct batch *batch, bool v6)
{
	struct flow_table *flows = ((struct fw_worker *)w->state)->flows[v6 ? FLOW_IPV6 : FLOW_IPV4];
	uint32_t now = flow_now(b->now);
	bool changed = false; /* the table, so that what was looked up is void */

	trail_find(&batch->looks, flows, &batch->keys, v6, batch->n);
	for (unsigned int i = 0; i < batch->n; i++) {
		const union fw_key *key = v6 ? (const union fw_key *)&batch->keys.v6[i]
					     : (const union fw_key *)&batch->keys.v4[i];
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->looks.flows[i];
		uint8_t verdict;

		if (likely(f && !changed)) {
			enum track_state before = FW_STATE(f->user);

			verdict = fw_known_flow(w, rules, m, f, key, v6, batch->low[i], b->direction,
						now);
			/* Only a connection that ended can be opened again, and lose its record. */
			changed = before == TRACK_TIME_WAIT || before == TRACK_RESET;
			trail_leave(b, m, flows, f);
		} else {
			verdict = fw_known_or_new(w, rules, m, key, v6, batch->low[i], b->direction,
						  now);
			changed = true;
		}
		if (unlikely(verdict))
			b->verdict[batch->pos[i]] = verdict;
	}
}

void fw_process(struct nf_worker *w, struct burst *b)
{
	struct fw_worker *fw = w->state;
	const struct fw_rules *rules = snapshot_read(&fw->fw->rules, w->index);
	struct batch v4, v6;

	fw->current = rules;
	v4.n = v6.n = 0;
	trail_start(&v4.looks);
	trail_start(&v6.looks);
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		uint8_t proto = tuple_proto(m);

		if (likely(proto && pkt_is_ipv4(m))) {
			v4.pos[v4.n] = (uint8_t)i;
			v4.low[v4.n] = packet_key4(&v4.keys.v4[v4.n], m, proto);
			trail_begin(&v4.looks, v4.n, fw->flows[FLOW_IPV4], &v4.keys.v4[v4.n], false, b, m);
			v4.n++;
		} else if (proto) {
			v6.pos[v6.n] = (uint8_t)i;
			v6.low[v6.n] = packet_key6(&v6.keys.v6[v6.n], m, proto);
			trail_begin(&v6.looks, v6.n, fw->flows[FLOW_IPV6], &v6.keys.v6[v6.n], true, b, m);
			v6.n++;
		} else {
			uint8_t verdict = without_ports(w, m, b->direction, flow_now(b->now));

			if (verdict)
				b->verdict[i] = verdict;
		}
	}
	if (v4.n)
		filter(w, rules, b, &v4, false);
	if (v6.n)
		filter(w, rules, b, &v6, true);
}
