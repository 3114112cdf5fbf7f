/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "filter.h"
#include "rights.h"

#define NOTES_MAX 512
#define PATH_BYTES 256

enum act { ACT_NOTE, ACT_SEAL, ACT_CONNECT, ACT_REMOVE };

struct request {
	int act, type;
	char path[PATH_BYTES];
};

static int asked = -1; /* the engine's end */
static _Atomic bool sealed; /* asked by the threads of links, too */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static int connect_to(const char *path, int type)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd, rc;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int remove_path(const char *path)
{
	if (!unlink(path) || (errno == EISDIR && !rmdir(path)))
		return 0;
	return -errno;
}

/* `fd` goes with it; -1: none. */
static void answer(int to, int rc, int fd)
{
	struct iovec iov = {&rc, sizeof(rc)};
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fd >= 0) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	sendmsg(to, &msg, MSG_NOSIGNAL);
}

static bool noted(char notes[][PATH_BYTES], unsigned int n, const char *path)
{
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(notes[i], path))
			return true;
	return false;
}

static void answer_connected(int to, const struct request *r)
{
	/* It must not be held up: who wants to wait, waits with the socket. */
	int fd = connect_to(r->path, (r->type & 0xf) | SOCK_NONBLOCK);

	answer(to, fd < 0 ? fd : 0, fd);
	if (fd >= 0)
		close(fd);
}

/* Who asks may be somebody else's by now: what it sends is data, of a fixed size. */
static void help(int from)
{
	static char notes[NOTES_MAX][PATH_BYTES];
	unsigned int n = 0;
	bool closed = false;
	struct request r;

	while (recv(from, &r, sizeof(r), 0) == (ssize_t)sizeof(r)) {
		r.path[sizeof(r.path) - 1] = '\0';
		if (r.act == ACT_NOTE && !closed && n < NOTES_MAX) {
			memcpy(notes[n++], r.path, sizeof(r.path));
		} else if (r.act == ACT_SEAL) {
			closed = true;
			filter_helper();
		} else if (closed && !noted(notes, n, r.path)) {
			answer(from, -EACCES, -1);
		} else if (closed && r.act == ACT_CONNECT) {
			answer_connected(from, &r);
		} else if (closed && r.act == ACT_REMOVE) {
			answer(from, remove_path(r.path), -1);
		}
	}
}

/* Arguments lie one after the other: who looks for an engine by its plan finds one process. */
static void show_as(const char *name, char **argv)
{
	char *end = argv[0];

	for (char **a = argv; *a; a++)
		if (*a == end)
			end = *a + strlen(*a) + 1;
	memset(argv[0], 0, (size_t)(end - argv[0]));
	strncpy(argv[0], name, (size_t)(end - argv[0]) - 1);
	prctl(PR_SET_NAME, name);
}

static void child(int fd, char **argv)
{
	/* A terminal's Ctrl-C is for the engine, which ends this one by ending. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	show_as("headrace-helper", argv);
	dup2(fd, 0);
	close_range(1, ~0u, 0);
	/* Sockets and folders may be another user's. */
	rights_keep(1ull << CAP_DAC_OVERRIDE);
	help(0);
	_exit(0);
}

int helper_start(char **argv, struct err *err)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_set(err, errno, "engine", "no sockets for its helper: %s", strerror(errno));
	pid = fork();
	if (!pid)
		child(ends[1], argv);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_set(err, errno, "engine", "no process for its helper: %s", strerror(errno));
	}
	asked = ends[0];
	return 0;
}

static bool tell(enum act act, const char *path, int type)
{
	struct request r = {.act = act, .type = type};

	if (strlen(path) >= sizeof(r.path))
		return false;
	strcpy(r.path, path);
	return send(asked, &r, sizeof(r), MSG_NOSIGNAL) == (ssize_t)sizeof(r);
}

void helper_note(const char *path)
{
	if (asked >= 0 && !sealed)
		tell(ACT_NOTE, path, 0);
}

void helper_seal(void)
{
	if (asked >= 0)
		sealed = tell(ACT_SEAL, "", 0);
}

static int ask(enum act act, const char *path, int type)
{
	char control[CMSG_SPACE(sizeof(int))];
	int rc = -EIO, fd = -1;
	struct iovec iov = {&rc, sizeof(rc)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;

	pthread_mutex_lock(&turn);
	if (!tell(act, path, type) ||
	    recvmsg(asked, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(rc))
		rc = -EPIPE;
	pthread_mutex_unlock(&turn);
	c = rc ? NULL : CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd >= 0 ? fd : rc;
}

int helper_connect(const char *path, int type)
{
	int fd = sealed ? ask(ACT_CONNECT, path, type) : connect_to(path, type);

	if (sealed && fd >= 0 && !(type & SOCK_NONBLOCK))
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

void helper_remove(const char *path)
{
	if (sealed)
		ask(ACT_REMOVE, path, 0);
	else
		remove_path(path);
}
