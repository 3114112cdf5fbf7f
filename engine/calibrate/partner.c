/* SPDX-License-Identifier: Apache-2.0 */
/* Threads on chosen CPUs, and figures from rounds. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_common.h>
#include <rte_pause.h>

#include "calibrate.h"

int pin_to(unsigned int cpu, struct err *err)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (!sched_setaffinity(0, sizeof(set), &set))
		return 0;
	return err_set(err, errno, "--cpus", "CPU %u: %s", cpu, strerror(errno));
}

static void *partner_main(void *arg)
{
	struct partner *p = arg;
	unsigned int seen = 0;

	for (;;) {
		while (atomic_load_explicit(&p->asked, memory_order_acquire) == seen)
			rte_pause();
		seen++;
		if (!p->job)
			return NULL;
		p->job(p->arg);
		atomic_store_explicit(&p->done, seen, memory_order_release);
	}
}

/*
 * It begins on its CPU: on this thread's, which waits for it by looking, it would never run where both
 * are real-time tasks.
 */
int partner_start(struct partner *p, unsigned int cpu, struct err *err)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int rc;

	memset(p, 0, sizeof(*p));
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	rc = pthread_attr_init(&attr);
	if (rc)
		return err_set(err, rc, "", "no thread: %s", strerror(rc));
	rc = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	if (!rc)
		rc = pthread_create(&p->thread, &attr, partner_main, p);
	pthread_attr_destroy(&attr);
	return rc ? err_set(err, rc, "--cpus", "CPU %u: no thread: %s", cpu, strerror(rc)) : 0;
}

void partner_begin(struct partner *p, void (*job)(void *arg), void *arg)
{
	p->job = job;
	p->arg = arg;
	atomic_fetch_add_explicit(&p->asked, 1, memory_order_release);
}

void partner_wait(struct partner *p)
{
	unsigned int asked = atomic_load(&p->asked);

	while (atomic_load_explicit(&p->done, memory_order_acquire) != asked)
		rte_pause();
}

void partner_stop(struct partner *p)
{
	partner_begin(p, NULL, NULL);
	pthread_join(p->thread, NULL);
}

void sample_add(struct sample *s, double value)
{
	if (s->n < ROUNDS_MAX)
		s->values[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void values_sort(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
}

double values_at(const double *sorted, size_t n, double share)
{
	return n ? sorted[(size_t)(share * (double)(n - 1) + 0.5)] : 0;
}

double sample_median(const struct sample *s)
{
	struct sample sorted = *s;

	values_sort(sorted.values, sorted.n);
	return values_at(sorted.values, sorted.n, 0.5);
}

json_t *sample_json(const struct sample *s)
{
	struct sample sorted = *s;

	values_sort(sorted.values, sorted.n);
	return json_pack("{s:f, s:f, s:f}", "median", values_at(sorted.values, sorted.n, 0.5), "min",
			 values_at(sorted.values, sorted.n, 0), "max",
			 values_at(sorted.values, sorted.n, 1));
}

/* Against the kernel's clock, as there is no EAL to ask. */
double tsc_hz(void)
{
	static double hz;
	struct timespec a, b, wait = {.tv_nsec = 100000000};
	uint64_t begin, end;

	if (hz > 0)
		return hz;
	clock_gettime(CLOCK_MONOTONIC_RAW, &a);
	begin = rte_rdtsc_precise();
	nanosleep(&wait, NULL);
	clock_gettime(CLOCK_MONOTONIC_RAW, &b);
	end = rte_rdtsc_precise();
	hz = (double)(end - begin) / ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9);
	return hz;
}
