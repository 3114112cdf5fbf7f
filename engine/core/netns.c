/* SPDX-License-Identifier: Apache-2.0 */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int netns_enter(const char *file, int *saved, struct err *err)
{
	int fd, rc = 0;

	*saved = -1;
	if (!file)
		return 0;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	*saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || *saved < 0 || setns(fd, CLONE_NEWNET))
		rc = err_set(err, errno, file, "cannot enter this network namespace: %s",
			     strerror(errno));
	if (fd >= 0)
		close(fd);
	if (rc && *saved >= 0)
		close(*saved);
	return rc;
}

/* A thread that went on in the wrong namespace would do harm there. */
void netns_leave(int saved)
{
	if (saved < 0)
		return;
	if (setns(saved, CLONE_NEWNET))
		abort();
	close(saved);
}
