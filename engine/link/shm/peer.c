/* SPDX-License-Identifier: Apache-2.0 */
/* The connection between the two engines of a link: who is there, and the memory's way over. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <rte_lcore.h>

#include "core/discard.h"
#include "core/rights/helper.h"
#include "shm.h"

#define RETRY_MS 20
#define HELLO_MS 1000
/* One who comes again and again takes little of the thread's CPU: so often at most is one let in. */
#define ACCEPT_MS 20

/* So often wake-ups are made that an lcore left, and so many times it is looked for others then. */
#define HELD_MS 1
#define HELD_TURNS (2 * SHM_NUDGE_MS / HELD_MS)

static struct sockaddr_un address(const struct shm_conf *c)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->socket);
	return a;
}

static size_t fds_of(const struct shm_hello *hello)
{
	return hello->kept_mb ? SHM_FDS_MOST : SHM_FDS;
}

/* The client's end of the wake-ups is the client's from then on: it may put descriptors there, too. */
static bool give(const struct shm_state *s, int peer, struct shm_map *m)
{
	const struct shm_conf *conf = s->link->conf;
	struct shm_hello hello = {SHM_MAGIC, SHM_VERSION, m->slots,
				  m->stride, m->flows, (uint32_t)conf->checkpoint_mb};
	struct iovec iov = {&hello, sizeof(hello)};
	int fds[SHM_FDS_MOST] = {[SHM_FD_MEMORY] = m->fd[SHM_FD_MEMORY],
				 [SHM_FD_TO_SERVER] = m->fd[SHM_FD_TO_SERVER],
				 [SHM_FD_TO_CLIENT] = m->client_end,
				 [SHM_FDS] = s->kept_fd};
	size_t n = fds_of(&hello) * sizeof(*fds);
	char control[CMSG_SPACE(sizeof(fds))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	bool given;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n);
	msg.msg_controllen = CMSG_SPACE(n);
	memcpy(CMSG_DATA(c), fds, n);
	given = sendmsg(peer, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(hello);
	discard(m->client_end);
	m->client_end = -1;
	return given;
}

static struct shm_map *take(struct shm_state *s, int peer)
{
	int fds[SHM_FDS_MOST] = {-1, -1, -1, -1};
	struct shm_hello hello;
	struct iovec iov = {&hello, sizeof(hello)};
	char control[CMSG_SPACE(sizeof(fds))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct pollfd p = {peer, POLLIN, 0};
	struct shm_map *m = NULL;
	struct cmsghdr *c;

	if (poll(&p, 1, HELLO_MS) != 1 ||
	    recvmsg(peer, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(hello))
		return NULL;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(fds_of(&hello) * sizeof(*fds)))
		return NULL;
	memcpy(fds, CMSG_DATA(c), fds_of(&hello) * sizeof(*fds));
	m = shm_map_open(&hello, fds);
	if (m && hello.kept_mb && shm_checkpoint_ms(s->link))
		shm_kept_take(s, hello.kept_mb, fds[SHM_FDS]);
	for (size_t i = 0; i < fds_of(&hello); i++)
		close(fds[i]);
	return m;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void lose_peer(struct shm_state *s)
{
	atomic_store(&s->up, false);
	if (s->peer >= 0)
		discard(s->peer);
	s->peer = -1;
}

/* Each client has memory and wake-ups that nobody had before, or still has. */
static bool fresh_memory(struct shm_state *s)
{
	struct err err = {0};

	if (s->given && shm_renew(s, &err))
		return false;
	s->given = true;
	return true;
}

static void serve_one(struct shm_state *s)
{
	int fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	s->let_in_ns = now_ns();
	if (s->peer >= 0 || !fresh_memory(s) || !give(s, fd, s->own)) {
		atomic_fetch_add(&s->refused, 1);
		discard(fd);
		return;
	}
	s->peer = fd;
}

/*
 * A client that is ready says so, once. What it says is looked at where it is, and nothing is heard
 * after it: who takes a message closes what was sent with it.
 */
static void hear_client(struct shm_state *s)
{
	char byte;

	if (recv(s->peer, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0 || atomic_load(&s->up)) {
		lose_peer(s);
	} else if (!shm_take_in(s)) {
		atomic_fetch_add(&s->robbed, 1);
		lose_peer(s);
	} else {
		shutdown(s->peer, SHUT_RD);
		atomic_fetch_add(&s->connects, 1);
		atomic_store(&s->up, true);
	}
}

/* Of a client whose lcore has no time for it. */
static void wake_held(struct shm_state *s)
{
	if (!atomic_exchange(&s->held, false)) {
		s->held_turns -= s->held_turns ? 1 : 0;
		return;
	}
	s->held_turns = HELD_TURNS;
	if (atomic_load(&s->up) && atomic_exchange(&s->own->region->rings[SHM_TO_CLIENT].asleep, 0))
		send(s->own->fd[SHM_FD_TO_CLIENT], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void join_server(struct shm_state *s)
{
	const struct shm_conf *c = s->link->conf;
	struct shm_map *rx, *tx, *control;

	s->peer = helper_connect(c->socket, SOCK_SEQPACKET);
	if (s->peer < 0)
		return;
	rx = take(s, s->peer);
	tx = rx ? shm_map_again(rx) : NULL;
	control = tx ? shm_map_again(rx) : NULL;
	if (!control || send(s->peer, "", 1, MSG_NOSIGNAL) != 1) {
		shm_map_close(rx);
		shm_map_close(tx);
		shm_map_close(control);
		lose_peer(s);
		return;
	}
	rx->serial = tx->serial = ++s->serial;
	shm_queue_control(s, control);
	shm_queue_offer(&s->rx, rx);
	shm_queue_offer(&s->tx, tx);
	atomic_fetch_add(&s->connects, 1);
	atomic_store(&s->up, true);
}

/* Whom the thread listens to, and for how long; poll leaves descriptors below 0 alone. */
static void serve(struct shm_state *s)
{
	bool crowd = now_ns() - s->let_in_ns < ACCEPT_MS * 1000000u;
	/* Of a client that is up nothing but its end is heard. */
	short heard = atomic_load(&s->up) ? 0 : POLLIN;
	struct pollfd p[] = {{s->wake, POLLIN, 0}, {s->peer, heard, 0},
			     {crowd ? -1 : s->listening, POLLIN, 0}};
	uint64_t nudges;

	if (poll(p, 3, s->held_turns ? HELD_MS : crowd ? ACCEPT_MS : -1) < 0)
		return;
	if (p[0].revents)
		(void)!read(s->wake, &nudges, sizeof(nudges));
	if (p[1].revents)
		hear_client(s);
	wake_held(s);
	if (p[2].revents)
		serve_one(s);
}

static void join(struct shm_state *s)
{
	struct pollfd p[] = {{s->wake, POLLIN, 0}, {s->peer, POLLIN, 0}};

	if (poll(p, 2, s->peer < 0 ? RETRY_MS : -1) < 0)
		return;
	if (p[1].revents) /* a server says nothing more: it is gone */
		lose_peer(s);
	if (s->peer < 0 && !atomic_load(&s->stop))
		join_server(s);
}

static control_end watch(void *arg)
{
	struct shm_state *s = arg;
	const struct shm_conf *c = s->link->conf;

	while (!atomic_load(&s->stop))
		(c->role ? join : serve)(s);
	lose_peer(s);
	return 0;
}

/* A path that nobody listens on any more is left by an engine that was killed. */
static int listen_on(struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;
	struct sockaddr_un a = address(c);
	int other;

	s->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listening < 0)
		return err_set(err, errno, "params.socket", "no socket: %s", strerror(errno));
	if (bind(s->listening, (struct sockaddr *)&a, sizeof(a))) {
		other = errno == EADDRINUSE ? helper_connect(c->socket, SOCK_SEQPACKET) : 0;
		if (other >= 0) {
			int rc = other ? EADDRINUSE : errno;

			if (other)
				close(other);
			return err_set(err, rc, "params.socket", "\"%.100s\": %s", c->socket,
				       strerror(rc));
		}
		unlink(c->socket);
		if (bind(s->listening, (struct sockaddr *)&a, sizeof(a)))
			return err_set(err, errno, "params.socket", "\"%.100s\": %s", c->socket,
				       strerror(errno));
	}
	if (listen(s->listening, 4))
		return err_set(err, errno, "params.socket", "\"%.100s\": %s", c->socket,
			       strerror(errno));
	return 0;
}

int shm_peer_start(struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;
	char name[16];
	int rc = 0;

	s->peer = s->listening = -1;
	s->wake = eventfd(0, EFD_CLOEXEC);
	if (s->wake < 0)
		return err_set(err, errno, "", "no eventfd: %s", strerror(errno));
	helper_note(c->socket);
	if (!c->role)
		rc = listen_on(s, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "shm-%.10s", s->link->name);
	rc = -control_start(&s->thread, name, watch, s);
	if (rc)
		return err_set(err, rc, "", "no thread: %s", strerror(rc));
	s->running = true;
	return 0;
}

void shm_peer_stop(struct shm_state *s)
{
	const struct shm_conf *c = s->link->conf;
	uint64_t one = 1;

	atomic_store(&s->stop, true);
	if (s->running) {
		(void)!write(s->wake, &one, sizeof(one));
		control_join(s->thread);
	}
	if (s->listening >= 0) {
		helper_remove(c->socket);
		discard(s->listening); /* and with it those that were not let in */
	}
	if (s->wake >= 0)
		close(s->wake);
}
