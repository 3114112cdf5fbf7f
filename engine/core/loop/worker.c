/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An lcore's loop: its segments in turn, each a burst (segment.c), which goes through the functions (run.c)
 * and out to the next link (outlet.h).
 *
 * Workers that share a CPU with others must let go of it when there is nothing to do: adaptive
 * polls a while first, as DPDK's l3fwd-power does, interrupt waits at once, as the kernel's NAPI
 * does when a queue is empty.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_pause.h>

#include "core/happens.h"
#include "worker.h"

/* An end of the engine is noticed at the latest after so long. */
#define WAIT_MAX_MS 50
/* Functions age their tables by ticks, in steps of seconds; a shaper's packets have their time. */
#define WAIT_TICK_MS 10
#define SPIN_US 10 /* by then a worker on a CPU of its own has ended its poll */

struct waiter {
	const struct worker *worker;
	struct link_rxq **queues;
	struct pollfd *fds;
	unsigned int n;
	bool all; /* every input can be waited on */
	int most_ms;
};

static void add_queue(struct waiter *w, struct inlet *in)
{
	if (in->q.link->ops->wait_fd)
		w->queues[w->n++] = &in->q;
	else
		w->all = false;
}

static int waiter_init(struct waiter *w, const struct worker *worker)
{
	unsigned int n = 0;

	*w = (struct waiter){.worker = worker, .all = true, .most_ms = WAIT_MAX_MS};
	for (unsigned int i = 0; i < worker->n_replicas; i++) {
		n += worker->replicas[i]->n_inlets;
		if (worker->replicas[i]->has_tick || worker->replicas[i]->has_poll)
			w->most_ms = WAIT_TICK_MS;
	}
	w->queues = calloc(n, sizeof(*w->queues));
	w->fds = calloc(n, sizeof(*w->fds));
	if (!w->queues || !w->fds)
		return -ENOMEM;
	for (unsigned int i = 0; i < worker->n_replicas; i++)
		for (unsigned int j = 0; j < worker->replicas[i]->n_inlets; j++)
			add_queue(w, &worker->replicas[i]->inlets[j]);
	return 0;
}

static void waiter_fini(struct waiter *w)
{
	free(w->queues);
	free(w->fds);
}

/* Whether packets are held for an output or by a function, whose time may come at any moment. */
static bool must_poll(const struct replica *r)
{
	if (r->pending || (r->steers && elastic_waits(r)))
		return true;
	for (unsigned int i = 0; r->has_poll && i < r->n_nodes; i++)
		if (r->nodes[i].stats.held > 0)
			return true;
	return false;
}

static void wait_for_packets(struct waiter *w, uint64_t most_us)
{
	struct timespec most = {(time_t)(most_us / 1000000), (long)(most_us % 1000000) * 1000};
	unsigned int armed = 0;
	bool idle = true;

	for (; armed < w->n && idle; armed++) {
		struct link_rxq *q = w->queues[armed];

		idle = q->link->ops->wait_arm(q);
		w->fds[armed] = (struct pollfd){.fd = q->link->ops->wait_fd(q), .events = POLLIN};
	}
	if (idle)
		ppoll(w->fds, armed, &most, NULL);
	for (unsigned int i = 0; i < armed; i++)
		w->queues[i]->link->ops->wait_disarm(w->queues[i]);
}

/* One turn; whether any replica found packets. */
static bool turn(const struct worker *worker, bool *hold)
{
	bool any = false;

	for (unsigned int i = 0; i < worker->n_replicas; i++) {
		struct replica *r = worker->replicas[i];
		uint64_t busy = r->count.polls - r->count.idle_polls;

		replica_poll(r);
		any |= r->count.polls - r->count.idle_polls != busy;
		*hold |= must_poll(r);
	}
	return any;
}

static void poll_always(struct worker *w)
{
	if (w->n_replicas == 1) {
		while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
			replica_poll(w->replicas[0]);
		return;
	}
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
		for (unsigned int i = 0; i < w->n_replicas; i++)
			replica_poll(w->replicas[i]);
}

