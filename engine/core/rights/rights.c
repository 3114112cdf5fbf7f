/* SPDX-License-Identifier: Apache-2.0 */
#include "rights.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "helper.h"

static int failed(struct err *err, const char *what)
{
	return err_set(err, errno, "engine", "cannot give its rights up: %s: %s", what,
		       strerror(errno));
}

int rights_begin(char **argv, struct err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return failed(err, "no_new_privs");
	return geteuid() ? 0 : helper_start(argv, err);
}

int rights_keep(uint64_t keep)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &h, d))
		return -errno;
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		d[i].permitted &= (uint32_t)(keep >> 32 * i);
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, d) ? -errno : 0;
}

void rights_hold(uint64_t keep)
{
	/* Becoming another user takes two, in each thread. */
	rights_keep(keep | 1ull << CAP_SETUID | 1ull << CAP_SETGID);
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

bool rights_held(uint64_t keep)
{
	return geteuid() && !rights_keep(keep);
}

/*
 * glibc has every thread do it. All of them lose their capabilities by it, but for the one that has
 * asked to keep them. A container may have neither the right nor the number: its rights are then
 * those that it was given.
 */
static int become_nobody(uint64_t keep, struct err *err)
{
	uid_t user = RIGHTS_FIRST_USER + (uid_t)getpid();
	pid_t parent = getppid();
	int death = 0;

	prctl(PR_GET_PDEATHSIG, &death);
	if (setresgid(user, user, user))
		return errno == EPERM || errno == EINVAL ? 0 : failed(err, "group");
	if (setgroups(0, NULL) || (keep && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)) ||
	    setresuid(user, user, user))
		return failed(err, "user");
	if (rights_keep(keep))
		return failed(err, "capabilities");
	/* The kernel forgets it with the user; a parent that ended meanwhile has told nobody. */
	if (death && prctl(PR_SET_PDEATHSIG, death))
		return failed(err, "the parent's death");
	if (death && getppid() != parent)
		raise(death);
	return 0;
}

int rights_drop(uint64_t keep, struct err *err)
{
	int rc = 0;

	/* glibc loads it when a thread is cancelled: no library can be loaded afterwards. */
	dlopen("libgcc_s.so.1", RTLD_NOW);
	if (!geteuid()) {
		helper_seal();
		rc = become_nobody(keep, err);
	}
	if (!rc)
		rc = filter_engine(err);
	return rc;
}
