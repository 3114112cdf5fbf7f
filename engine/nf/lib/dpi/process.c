/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_prefetch.h>

#include "dpi.h"
#include "nf/lib/shared_flows.h"
#include "nf/lib/trail.h"
#include "nf/lib/tuple.h"

struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	bool swapped[BURST_MAX]; /* the packet's source is the key's dst */
	union {
		struct flow_key4 v4[BURST_MAX];
		struct flow_key6 v6[BURST_MAX];
	} keys;
	struct trail_looks looks;
};

static inline struct dpi_flow *state_of(struct flow *f, bool v6)
{
	return v6 ? flow_state6(f) : flow_state4(f);
}

/* Both directions have one key: the lower address, then the lower port, comes first. */
static void add_key4(const struct dpi_worker *dw, struct batch *b, const struct burst *from, uint8_t pos,
		     bool ports)
{
	const struct rte_mbuf *m = from->pkts[pos];
	struct flow_key4 *k = &b->keys.v4[b->n];
	const uint8_t *l3 = pkt_l3_hdr(m);
	uint16_t port[2] = {0, 0};
	uint32_t addr[2];
	bool swap;

	memcpy(addr, l3 + offsetof(struct rte_ipv4_hdr, src_addr), sizeof(addr));
	if (ports)
		memcpy(port, pkt_l4_hdr(m), sizeof(port));
	swap = ((uint64_t)addr[0] << 16 | port[0]) > ((uint64_t)addr[1] << 16 | port[1]);
	tuple_set4(k, addr[swap], addr[!swap], port[swap], port[!swap], l3[9]);
	k->shard = (uint8_t)shared_bucket(dw->w, m);
	trail_begin(&b->looks, b->n, dw->flows[FLOW_IPV4], k, false, from, m);
	b->swapped[b->n] = swap;
	b->pos[b->n++] = pos;
}

static void add_key6(const struct dpi_worker *dw, struct batch *b, const struct burst *from, uint8_t pos,
		     bool ports)
{
	const struct rte_mbuf *m = from->pkts[pos];
	struct flow_key6 *k = &b->keys.v6[b->n];
	const uint8_t *addr = (const uint8_t *)pkt_l3_hdr(m) +
			      offsetof(struct rte_ipv6_hdr, src_addr);
	uint16_t port[2] = {0, 0};
	int order = memcmp(addr, addr + 16, 16);
	bool swap;

	if (ports)
		memcpy(port, pkt_l4_hdr(m), sizeof(port));
	swap = order > 0 || (!order && port[0] > port[1]);
	*k = (struct flow_key6){.sport = port[swap], .dport = port[!swap], .proto = pkt_ipv6_proto(m),
				.shard = (uint8_t)shared_bucket(dw->w, m)};
	memcpy(k->src, addr + 16 * swap, 16);
	memcpy(k->dst, addr + 16 * !swap, 16);
	trail_begin(&b->looks, b->n, dw->flows[FLOW_IPV6], k, true, from, m);
	b->swapped[b->n] = swap;
	b->pos[b->n++] = pos;
}

/* The IP packet in one piece, without the padding of its frame. */
static void contiguous(struct inspection *in, const struct rte_mbuf *m)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	in->l3_len = pkt_is_ipv4(m) ? (uint32_t)(l3[2] << 8 | l3[3])
				    : (uint32_t)(l3[4] << 8 | l3[5]) + 40;
	in->l3 = rte_pktmbuf_read(m, pkt_l2_len(m), in->l3_len, in->dw->bounce);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Length of the L4 header, checked against what there is; -1: malformed. UDP: *left is cut. */
static int l4_header(struct inspection *in, uint32_t l4, const uint8_t *p, uint32_t *left)
{
	uint32_t len;

	switch (l4) {
	case RTE_PTYPE_L4_TCP:
		len = (uint32_t)(p[12] >> 4) * 4;
		in->seq = be32(p + 4);
		in->ack = be32(p + 8);
		in->tcp_flags = p[13];
		return len >= 20 && len <= *left ? (int)len : -1;
	case RTE_PTYPE_L4_UDP:
		len = (uint32_t)(p[4] << 8 | p[5]);
		if (len < 8 || len > *left)
			return -1;
		*left = len;
		return 8;
	case RTE_PTYPE_L4_ICMP:
		return 8;
	case RTE_PTYPE_L4_SCTP:
		return 12;
	}
	/* A protocol that pkt_classify knows, but its header is not whole. */
	switch (in->packet.proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_SCTP:
		return -1;
	}
	return 0;
}

