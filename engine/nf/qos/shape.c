/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "core/pkt.h"

/* The last 32 bits of an address: neighbours get pipes of their own. */
static uint32_t address_tail(const struct rte_mbuf *m, bool src)
{
	const uint8_t *l3 = pkt_l3_hdr(m);
	uint32_t tail;

	if (pkt_is_ipv4(m))
		memcpy(&tail, l3 + (src ? 12 : 16), sizeof(tail));
	else if (pkt_is_ipv6(m))
		memcpy(&tail, l3 + (src ? 20 : 36), sizeof(tail));
	else
		return 0;
	return rte_be_to_cpu_32(tail);
}

static uint32_t pipe_of(const struct shaper *s, const struct rte_mbuf *m, unsigned int subport)
{
	switch (s->pipe_by) {
	case PIPE_BY_SRC:
		return address_tail(m, true) & s->pipes[subport];
	case PIPE_BY_DST:
		return address_tail(m, false) & s->pipes[subport];
	case PIPE_BY_FLOW:
		return pkt_flow_hash(m) >> 8 & s->pipes[subport]; /* bit 0 is always set */
	}
	return 0;
}

/*
 * rte_sched would free what a full queue does not take; only the engine frees, and counts by reason.
 * So the queues' lengths are kept here, and it is never given too much.
 */
bool shape_admit(struct shaper *s, struct rte_mbuf *m, unsigned int subport, unsigned int tc,
		 unsigned int queue)
{
	uint16_t *queued;

	rte_sched_port_pkt_write(s->port, m, subport, pipe_of(s, m, subport), tc, queue,
				 RTE_COLOR_GREEN);
	queued = &s->queued[rte_mbuf_sched_queue_get(m)];
	if (unlikely(*queued + 1 >= s->queue_packets[tc] || m->pkt_len + s->overhead > s->frame_max))
		return false;
	++*queued;
	return true;
}

void shape_enqueue(struct shaper *s, struct rte_mbuf **pkts, unsigned int n)
{
	rte_sched_port_enqueue(s->port, pkts, n);
}

/*
 * rte_sched limits subports and pipes, but not their sum: it counts on a NIC that takes no more than
 * its line does. This is the line.
 */
static bool line_is_free(struct shaper *s)
{
	uint64_t now;

	if (!s->has_line)
		return true;
	now = rte_rdtsc();

	s->credit += (double)(now - s->credit_at) * s->bytes_per_cycle;
	s->credit_at = now;
	if (s->credit > s->burst)
		s->credit = s->burst;
	return s->credit > 0;
}

/* What was dequeued and found no room on its way comes first. */
static unsigned int send_ready(struct shaper *s, struct nf_worker *w, enum nf_direction dir)
{
	unsigned int sent = 0;

	while (sent < s->n_ready && !nf_release(w, s->ready[sent], 0, dir))
		sent++;
	s->n_ready -= (uint16_t)sent;
	memmove(s->ready, s->ready + sent, s->n_ready * sizeof(s->ready[0]));
	return sent;
}

static unsigned int dequeue(struct shaper *s)
{
	int n = rte_sched_port_dequeue(s->port, s->ready, s->has_line ? 1 : SHAPE_BATCH);

	for (int i = 0; i < n; i++) {
		s->queued[rte_mbuf_sched_queue_get(s->ready[i])]--;
		s->credit -= s->ready[i]->pkt_len + s->overhead;
	}
	s->n_ready = (uint16_t)n;
	return (unsigned int)n;
}

unsigned int shape_release(struct shaper *s, struct nf_worker *w, enum nf_direction dir)
{
	unsigned int sent = send_ready(s, w, dir);

	while (!s->n_ready && line_is_free(s) && dequeue(s))
		sent += send_ready(s, w, dir);
	return sent;
}
