/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * From now on SIGTERM comes when the process that started this one ends, however that happens:
 * nobody would ever stop a tracer, or take a shortcut off, whose lab was killed.
 */
static inline void end_with_parent(void)
{
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		raise(SIGTERM);
}
