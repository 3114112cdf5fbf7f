/* SPDX-License-Identifier: Apache-2.0 */
#include "filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/net.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* What processors differ in has its name here, too: a name that this one lacks is left out. */
static const char *const helper_calls[] = {
	"read", "recvfrom", "recvmsg", "sendmsg", "socket", "connect", "close", "unlink", "unlinkat",
	"rmdir", "exit", "exit_group", "rt_sigreturn", "restart_syscall", NULL,
};

static const char *const engine_calls[] = {
	/* Memory, also hugepages of a pool that grows, and where it lies. */
	"brk", "munmap", "mremap", "madvise", "msync", "mincore", "mlock", "mlock2", "munlock", "mlockall",
	"munlockall", "membarrier", "memfd_create", "fallocate", "get_mempolicy", "set_mempolicy",
	"mbind", "move_pages",
	/* Threads and time. Each stays on its CPUs: another's lcore may be one that nothing else moves to. */
	"futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address",
	"sched_yield", "sched_getaffinity", "sched_getparam",
	"sched_getscheduler", "sched_get_priority_min", "sched_get_priority_max", "getpriority",
	"getcpu", "gettid", "getpid", "getppid", "exit", "exit_group", "restart_syscall", "nanosleep",
	"clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
	"timerfd_create", "timerfd_settime", "timerfd_gettime", "rt_sigaction", "rt_sigprocmask",
	"rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "sigaltstack", "getrusage", "sysinfo",
	"uname", "getuid", "geteuid", "getgid", "getegid", "getrlimit", "getrandom",
	"capget", "capset", /* a thread has no more by it than it kept */
	/* Files: with the rights of a user who owns none. */
	"read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev",
	"close", "close_range", "stat", "fstat", "lstat", "newfstatat",
	"statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getcwd",
	"lseek", "ftruncate", "fsync", "fdatasync", "flock", "dup", "dup2", "dup3", "pipe", "pipe2",
	"eventfd2", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
	"epoll_pwait2", "poll", "ppoll", "select", "pselect6", "getdents64", "unlink", "unlinkat", "rmdir",
	/* Sockets: nobody is listened for at new places. */
	"socketpair", "bind", "accept", "accept4", "connect", "getsockname", "getpeername", "sendto",
	"sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown", "setsockopt",
	"getsockopt", "ioctl", NULL,
};

/* Commands for files but those that have a signal sent: F_SETOWN, F_SETSIG, F_NOTIFY, leases. */
static const uint32_t file_commands[] = {
	F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
	F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
};

/* Refused, while drivers' own are many: typing as the terminal's user would, and whom signals go to. */
static const uint32_t refused_ioctls[] = {TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP};

struct condition {
	const char *call;
	unsigned int argument;
	uint64_t mask, value;
};

/* The kernel reads 32 bits of such an argument; a filter is shown all 64. */
#define INT 0xffffffffu

#ifndef __O_TMPFILE
#define __O_TMPFILE 020000000
#endif
/*
 * Files are read. Who can write to one has whatever else its user may, above all the engine's own code
 * (/proc/self/mem), and who can make one fills the file system that it is on. openat2() has its flags in
 * memory, where a filter does not see them.
 */
#define OPEN_TO_WRITE (O_ACCMODE | O_CREAT | O_TRUNC | __O_TMPFILE)

static const struct condition conditions[] = {
	/* Threads, and no processes. */
	{"clone", 0, CLONE_THREAD, CLONE_THREAD},
	/* No code but what is there: files are no better, as one can be made without a name. */
	{"mmap", 2, PROT_EXEC, 0},
	{"mprotect", 2, PROT_EXEC, 0},
	{"open", 1, OPEN_TO_WRITE, O_RDONLY},
	{"openat", 2, OPEN_TO_WRITE, O_RDONLY},
	{"socket", 0, INT, AF_UNIX},
	{"socket", 0, INT, AF_INET},
	{"socket", 0, INT, AF_INET6},
	{"socket", 0, INT, AF_NETLINK},
	{"prctl", 0, INT, PR_SET_NAME},
	{"prctl", 0, INT, PR_GET_NAME},
	{"prctl", 0, INT, PR_SET_VMA},
};

static int allow(scmp_filter_ctx f, const char *const *calls)
{
	int rc = 0;

	for (; *calls && !rc; calls++) {
		int number = seccomp_syscall_resolve_name(*calls);

		if (number >= 0)
			rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, number, 0);
	}
	return rc;
}

static int allow_some(scmp_filter_ctx f)
{
	int rc = 0;

	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions) && !rc; i++) {
		const struct condition *c = &conditions[i];
		int number = seccomp_syscall_resolve_name(c->call);

		if (number >= 0)
			rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, number, 1,
					      SCMP_CMP(c->argument, SCMP_CMP_MASKED_EQ, c->mask, c->value));
	}
	for (size_t i = 0; i < sizeof(file_commands) / sizeof(*file_commands) && !rc; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, INT, file_commands[i]));
	return rc;
}

/* Signals and limits of this process: abort(), a thread that is cancelled. */
static int allow_itself(scmp_filter_ctx f)
{
	uint64_t pid = (uint64_t)getpid();
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
				  SCMP_A0(SCMP_CMP_MASKED_EQ, INT, pid));

	if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, INT, pid));
	if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, INT, 0), SCMP_A2(SCMP_CMP_EQ, 0));
	/* Its flags are in memory, where a filter does not see them; glibc then takes clone. */
	return rc ? rc : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static scmp_filter_ctx filter_new(uint32_t otherwise)
{
	scmp_filter_ctx f = seccomp_init(otherwise);

	if (!f)
		return NULL;
	/* All threads. Kernels before 5.16 would else slow each of them against speculation. */
	seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
	/* A tree of comparisons rather than a list: a sleeping lcore's calls are measured, too. */
	seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return f;
}

/* A filter of its own, before the other: "all but these" of masked arguments cannot be said in one. */
static int refuse_ioctls(void)
{
	scmp_filter_ctx f = filter_new(SCMP_ACT_ALLOW);
	int rc = f ? 0 : -ENOMEM;

	for (size_t i = 0; i < sizeof(refused_ioctls) / sizeof(*refused_ioctls) && !rc; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, INT, refused_ioctls[i]));
	if (!rc)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc;
}

int filter_engine(struct err *err)
{
	scmp_filter_ctx f = filter_new(SCMP_ACT_ERRNO(EPERM));
	int rc = f ? refuse_ioctls() : -ENOMEM;

	if (!rc)
		rc = allow(f, engine_calls);
	if (!rc)
		rc = allow_some(f);
	if (!rc)
		rc = allow_itself(f);
	if (!rc)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc ? err_set(err, -rc, "engine", "cannot give its rights up: filter of system calls: %s",
			    strerror(-rc))
		  : 0;
}

void filter_helper(void)
{
	scmp_filter_ctx f = filter_new(SCMP_ACT_ERRNO(EPERM));

	if (f && !allow(f, helper_calls))
		seccomp_load(f);
	seccomp_release(f);
}

const char *filter_about(void)
{
	static char text[48];
	const struct scmp_version *v = seccomp_version();

	snprintf(text, sizeof(text), "libseccomp %u.%u.%u", v->major, v->minor, v->micro);
	return text;
}
