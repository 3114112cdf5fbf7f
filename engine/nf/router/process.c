/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path: which VNF's interface a frame is for, the longest prefix in that VNF's table,
 * the frame rewritten and sent out; a hop into another VNF on the same port is taken at once. What
 * the data path has no answer to goes to the VNF itself (punted), as does all that is for it.
 */
#include "router.h"

#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_ether.h>

#include "core/pkt.h"
#include "nf/lib/copy.h"
#include "nf/lib/ip_forward.h"

#define ROUNDS_MAX 8 /* VNFs that one packet passes here, before it must be going in circles */

/* The packets of a burst that are to be looked up: where each came in, and by what. */
struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	uint16_t interface[BURST_MAX];
	uint32_t roots[BURST_MAX];
};

struct batches {
	struct batch ipv4, ipv6;
	uint32_t words[BURST_MAX]; /* destinations, in host order */
	const uint8_t *keys[BURST_MAX];
};

/* Its own share first, then what all have together. */
static bool may_punt(struct nf_worker *w, unsigned int interface)
{
	const struct router *r = w->nf->state;
	struct router_worker *rw = w->state;
	struct punt_tokens *own = &rw->punt_own[r->interfaces[interface].vnf], *t;

	t = own->have >= PUNT_PARTS ? own : &rw->punt_common;
	if (t->have < PUNT_PARTS)
		return false;
	t->have -= PUNT_PARTS;
	return true;
}

/* To the TAP of an interface: nf_port tells the link which. */
static uint8_t punt(struct nf_worker *w, struct rte_mbuf *m, unsigned int interface)
{
	if (!may_punt(w, interface))
		return NF_DROP(DROP_PUNT_LIMIT);
	w->counters[C_PUNTED]++;
	m->port = (uint16_t)interface;
	return EDGE_PUNT;
}

static void emit_copy(struct nf_worker *w, struct burst *b, const struct rte_mbuf *m, uint8_t edge,
		      unsigned int interface)
{
	struct rte_mbuf *copy;

	if (edge == EDGE_PUNT && !may_punt(w, interface))
		return;
	copy = nf_copy_packet(w, m, m->pkt_len);
	if (copy)
		copy->port = (uint16_t)interface;
	/* A frame that one mbuf cannot hold is lost rather than cut short. */
	if (!copy || copy->pkt_len < m->pkt_len ||
	    nf_emit(w, copy, edge, (enum nf_direction)b->direction)) {
		rte_pktmbuf_free(copy);
		w->counters[C_COPIES_LOST]++;
	}
}

/* Broadcast and multicast, ARP and ND among them: to every VNF on the port but the sender. */
static uint8_t flood(struct nf_worker *w, struct burst *b, struct rte_mbuf *m, unsigned int edge,
		     int sender)
{
	const struct router *r = w->nf->state;
	int last = -1;

	for (unsigned int i = 0; i < r->n_interfaces; i++) {
		if (r->interfaces[i].edge != edge || (int)i == sender)
			continue;
		if (last >= 0)
			emit_copy(w, b, m, EDGE_PUNT, (unsigned int)last);
		last = (int)i;
	}
	if (sender >= 0) { /* the wire has the frame itself */
		if (last >= 0)
			emit_copy(w, b, m, EDGE_PUNT, (unsigned int)last);
		return (uint8_t)edge;
	}
	return last >= 0 ? punt(w, m, (unsigned int)last) : NF_DROP(DROP_NO_VNF);
}

/*
 * A multicast or link-local destination is for who speaks on the link, not to be forwarded. By the
 * first octet for IPv4: 169.254/16 needs a second look (RFC 3927 section 7).
 */
enum { STAYS = 1, LOOK_AGAIN = 2 };
static const uint8_t first_octet[256] = {[169] = LOOK_AGAIN, [224 ... 239] = STAYS, [255] = STAYS};

static inline bool stays_on_link4(uint32_t dst)
{
	uint8_t known = first_octet[dst >> 24];

	return unlikely(known) && (known == STAYS || (dst >> 16 & 0xff) == 254);
}

static inline bool stays_on_link6(const uint8_t *dst)
{
	return dst[0] == 0xff || (dst[0] == 0xfe && (dst[1] & 0xc0) == 0x80);
}

