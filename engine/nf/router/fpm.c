/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection of a VNF's daemon (FPM). A new one ends the last, and takes as long as two hundred
 * routes: so often at most is one let in. Others wait in the kernel, and few of them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "learn.h"

#define ACCEPT_NS 20000000

int fpm_listen(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = rte_cpu_to_be_16(port),
				 .sin_addr.s_addr = rte_cpu_to_be_32(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) || listen(fd, 4)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

static void hear(struct learner *l, struct watched *w, bool on)
{
	struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = w};

	w->quiet = epoll_ctl(l->epoll, EPOLL_CTL_MOD, w->fd, &e) ? w->quiet : !on;
}

static void end(struct source *s, uint64_t now_ns)
{
	if (s->connection.fd < 0)
		return;
	close(s->connection.fd);
	s->connection.fd = -1;
	netlink_idle(&s->fpm);
	s->fpm.late = false;
	s->used = s->fpm.at = 0;
	vnf_session_end(s->vnf, now_ns);
}

/* One zebra per VNF: a new connection is a daemon that has come back. */
void fpm_accept(struct learner *l, struct source *s, uint64_t now_ns)
{
	int fd = accept4(s->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	s->let_in_ns = now_ns;
	hear(l, &s->listener, false);
	end(s, now_ns);
	vnf_session_begin(s->vnf, now_ns);
	if (learner_watch(l, fd, &s->connection))
		end(s, now_ns);
}

/* What is left of the last turn comes first. */
void fpm_read(struct source *s, uint64_t now_ns, uint64_t until_tsc)
{
	ssize_t n = 0;
	long used;

	if (!s->fpm.late) {
		n = recv(s->connection.fd, s->buf + s->used, sizeof(s->buf) - s->used, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
	}
	s->fpm.until = until_tsc;
	used = n <= 0 && !s->fpm.late ? -1 : fpm_parse(&s->fpm, s->buf, s->used + (size_t)n);
	if (used < 0) {
		end(s, now_ns);
		return;
	}
	s->used += (size_t)n;
	memmove(s->buf, s->buf + used, s->used - (size_t)used);
	s->used -= (size_t)used;
}

bool fpm_hear_again(struct learner *l, struct source *s, uint64_t now_ns)
{
	if (s->listener.quiet && now_ns - s->let_in_ns >= ACCEPT_NS)
		hear(l, &s->listener, true);
	return s->listener.quiet;
}