/* What rules look at. False: malformed. */
static bool inspection_fill(struct inspection *in, const struct rte_mbuf *m, uint8_t proto)
{
	uint32_t l4 = pkt_l4(m), left;
	const uint8_t *p;
	int header;

	contiguous(in, m);
	in->packet.proto = proto;
	p = in->l3 + pkt_l3_len(m);
	left = in->l3_len - pkt_l3_len(m);
	header = l4_header(in, l4, p, &left);
	if (unlikely(header < 0))
		return false;
	in->packet.family = pkt_is_ipv4(m) ? 4 : 6;
	in->packet.src = in->l3 + (in->packet.family == 4 ? 12 : 8);
	in->packet.dst = in->packet.src + (in->packet.family == 4 ? 4 : 16);
	if (l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_SCTP) {
		in->packet.sport = (uint16_t)(p[0] << 8 | p[1]);
		in->packet.dport = (uint16_t)(p[2] << 8 | p[3]);
	}
	in->payload = p + header;
	in->packet.size = left - (uint32_t)header;
	return true;
}

static __rte_noinline struct flow *new_flow(struct dpi_worker *dw, const void *key, bool v6,
					    bool swapped, const struct inspection *in)
{
	enum flow_family family = v6 ? FLOW_IPV6 : FLOW_IPV4;
	struct flow *f = flow_insert(dw->flows[family], key);
	bool syn_ack = in->packet.proto == IPPROTO_TCP &&
		       (in->tcp_flags & (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG)) ==
			       (RTE_TCP_SYN_FLAG | RTE_TCP_ACK_FLAG);
	struct dpi_flow *s;

	dw->w->counters[f ? C_FLOWS_NEW : C_FLOWS_FULL]++;
	if (!f)
		return NULL;
	s = state_of(f, v6);
	dw->births[family][flow_index(dw->flows[family], f)] =
		(struct dpi_birth){dw->next_id++, dw->now_tsc};
	/* Who speaks first is the client, unless it is an answer already. */
	if (swapped != syn_ack)
		s->flags |= FLOW_CLIENT_HIGH;
	return f;
}

static void account(struct inspection *in, bool swapped)
{
	struct dpi_flow *s = in->flow;

	in->packet.to_server = swapped == !!(s->flags & FLOW_CLIENT_HIGH);
	s->packets[!in->packet.to_server]++;
	s->bytes[!in->packet.to_server] += in->l3_len;
	if (s->packets[0] && s->packets[1])
		s->flags |= FLOW_BOTH;
	/* TCP carries no data before it is established; others are when there was an answer. */
	in->packet.established = in->packet.proto == IPPROTO_TCP
					 ? !(in->tcp_flags & RTE_TCP_SYN_FLAG)
					 : s->flags & FLOW_BOTH;
}

/* RFC 2474: DSCP is the upper six bits; ECN (RFC 3168) stays. */
static void mark(struct rte_mbuf *m, uint8_t dscp)
{
	uint8_t *l3 = pkt_l3_hdr(m);

	if (pkt_is_ipv4(m)) {
		struct rte_ipv4_hdr *ip = (void *)l3;
		uint16_t was, is;

		memcpy(&was, l3, sizeof(was));
		l3[1] = (uint8_t)(dscp << 2 | (l3[1] & 3));
		memcpy(&is, l3, sizeof(is));
		ip->hdr_checksum = csum_update16(ip->hdr_checksum, was, is);
		return;
	}
	l3[0] = (uint8_t)(0x60 | dscp >> 2);
	l3[1] = (uint8_t)((dscp & 3) << 6 | (l3[1] & 0x3f));
}

static uint8_t apply(struct dpi_worker *dw, struct rte_mbuf *m, uint8_t action, uint8_t drop)
{
	if (dw->dpi->leaf)
		return NF_CONSUME;
	if (action == RULE_DROP)
		return NF_DROP(drop);
	if (action == RULE_MARK) {
		mark(m, (uint8_t)dw->dpi->params->dscp);
		dw->w->counters[C_MARKED]++;
	}
	return 0;
}

/* Without a flow, for want of room, packets are looked at one by one. */
static uint8_t inspect_packet(struct inspection *in, struct rte_mbuf *m)
{
	in->packet.to_server = true;
	in->packet.established = true;
	scan_packet(in, PATTERNS_PACKET, in->payload, in->packet.size);
	return apply(in->dw, m, in->action, DROP_MATCHED);
}

