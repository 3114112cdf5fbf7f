/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "nf/lib/trail.h"
#include "nf/lib/tuple.h"

struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	union {
		struct flow_key4 v4[BURST_MAX];
		struct flow_key6 v6[BURST_MAX];
	} keys;
	struct trail_looks looks;
};

/* IP octets, header included, as IANA defines octetDeltaCount: padding of the frame is not IP's. */
static inline uint32_t ip_octets(const struct rte_mbuf *m, bool v6)
{
	if (v6)
		return rte_be_to_cpu_16(((const struct rte_ipv6_hdr *)pkt_l3_hdr(m))->payload_len) +
		       (uint32_t)sizeof(struct rte_ipv6_hdr);
	return rte_be_to_cpu_16(((const struct rte_ipv4_hdr *)pkt_l3_hdr(m))->total_length);
}

static inline uint8_t tcp_flags(const struct rte_mbuf *m)
{
	return pkt_l4(m) == RTE_PTYPE_L4_TCP ? ((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags
					     : 0;
}

static uint8_t type_of_service(const struct rte_mbuf *m, bool v6)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	return v6 ? (uint8_t)(l3[0] << 4 | l3[1] >> 4) : l3[1];
}

static __rte_noinline struct flow *new_flow(struct nf_worker *w, const struct rte_mbuf *m,
					    const void *key, bool v6)
{
	struct mon_worker *mw = w->state;
	struct flow *f = flow_insert(mw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], key);
	struct mon_state *s;

	w->counters[f ? C_NEW : C_NOT_RECORDED]++;
	if (!f)
		return NULL;
	s = v6 ? flow_state6(f) : flow_state4(f);
	s->first = mw->now;
	f->user = (uint16_t)(type_of_service(m, v6) << 8);
	return f;
}

/* It expires when idle, or when its record is due for having been active so long. */
static inline uint32_t due(const struct mon_worker *mw, const struct mon_state *s)
{
	uint32_t idle = mw->now + mw->idle, active = s->first + mw->active;

	return (int32_t)(idle - active) < 0 ? idle : active;
}

static __rte_always_inline void add_packet(const struct mon_worker *mw, struct flow *f,
					   const struct rte_mbuf *m, bool v6)
{
	struct mon_state *s = v6 ? flow_state6(f) : flow_state4(f);

	s->packets++;
	s->octets += ip_octets(m, v6);
	s->last = mw->now;
	f->user |= tcp_flags(m);
	f->expires = due(mw, s);
}

static __rte_always_inline void record(struct nf_worker *w, struct burst *b, struct batch *batch,
				       bool v6)
{
	struct mon_worker *mw = w->state;
	struct flow_table *flows = mw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4];
	uint64_t known = w->counters[C_NEW];

	trail_start(&batch->looks);
	for (unsigned int i = 0; i < batch->n; i++) {
		const void *key = v6 ? (const void *)&batch->keys.v6[i] : &batch->keys.v4[i];

		trail_begin(&batch->looks, i, flows, key, v6, b, b->pkts[batch->pos[i]]);
	}
	trail_find(&batch->looks, flows, &batch->keys, v6, batch->n);
	for (unsigned int i = 0; i < batch->n; i++) {
		const void *key = v6 ? (const void *)&batch->keys.v6[i] : &batch->keys.v4[i];
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->looks.flows[i];

		if (unlikely(!f)) {
			if (w->counters[C_NEW] != known)
				f = flow_find(flows, key);
			if (!f)
				f = new_flow(w, m, key, v6);
			if (!f)
				continue;
		}
		add_packet(mw, f, m, v6);
		trail_leave(b, m, flows, f);
	}
}

/* ICMP has its type and code where others have the destination port; see export. */
static __rte_noinline void other_key(struct batch *v4, struct batch *v6, const struct rte_mbuf *m,
				     uint8_t pos)
{
	bool icmp = pkt_l4(m) == RTE_PTYPE_L4_ICMP;
	const uint8_t *l3 = pkt_l3_hdr(m);
	uint16_t type_code = 0;

	if (icmp)
		memcpy(&type_code, pkt_l4_hdr(m), sizeof(type_code));
	if (pkt_is_ipv4(m)) {
		struct flow_key4 *k = &v4->keys.v4[v4->n];

		v4->pos[v4->n++] = pos;
		*k = (struct flow_key4){.proto = l3[9], .shard = pkt_bucket(m), .dport = type_code};
		memcpy(&k->src, l3 + 12, 4);
		memcpy(&k->dst, l3 + 16, 4);
	} else {
		struct flow_key6 *k = &v6->keys.v6[v6->n];

		v6->pos[v6->n++] = pos;
		*k = (struct flow_key6){.proto = pkt_ipv6_proto(m), .shard = pkt_bucket(m),
					 .dport = type_code};
		memcpy(k->src, l3 + 8, 16);
		memcpy(k->dst, l3 + 24, 16);
	}
}

void mon_process(struct nf_worker *w, struct burst *b)
{
	struct mon_worker *mw = w->state;
	struct batch v4, v6;

	mon_clock(mw, b->now);
	v4.n = v6.n = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		const struct rte_mbuf *m = b->pkts[i];
		uint8_t proto = tuple_proto(m);

		if (likely(proto && pkt_is_ipv4(m))) {
			v4.pos[v4.n] = (uint8_t)i;
			tuple_key4(&v4.keys.v4[v4.n++], m, proto);
		} else if (proto) {
			v6.pos[v6.n] = (uint8_t)i;
			tuple_key6(&v6.keys.v6[v6.n++], m, proto);
		} else if (pkt_malformed(m)) {
			b->verdict[i] = NF_ABORT;
		} else if (pkt_is_ipv4(m) || pkt_is_ipv6(m)) {
			other_key(&v4, &v6, m, (uint8_t)i);
		}
	}
	if (v4.n)
		record(w, b, &v4, false);
	if (v6.n)
		record(w, b, &v6, true);
}

/* A recorded flow's packets pass; what is kept of each is counted by mon_flow_account. */
bool mon_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action)
{
	struct mon_worker *mw = w->state;
	struct flow_table *flows = mw->flows[flow->v6 ? FLOW_IPV6 : FLOW_IPV4];
	union tuple_key key;
	struct flow *f;

	tuple_of_flow(&key, flow);
	f = flow_find(flows, &key);
	if (verdict || !f)
		return false; /* not recorded, as the cache is full: it may yet be */
	action->epochs = flow_epochs(flows);
	action->flow = flow_index(flows, f);
	action->account = true;
	return true;
}

void mon_flow_account(struct nf_worker *w, const uint32_t *flows, struct rte_mbuf *const *pkts,
		      unsigned int n, uint64_t now)
{
	struct mon_worker *mw = w->state;
	struct flow *f[BURST_MAX];

	mon_clock(mw, now);
	for (unsigned int i = 0; i < n; i++) {
		f[i] = flow_record(mw->flows[pkt_is_ipv4(pkts[i]) ? FLOW_IPV4 : FLOW_IPV6], flows[i]);
		rte_prefetch0(f[i]);
	}
	for (unsigned int i = 0; i < n; i++)
		add_packet(mw, f[i], pkts[i], !pkt_is_ipv4(pkts[i]));
}
