/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: one JSON object per line each way (docs/design/contracts.md). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control.h"
#include "core/claim.h"
#include "core/rights/helper.h"

#define CLIENTS_MAX 16
#define LINE_MAX_BYTES (256u << 20) /* a batch of routes is long */
#define POLL_MS 200
#define FAREWELL_MS 200

struct client {
	int fd; /* -1: free */
	char *buf;
	size_t used, room;
	char *reply; /* not yet all written: until it is, the client is not heard */
	size_t reply_bytes, written;
};

static json_t *error_reply(struct err *err)
{
	err_text(err->path);
	err_text(err->msg);
	return json_pack("{s:b, s:{s:s, s:s}}", "ok", 0, "error", "path", err->path, "msg",
			 err->msg);
}

/* As much as the client takes now: one that does not read waits alone. False when it has gone. */
static bool write_reply(struct client *c)
{
	/* Not send: a client may be a device. Of a socket whose peer has gone SIGPIPE is ignored. */
	while (c->written < c->reply_bytes) {
		ssize_t n = write(c->fd, c->reply + c->written, c->reply_bytes - c->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		c->written += n;
	}
	free(c->reply);
	c->reply = NULL;
	return true;
}

static bool reply_with(struct client *c, const json_t *reply)
{
	size_t n = json_dumpb(reply, NULL, 0, JSON_COMPACT);

	c->reply = n ? malloc(n + 1) : NULL;
	if (!c->reply)
		return false;
	json_dumpb(reply, c->reply, n, JSON_COMPACT);
	c->reply[n] = '\n';
	c->reply_bytes = n + 1;
	c->written = 0;
	return write_reply(c);
}

/* One request line; false when the client is to be closed. */
static bool serve_line(struct engine *e, struct client *c, const char *line, size_t len, bool *quit)
{
	struct err err = {0};
	json_error_t jerr;
	json_t *req = json_loadb(line, len, JSON_REJECT_DUPLICATES, &jerr), *reply = NULL;
	bool served;
	int rc;

	telemetry_pause();
	if (req)
		rc = command_run(e, req, &reply, quit, &err);
	else
		rc = err_set(&err, EINVAL, "request", "is not JSON: %s", jerr.text);
	telemetry_resume();
	if (rc) {
		json_decref(reply);
		reply = error_reply(&err);
	} else if (!reply) {
		reply = json_pack("{s:b}", "ok", 1);
	}
	served = reply_with(c, reply);
	json_decref(reply);
	json_decref(req);
	return served;
}

static void close_client(struct client *c)
{
	close(c->fd);
	free(c->buf);
	free(c->reply);
	*c = (struct client){.fd = -1};
}

static bool serve_lines(struct engine *e, struct client *c, bool *quit)
{
	size_t start = 0;
	char *nl;

	while (!*quit && !c->reply && (nl = memchr(c->buf + start, '\n', c->used - start))) {
		size_t len = nl - (c->buf + start);

		if (!serve_line(e, c, c->buf + start, len, quit))
			return false;
		start += len + 1;
	}
	memmove(c->buf, c->buf + start, c->used - start);
	c->used -= start;
	return true;
}

static bool read_client(struct engine *e, struct client *c, bool *quit)
{
	ssize_t n;

	if (c->room - c->used < 4096) {
		size_t room = c->room ? 2 * c->room : 8192;
		char *p = room <= LINE_MAX_BYTES ? realloc(c->buf, room) : NULL;

		if (!p)
			return false;
		c->buf = p;
		c->room = room;
	}
	n = read(c->fd, c->buf + c->used, c->room - c->used);
	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	c->used += n;
	return serve_lines(e, c, quit);
}

static bool hear_client(struct engine *e, struct client *c, bool *quit)
{
	if (!c->reply)
		return read_client(e, c, quit);
	return write_reply(c) && serve_lines(e, c, quit);
}

/* What was answered before the end still arrives, where the client takes it. */
static void part_from(struct client *c)
{
	struct pollfd p = {c->fd, POLLOUT, 0};

	while (c->reply && poll(&p, 1, FAREWELL_MS) == 1 && write_reply(c))
		;
	close_client(c);
}

static void accept_client(struct client *clients, int fd)
{
	int cfd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	for (unsigned int i = 0; cfd >= 0 && i < CLIENTS_MAX; i++)
		if (clients[i].fd < 0) {
			clients[i].fd = cfd;
			return;
		}
	if (cfd >= 0)
		close(cfd);
}

/*
 * A socket that is bound and does not listen yet cannot be told from one that a dead engine left:
 * while an engine starts, a name is what keeps a second one from taking its socket away.
 */
static int claim_path(const char *path)
{
	const char *base = strrchr(path, '/');
	char name[160], dir[sizeof(((struct sockaddr_un *)0)->sun_path)] = ".";
	struct stat st;

	if (base)
		snprintf(dir, sizeof(dir), "%.*s", (int)(base == path ? 1 : base - path), path);
	if (stat(dir, &st))
		return -1;
	snprintf(name, sizeof(name), "headrace-control-%lx-%lx-%s", (unsigned long)st.st_dev,
		 (unsigned long)st.st_ino, base ? base + 1 : path);
	return claim_name(name);
}

static int bind_path(int fd, const char *path, struct err *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	mode_t mask;
	int rc;

	strcpy(sa.sun_path, path);
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return err_set(err, EADDRINUSE, path, "another engine is listening here");
	/* What a dead engine left is in the way. */
	if (errno == ECONNREFUSED)
		unlink(path);
	mask = umask(0077);
	rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ? errno : 0;
	umask(mask);
	return rc ? err_set(err, rc, path, "cannot listen: %s", strerror(rc)) : 0;
}

static bool is_device(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISCHR(st.st_mode);
}

int control_open(struct control *c, const char *path, struct err *err)
{
	int rc;

	*c = (struct control){.path = path, .fd = -1, .claim = -1, .device = is_device(path)};
	if (c->device) {
		c->fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
		return c->fd < 0 ? err_set(err, errno, path, "%s", strerror(errno)) : 0;
	}
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(err, EINVAL, path, "is longer than the %zu characters of a socket path",
			       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	c->claim = claim_path(path);
	if (c->claim == -EADDRINUSE)
		return err_set(err, EADDRINUSE, path, "another engine is starting or running here");
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rc = c->fd < 0 ? err_set(err, errno, path, "no socket: %s", strerror(errno))
		       : bind_path(c->fd, path, err);
	helper_note(path);
	if (!rc)
		return 0;
	/* The path is somebody else's: it is not ours to unlink. */
	if (c->fd >= 0)
		close(c->fd);
	if (c->claim >= 0)
		close(c->claim);
	return rc;
}

int control_listen(const struct control *c, struct err *err)
{
	if (c->device || !listen(c->fd, 4))
		return 0;
	return err_set(err, errno, c->path, "cannot listen: %s", strerror(errno));
}

void control_close(struct control *c)
{
	if (!c->device)
		helper_remove(c->path);
	close(c->fd);
	if (c->claim >= 0)
		close(c->claim);
}

static int open_again(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) | O_NONBLOCK);
	return copy;
}

