/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include "netlink.h"
#include "core/dpdk.h"

/* What the learning thread's files share. */

struct watched {
	int fd; /* -1: not there */
	bool ready;
	bool quiet; /* not listened to for now */
};

/* What is listened to of one VNF. */
struct source {
	struct vnf *vnf;
	struct watched listener, connection, kernel_socket;
	struct netlink fpm, kernel;
	unsigned int dump; /* step of reading the kernel's state; DUMP_IDLE when done */
	uint64_t dump_again_ns;
	uint64_t heard_ns; /* when it had its turn last */
	uint64_t let_in_ns; /* when its last connection was */
	uint64_t had_ns; /* of the learning thread's time, lately */
	bool sweeps;     /* what it held for long enough is not all gone */
	size_t used;
	uint8_t buf[2 * (FPM_FRAME_MAX + 1)];
};

struct learner {
	struct router *router;
	control_thread thread;
	bool running;
	atomic_bool stop, holds; /* holds: the thread has asked for the rights that it needs */
	int epoll, wake;
	struct source *sources;
	unsigned int n_sources;
	struct epoll_event *events; /* room for all that is watched */
	unsigned int n_events;
	uint64_t faded_ns; /* when what sources had last became less */
};

/* kernel.c: rtnetlink of the namespace that the calling thread is in, a descriptor or -errno. */
int kernel_open(void);
void kernel_read(struct source *s, uint64_t until_tsc);
/* Read everything anew; what is not there any more is swept at the end. */
void kernel_dump(struct source *s);
void kernel_tick(struct source *s, uint64_t now_ns);
void kernel_resolve(struct vnf *v, int ifindex, const struct address *address);

int learner_watch(struct learner *l, int fd, struct watched *w);

/* fpm.c: a listener's descriptor or -errno; its next connection; what that says; whether it still waits. */
int fpm_listen(uint16_t port);
void fpm_accept(struct learner *l, struct source *s, uint64_t now_ns);
void fpm_read(struct source *s, uint64_t now_ns, uint64_t until_tsc);
bool fpm_hear_again(struct learner *l, struct source *s, uint64_t now_ns);
