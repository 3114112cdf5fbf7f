/* SPDX-License-Identifier: Apache-2.0 */
#include "veb.h"

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_cycles.h>

/* Where frames wait for the NIC's limits, what becomes of them, and what is counted of it. */

bool veb_has_limits(const struct veb_params *p)
{
	bool any = p->capacity_bps;

	for (unsigned int i = 0; i < p->ports.count; i++)
		any |= veb_port_at(p, i)->rate_bps || veb_port_at(p, i)->in_rate_bps;
	return any;
}

int veb_limits_start(struct veb_worker *vw, const struct veb_params *p, const struct nf_worker *w,
		     struct err *err)
{
	double share = 1.0 / (w->count ? w->count : 1);
	unsigned int ports = (unsigned int)p->ports.count;
	struct nic_way *ways[] = {&vw->in, &vw->out};

	vw->clock.start = rte_rdtsc();
	vw->ns_per_time = 1e9 / 256 / (double)rte_get_tsc_hz();
	for (unsigned int i = 0; i < RTE_DIM(ways); i++) {
		int rc = nic_way_init(ways[i], ports, (uint32_t)p->queue_packets, err);

		if (rc)
			return rc;
		nic_limit_set(&ways[i]->shared, (double)p->capacity_bps * share, p->burst_bytes);
	}
	for (unsigned int i = 0; i < ports; i++) {
		const struct veb_port_params *port = veb_port_at(p, i);

		nic_limit_set(&vw->in.queues[i].own, (double)port->in_rate_bps * share, p->burst_bytes);
		nic_limit_set(&vw->out.queues[i].own, (double)port->rate_bps * share, p->burst_bytes);
		if (!p->capacity_bps || port->uplink)
			continue;
		for (unsigned int j = 0; j < RTE_DIM(ways); j++) {
			ways[j]->queues[i].shares = true;
			ways[j]->sharing |= 1ull << i;
		}
	}
	return 0;
}

void veb_limits_stop(struct veb_worker *vw)
{
	if (!vw->limited)
		return;
	nic_way_fini(&vw->in);
	nic_way_fini(&vw->out);
}

/* What a frame that found a port's queue full is lost to: the limit that the others wait for. */
static uint8_t full(const struct veb_worker *vw, const struct nic_way *way, unsigned int port)
{
	bool in = way == &vw->in;

	if (nic_way_own(way, port)) {
		if (vw->veb->ports[port].uplink)
			return NF_DROP(in ? DROP_UPLINK_IN : DROP_UPLINK_OUT);
		return NF_DROP(in ? DROP_RATE_IN : DROP_RATE);
	}
	return NF_DROP(way->queues[port].shares ? DROP_CAPACITY : DROP_QUEUE_FULL);
}

static inline void count_bytes(struct nf_worker *w, const struct nic_way *way, unsigned int port,
			       uint32_t bytes)
{
	struct veb_worker *vw = w->state;
	bool in = way == &vw->in;

	if (vw->veb->ports[port].uplink)
		w->counters[in ? C_UPLINK_IN_BYTES : C_UPLINK_OUT_BYTES] += bytes;
	else
		w->counters[in ? C_FROM_HOST_BYTES : C_TO_HOST_BYTES] += bytes;
}

uint8_t veb_pass(struct nf_worker *w, struct nic_way *way, unsigned int port,
		 struct nic_frame *frame)
{
	struct veb_worker *vw = w->state;

	frame->since = vw->clock.now;
	frame->bytes = frame->m->pkt_len + vw->overhead;
	if (likely(nic_way_pass(way, port, &vw->clock, frame->bytes))) {
		count_bytes(w, way, port, frame->bytes);
		return 0;
	}
	return nic_way_wait(way, port, frame) ? NF_HOLD : full(vw, way, port);
}

static void count_wait(struct nf_worker *w, const struct nic_frame *frame)
{
	struct veb_worker *vw = w->state;

	w->counters[C_WAITED]++;
	w->counters[C_WAITED_NS] += (uint64_t)((double)(vw->clock.now - frame->since) * vw->ns_per_time);
}

/* Out of the NIC; false: there is no room for it now. */
static bool leave(struct nf_worker *w, unsigned int port)
{
	struct veb_worker *vw = w->state;
	struct nic_frame frame = nic_way_take(&vw->out, port);
	enum nf_direction dir = (enum nf_direction)frame.dir;
	uint8_t edge = (uint8_t)port;

	if (!frame.paid)
		count_bytes(w, &vw->out, port, frame.bytes);
	if (frame.created ? nf_emit(w, frame.m, edge, dir) : nf_release(w, frame.m, edge, dir)) {
		nic_way_put_back(&vw->out, port, &frame);
		return false;
	}
	count_wait(w, &frame);
	return true;
}

/* What has waited to come in is switched now. */
static void enter(struct nf_worker *w, unsigned int port, uint64_t now_tsc)
{
	struct veb_worker *vw = w->state;
	struct nic_frame frame = nic_way_take(&vw->in, port);
	struct veb_frame f = {.m = frame.m, .now = now_tsc, .in = (uint16_t)port,
			  .dir = (enum nf_direction)frame.dir};
	uint8_t verdict = veb_switch(w, &f);

	count_bytes(w, &vw->in, port, frame.bytes);
	count_wait(w, &frame);
	if (verdict == NF_HOLD)
		return;
	if (verdict < NF_EDGES_MAX && !nf_release(w, f.m, verdict, f.dir))
		return;
	frame.paid = true; /* limits have taken it; there was no room to leave */
	if (verdict < NF_EDGES_MAX && nic_way_wait(&vw->out, verdict, &frame))
		return;
	nf_drop_held(w, f.m, verdict < NF_EDGES_MAX ? (unsigned int)DROP_QUEUE_FULL
						    : (unsigned int)verdict - NF_DROP(0));
}

void veb_serve(struct nf_worker *w, uint64_t now_tsc)
{
	struct veb_worker *vw = w->state;
	int port;

	if (!vw->limited)
		return;
	nic_clock_set(&vw->clock, now_tsc);
	while ((port = nic_way_next(&vw->out, vw->clock.now)) >= 0)
		if (!leave(w, (unsigned int)port))
			return;
	while ((port = nic_way_next(&vw->in, vw->clock.now)) >= 0)
		enter(w, (unsigned int)port, now_tsc);
}

void veb_poll(struct nf_worker *w)
{
	veb_serve(w, rte_rdtsc());
}
