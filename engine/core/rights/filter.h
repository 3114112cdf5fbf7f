/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/err.h"

/*
 * System calls of all threads, from now on (seccomp). Any other fails with EPERM, and no thread can
 * take this back. A build without libseccomp has no filter: `--version` says so.
 */
int filter_engine(struct err *err);
/* The helper's (helper.h); without an error, as its orders are few in any case. */
void filter_helper(void);
/* "libseccomp 2.5.4", or "no seccomp filter". */
const char *filter_about(void);
