/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that listens to the VNFs: one rtnetlink socket in each one's namespace, and a listener
 * for its FPM connection. It sleeps unless there is something to learn.
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

#include "learn.h"
#include "core/netns.h"
#include "core/rights/rights.h"

#define EVENTS 32
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

static int watch(struct learner *l, int fd, struct watched *w)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = w};

	w->fd = fd;
	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void fpm_close(struct source *s)
{
	if (s->connection.fd < 0)
		return;
	close(s->connection.fd);
	s->connection.fd = -1;
	netlink_idle(&s->fpm);
	vnf_session_end(s->vnf, now_ns());
}

/* One zebra per VNF: a new connection is a daemon that has come back. */
static void fpm_accept(struct learner *l, struct source *s)
{
	int fd = accept4(s->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	fpm_close(s);
	s->used = 0;
	s->fpm.deleting = false;
	vnf_session_begin(s->vnf, now_ns());
	if (watch(l, fd, &s->connection)) {
		s->connection.fd = fd;
		fpm_close(s);
	}
}

static void fpm_read(struct source *s)
{
	ssize_t n = recv(s->connection.fd, s->buf + s->used, sizeof(s->buf) - s->used, 0);
	long used;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	used = n <= 0 ? -1 : fpm_parse(&s->fpm, s->buf, s->used + (size_t)n);
	if (used < 0) {
		fpm_close(s);
		return;
	}
	s->used += (size_t)n;
	memmove(s->buf, s->buf + used, s->used - (size_t)used);
	s->used -= (size_t)used;
}

static void handle(struct learner *l, struct watched *w)
{
	struct source *s = w->source;

	if (w->kind == WATCH_LISTENER)
		fpm_accept(l, s);
	else if (w->kind == WATCH_CONNECTION && s->connection.fd >= 0)
		fpm_read(s);
	else if (w->kind == WATCH_KERNEL)
		kernel_read(s);
}

static bool tick(struct learner *l)
{
	bool waiting = false;

	for (unsigned int i = 0; i < l->n_sources; i++) {
		struct source *s = &l->sources[i];

		if (s->kernel_socket.fd >= 0)
			kernel_tick(s, now_ns());
		vnf_tick(s->vnf, now_ns());
		waiting |= s->fpm.deleting || s->kernel.deleting;
	}
	return waiting;
}

static void settle(struct learner *l)
{
	for (unsigned int i = 0; i < l->n_sources; i++) {
		netlink_idle(&l->sources[i].fpm);
		netlink_idle(&l->sources[i].kernel);
	}
}

static control_end run(void *arg)
{
	struct learner *l = arg;
	struct epoll_event events[EVENTS];
	bool waiting = false, held = false;

	rights_hold(NEEDED);
	atomic_store(&l->holds, true);
	while (!atomic_load(&l->stop)) {
		int n = epoll_wait(l->epoll, events, EVENTS, waiting ? SETTLE_MS : IDLE_MS);

		held = held || rights_held(NEEDED);
		pthread_mutex_lock(&l->router->lock);
		for (int i = 0; i < n; i++)
			if (events[i].data.ptr)
				handle(l, events[i].data.ptr);
		if (n <= 0)
			settle(l);
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
	s->listener = (struct watched){-1, WATCH_LISTENER, s};
	s->connection = (struct watched){-1, WATCH_CONNECTION, s};
	s->kernel_socket = (struct watched){-1, WATCH_KERNEL, s};
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
			rc = watch(l, fd, &s->listener);
	}
	if (!rc && p->netns) {
		fd = kernel_open();
		if (fd < 0)
			rc = err_set(err, -fd, path, "netns: no rtnetlink socket: %s", strerror(-fd));
		else
			rc = watch(l, fd, &s->kernel_socket);
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
	rc = l->sources ? open_all(l, p, err) : err_set(err, ENOMEM, "params", "out of memory");
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
	free(l->sources);
	free(l);
	r->learner = NULL;
}
