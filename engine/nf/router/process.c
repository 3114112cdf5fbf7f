/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path: which VNF's interface a frame is for, the longest prefix in that VNF's table,
 * the frame rewritten and sent out; a hop into another VNF on the same port is taken at once. What
 * the data path has no answer to goes to the VNF itself (punted), as does all that is for it.
 */
#include "router.h"

#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ether.h>

#include "core/pkt.h"
#include "nf/copy.h"
#include "nf/ip_forward.h"

#define ROUNDS_MAX 8 /* VNFs that one packet passes here, before it must be going in circles */

/* The packets of a burst that are to be looked up: where each came in, and by what. */
struct batch {
	unsigned int n;
	uint8_t pos[BURST_MAX];
	uint16_t interface[BURST_MAX];
	uint32_t roots[BURST_MAX];
	const uint8_t *keys[BURST_MAX];
};

static bool may_punt(struct nf_worker *w)
{
	struct router_worker *rw = w->state;

	if (rw->punt_tokens <= 0)
		return false;
	rw->punt_tokens--;
	return true;
}

/* To the TAP of an interface: nf_port tells the link which. */
static uint8_t punt(struct nf_worker *w, struct rte_mbuf *m, unsigned int interface)
{
	if (!may_punt(w))
		return NF_DROP(DROP_PUNT_LIMIT);
	w->counters[C_PUNTED]++;
	m->port = (uint16_t)interface;
	return EDGE_PUNT;
}

