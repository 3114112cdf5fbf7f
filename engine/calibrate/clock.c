/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: what reading costs, how fine it is, how far CPUs' clocks are apart, how late timers are. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <rte_common.h>
#include <rte_pause.h>

#include "calibrate.h"

#define READS 1000
#define PINGS 2000
#define SLEEPS 500
#define SLEEP_NS 100000
#define SPIN_S 0.5
#define GAPS_MAX 65536
#define GAP_NS 1000 /* a shorter one is no interruption */

static void read_cost(struct sample *cost, uint64_t *step)
{
	uint64_t start = rte_rdtsc_precise(), last = start;

	for (int i = 0; i < READS; i++) {
		uint64_t now = rte_rdtsc();

		if (now > last)
			*step = RTE_MIN(*step, now - last);
		last = now;
	}
	sample_add(cost, (double)(last - start) / READS);
}

struct ping {
	_Alignas(LINE) _Atomic uint64_t ball; /* odd: the partner's turn */
	uint64_t stamps[PINGS];
};

static void answer(void *arg)
{
	struct ping *p = arg;

	for (unsigned int i = 0; i < PINGS; i++) {
		while (atomic_load_explicit(&p->ball, memory_order_acquire) != 2 * i + 1)
			;
		p->stamps[i] = rte_rdtsc_precise();
		atomic_store_explicit(&p->ball, 2 * i + 2, memory_order_release);
	}
}

/* As NTP does it: of the ping that took least, with half of its time as the bound of the error. */
static json_t *skew_to(struct partner *p, unsigned int from, unsigned int to)
{
	static struct ping ping;
	uint64_t best = UINT64_MAX;
	double offset = 0;

	atomic_store(&ping.ball, 0);
	partner_begin(p, answer, &ping);
	for (unsigned int i = 0; i < PINGS; i++) {
		uint64_t sent = rte_rdtsc_precise(), back;

		atomic_store_explicit(&ping.ball, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&ping.ball, memory_order_acquire) != 2 * i + 2)
			;
		back = rte_rdtsc_precise();
		if (back - sent < best) {
			best = back - sent;
			offset = (double)(int64_t)(ping.stamps[i] - sent) - (double)best / 2;
		}
	}
	partner_wait(p);
	return json_pack("{s:i, s:i, s:f, s:f}", "from", (int)from, "to", (int)to, "offset", offset,
			 "bound", (double)best / 2);
}

static json_t *skews(const struct options *o, struct err *err)
{
	json_t *list = json_array();
	struct partner p;

	for (unsigned int i = 1; i < o->n_cpus; i++) {
		if (partner_start(&p, o->cpus[i], err)) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, skew_to(&p, o->cpus[0], o->cpus[i]));
		partner_stop(&p);
	}
	return list;
}

static json_t *quantiles(double *values, size_t n)
{
	values_sort(values, n);
	return json_pack("{s:I, s:f, s:f, s:f}", "count", (json_int_t)n, "p50", values_at(values, n, 0.5),
			 "p99", values_at(values, n, 0.99), "max", values_at(values, n, 1));
}

/* A poller's view: what takes the CPU away from it, though it never sleeps. */
static json_t *interruptions(void)
{
	double *gaps = malloc(GAPS_MAX * sizeof(*gaps)), lost = 0, hz = tsc_hz();
	uint64_t last = rte_rdtsc(), end = last + (uint64_t)(SPIN_S * hz), now;
	size_t n = 0;
	json_t *o;

	while (gaps && (now = rte_rdtsc()) < end) {
		double ns = (double)(now - last) / hz * 1e9;

		last = now;
		if (ns > GAP_NS && n < GAPS_MAX) {
			gaps[n++] = ns;
			lost += ns;
		}
	}
	o = quantiles(gaps, n);
	json_object_set_new(o, "per_s", json_real((double)n / SPIN_S));
	json_object_set_new(o, "share", json_real(lost / 1e9 / SPIN_S));
	free(gaps);
	return o;
}

static json_t *sleeps(void)
{
	static double late[SLEEPS];
	double hz = tsc_hz();

	for (unsigned int i = 0; i < SLEEPS; i++) {
		struct timespec wait = {.tv_nsec = SLEEP_NS};
		uint64_t start = rte_rdtsc();

		clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
		late[i] = (double)(rte_rdtsc() - start) / hz * 1e9 - SLEEP_NS;
	}
	return quantiles(late, SLEEPS);
}

json_t *measure_clock(const struct options *o, struct err *err)
{
	struct sample cost = {0};
	uint64_t step = UINT64_MAX;
	json_t *skew;

	if (pin_to(o->cpus[0], err))
		return NULL;
	for (unsigned int i = 0; i < ROUNDS_MAX; i++)
		read_cost(&cost, &step);
	skew = skews(o, err);
	if (!skew)
		return NULL;
	return json_pack("{s:f, s:o, s:I, s:o, s:o, s:o}", "tsc_hz", tsc_hz(), "read_cycles",
			 sample_json(&cost), "step_cycles", (json_int_t)step, "skew", skew,
			 "sleep_late_ns", sleeps(), "interruptions_ns", interruptions());
}
