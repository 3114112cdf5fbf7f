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
	struct trail_looks looks;
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
	flow_changed(nat->sessions, f);
	flow_changed(nat->sessions, peer);
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

/* The key of a packet that is TCP, UDP or an ICMP query, whose way is given. */
static bool packet_key(struct flow_key4 *key, const struct rte_mbuf *m, bool outward)
{
	uint8_t proto = tuple_proto(m);

	if (proto)
		tuple_key4(key, m, proto);
	else if (pkt_l4(m) != RTE_PTYPE_L4_ICMP ||
		 !nat_query_key(key, m, outward ? NF_FORWARD : NF_REVERSE))
		return false;
	key->zone = outward ? 0 : NAT_INWARD;
	return true;
}

static struct flow *find_or_begin(struct nf_worker *w, struct rte_mbuf *m,
				  const struct flow_key4 *key, bool outward, uint32_t now,
				  uint8_t *verdict)
{
	struct nat_worker *nat = w->state;
	struct flow *f = flow_find(nat->sessions, key);

	if (f)
		return f;
	return outward ? nat_new_outward(w, m, key, now, verdict)
		       : nat_new_inward(w, m, key, now, verdict);
}

/*
 * RFC 4787 REQ-9: for an outside endpoint of a host inside. The packet, by now as it would be seen
 * outside, comes in again, and leaves the other way round.
 */
static __rte_noinline uint8_t hairpin(struct nf_worker *w, struct rte_mbuf *m, uint32_t now)
{
	uint8_t verdict = NF_DROP(DROP_NO_MAPPING);
	struct flow_key4 key;
	struct flow *f;

	if (!packet_key(&key, m, false))
		return NF_DROP(DROP_UNSUPPORTED);
	f = find_or_begin(w, m, &key, false, now, &verdict);
	if (!f)
		return verdict;
	translate(w->state, m, f, key.proto, false, now);
	if (nf_release(w, m, 0, NF_REVERSE))
		return NF_DROP(DROP_HAIRPIN_FULL);
	w->counters[C_HAIRPINNED]++;
	return NF_HOLD;
}

/* What the other fragments of a datagram need of the first one. */
struct fragment_note {
	uint32_t addr, l3_delta;
	bool outward;
};
static_assert(sizeof(struct fragment_note) <= FRAGMENTS_NOTE_BYTES, "room for a note");

uint8_t nat_first_fragment(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir,
			   uint32_t now, void *note)
{
	struct fragment_note *n = note;
	uint8_t verdict = NF_DROP(DROP_NO_MAPPING);
	struct flow_key4 key;
	struct flow *f;

	n->outward = dir == NF_FORWARD;
	if (!packet_key(&key, m, n->outward))
		return NF_DROP(DROP_UNSUPPORTED);
	f = find_or_begin(w, m, &key, n->outward, now, &verdict);
	if (!f)
		return verdict;
	if (f->user & NAT_HAIRPIN)
		return NF_DROP(DROP_FRAGMENT);
	n->addr = nat_way(f)->addr;
	n->l3_delta = nat_way(f)->l3_delta;
	/* The checksum is that of the whole datagram, and changes as if it were there. */
	translate(w->state, m, f, key.proto, n->outward, now);
	return 0;
}

void nat_later_fragment(struct nf_worker *w, struct rte_mbuf *m, const void *note)
{
	const struct fragment_note *n = note;
	struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

	(void)w;
	ip->hdr_checksum = csum_add(ip->hdr_checksum, n->l3_delta);
	if (n->outward)
		ip->src_addr = n->addr;
	else
		ip->dst_addr = n->addr;
}

static __rte_always_inline void translate_all(struct nf_worker *w, struct burst *b,
					      struct batch *batch, bool outward)
{
	struct nat_worker *nat = w->state;
	uint32_t now = flow_now(b->now);
	unsigned int hits = 0;

	trail_find(&batch->looks, nat->sessions, batch->keys, false, batch->n);
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct flow_key4 *key = &batch->keys[i];
		struct rte_mbuf *m = b->pkts[batch->pos[i]];
		struct flow *f = batch->looks.flows[i];

		if (likely(f)) {
			hits++;
		} else {
			uint8_t *verdict = &b->verdict[batch->pos[i]];

			/* An earlier packet of this burst may have begun the session. */
			f = find_or_begin(w, m, key, outward, now, verdict);
			if (!f)
				continue;
		}
		translate(nat, m, f, key->proto, outward, now);
		trail_leave(b, m, nat->sessions, f);
		if (outward && unlikely(f->user & NAT_HAIRPIN))
			b->verdict[batch->pos[i]] = hairpin(w, m, now);
	}
	w->counters[C_HITS] += hits;
}

static void translate_now(struct nf_worker *w, struct burst *b, struct batch *batch, bool outward)
{
	if (outward)
		translate_all(w, b, batch, true);
	else
		translate_all(w, b, batch, false);
	batch->n = 0;
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
		struct nat_worker *nat = w->state;
		uint8_t verdict = fragments_take(&nat->fragments, w, m, b->direction,
						 flow_now(b->now));

		if (verdict)
			b->verdict[i] = verdict;
		return false;
	}
	if (pkt_l4(m) == RTE_PTYPE_L4_ICMP &&
	    ((const struct rte_ipv4_hdr *)pkt_l3_hdr(m))->next_proto_id == IPPROTO_ICMP) {
		if (nat_query_key(key, m, b->direction))
			return true;
		if (nat_is_icmp_error(((const struct rte_icmp_hdr *)pkt_l4_hdr(m))->icmp_type)) {
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
static inline bool concerns_us(const struct nat_worker *nat, const struct rte_mbuf *m, bool outward)
{
	const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);

	return outward ? nat_is_inside(nat->params, ip->src_addr)
		       : nat_is_outside(nat, ip->dst_addr);
}

void nat_process(struct nf_worker *w, struct burst *b)
{
	struct nat_worker *nat = w->state;
	bool outward = b->direction == NF_FORWARD;
	uint16_t zone = outward ? 0 : NAT_INWARD;
	struct batch batch;

	nat->statics = snapshot_read(&nat->shared->statics, w->index);
	batch.n = 0;
	trail_start(&batch.looks);
	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		struct flow_key4 *key = &batch.keys[batch.n];
		uint8_t proto = tuple_proto(m);

		if (unlikely(!pkt_is_ipv4(m))) {
			if (pkt_malformed(m))
				b->verdict[i] = NF_ABORT;
			continue;
		}
		if (unlikely(!concerns_us(nat, m, outward)))
			continue;
		if (likely(proto)) {
			tuple_key4_zone(key, m, proto, zone);
		} else {
			/* Sessions begin in the order of the packets that begin them. */
			if (pkt_l4(m) == RTE_PTYPE_L4_FRAG)
				translate_now(w, b, &batch, outward);
			if (!other_packet(w, b, i, key))
				continue;
			key->zone = zone;
		}
		trail_begin(&batch.looks, batch.n, nat->sessions, key, false, b, m);
		batch.pos[batch.n++] = (uint8_t)i;
	}
	translate_now(w, b, &batch, outward);
}
