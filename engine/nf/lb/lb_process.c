/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

#include <string.h>

/* Packets of one family out of a burst. */
struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	union {
		struct flow_key4 v4[BURST_MAX];
		struct flow_key6 v6[BURST_MAX];
	} keys;
	struct trail_looks looks;
};

/* Where packets without usable ports go: not ours, unless they are a fragment of what is. */
static __rte_noinline void other_packet(const struct lb_params *p, const struct lb_config *c,
					struct burst *b, unsigned int i)
{
	struct rte_mbuf *m = b->pkts[i];
	struct lb_key key = {0};

	if (pkt_malformed(m)) {
		b->verdict[i] = NF_ABORT;
		return;
	}
	if (b->direction == NF_REVERSE)
		return;
	if (pkt_is_ipv4(m) || pkt_is_ipv6(m)) {
		key.family = pkt_is_ipv4(m) ? 4 : 6;
		if (pkt_is_ipv4(m))
			memcpy(key.addr, (uint8_t *)pkt_l3_hdr(m) + 16, 4);
		else
			memcpy(key.addr, (uint8_t *)pkt_l3_hdr(m) + 24, 16);
		if (pkt_l4(m) == RTE_PTYPE_L4_FRAG && lb_map_find(&c->by_vip, &key) == LB_VIP_ADDRESS) {
			b->verdict[i] = NF_DROP(DROP_FRAGMENT);
			return;
		}
	}
	if (p->other == LB_OTHER_DROP)
		b->verdict[i] = NF_DROP(DROP_NOT_FOR_VIP);
}

static __rte_always_inline void to_backend(struct rte_mbuf *m, const struct lb_backend *be,
					   uint8_t proto, bool v6)
{
	if (be->has_mac)
		pkt_eth(m)->dst_addr = be->mac;
	if (v6) {
		memcpy(ipv6_dst(pkt_l3_hdr(m)), be->addr, 16);
	} else {
		struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

		ip->hdr_checksum = csum_add(ip->hdr_checksum, be->ip_delta);
		memcpy(&ip->dst_addr, be->addr, 4);
	}
	if (be->port)
		((struct rte_udp_hdr *)pkt_l4_hdr(m))->dst_port = be->port;
	csum_add_l4(m, proto, be->l4_delta);
}

static __rte_always_inline void to_vip(struct rte_mbuf *m, const struct lb_backend *be,
				       uint8_t proto, bool v6)
{
	if (v6) {
		memcpy(ipv6_src(pkt_l3_hdr(m)), be->vip_addr, 16);
	} else {
		struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

		ip->hdr_checksum = csum_add(ip->hdr_checksum, csum_negate(be->ip_delta));
		memcpy(&ip->src_addr, be->vip_addr, 4);
	}
	if (be->port)
		((struct rte_udp_hdr *)pkt_l4_hdr(m))->src_port = be->vip_port;
	csum_add_l4(m, proto, csum_negate(be->l4_delta));
}

/* Exact port first, then the entry for all ports. */
static uint32_t find_ports(const struct lb_map *map, struct lb_key *key)
{
	uint32_t value = lb_map_find(map, key);

	if (value != LB_NOT_FOUND)
		return value;
	key->port = 0;
	return lb_map_find(map, key);
}

uint32_t lb_find_vip(const struct lb_config *c, const void *flow_key, bool v6)
{
	const struct flow_key4 *k4 = flow_key;
	const struct flow_key6 *k6 = flow_key;
	struct lb_key key = {.family = v6 ? 6 : 4,
			     .proto = v6 ? k6->proto : k4->proto,
			     .port = v6 ? k6->dport : k4->dport};

	memcpy(key.addr, v6 ? k6->dst : (const uint8_t *)&k4->dst, v6 ? 16 : 4);
	return find_ports(&c->by_vip, &key);
}

bool lb_is_for_none(const struct lb_config *c, const union tuple_key *key, bool v6)
{
	return lb_find_vip(c, key, v6) >= c->n_vips;
}

/* The same on every worker and at all times, so that flows not in the table have their backend. */
static uint16_t maglev_pick(const struct lb_config *c, uint32_t vip, const void *key, bool v6)
{
	union tuple_key tuple;
	uint32_t h;

	memcpy(&tuple, key, v6 ? sizeof(tuple.v6) : sizeof(tuple.v4));
	*(v6 ? &tuple.v6.shard : &tuple.v4.shard) = 0;
	h = rte_hash_crc(&tuple, v6 ? sizeof(tuple.v6) : sizeof(tuple.v4), 0);
	/* CRC is linear: without mixing, neighbouring ports would share entries. */
	h *= 0x9e3779b1u;
	return c->maglev[(size_t)vip * c->m + ((uint64_t)h * c->m >> 32)];
}

/*
 * A packet of a flow that is not in the table, or whose backend is gone: the backend for it, or NULL
 * with the verdict in *verdict.
 */