static void label(struct inspection *in)
{
	struct dpi_flow *s = in->flow;
	uint8_t action;

	if (!labels_packet(in))
		return;
	action = labels_action(in->dw->labels, s);
	if (action && action - 1 > s->action) {
		s->action = action - 1;
		s->drop = DROP_LABEL;
	}
}

static uint8_t inspect(struct dpi_worker *dw, struct inspection *in, struct rte_mbuf *m)
{
	struct dpi_flow *s = in->flow;

	/* What is dropped is not looked at any more: the flow is lost, and its receiver knows
	 * nothing. */
	if (s->action == RULE_DROP && !dw->dpi->leaf)
		return apply(dw, m, RULE_DROP, s->drop);
	if (in->packet.proto == IPPROTO_TCP)
		tcp_input(in);
	else
		scan_packet(in, PATTERNS_PACKET, in->payload, in->packet.size);
	if (dw->labels && !(s->flags & FLOW_LABELLED))
		label(in);
	if (in->action > s->action) {
		s->action = in->action;
		s->drop = DROP_MATCHED;
	}
	return apply(dw, m, s->action, s->drop);
}

/*
 * What TCP keeps of the flows that were found, all of them before the first is needed: the line behind
 * the key's, then Hyperscan's state of the stream.
 */
static void prefetch_tcp(const struct dpi_worker *dw, const struct burst *b,
			 const struct batch *batch, bool v6)
{
	uint8_t at[BURST_MAX];
	unsigned int n = 0;

	for (unsigned int i = 0; i < batch->n; i++) {
		const struct dpi_flow *s;

		if (!batch->looks.flows[i] || pkt_l4(b->pkts[batch->pos[i]]) != RTE_PTYPE_L4_TCP)
			continue;
		s = state_of(batch->looks.flows[i], v6);
		rte_prefetch0(&s->dir[0]);
		if (v6)
			rte_prefetch0(&s->dir[1].flags);
		at[n++] = (uint8_t)i;
	}
	for (unsigned int i = 0; i < n; i++) {
		const struct dpi_flow *s = state_of(batch->looks.flows[at[i]], v6);
		bool to_server = batch->swapped[at[i]] == !!(s->flags & FLOW_CLIENT_HIGH);
		uint32_t stream = s->dir[!to_server].stream;

		if (stream)
			rte_prefetch0(dw->streams[stream - 1]);
	}
}

static void run(struct dpi_worker *dw, struct burst *b, struct batch *batch, bool v6)
{
	struct flow_table *t = dw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4];
	bool added = false;

	trail_find(&batch->looks, t, &batch->keys, v6, batch->n);
	prefetch_tcp(dw, b, batch, v6);
	for (unsigned int i = 0; i < batch->n; i++) {
		const void *key = v6 ? (const void *)&batch->keys.v6[i] : &batch->keys.v4[i];
		uint8_t proto = v6 ? batch->keys.v6[i].proto : batch->keys.v4[i].proto;
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->looks.flows[i];
		struct inspection in = {.dw = dw, .bucket = shared_bucket(dw->w, m)};

		if (unlikely(!inspection_fill(&in, m, proto))) {
			b->verdict[batch->pos[i]] = NF_ABORT;
			continue;
		}
		if (unlikely(!f)) {
			f = added ? flow_find(t, key) : NULL;
			if (!f)
				f = new_flow(dw, key, v6, batch->swapped[i], &in);
			added = true;
		}
		if (unlikely(!f)) {
			b->verdict[batch->pos[i]] = inspect_packet(&in, m);
			continue;
		}
		in.record = f;
		in.flow = state_of(f, v6);
		account(&in, batch->swapped[i]);
		b->verdict[batch->pos[i]] = inspect(dw, &in, m);
		flow_touch(f, dw->now, in.flow->flags & FLOW_CLOSED ? dw->closed : dw->idle);
		trail_leave(b, m, t, f);
	}
}

static void fragment(struct dpi_worker *dw, struct burst *b, unsigned int i)
{
	dw->w->counters[C_FRAGMENTS]++;
	if (dw->dpi->params->fragments && !dw->dpi->leaf)
		b->verdict[i] = NF_DROP(DROP_FRAGMENT);
}

/* Packets classified anew for what they carry: as they were, for the functions behind this one. */
struct wrapped {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	uint16_t lens[BURST_MAX];
	uint32_t type[BURST_MAX];
};

