/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * When packets are due. Times are TSC cycles since start in 48.16 fixed point. After a stall the
 * backlog is sent at 8/7 of the rate and not at once: the chain must not be charged with drops that
 * only a generator's burst could cause.
 */
#define PACE_FRACTION 16
#define PACE_CREDIT 64 /* packets that may go back to back */

struct pace {
	uint64_t start_tsc, deadline; /* deadline: cycles since start */
	uint64_t next, interval;      /* the schedule; interval 0: as fast as possible */
	uint64_t soft_next, soft_interval;
	double per_interval, per_soft; /* reciprocals */
	uint64_t left;                 /* packets still to be sent */
	uint64_t behind_max;           /* cycles */
};

static inline void pace_set_interval(struct pace *p, double cycles)
{
	p->interval = cycles * (1 << PACE_FRACTION);
	p->soft_interval = p->interval - p->interval / 8;
	p->per_interval = p->interval ? 1.0 / p->interval : 0;
	p->per_soft = p->soft_interval ? 1.0 / p->soft_interval : 0;
}

/*
 * Another interval from `t` (elapsed, fixed point) on. What is owed by then stays due, and what is not due
 * yet comes so much of an interval later: a rate that is set again and again makes no other count.
 */
static inline void pace_change(struct pace *p, uint64_t t, double cycles)
{
	double owed = (double)(int64_t)(t - p->next) * p->per_interval, back;

	pace_set_interval(p, cycles);
	back = owed * (double)p->interval;
	p->next = back < (double)t ? (uint64_t)((double)t - back) : 0;
	p->soft_next = owed > 0 ? t : p->next;
}

/* How many of at most n packets to send at `now`; *intended is set to the first one's due time. */
static inline uint16_t pace_due(struct pace *p, uint64_t now, uint16_t n, uint64_t *intended)
{
	int64_t rel = now - p->start_tsc;
	uint64_t t, due, soft, credit;

	if (rel < 0)
		return 0;
	if (!p->interval) {
		*intended = now;
		due = p->left < n ? p->left : n;
		p->left -= due;
		return due;
	}
	t = (uint64_t)rel << PACE_FRACTION;
	if (t < p->next)
		return 0;
	due = (uint64_t)((double)(t - p->next) * p->per_interval) + 1;
	credit = PACE_CREDIT * p->soft_interval;
	if (p->soft_next + credit < t)
		p->soft_next = t - credit;
	soft = t < p->soft_next ? 0 : (uint64_t)((double)(t - p->soft_next) * p->per_soft) + 1;
	due = due < soft ? due : soft;
	due = due < n ? due : n;
	due = due < p->left ? due : p->left;
	if (!due)
		return 0;
	*intended = p->start_tsc + (p->next >> PACE_FRACTION);
	if (now - *intended > p->behind_max)
		p->behind_max = now - *intended;
	p->next += due * p->interval;
	p->soft_next += due * p->soft_interval;
	p->left -= due;
	return due;
}
