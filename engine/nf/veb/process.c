/* SPDX-License-Identifier: Apache-2.0 */
#include "veb.h"

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_prefetch.h>

#include "nf/lib/copy.h"
#include "table/flow.h"

static inline bool within(struct veb_meter *meter, uint64_t now)
{
	return rte_meter_srtcm_color_blind_check(&meter->state, &meter->profile, now, 1) ==
	       RTE_COLOR_GREEN;
}

/* IEEE 802.1Q table 8-1: these a bridge never forwards. */
static inline bool is_reserved(const uint8_t *addr)
{
	static const uint8_t prefix[5] = {0x01, 0x80, 0xc2, 0, 0};

	return unlikely(addr[0] == 1) && !memcmp(addr, prefix, sizeof(prefix)) && addr[5] < 16;
}

static __rte_noinline uint8_t forward_within_limits(struct nf_worker *w, const struct veb_frame *f,
						    unsigned int to)
{
	struct veb_worker *vw = w->state;
	struct nic_frame frame = {.m = f->m, .dir = (uint8_t)f->dir};
	uint8_t verdict = veb_pass(w, &vw->out, to, &frame);

	if (verdict && verdict != NF_HOLD)
		return verdict;
	w->counters[C_FORWARDED]++;
	return verdict ? verdict : (uint8_t)to;
}

/* `limited` is the worker's; a constant where every frame comes by, so that nothing is left of it. */
static __rte_always_inline uint8_t forward(struct nf_worker *w, const struct veb_frame *f,
					   unsigned int to, const bool limited)
{
	if (limited)
		return forward_within_limits(w, f, to);
	w->counters[C_FORWARDED]++;
	return (uint8_t)to;
}

static bool sent_copy(struct nf_worker *w, struct rte_mbuf *copy, unsigned int to,
		      enum nf_direction dir)
{
	struct veb_worker *vw = w->state;
	struct nic_frame frame = {.m = copy, .dir = (uint8_t)dir, .created = true};
	uint8_t verdict = vw->limited ? veb_pass(w, &vw->out, to, &frame) : 0;

	return verdict == NF_HOLD || (!verdict && !nf_emit(w, copy, (uint8_t)to, dir));
}

static void send_copy(struct nf_worker *w, const struct veb_frame *f, unsigned int to)
{
	struct rte_mbuf *copy = nf_copy_packet(w, f->m, f->m->pkt_len);

	/* A frame that one mbuf cannot hold is lost rather than cut short. */
	if (!copy || copy->pkt_len < f->m->pkt_len || !sent_copy(w, copy, to, f->dir)) {
		rte_pktmbuf_free(copy);
		w->counters[C_COPIES_LOST]++;
		return;
	}
	w->counters[C_COPIES]++;
}

/* To all of the ports: the frame itself to one, copies to the others. */
static __rte_noinline uint8_t flood(struct nf_worker *w, const struct veb_frame *f, uint64_t ports)
{
	struct veb_worker *vw = w->state;
	uint8_t own = NF_DROP(DROP_FILTERED);

	if (!ports)
		return own;
	if (!within(&vw->flood, f->now))
		return NF_DROP(DROP_FLOOD_LIMIT);
	w->counters[C_FLOODED]++;
	for (; ports; ports &= ports - 1) {
		unsigned int to = (unsigned int)__builtin_ctzll(ports);

		if (own < NF_EDGES_MAX || own == NF_HOLD)
			send_copy(w, f, to);
		else
			own = forward(w, f, to, vw->limited);
	}
	return own;
}

/* IEEE 802.1Qbg: a VEPA sends all frames of its stations to the bridge outside... */
static __rte_noinline uint8_t vepa(struct nf_worker *w, const struct veb_frame *f, uint64_t src,
				   uint64_t dst, bool group)
{
	const struct veb_params *p = w->nf->conf;
	const struct veb_worker *vw = w->state;
	const struct veb *veb = vw->veb;
	const struct veb_port *port = &veb->ports[f->in];
	uint32_t now = flow_now(f->now);
	int to, from;

	if (!port->uplink)
		return forward(w, f, port->to_uplink, vw->limited);
	/* ... and takes those that it reflects, except what the station itself has sent. */
	from = macs_find(&veb->macs, src, now, NULL);
	to = group ? -1 : macs_find(&veb->macs, dst, now, NULL);
	if (to >= 0)
		return to == from || veb->ports[to].uplink ? NF_DROP(DROP_FILTERED)
							   : forward(w, f, (unsigned int)to, vw->limited);
	if (!group && p->unknown != UNKNOWN_FLOOD)
		return NF_DROP(DROP_UNKNOWN);
	return flood(w, f, port->flood & ~(from < 0 ? 0 : 1ull << from));
}