static inline unsigned int batch_add(struct batch *batch, unsigned int pos, unsigned int interface,
				     uint32_t root)
{
	unsigned int n = batch->n++;

	batch->pos[n] = (uint8_t)pos;
	batch->interface[n] = (uint16_t)interface;
	batch->roots[n] = root;
	return n;
}

/* A constant length lets the common sum be unrolled. */
static inline bool checksum_ok(const struct rte_mbuf *m, const struct rte_ipv4_hdr *ip)
{
	if (likely(pkt_l3_len(m) == sizeof(*ip)))
		return ip_checksum_ok(ip, sizeof(*ip));
	return ip_checksum_ok(ip, pkt_l3_len(m));
}

/*
 * A frame for one VNF's interface: queued for its table, or a verdict at once. An expired TTL is
 * the VNF's to answer with ICMP time exceeded, from its own address.
 */
static __rte_always_inline uint8_t enter(struct nf_worker *w, const struct router *r,
					 struct rte_mbuf *m, unsigned int pos,
					 unsigned int interface, unsigned int vnf,
					 struct batches *to)
{
	if (likely(pkt_is_ipv4(m))) {
		const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
		uint32_t dst = rte_be_to_cpu_32(ip->dst_addr);

		if (r->verify_checksum && unlikely(!checksum_ok(m, ip)))
			return NF_DROP(DROP_BAD_CHECKSUM);
		if (unlikely(ip->time_to_live <= 1 || stays_on_link4(dst)))
			return punt(w, m, interface);
		to->words[batch_add(&to->ipv4, pos, interface, router_root(vnf, false))] = dst;
		return 0;
	}
	if (pkt_is_ipv6(m)) {
		const struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);

		if (unlikely(ip->hop_limits <= 1 || stays_on_link6(ipv6_dst(ip))))
			return punt(w, m, interface);
		to->keys[batch_add(&to->ipv6, pos, interface, router_root(vnf, true))] =
			ipv6_dst(ip);
		return 0;
	}
	return punt(w, m, interface);
}

static inline void rewrite(struct rte_mbuf *m, const struct router_hop *hop, bool ipv6)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	if (ipv6)
		((struct rte_ipv6_hdr *)pkt_l3_hdr(m))->hop_limits--;
	else
		ip_decrement_ttl(pkt_l3_hdr(m));
	memcpy(frame, &hop->macs_low, sizeof(hop->macs_low));
	memcpy(frame + sizeof(hop->macs_low), &hop->macs_high, sizeof(hop->macs_high));
}

static inline const struct router_hop *hop_at(const struct router *r, uint16_t number)
{
	return atomic_load_explicit(&r->hops[number], memory_order_acquire);
}

/* All but the common way, which is to a neighbour. HOP_LOCAL packets enter the next round. */
static uint8_t go_elsewhere(struct nf_worker *w, struct rte_mbuf *m, const struct router_hop *hop,
			    const struct batch *from, unsigned int i, struct batches *next)
{
	const struct router *r = w->nf->state;

	switch (hop->kind) {
	case HOP_LOCAL:
		rewrite(m, hop, pkt_is_ipv6(m));
		w->counters[C_SWITCHED]++;
		return enter(w, r, m, from->pos[i], hop->interface,
			     r->interfaces[hop->interface].vnf, next);
	case HOP_BLACKHOLE:
		return NF_DROP(DROP_BLACKHOLE);
	case HOP_NO_ROUTE:
		return NF_DROP(DROP_NO_ROUTE);
	default:
		return punt(w, m, from->interface[i]);
	}
}

/* What a looked up packet does. */
static __rte_always_inline uint8_t go(struct nf_worker *w, const struct router *r,
				      struct rte_mbuf *m, uint16_t number,
				      const struct batch *from, unsigned int i,
				      struct batches *next, bool ipv6, unsigned int *forwarded)
{
	const struct router_hop *hop = hop_at(r, number);

	if (unlikely(hop->kind == HOP_GROUP))
		hop = hop_at(r, hop->members[pkt_flow_hash(m) % ROUTER_MEMBERS_MAX]);
	if (unlikely(hop->kind != HOP_FORWARD))
		return go_elsewhere(w, m, hop, from, i, next);
	rewrite(m, hop, ipv6);
	*forwarded += 1;
	return hop->edge;
}

