/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdio.h>

/* Why something cannot be done, in one line. */
struct problem {
	char text[256];
};

/* Says it; returns `rc`, so that a caller can return what this does. */
int problem_is(struct problem *p, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
