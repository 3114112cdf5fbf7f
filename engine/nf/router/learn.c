/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that listens to the VNFs: one rtnetlink socket in each one's namespace, and a listener
 * for its FPM connection. It sleeps unless there is something to learn.
 *
 * What a message takes is up to who sends it, and some take a hundred times as long as others. So it is
 * the thread's time that is shared out, by parts of a millisecond: of those that have something to
 * say, the one that had least of it lately goes on. What was had fades: a table that comes at once, of
 * whom was silent for some seconds, is taken in before what others send all the time. But so much of it
 * only (AHEAD_NS): who was silent in order to have others wait for as long as they had the thread gets no
 * more than that.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "learn.h"
#include "core/netns.h"
#include "core/rights/rights.h"

#define WATCHED_PER_SOURCE 3
#define TURN_US 500 /* for messages; and as much again for what follows from them */
/* So much of what was had fades each time: two thirds in ten seconds. */
#define FADE_NS 100000000
#define FADE_SHARE 100
/* So far before others is at most who was silent for so long: three full tables of the Internet. */
#define AHEAD_NS 1000000000
#define SILENT_NS 1000000000
/* Kernels resolve a neighbour for who may set one (kernel_resolve). */
#define NEEDED (1ull << CAP_NET_ADMIN)
#define IDLE_MS 100
#define SETTLE_MS 10 /* a deletion waits so long for the addition that follows it */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int learner_watch(struct learner *l, int fd, struct watched *w)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = w};

	w->fd = fd;
	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static uint64_t turn_ends(void)
{
	return rte_rdtsc() + rte_get_tsc_hz() / 1000000 * TURN_US;
}

/* What follows from what was said, or from what was not said again. */
static void follow_up(struct source *s, uint64_t now)
{
	uint64_t until = turn_ends();

	while (vnf_kernel_sweep(s->vnf) && rte_rdtsc() < until)
		;
	while (users_resolve(s->vnf) && rte_rdtsc() < until)
		;
	if (s->sweeps)
		vnf_sweep_some(s->vnf, now, until);
}

static void turn(struct learner *l, struct source *s, uint64_t now)
{
	if (s->listener.ready)
		fpm_accept(l, s, now);
	else if (s->connection.fd >= 0 && (s->connection.ready || s->fpm.late))
		fpm_read(s, now, turn_ends());
	if (s->kernel_socket.ready)
		kernel_read(s, turn_ends());
	follow_up(s, now);
	s->sweeps = vnf_sweep_due(s->vnf, now);
}

static bool has_something(const struct source *s)
{
	return s->listener.ready || s->connection.ready || s->kernel_socket.ready || s->fpm.late ||
	       s->vnf->resolve_left || s->vnf->kernel_left || s->sweeps;
}

/* The least that any had of those that spoke lately. */
static uint64_t least_had(const struct learner *l, uint64_t now)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < l->n_sources; i++)
		if (now - l->sources[i].heard_ns <= SILENT_NS)
			least = RTE_MIN(least, l->sources[i].had_ns);
	return least;
}

static void end_silences(struct learner *l, uint64_t now)
{
	uint64_t least = least_had(l, now);

	for (unsigned int i = 0; i < l->n_sources && least != UINT64_MAX && least > AHEAD_NS; i++) {
		struct source *s = &l->sources[i];

		if (has_something(s) && now - s->heard_ns > SILENT_NS)
			s->had_ns = RTE_MAX(s->had_ns, least - AHEAD_NS);
	}
}

/* Whose turn it is; NULL: nobody has anything to say. */
static struct source *next(const struct learner *l)
{
	struct source *least = NULL;

	for (unsigned int i = 0; i < l->n_sources; i++) {
		struct source *s = &l->sources[i];

		if (has_something(s) && (!least || s->had_ns < least->had_ns))
			least = s;
	}
	return least;
}

/* Whether there may be more to do. */
static bool serve(struct learner *l)
{
	uint64_t began = now_ns();
	struct source *s;

	end_silences(l, began);
	s = next(l);
	if (!s)
		return false;
	turn(l, s, began);
	s->heard_ns = now_ns();
	s->had_ns += s->heard_ns - began;
	return true;
}

/* A deletion that nothing followed is carried out; whether one still waits. */
static bool settle(struct source *s, uint64_t now)
{
	if (!s->fpm.deleting && !s->kernel.deleting)
		return false;
	if (now - s->heard_ns < SETTLE_MS * 1000000u)
		return true;
	netlink_idle(&s->fpm);
	netlink_idle(&s->kernel);
	return false;
}

static void fade(struct learner *l, uint64_t now)
{
	for (; now - l->faded_ns >= FADE_NS; l->faded_ns += FADE_NS)
		for (unsigned int i = 0; i < l->n_sources; i++)
			l->sources[i].had_ns -= l->sources[i].had_ns / FADE_SHARE;
}

static bool tick(struct learner *l)
{
	uint64_t now = now_ns();
	bool waiting = false;

	fade(l, now);
	for (unsigned int i = 0; i < l->n_sources; i++) {
		struct source *s = &l->sources[i];

		if (s->kernel_socket.fd >= 0)
			kernel_tick(s, now);
		s->sweeps = vnf_sweep_due(s->vnf, now);
		waiting |= settle(s, now) | fpm_hear_again(l, s, now) | s->sweeps;
	}
	rcu_reclaim(&l->router->rcu);
	return waiting;
}

