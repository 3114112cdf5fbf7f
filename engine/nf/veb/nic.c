/* SPDX-License-Identifier: Apache-2.0 */
#include "nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_cycles.h>

void nic_clock_set(struct nic_clock *clock, uint64_t tsc)
{
	uint64_t passed;

	if ((int64_t)(tsc - clock->start) <= 0 || (tsc - clock->start) << 8 <= clock->now)
		return;
	passed = ((tsc - clock->start) << 8) - clock->now;
	clock->lag = RTE_MAX(passed, clock->lag > passed ? clock->lag - passed : 0);
	clock->now += passed;
}

void nic_limit_set(struct nic_limit *limit, double bps, uint64_t slack_bytes)
{
	memset(limit, 0, sizeof(*limit));
	limit->on = bps > 0;
	if (!limit->on)
		return;
	limit->per_byte = 8 / bps * (double)rte_get_tsc_hz() * 256;
	limit->slack = (uint64_t)((double)slack_bytes * limit->per_byte);
}

int nic_way_init(struct nic_way *way, unsigned int ports, uint32_t depth, struct err *err)
{
	memset(way, 0, sizeof(*way));
	way->depth = depth;
	for (unsigned int i = 0; i < ports; i++) {
		way->queues[i].frames = calloc(depth, sizeof(*way->queues[i].frames));
		if (!way->queues[i].frames)
			return err_set(err, ENOMEM, "params.queue_packets",
				       "no memory for queues of %u frames", depth);
	}
	return 0;
}

static inline uint32_t place(const struct nic_way *way, uint32_t at)
{
	return at < way->depth ? at : at - way->depth;
}

void nic_way_fini(struct nic_way *way)
{
	for (unsigned int i = 0; i < NIC_PORTS_MAX; i++) {
		struct nic_queue *q = &way->queues[i];

		for (; q->n; q->n--, q->head = place(way, q->head + 1))
			rte_pktmbuf_free(q->frames[q->head].m);
		free(q->frames);
		q->frames = NULL;
	}
}

static inline bool is_free(const struct nic_limit *limit, uint64_t now)
{
	return !limit->on || limit->until <= now;
}

/* A frame is begun with when it has come and the limit is free, also when this lcore was away then. */
static inline void take(struct nic_limit *limit, uint64_t seen, uint64_t lag, uint32_t bytes)
{
	if (!limit->on)
		return;
	lag = RTE_MIN(lag, RTE_MIN(limit->slack, seen));
	limit->until = RTE_MAX(limit->until, seen - lag) + (uint64_t)(bytes * limit->per_byte);
}

static inline void charge(struct nic_way *way, unsigned int port, uint64_t seen, uint64_t lag,
			  uint32_t bytes)
{
	take(&way->queues[port].own, seen, lag, bytes);
	if (way->queues[port].shares)
		take(&way->shared, seen, lag, bytes);
}

bool nic_way_pass(struct nic_way *way, unsigned int port, const struct nic_clock *clock,
		  uint32_t bytes)
{
	uint64_t now = clock->now;
	const struct nic_queue *q = &way->queues[port];

	if (q->n || !is_free(&q->own, now))
		return false;
	if (q->shares && (!is_free(&way->shared, now) || way->waiting & way->sharing))
		return false;
	charge(way, port, now, clock->lag, bytes);
	return true;
}

bool nic_way_wait(struct nic_way *way, unsigned int port, const struct nic_frame *frame)
{
	struct nic_queue *q = &way->queues[port];

	if (unlikely(q->n == way->depth))
		return false;
	q->frames[place(way, q->head + q->n++)] = *frame;
	way->waiting |= 1ull << port;
	return true;
}

/* Whether the limits let this port's first frame go, its turn apart. */
static inline bool may_go(const struct nic_way *way, const struct nic_queue *q, uint64_t now)
{
	if (q->frames[q->head].paid)
		return true;
	return is_free(&q->own, now) && (!q->shares || is_free(&way->shared, now));
}

/* Deficit round robin: each port in turn, a quantum of bytes at a time. */
int nic_way_next(struct nic_way *way, uint64_t now)
{
	uint64_t may = 0;

	for (uint64_t left = way->waiting; left; left &= left - 1) {
		unsigned int port = (unsigned int)__builtin_ctzll(left);

		if (may_go(way, &way->queues[port], now))
			may |= 1ull << port;
	}
	while (may) {
		struct nic_queue *q = &way->queues[way->turn];
		const struct nic_frame *first = q->n ? &q->frames[q->head] : NULL;

		if (may >> way->turn & 1) {
			if (!q->shares || first->paid || q->deficit >= first->bytes)
				return (int)way->turn;
			q->deficit += NIC_QUANTUM;
			if (q->deficit >= first->bytes)
				return (int)way->turn;
		}
		way->turn = (way->turn + 1) % NIC_PORTS_MAX;
	}
	return -1;
}

struct nic_frame nic_way_take(struct nic_way *way, unsigned int port)
{
	struct nic_queue *q = &way->queues[port];
	struct nic_frame frame = q->frames[q->head];

	q->head = place(way, q->head + 1);
	if (!--q->n)
		way->waiting &= ~(1ull << port);
	if (!frame.paid) {
		charge(way, port, frame.since, 0, frame.bytes);
		if (q->shares)
			q->deficit -= RTE_MIN(q->deficit, frame.bytes);
	}
	/* The turn ends with what it had bytes for: who waits next goes first. */
	if (!q->n || q->deficit < q->frames[q->head].bytes) {
		if (!q->n)
			q->deficit = 0;
		way->turn = (port + 1) % NIC_PORTS_MAX;
	}
	return frame;
}

void nic_way_put_back(struct nic_way *way, unsigned int port, const struct nic_frame *frame)
{
	struct nic_queue *q = &way->queues[port];

	q->head = place(way, q->head + way->depth - 1);
	q->frames[q->head] = *frame;
	q->frames[q->head].paid = true;
	q->n++;
	way->waiting |= 1ull << port;
}

bool nic_way_own(const struct nic_way *way, unsigned int port)
{
	const struct nic_queue *q = &way->queues[port];

	return q->own.on && (!q->shares || !way->shared.on || q->own.until >= way->shared.until);
}