static void emit_copy(struct nf_worker *w, struct burst *b, const struct rte_mbuf *m, uint8_t edge,
		      unsigned int interface)
{
	struct rte_mbuf *copy;

	if (edge == EDGE_PUNT && !may_punt(w))
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

static inline bool stays_on_link4(const uint8_t *dst)
{
	uint8_t known = first_octet[dst[0]];

	return unlikely(known) && (known == STAYS || dst[1] == 254);
}

static inline bool stays_on_link6(const uint8_t *dst)
{
	return dst[0] == 0xff || (dst[0] == 0xfe && (dst[1] & 0xc0) == 0x80);
}

static inline void batch_add(struct batch *batch, unsigned int pos, unsigned int interface,
			     uint32_t root, const uint8_t *key)
{
	batch->pos[batch->n] = (uint8_t)pos;
	batch->interface[batch->n] = (uint16_t)interface;
	batch->roots[batch->n] = root;
	batch->keys[batch->n++] = key;
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
static inline uint8_t enter(struct nf_worker *w, struct rte_mbuf *m, unsigned int pos,
			    unsigned int interface, unsigned int vnf, struct batch batches[2])
{
	const struct router *r = w->nf->state;

	if (likely(pkt_is_ipv4(m))) {
		const struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
		const uint8_t *dst = (const uint8_t *)&ip->dst_addr;

		if (r->verify_checksum && unlikely(!checksum_ok(m, ip)))
			return NF_DROP(DROP_BAD_CHECKSUM);
		if (unlikely(ip->time_to_live <= 1 || stays_on_link4(dst)))
			return punt(w, m, interface);
		batch_add(&batches[0], pos, interface, router_root(vnf, false), dst);
		return 0;
	}
	if (pkt_is_ipv6(m)) {
		const struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);

		if (unlikely(ip->hop_limits <= 1 || stays_on_link6(ip->dst_addr)))
			return punt(w, m, interface);
		batch_add(&batches[1], pos, interface, router_root(vnf, true), ip->dst_addr);
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
			    const struct batch *from, unsigned int i, struct batch next[2])
{
	const struct router *r = w->nf->state;

	switch (hop->kind) {
	case HOP_LOCAL:
		rewrite(m, hop, pkt_is_ipv6(m));
		w->counters[C_SWITCHED]++;
		return enter(w, m, from->pos[i], hop->interface, r->interfaces[hop->interface].vnf, next);
	case HOP_BLACKHOLE:
		return NF_DROP(DROP_BLACKHOLE);
	default:
		return punt(w, m, from->interface[i]);
	}
}

/* What a looked up packet does. */
static inline uint8_t go(struct nf_worker *w, struct rte_mbuf *m, const struct router_hop *hop,
			 const struct batch *from, unsigned int i, struct batch next[2], bool ipv6,
			 unsigned int *forwarded)
{
	if (unlikely(!hop))
		return NF_DROP(DROP_NO_ROUTE);
	if (unlikely(hop->kind == HOP_GROUP))
		hop = hop_at(w->nf->state, hop->members[pkt_flow_hash(m) % ROUTER_MEMBERS_MAX]);
	if (unlikely(hop->kind != HOP_FORWARD))
		return go_elsewhere(w, m, hop, from, i, next);
	rewrite(m, hop, ipv6);
	*forwarded += 1;
	return hop->edge;
}

/* One family of a round. The hop of NO_HOP is NULL for ever. */
static __rte_always_inline void look_up(struct nf_worker *w, struct burst *b,
					const struct batch *from, struct batch next[2], bool ipv6)
{
	const struct router *r = w->nf->state;
	const struct router_hop *hops[BURST_MAX];
	unsigned int n = from->n, forwarded = 0;
	uint16_t numbers[BURST_MAX];

	mtrie_lookup(r->trie, from->roots, from->keys, ipv6 ? 16 : 4, numbers, n);
	for (unsigned int i = 0; i < n; i++) {
		hops[i] = hop_at(r, numbers[i]);
		rte_prefetch0(hops[i]);
	}
	for (unsigned int i = 0; i < n; i++) {
		unsigned int pos = from->pos[i];

		b->verdict[pos] = go(w, b->pkts[pos], hops[i], from, i, next, ipv6, &forwarded);
	}
	w->counters[C_FORWARDED] += forwarded;
}

static void in_circles(struct burst *b, const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++)
		b->verdict[batch->pos[i]] = NF_DROP(DROP_LOOP);
}

static void forward(struct nf_worker *w, struct burst *b, struct batch batches[2])
{
	struct batch next[2];

	for (unsigned int round = 0; round < ROUNDS_MAX; round++) {
		next[0].n = next[1].n = 0;
		if (likely(batches[0].n))
			look_up(w, b, &batches[0], next, false);
		if (batches[1].n)
			look_up(w, b, &batches[1], next, true);
		if (likely(!(next[0].n + next[1].n)))
			return;
		memcpy(batches, next, sizeof(next));
	}
	in_circles(b, &batches[0]);
	in_circles(b, &batches[1]);
}

/* From a wire. */
static inline uint8_t come_in(struct nf_worker *w, struct burst *b, unsigned int i,
			      struct batch batches[2])
{
	const struct router *r = w->nf->state;
	struct rte_mbuf *m = b->pkts[i];
	const struct rte_ether_addr *dst = &pkt_eth(m)->dst_addr;
	const struct mac_slot *whose;
	unsigned int edge = nf_port(m);

	if (unlikely(edge >= ROUTER_PORTS))
		return NF_DROP(DROP_NO_PORT);
	if (unlikely(rte_is_multicast_ether_addr(dst)))
		return flood(w, b, m, edge, -1);
	whose = router_find_mac(r, router_mac_key(dst->addr_bytes, edge));
	if (unlikely(!whose))
		return NF_DROP(DROP_NO_VNF);
	return enter(w, m, i, whose->interface, whose->vnf, batches);
}

/* From a VNF: as the switch in a NIC would, to the wire or to the other VNFs on the port. */
static uint8_t go_out(struct nf_worker *w, struct burst *b, unsigned int i, struct batch batches[2])
{
	const struct router *r = w->nf->state;
	struct rte_mbuf *m = b->pkts[i];
	const struct rte_ether_addr *dst = &pkt_eth(m)->dst_addr;
	const struct mac_slot *to;
	unsigned int from = nf_port(m);

	if (unlikely(from >= r->n_interfaces))
		return NF_DROP(DROP_NO_PORT);
	if (rte_is_multicast_ether_addr(dst))
		return flood(w, b, m, r->interfaces[from].edge, (int)from);
	to = router_find_mac(r, router_mac_key(dst->addr_bytes, r->interfaces[from].edge));
	if (to)
		return enter(w, m, i, to->interface, to->vnf, batches);
	return r->interfaces[from].edge;
}

void router_process(struct nf_worker *w, struct burst *b)
{
	const struct router *r = w->nf->state;
	struct batch batches[2];

	rte_rcu_qsbr_quiescent(r->readers, w->index);
	batches[0].n = batches[1].n = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		if (unlikely(pkt_malformed(b->pkts[i]) || b->pkts[i]->data_len < RTE_ETHER_HDR_LEN))
			b->verdict[i] = NF_ABORT;
		else if (b->direction == NF_FORWARD)
			b->verdict[i] = come_in(w, b, i, batches);
		else
			b->verdict[i] = go_out(w, b, i, batches);
	}
	forward(w, b, batches);
}
