/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>

/*
 * An error that a user can act on: where (a path in the plan such as
 * "nfs.acl.params.rules", or "file:line"), and what is wrong with which value.
 * Functions return -errno and fill this in; nobody in a library prints or exits.
 */
struct err {
	char path[192];
	char msg[320];
};

/* Fill err and return -code, so that a failing function ends in one line. */
int err_set(struct err *err, int code, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* More about it, behind what the message says already; cut where there is no room. */
void err_add(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Where a message is to be UTF-8, which a name that was cut, or never was text, is not: its bytes that
 * are none become '?'. */
void err_text(char *text);