static __rte_noinline const struct lb_backend *assign(struct nf_worker *w, const struct lb_config *c,
						      struct flow *f, const void *key, bool v6,
						      uint32_t now, uint8_t *verdict)
{
	struct lb_worker *lw = w->state;
	const struct lb_params *p = w->nf->conf;
	uint32_t vip = f ? c->backends[f->user].vip : lb_find_vip(c, key, v6);
	uint16_t pick;

	if (vip >= c->n_vips) {
		if (p->other == LB_OTHER_DROP)
			*verdict = NF_DROP(DROP_NOT_FOR_VIP);
		return NULL;
	}
	pick = maglev_pick(c, vip, key, v6);
	if (pick == MAGLEV_NONE) {
		*verdict = NF_DROP(DROP_NO_BACKEND);
		return NULL;
	}
	if (f) {
		w->counters[C_REASSIGNED]++;
	} else {
		f = flow_insert(lw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], key);
		w->counters[f ? C_NEW : C_TABLE_FULL]++;
	}
	if (f) {
		f->user = pick;
		flow_changed(lw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], f);
		flow_touch(f, now, lw->timeout);
	}
	return &c->backends[pick];
}

static __rte_always_inline void forward(struct nf_worker *w, const struct lb_config *c,
					struct burst *b, struct batch *batch, bool v6)
{
	struct lb_worker *lw = w->state;
	struct flow_table *flows = lw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4];
	uint32_t now = flow_now(b->now);
	uint64_t known = w->counters[C_NEW];
	unsigned int hits = 0;

	trail_find(&batch->looks, flows, &batch->keys, v6, batch->n);
	for (unsigned int i = 0; i < batch->n; i++) {
		const void *key = v6 ? (const void *)&batch->keys.v6[i] : &batch->keys.v4[i];
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->looks.flows[i];
		const struct lb_backend *be;

		/* An earlier packet of this burst may have begun the flow. */
		if (unlikely(!f && w->counters[C_NEW] != known))
			f = flow_find(flows, key);
		be = f ? &c->backends[f->user] : NULL;
		if (likely(be && !be->gone)) {
			flow_touch(f, now, lw->timeout);
			trail_leave(b, m, flows, f);
			hits++;
		} else {
			be = assign(w, c, f, key, v6, now, &b->verdict[batch->pos[i]]);
			if (!be)
				continue;
		}
		to_backend(m, be, v6 ? batch->keys.v6[i].proto : batch->keys.v4[i].proto, v6);
	}
	w->counters[C_HITS] += hits;
}

static void back(const struct lb_config *c, struct rte_mbuf *m, uint8_t proto)
{
	const struct rte_udp_hdr *l4 = pkt_l4_hdr(m);
	bool v6 = !pkt_is_ipv4(m);
	struct lb_key key = {.family = v6 ? 6 : 4, .proto = proto, .port = l4->src_port};
	uint32_t i;

	if (v6)
		memcpy(key.addr, (uint8_t *)pkt_l3_hdr(m) + 8, 16);
	else
		memcpy(key.addr, (uint8_t *)pkt_l3_hdr(m) + 12, 4);
	i = find_ports(&c->by_backend, &key);
	if (i < c->n_backends)
		to_vip(m, &c->backends[i], proto, v6);
}

static void process_back(struct nf_worker *w, const struct lb_config *c, struct burst *b)
{
	const struct lb_params *p = w->nf->conf;

	for (unsigned int i = 0; i < b->n; i++) {
		uint8_t proto = tuple_proto(b->pkts[i]);

		if (!proto)
			other_packet(p, c, b, i);
		else if (p->mode == LB_NAT)
			back(c, b->pkts[i], proto);
	}
}

void lb_process(struct nf_worker *w, struct burst *b)
{
	struct lb_worker *lw = w->state;
	const struct lb_config *c = snapshot_read(&lw->lb->config, w->index);
	struct batch v4, v6;

	if (b->direction == NF_REVERSE) {
		process_back(w, c, b);
		return;
	}
	v4.n = v6.n = 0;
	trail_start(&v4.looks);
	trail_start(&v6.looks);
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		uint8_t proto = tuple_proto(m);

		if (unlikely(!proto)) {
			other_packet(w->nf->conf, c, b, i);
		} else if (likely(pkt_is_ipv4(m))) {
			v4.pos[v4.n] = (uint8_t)i;
			tuple_key4(&v4.keys.v4[v4.n], m, proto);
			trail_begin(&v4.looks, v4.n, lw->flows[FLOW_IPV4], &v4.keys.v4[v4.n], false, b, m);
			v4.n++;
		} else {
			v6.pos[v6.n] = (uint8_t)i;
			tuple_key6(&v6.keys.v6[v6.n], m, proto);
			trail_begin(&v6.looks, v6.n, lw->flows[FLOW_IPV6], &v6.keys.v6[v6.n], true, b, m);
			v6.n++;
		}
	}
	if (v4.n)
		forward(w, c, b, &v4, false);
	if (v6.n)
		forward(w, c, b, &v6, true);
}