/* One family of a round, looked up. */
static __rte_always_inline void go_all(struct nf_worker *w, const struct router *r,
				       struct burst *b, const struct batch *from,
				       const uint16_t *numbers, struct batches *next, bool ipv6)
{
	unsigned int forwarded = 0;

	for (unsigned int i = 0; i < from->n; i++) {
		unsigned int pos = from->pos[i];

		b->verdict[pos] =
			go(w, r, b->pkts[pos], numbers[i], from, i, next, ipv6, &forwarded);
	}
	w->counters[C_FORWARDED] += forwarded;
}

static void look_up(struct nf_worker *w, struct burst *b, const struct batches *from,
		    struct batches *next)
{
	const struct router *r = w->nf->state;
	uint16_t numbers[BURST_MAX];

	if (likely(from->ipv4.n)) {
		mtrie_lookup4(r->trie, from->ipv4.roots, from->words, numbers, from->ipv4.n);
		go_all(w, r, b, &from->ipv4, numbers, next, false);
	}
	if (from->ipv6.n) {
		mtrie_lookup(r->trie, from->ipv6.roots, from->keys, 16, numbers, from->ipv6.n);
		go_all(w, r, b, &from->ipv6, numbers, next, true);
	}
}

static void in_circles(struct burst *b, const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++)
		b->verdict[batch->pos[i]] = NF_DROP(DROP_LOOP);
}

static void forward(struct nf_worker *w, struct burst *b, struct batches *batches)
{
	struct batches other, *from = batches, *next = &other;

	for (unsigned int round = 0; round < ROUNDS_MAX; round++) {
		struct batches *spent = from;

		next->ipv4.n = next->ipv6.n = 0;
		look_up(w, b, from, next);
		if (likely(!(next->ipv4.n + next->ipv6.n)))
			return;
		from = next;
		next = spent;
	}
	in_circles(b, &from->ipv4);
	in_circles(b, &from->ipv6);
}

/* From a wire. */
static __rte_always_inline uint8_t come_in(struct nf_worker *w, const struct router *r,
					   struct burst *b, unsigned int i, struct batches *to)
{
	struct rte_mbuf *m = b->pkts[i];
	const struct rte_ether_addr *dst = &pkt_eth(m)->dst_addr;
	const struct mac_slot *whose;
	unsigned int edge = nf_port(m);

	if (unlikely(edge >= ROUTER_PORTS))
		return NF_DROP(DROP_NO_PORT);
	if (unlikely(rte_is_multicast_ether_addr(dst)))
		return flood(w, b, m, edge, -1);
	whose = router_find_mac(r, router_frame_key(dst, edge));
	if (unlikely(!whose))
		return NF_DROP(DROP_NO_VNF);
	return enter(w, r, m, i, whose->interface, whose->vnf, to);
}

/* From a VNF: as the switch in a NIC would, to the wire or to the other VNFs on the port. */
static uint8_t go_out(struct nf_worker *w, const struct router *r, struct burst *b, unsigned int i,
		      struct batches *batches)
{
	struct rte_mbuf *m = b->pkts[i];
	const struct rte_ether_addr *dst = &pkt_eth(m)->dst_addr;
	const struct mac_slot *to;
	unsigned int from = nf_port(m);

	if (unlikely(from >= r->n_interfaces))
		return NF_DROP(DROP_NO_PORT);
	if (rte_is_multicast_ether_addr(dst))
		return flood(w, b, m, r->interfaces[from].edge, (int)from);
	to = router_find_mac(r, router_frame_key(dst, r->interfaces[from].edge));
	if (to)
		return enter(w, r, m, i, to->interface, to->vnf, batches);
	return r->interfaces[from].edge;
}

/* Malformed is also what is shorter than an Ethernet header. */
void router_process(struct nf_worker *w, struct burst *b)
{
	const struct router *r = w->nf->state;
	unsigned int n = b->n;
	struct batches batches;

	rcu_quiescent(&r->rcu, w->index);
	batches.ipv4.n = batches.ipv6.n = 0;
	if (b->direction == NF_FORWARD)
		for (unsigned int i = 0; i < n; i++)
			b->verdict[i] = likely(!pkt_malformed(b->pkts[i]))
						? come_in(w, r, b, i, &batches)
						: NF_ABORT;
	else
		for (unsigned int i = 0; i < n; i++)
			b->verdict[i] = likely(!pkt_malformed(b->pkts[i]))
						? go_out(w, r, b, i, &batches)
						: NF_ABORT;
	forward(w, b, &batches);
}
