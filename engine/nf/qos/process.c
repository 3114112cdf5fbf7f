/* SPDX-License-Identifier: Apache-2.0 */
#include "qos.h"

#include <rte_branch_prediction.h>

#include "core/pkt.h"
#include "nf/lib/rules/key.h"

/* Classify, meter, mark, shape: RFC 2475's traffic conditioner. */

static inline uint8_t traffic_class(const struct rte_mbuf *m, bool v6)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	return v6 ? (uint8_t)(l3[0] << 4 | l3[1] >> 4) : l3[1];
}

/*
 * The first class, in the order of the list, that names the DSCP or whose rules permit the
 * packet; each class with rules before that one costs a lookup.
 */
static __rte_noinline unsigned int classify_by_rules(const struct qos *qos, const struct rte_mbuf *m,
						     unsigned int by_dscp)
{
	for (unsigned int c = 0; c < qos->n_classes && c < by_dscp; c++)
		if (qos->classes[c].set &&
		    acl_key_match(qos->classes[c].set, m) == ACL_MATCH_PERMIT)
			return c;
	return by_dscp;
}

/* RFC 2474: six bits; the two of ECN (RFC 3168) stay as they are. */
static void mark4(struct rte_mbuf *m, uint8_t dscp)
{
	struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
	uint8_t tos = (uint8_t)(dscp << 2 | (ip->type_of_service & 3));
	uint16_t high = (uint16_t)(ip->version_ihl << 8);

	ip->hdr_checksum = csum_update16(ip->hdr_checksum,
					 rte_cpu_to_be_16((uint16_t)(high | ip->type_of_service)),
					 rte_cpu_to_be_16((uint16_t)(high | tos)));
	ip->type_of_service = tos;
}

static void mark6(struct rte_mbuf *m, uint8_t dscp)
{
	struct rte_ipv6_hdr *ip = pkt_l3_hdr(m);
	uint32_t vtc_flow = rte_be_to_cpu_32(ip->vtc_flow);

	ip->vtc_flow = rte_cpu_to_be_32((vtc_flow & ~0x0fc00000u) | (uint32_t)dscp << 22);
}

/* What the meters let pass waits in the shaper's queues. */
static __rte_noinline void shape(struct nf_worker *w, struct burst *b, const uint8_t *classes)
{
	static const struct qos_class none = {.tc = SHAPE_BEST_EFFORT};
	struct qos_worker *qw = w->state;
	struct shaper *s = qw->shapers[b->direction];
	struct rte_mbuf *pkts[BURST_MAX];
	unsigned int n = 0;

	for (unsigned int i = 0; i < b->n; i++) {
		const struct qos_class *c =
			classes[i] == QOS_NO_CLASS ? &none : &qw->qos->classes[classes[i]];

		if (b->verdict[i])
			continue;
		if (shape_admit(s, b->pkts[i], c->subport, c->tc, c->queue)) {
			pkts[n++] = b->pkts[i];
			b->verdict[i] = NF_HOLD;
		} else {
			b->verdict[i] = NF_DROP(DROP_QUEUE_FULL);
		}
	}
	if (n)
		shape_enqueue(s, pkts, n);
}

void qos_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct qos_worker *qw = w->state;

	qw->now = now_tsc;
	/* Also when nothing is held: rte_sched's clock must be read every few milliseconds. */
	qos_poll(w);
}

void qos_poll(struct nf_worker *w)
{
	struct qos_worker *qw = w->state;

	for (unsigned int d = 0; d < NF_DIRECTIONS; d++)
		if (qw->shapers[d])
			w->counters[C_SHAPED] +=
				shape_release(qw->shapers[d], w, (enum nf_direction)d);
}

/* Of each packet; QOS_NO_CLASS is counted where it is not for want of a packet. */
static void classify(struct nf_worker *w, struct burst *b, uint8_t *classes, uint8_t *dscps)
{
	const struct qos *qos = ((const struct qos_worker *)w->state)->qos;
	uint32_t unclassified = 0;

	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		bool v6 = pkt_is_ipv6(m);
		unsigned int class;

		classes[i] = QOS_NO_CLASS;
		if (unlikely(!v6 && !pkt_is_ipv4(m))) {
			if (pkt_malformed(m))
				b->verdict[i] = NF_ABORT;
			else
				unclassified++;
			continue;
		}
		dscps[i] = traffic_class(m, v6) >> 2;
		class = qos->by_dscp[dscps[i]];
		if (qos->rules)
			class = classify_by_rules(qos, m, class);
		unclassified += class == QOS_NO_CLASS;
		classes[i] = (uint8_t)class;
	}
	w->counters[C_UNCLASSIFIED] += unclassified;
}

/* One class' meter at a time: packets of one class that follow each other cost one locking. */
static inline void hold_meter(struct qos_worker *qw, unsigned int class, unsigned int *held)
{
	if (!qw->shares || class == *held)
		return;
	if (*held != QOS_NO_CLASS)
		rte_spinlock_unlock(&qw->meters[*held].lock);
	if (class != QOS_NO_CLASS)
		rte_spinlock_lock(&qw->meters[class].lock);
	*held = class;
}

static void mark(struct nf_worker *w, struct rte_mbuf *m, uint8_t dscp)
{
	w->counters[C_MARKED]++;
	if (pkt_is_ipv6(m))
		mark6(m, dscp);
	else
		mark4(m, dscp);
}

void qos_process(struct nf_worker *w, struct burst *b)
{
	struct qos_worker *qw = w->state;
	uint8_t classes[BURST_MAX], dscps[BURST_MAX];
	unsigned int held = QOS_NO_CLASS;
	uint32_t colors[RTE_COLORS] = {0};

	classify(w, b, classes, dscps);
	for (unsigned int i = 0; i < b->n; i++) {
		struct qos_class *c = &qw->qos->classes[classes[i]];
		struct rte_mbuf *m = b->pkts[i];
		enum rte_color color;

		if (unlikely(classes[i] == QOS_NO_CLASS))
			continue;
		hold_meter(qw, classes[i], &held);
		color = qos_meter(&qw->meters[classes[i]], c, b->now, m->pkt_len + qw->overhead);
		colors[color]++;
		b->verdict[i] = c->verdict[color];
		if (c->mark[color] != QOS_KEEP && c->mark[color] != dscps[i] && !c->verdict[color])
			mark(w, m, c->mark[color]);
	}
	hold_meter(qw, QOS_NO_CLASS, &held);
	if (qw->shapers[b->direction])
		shape(w, b, classes);
	w->counters[C_GREEN] += colors[RTE_COLOR_GREEN];
	w->counters[C_YELLOW] += colors[RTE_COLOR_YELLOW];
	w->counters[C_RED] += colors[RTE_COLOR_RED];
}