static __rte_always_inline uint8_t bridge(struct nf_worker *w, const struct veb_frame *f, uint64_t dst,
					  bool group, const bool limited)
{
	const struct veb_params *p = w->nf->conf;
	const struct veb *veb = ((struct veb_worker *)w->state)->veb;
	const struct veb_port *port = &veb->ports[f->in];
	int to = group ? -1 : macs_find(&veb->macs, dst, flow_now(f->now), NULL);

	if (likely(to >= 0)) {
		if (unlikely((to == f->in && !port->reflect) ||
			     (to != f->in && port->uplink && veb->ports[to].uplink)))
			return NF_DROP(DROP_FILTERED);
		return forward(w, f, (unsigned int)to, limited);
	}
	if (group || p->unknown == UNKNOWN_FLOOD)
		return flood(w, f, port->flood);
	if (p->unknown == UNKNOWN_DROP || port->uplink)
		return NF_DROP(DROP_UNKNOWN);
	return forward(w, f, port->to_uplink, limited);
}

/* 0, or the verdict on a frame that its source address forbids. */
static __rte_always_inline uint8_t take_source(struct nf_worker *w, const struct veb_frame *f, uint64_t src)
{
	const struct veb_params *p = w->nf->conf;
	struct veb *veb = ((struct veb_worker *)w->state)->veb;
	const struct veb_port *port = &veb->ports[f->in];
	bool reflected = p->mode == VEB_MODE_VEPA && port->uplink, is_static;

	if (unlikely(port->spoof_check) &&
	    (macs_find(&veb->macs, src, flow_now(f->now), &is_static) != f->in || !is_static))
		return NF_DROP(DROP_SPOOFED);
	if (!p->learning || reflected)
		return 0;
	switch (macs_learn(&veb->macs, src, f->in, flow_now(f->now))) {
	case MACS_KNOWN:
		break;
	case MACS_LEARNT:
		w->counters[C_LEARNT]++;
		break;
	case MACS_MOVED:
		w->counters[C_MOVED]++;
		break;
	case MACS_FULL:
		w->counters[C_TABLE_FULL]++;
		break;
	case MACS_STATIC_ELSEWHERE:
		return NF_DROP(DROP_SPOOFED);
	}
	return 0;
}

static __rte_always_inline uint8_t switch_frame(struct nf_worker *w, const struct veb_frame *f,
						 const bool limited)
{
	const struct veb_params *p = w->nf->conf;
	const uint8_t *eth = rte_pktmbuf_mtod(f->m, const uint8_t *);
	uint64_t src, dst;
	uint8_t verdict;
	bool group;

	group = eth[0] & 1;
	src = macs_key(eth + RTE_ETHER_ADDR_LEN);
	dst = macs_key(eth);
	if (unlikely((eth[RTE_ETHER_ADDR_LEN] & 1) || !src))
		return NF_DROP(DROP_BAD_SOURCE);
	verdict = take_source(w, f, src);
	if (unlikely(verdict))
		return verdict;
	if (unlikely(is_reserved(eth)))
		return NF_DROP(DROP_RESERVED);
	return p->mode == VEB_MODE_VEPA ? vepa(w, f, src, dst, group)
					 : bridge(w, f, dst, group, limited);
}

uint8_t veb_switch(struct nf_worker *w, const struct veb_frame *f)
{
	return switch_frame(w, f, true);
}

/* What a port's limits let in. */
static __rte_noinline uint8_t within_limits(struct nf_worker *w, const struct veb_frame *f)
{
	struct veb_worker *vw = w->state;
	struct nic_frame frame = {.m = f->m, .dir = (uint8_t)f->dir};
	uint8_t verdict = veb_pass(w, &vw->in, f->in, &frame);

	return verdict ? verdict : veb_switch(w, f);
}

static __rte_always_inline void switch_burst(struct nf_worker *w, struct burst *b, const bool limited)
{
	const struct veb *veb = ((struct veb_worker *)w->state)->veb;
	struct veb_frame f = {.now = b->now, .dir = (enum nf_direction)b->direction};

	for (unsigned int i = 0; i < b->n; i++) {
		if (likely(i + 2 < b->n))
			rte_prefetch0(rte_pktmbuf_mtod(b->pkts[i + 2], void *));
		f.m = b->pkts[i];
		f.in = nf_port(f.m);
		if (unlikely(f.m->data_len < RTE_ETHER_HDR_LEN))
			b->verdict[i] = NF_ABORT;
		else if (unlikely(f.in >= veb->n_ports))
			b->verdict[i] = NF_DROP(DROP_NO_PORT);
		else
			b->verdict[i] = limited ? within_limits(w, &f) : switch_frame(w, &f, false);
	}
}

void veb_process(struct nf_worker *w, struct burst *b)
{
	struct veb_worker *vw = w->state;

	if (likely(!vw->limited)) {
		switch_burst(w, b, false);
		return;
	}
	nic_clock_set(&vw->clock, rte_rdtsc()); /* b->now is read once in so many polls */
	switch_burst(w, b, true);
}
