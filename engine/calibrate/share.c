/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler costs when two pollers share a core: neither ever sleeps, so each waits for
 * whole time slices of the other (Ben Hamed et al.'s oversubscription in its smallest form).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_common.h>

#include "calibrate.h"

#define SHARE_S 0.4
#define WAITS_MAX 16384
#define WAIT_NS 20000 /* longer than any interrupt of an idle machine */

struct poller {
	unsigned int cpu;
	uint64_t until, turns, switches;
	size_t n_waits;
	double waits_ns[WAITS_MAX];
};

static void *poll_alone(void *arg)
{
	struct poller *p = arg;
	double hz = tsc_hz();
	uint64_t last, now;
	struct rusage before, after;
	struct err err;

	if (pin_to(p->cpu, &err))
		return NULL;
	getrusage(RUSAGE_THREAD, &before);
	last = rte_rdtsc();
	while ((now = rte_rdtsc()) < p->until) {
		double ns = (double)(now - last) / hz * 1e9;

		last = now;
		p->turns++;
		if (ns > WAIT_NS && p->n_waits < WAITS_MAX)
			p->waits_ns[p->n_waits++] = ns;
	}
	getrusage(RUSAGE_THREAD, &after);
	p->switches = (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
	return NULL;
}

static int poll_together(struct poller *pollers, unsigned int n, unsigned int cpu, struct err *err)
{
	uint64_t until = rte_rdtsc() + (uint64_t)(SHARE_S * tsc_hz());
	pthread_t threads[2];

	for (unsigned int i = 0; i < n; i++) {
		int rc;

		memset(&pollers[i], 0, sizeof(pollers[i]));
		pollers[i].cpu = cpu;
		pollers[i].until = until;
		rc = pthread_create(&threads[i], NULL, poll_alone, &pollers[i]);
		if (rc) {
			while (i--)
				pthread_join(threads[i], NULL);
			return err_set(err, rc, "", "no thread: %s", strerror(rc));
		}
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

json_t *measure_share(const struct options *o, struct err *err)
{
	struct poller *pollers = calloc(2, sizeof(*pollers));
	/* A CPU that this thread, which waits, is not on. */
	unsigned int cpu = o->cpus[o->n_cpus - 1];
	struct sample wait = {0}, lost = {0}, switches = {0};
	double longest = 0;
	json_t *result = NULL;

	if (!pollers) {
		err_set(err, ENOMEM, "", "out of memory");
		return NULL;
	}
	for (unsigned int round = 0; round < RTE_MIN(o->rounds, 5u); round++) {
		uint64_t alone;

		if (poll_together(pollers, 1, cpu, err))
			goto out;
		alone = pollers[0].turns;
		if (poll_together(pollers, 2, cpu, err))
			goto out;
		sample_add(&lost, 1 - (double)(pollers[0].turns + pollers[1].turns) / (double)alone);
		sample_add(&switches, (double)(pollers[0].switches + pollers[1].switches) / SHARE_S);
		for (unsigned int i = 0; i < 2; i++) {
			struct poller *p = &pollers[i];

			values_sort(p->waits_ns, p->n_waits);
			if (p->n_waits)
				sample_add(&wait, values_at(p->waits_ns, p->n_waits, 0.5));
			longest = RTE_MAX(longest, values_at(p->waits_ns, p->n_waits, 1));
		}
	}
	result = json_pack("{s:o, s:f, s:o, s:o}", "wait_ns", sample_json(&wait), "wait_max_ns", longest,
			   "switches_per_s", sample_json(&switches), "throughput_lost", sample_json(&lost));
out:
	free(pollers);
	return result;
}