static void mark_ready(struct learner *l, int n)
{
	for (unsigned int i = 0; i < l->n_sources; i++) {
		struct source *s = &l->sources[i];

		s->listener.ready = s->connection.ready = s->kernel_socket.ready = false;
	}
	for (int i = 0; i < n; i++)
		if (l->events[i].data.ptr)
			((struct watched *)l->events[i].data.ptr)->ready = true;
}

static control_end run(void *arg)
{
	struct learner *l = arg;
	bool waiting = false, held = false, busy = false;

	rights_hold(NEEDED);
	atomic_store(&l->holds, true);
	l->faded_ns = now_ns();
	while (!atomic_load(&l->stop)) {
		int n = epoll_wait(l->epoll, l->events, (int)l->n_events,
				   busy ? 0 : waiting ? SETTLE_MS : IDLE_MS);

		held = held || rights_held(NEEDED);
		router_lock_later(l->router);
		mark_ready(l, n);
		busy = serve(l);
		waiting = tick(l);
		pthread_mutex_unlock(&l->router->lock);
	}
	return 0;
}

static struct source *source_init(struct learner *l, struct vnf *v)
{
	struct source *s = &l->sources[l->n_sources++];

	s->vnf = v;
	s->fpm = (struct netlink){.vnf = v, .routes = true};
	s->kernel = (struct netlink){.vnf = v, .kernel = true, .routes = v->learn == LEARN_KERNEL};
	s->listener.fd = s->connection.fd = s->kernel_socket.fd = -1;
	return s;
}

static int source_open(struct learner *l, struct source *s, const struct router_vnf_params *p,
		       const char *path, struct err *err)
{
	int saved, rc = netns_enter(p->netns, &saved, err), fd;

	if (rc)
		return rc;
	if (p->learn == LEARN_FPM) {
		fd = fpm_listen((uint16_t)p->fpm_port);
		if (fd < 0)
			rc = err_set(err, -fd, path, "fpm_port %u of 127.0.0.1 cannot be listened on: %s",
				     (unsigned int)p->fpm_port, strerror(-fd));
		else
			rc = learner_watch(l, fd, &s->listener);
	}
	if (!rc && p->netns) {
		fd = kernel_open();
		if (fd < 0)
			rc = err_set(err, -fd, path, "netns: no rtnetlink socket: %s", strerror(-fd));
		else
			rc = learner_watch(l, fd, &s->kernel_socket);
		s->vnf->resolve = kernel_resolve;
		s->vnf->resolve_ctx = s;
	}
	netns_leave(saved);
	return rc;
}

static int open_all(struct learner *l, const struct router_params *p, struct err *err)
{
	const struct router_vnf_params *list = p->vnfs.items;
	struct epoll_event stop = {.events = EPOLLIN, .data.ptr = NULL};
	char path[64];
	int rc = 0;

	if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &stop))
		return err_set(err, errno, "params", "no epoll: %s", strerror(errno));
	for (unsigned int i = 0; i < l->router->n_vnfs && !rc; i++) {
		snprintf(path, sizeof(path), "params.vnfs[%u]", i);
		rc = source_open(l, source_init(l, &l->router->vnfs[i]), &list[i], path, err);
		if (!rc && l->sources[i].kernel_socket.fd >= 0)
			kernel_dump(&l->sources[i]);
	}
	return rc;
}

static bool anything_to_learn(const struct router_params *p)
{
	const struct router_vnf_params *list = p->vnfs.items;

	for (size_t i = 0; i < p->vnfs.count; i++)
		if (list[i].netns || list[i].learn != LEARN_NONE)
			return true;
	return false;
}

int learner_start(struct router *r, const struct router_params *p, struct err *err)
{
	struct learner *l;
	int rc;

	if (!anything_to_learn(p))
		return 0;
	l = r->learner = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, ENOMEM, "params", "out of memory");
	l->router = r;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->sources = calloc(r->n_vnfs, sizeof(*l->sources));
	l->n_events = WATCHED_PER_SOURCE * r->n_vnfs + 1;
	l->events = calloc(l->n_events, sizeof(*l->events));
	rc = l->sources && l->events ? open_all(l, p, err) : err_set(err, ENOMEM, "params", "out of memory");
	if (!rc) {
		rc = control_start(&l->thread, "router-learn", run, l);
		l->running = !rc;
		while (!rc && !atomic_load(&l->holds))
			sched_yield();
		if (rc)
			rc = err_set(err, -rc, "params", "no thread: %s", strerror(-rc));
	}
	return rc;
}

void learner_stop(struct router *r)
{
	struct learner *l = r->learner;

	if (!l)
		return;
	atomic_store(&l->stop, true);
	if (l->running) {
		eventfd_write(l->wake, 1);
		control_join(l->thread);
	}
	for (unsigned int i = 0; i < l->n_sources; i++) {
		struct source *s = &l->sources[i];
		int fds[] = {s->listener.fd, s->connection.fd, s->kernel_socket.fd};

		for (unsigned int j = 0; j < RTE_DIM(fds); j++)
			if (fds[j] >= 0)
				close(fds[j]);
	}
	if (l->epoll >= 0)
		close(l->epoll);
	if (l->wake >= 0)
		close(l->wake);
	free(l->events);
	free(l->sources);
	free(l);
	r->learner = NULL;
}