void control_serve(struct engine *e, const struct control *c, const atomic_bool *stop)
{
	struct client clients[CLIENTS_MAX];
	struct pollfd fds[CLIENTS_MAX + 1];
	bool quit = false;

	e->ends = stop;
	for (unsigned int i = 0; i < CLIENTS_MAX; i++)
		clients[i] = (struct client){.fd = -1};
	if (c->device)
		clients[0].fd = open_again(c->fd);
	while (!quit && !atomic_load(stop) && (!c->device || clients[0].fd >= 0)) {
		fds[CLIENTS_MAX] = (struct pollfd){.fd = c->device ? -1 : c->fd, .events = POLLIN};
		for (unsigned int i = 0; i < CLIENTS_MAX; i++)
			fds[i] = (struct pollfd){.fd = clients[i].fd,
						 .events = clients[i].reply ? POLLOUT : POLLIN};
		if (poll(fds, CLIENTS_MAX + 1, POLL_MS) <= 0)
			continue;
		for (unsigned int i = 0; i < CLIENTS_MAX && !quit; i++)
			if (clients[i].fd >= 0 && fds[i].revents &&
			    !hear_client(e, &clients[i], &quit)) {
				close_client(&clients[i]);
				/* The first client has the first place, as long as it is there. */
				quit |= c->with_client && !i;
			}
		if (fds[CLIENTS_MAX].revents)
			accept_client(clients, c->fd);
	}
	for (unsigned int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].fd >= 0)
			part_from(&clients[i]);
}