/*
 * IP in a PPPoE session (RFC 2516 section 4): six bytes of header, then PPP's protocol number (RFC 1661
 * section 2). The captures that IDSs are tried with have it, as have access networks.
 */
static __rte_noinline void unwrap(struct wrapped *old, struct rte_mbuf *m, uint8_t pos)
{
	uint8_t bucket = pkt_bucket(m);
	uint32_t l2_len = pkt_l2_len(m);
	const uint8_t *p = rte_pktmbuf_mtod_offset(m, const uint8_t *, l2_len);
	uint16_t ppp;

	if (l2_len < sizeof(struct rte_ether_hdr) || m->data_len < l2_len + 8 || p[-2] != 0x88 ||
	    p[-1] != 0x64 || p[0] != 0x11 || p[1])
		return;
	ppp = (uint16_t)(p[6] << 8 | p[7]);
	if (ppp != 0x0021 && ppp != 0x0057)
		return;
	old->pos[old->n] = pos;
	old->lens[old->n] = pkt_lens(m);
	old->type[old->n++] = m->packet_type;
	pkt_classify_at(m, l2_len + 8, ppp == 0x0057);
	pkt_set_bucket(m, bucket);
}

static void wrap_again(const struct wrapped *old, struct burst *b)
{
	for (unsigned int i = 0; i < old->n; i++)
		pkt_set_class(b->pkts[old->pos[i]], old->type[i], old->lens[i]);
}

void dpi_process(struct nf_worker *w, struct burst *b)
{
	struct dpi_worker *dw = w->state;
	struct wrapped wrapped;
	struct batch v4, v6;

	dw->now_tsc = b->now;
	dw->now = flow_now(b->now);
	v4.n = v6.n = wrapped.n = 0;
	trail_start(&v4.looks);
	trail_start(&v6.looks);
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		uint32_t l4;
		bool ports;

		if (unlikely(!(m->packet_type & (RTE_PTYPE_L3_MASK | PKT_MALFORMED))))
			unwrap(&wrapped, m, (uint8_t)i);
		l4 = pkt_l4(m);
		ports = l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_SCTP;

		if (dw->dpi->leaf)
			b->verdict[i] = NF_CONSUME;
		if (pkt_malformed(m))
			b->verdict[i] = NF_ABORT;
		else if (l4 == RTE_PTYPE_L4_FRAG)
			fragment(dw, b, i);
		else if (pkt_is_ipv4(m))
			add_key4(dw, &v4, b, (uint8_t)i, ports);
		else if (pkt_is_ipv6(m))
			add_key6(dw, &v6, b, (uint8_t)i, ports);
	}
	if (v4.n)
		run(dw, b, &v4, false);
	if (v6.n)
		run(dw, b, &v6, true);
	if (unlikely(wrapped.n))
		wrap_again(&wrapped, b);
}

/* The client's side of a key, as if it sent a packet. */
static void inspection_of(struct inspection *in, enum flow_family family, const struct flow *f)
{
	bool high = in->flow->flags & FLOW_CLIENT_HIGH;

	if (family == FLOW_IPV4) {
		const struct flow_key4 *k = (const void *)f->key;

		in->packet.family = 4;
		in->packet.proto = k->proto;
		in->packet.src = (const void *)(high ? &k->dst : &k->src);
		in->packet.dst = (const void *)(high ? &k->src : &k->dst);
		in->packet.sport = ntohs(high ? k->dport : k->sport);
		in->packet.dport = ntohs(high ? k->sport : k->dport);
	} else {
		const struct flow_key6 *k = (const void *)f->key;

		in->packet.family = 6;
		in->packet.proto = k->proto;
		in->packet.src = high ? k->dst : k->src;
		in->packet.dst = high ? k->src : k->dst;
		in->packet.sport = ntohs(high ? k->dport : k->sport);
		in->packet.dport = ntohs(high ? k->sport : k->dport);
	}
	in->packet.to_server = in->packet.established = true;
}

void dpi_flow_end(struct dpi_worker *dw, enum flow_family family, struct flow *f)
{
	struct inspection in = {
		.dw = dw, .record = f, .flow = state_of(f, family == FLOW_IPV6),
		.bucket = flow_shard(dw->flows[family], f)};

	inspection_of(&in, family, f);
	tcp_end_both(&in);
	if (dw->labels)
		labels_end(dw, in.flow);
	if (dw->ring && dw->dpi->params->eve_flows)
		scan_event(dw, &in, EVE_FLOW, 0);
}