static void poll_or_wait(struct worker *worker, const struct plan_wait *conf)
{
	uint64_t idle = 0, limit = conf->mode == WAIT_INTERRUPT ? 1 : conf->idle_polls, sleep_us;
	struct waiter w;

	if (waiter_init(&w, worker)) { /* no memory: it polls, as it can */
		waiter_fini(&w);
		poll_always(worker);
		return;
	}
	/* What cannot be waited on is looked at again and again, in pauses. */
	sleep_us = w.all ? (uint64_t)w.most_ms * 1000 : conf->sleep_us;
	while (!atomic_load_explicit(&worker->stop, memory_order_relaxed)) {
		bool hold = false;
		uint64_t start;

		if (turn(worker, &hold) || hold) {
			idle = 0;
			continue;
		}
		if (++idle < limit) {
			rte_pause();
			continue;
		}
		start = rte_rdtsc();
		atomic_store(&worker->asleep, start);
		wait_for_packets(&w, sleep_us);
		worker->sleeps++;
		worker->clock.mark = rte_rdtsc();
		worker->clock.slept += worker->clock.mark - start;
		atomic_store(&worker->asleep, 0);
		idle = 0;
	}
	waiter_fini(&w);
}

static void run(struct worker *w)
{
	busy_begin(&w->clock);
	w->clock.armed = 0;
	for (unsigned int i = 0; i < w->n_replicas; i++)
		w->clock.armed += !w->replicas[i]->until_timed;
	slicer_begin(&w->slicer, &w->clock, &w->beacon, w->beside ? &w->beside->beacon : NULL,
		     w->replicas, w->n_replicas);
	atomic_store(&w->start_tsc, w->clock.mark);
	if (w->wait->mode == WAIT_POLL)
		poll_always(w);
	else
		poll_or_wait(w, w->wait);
	busy_end(&w->clock, rte_rdtsc());
}

/* Another thread changes this in microseconds, unless it waits for this very CPU. */
static void spin_until(const _Atomic bool *is, bool value)
{
	uint64_t alone = rte_rdtsc() + SPIN_US * rte_get_tsc_hz() / 1000000;

	while (atomic_load(is) != value)
		if (rte_rdtsc() < alone)
			rte_pause();
		else
			sched_yield();
}

int worker_main(void *arg)
{
	struct worker *w = arg;

	happens_after(w);
	do {
		run(w);
		if (!atomic_load(&w->hold))
			break;
		atomic_store(&w->held, true);
		spin_until(&w->hold, false);
		atomic_store(&w->held, false);
	} while (!atomic_load(&w->stop));
	happens_before(w);
	return 0;
}

void worker_hold(struct worker *w)
{
	atomic_store(&w->hold, true);
	atomic_store(&w->stop, true);
}

void worker_held(struct worker *w)
{
	spin_until(&w->held, true);
}

bool worker_go_on(struct worker *w)
{
	atomic_store(&w->stop, false);
	happens_before(w);
	return atomic_exchange(&w->hold, false) || !rte_eal_remote_launch(worker_main, w, w->lcore);
}

uint64_t worker_runs(const struct worker *w)
{
	uint64_t since;

	while (!(since = atomic_load(&w->start_tsc)))
		sched_yield();
	return since;
}

void worker_join(struct worker *w)
{
	atomic_store(&w->stop, true);
	atomic_store(&w->hold, false);
	rte_eal_wait_lcore(w->lcore);
	happens_after(w);
}

int worker_wait_check(const struct plan *p, struct err *err)
{
	for (unsigned int s = 0; s < p->n_segments && p->engine.wait.mode != WAIT_POLL; s++)
		if (p->segments[s].parallel.n)
			return err_set(err, EINVAL, "engine.wait.mode",
				       "segment \"%s\" has functions side by side, which can only be polled; "
				       "allowed: poll", p->segments[s].name);
	if (p->engine.wait.mode != WAIT_INTERRUPT)
		return 0;
	for (unsigned int s = 0; s < p->n_segments; s++)
		for (unsigned int i = 0; i < p->segments[s].n_inputs; i++) {
			const struct plan_link *l = &p->links[p->segments[s].inputs[i].link];

			if (!l->ops->wait_fd)
				return err_set(err, EINVAL, "engine.wait.mode",
					       "interrupt, but segment \"%s\" reads \"%s\", and a %s link "
					       "can only be polled; allowed: poll, adaptive",
					       p->segments[s].name, l->name, l->ops->name);
		}
	return 0;
}
