/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "problem.h"

/*
 * Lets threads of the kernel's poll an interface (threaded NAPI), where its driver can, and binds
 * them to CPUs, in turn. `was`: what there was before, for napi_restore. -errno.
 */
int napi_thread(const char *interface, const int *cpus, unsigned int n, char *was,
		struct problem *p);
void napi_restore(const char *interface, char was);
