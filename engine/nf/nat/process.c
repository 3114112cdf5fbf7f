/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_icmp.h>

struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	struct flow_key4 keys[BURST_MAX];
	struct flow *flows[BURST_MAX];
};

/* Also the way of a UDP packet: anything that is not TCP is always an ACK to track.h. */
static inline enum track_event packet_event(const struct rte_mbuf *m)
{
	if (pkt_l4(m) != RTE_PTYPE_L4_TCP)
		return TRACK_ACK;
	return track_tcp_event(((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags);
}

/* Both ways know the state, so that a packet looks at its own record only. */
static __rte_noinline enum track_state change_state(struct nat_worker *nat, struct flow *f,
						    enum track_state state, enum track_state next)
{
	struct flow *peer = flow_at(nat->sessions, nat_way(f)->peer);

	if (next == TRACK_INVALID)
		return state; /* a translator, no firewall: it passes, and changes nothing */
	if (next == TRACK_REOPEN)
		next = TRACK_SYN_SENT;
	f->user = (uint16_t)((f->user & 0xff00) | next);
	peer->user = (uint16_t)((peer->user & 0xff00) | next);
	return next;
}

static inline void rewrite_ports(struct rte_mbuf *m, const struct nat_way *way, uint8_t proto,
				 bool outward)
{
	if (likely(proto != IPPROTO_ICMP)) {
		struct rte_udp_hdr *l4 = pkt_l4_hdr(m);

		if (outward)
			l4->src_port = way->port;
		else
			l4->dst_port = way->port;
		csum_add_l4(m, proto, way->l4_delta);
	} else {
		struct rte_icmp_hdr *icmp = pkt_l4_hdr(m);

		icmp->icmp_ident = way->port;
		icmp->icmp_cksum = csum_add(icmp->icmp_cksum, way->l4_delta);
	}
}

static __rte_always_inline void translate(struct nat_worker *nat, struct rte_mbuf *m, struct flow *f,
					  uint8_t proto, bool outward, uint32_t now)
{
	enum track_state state = NAT_STATE(f->user), next;
	const struct nat_way *way = nat_way(f);
	struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

	next = track_next[state][f->user & NAT_REPLY ? TRACK_REPLY : TRACK_ORIGIN][packet_event(m)];
	if (unlikely(next != state))
		state = change_state(nat, f, state, next);
	flow_touch(f, now, nat->timeouts[state]);
	ip->hdr_checksum = csum_add(ip->hdr_checksum, way->l3_delta);
	if (outward)
		ip->src_addr = way->addr;
	else
		ip->dst_addr = way->addr;
	rewrite_ports(m, way, proto, outward);
}

static __rte_always_inline void translate_all(struct nf_worker *w, struct burst *b,
					      struct batch *batch, bool outward)
{
	struct nat_worker *nat = w->state;
	uint32_t now = flow_now(b->now);
	unsigned int hits = 0;

	flow_lookup4(nat->sessions, batch->keys, batch->n, batch->flows);
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct flow_key4 *key = &batch->keys[i];
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->flows[i];

		if (likely(f)) {
			hits++;
		} else {
			uint8_t *verdict = &b->verdict[batch->pos[i]];

			/* An earlier packet of this burst may have begun the session. */
			f = flow_find(nat->sessions, key);
			if (!f)
				f = outward ? nat_new_outward(w, m, key, now, verdict)
					    : nat_new_inward(w, m, key, now, verdict);
			if (!f)
				continue;
		}
		translate(nat, m, f, key->proto, outward, now);
	}
	w->counters[C_HITS] += hits;
}

static bool is_icmp_error(uint8_t type)
{
	return type == 3 || type == 4 || type == 11 || type == 12; /* RFC 5508 section 3.2 */
}

bool nat_query_key(struct flow_key4 *key, const struct rte_mbuf *m, enum nf_direction dir)
{
	const struct rte_icmp_hdr *icmp = pkt_l4_hdr(m);
	uint8_t type = icmp->icmp_type;

	/* Echo, timestamp and address mask, asked and answered: those that have an identifier. */
	if (type != 0 && type != 8 && !(type >= 13 && type <= 18))
		return false;
	tuple_key4(key, m, IPPROTO_ICMP);
	key->sport = dir == NF_FORWARD ? icmp->icmp_ident : 0;
	key->dport = dir == NF_FORWARD ? 0 : icmp->icmp_ident;
	return true;
}

/* Packets that are neither TCP nor UDP: true when the packet is to be looked up by its key. */
static __rte_noinline bool other_packet(struct nf_worker *w, struct burst *b, unsigned int i,
					struct flow_key4 *key)
{
	struct rte_mbuf *m = b->pkts[i];

	if (pkt_malformed(m)) {
		b->verdict[i] = NF_ABORT;
		return false;
	}
	if (pkt_l4(m) == RTE_PTYPE_L4_FRAG) {
		b->verdict[i] = NF_DROP(DROP_FRAGMENT);
		return false;
	}
	if (pkt_l4(m) == RTE_PTYPE_L4_ICMP &&
	    ((const struct rte_ipv4_hdr *)pkt_l3_hdr(m))->next_proto_id == IPPROTO_ICMP) {
		if (nat_query_key(key, m, b->direction))
			return true;
		if (is_icmp_error(((const struct rte_icmp_hdr *)pkt_l4_hdr(m))->icmp_type)) {
			uint8_t verdict = nat_icmp_error(w, m, b->direction);

			if (verdict)
				b->verdict[i] = verdict;
			return false;
		}
	}
	b->verdict[i] = NF_DROP(DROP_UNSUPPORTED);
	return false;
}

/* Is it for the translator at all? */
static inline bool concerns_us(const struct nat_params *p, const struct rte_mbuf *m, bool outward)
{
	const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

	return outward ? nat_is_inside(p, ip->src_addr) : nat_is_outside(p, ip->dst_addr);
}

void nat_process(struct nf_worker *w, struct burst *b)
{
	const struct nat_params *p = w->nf->conf;
	bool outward = b->direction == NF_FORWARD;
	struct batch batch;

	batch.n = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		struct flow_key4 *key = &batch.keys[batch.n];
		uint8_t proto = tuple_proto(m);

		if (unlikely(!pkt_is_ipv4(m))) {
			if (pkt_malformed(m))
				b->verdict[i] = NF_ABORT;
			continue;
		}
		if (unlikely(!concerns_us(p, m, outward)))
			continue;
		if (likely(proto))
			tuple_key4(key, m, proto);
		else if (!other_packet(w, b, i, key))
			continue;
		key->zone = outward ? 0 : NAT_INWARD;
		batch.pos[batch.n++] = (uint8_t)i;
	}
	if (outward)
		translate_all(w, b, &batch, true);
	else
		translate_all(w, b, &batch, false);
}
