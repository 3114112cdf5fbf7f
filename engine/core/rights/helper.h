/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/err.h"

/*
 * A small process that keeps what the engine gives up once it runs (rights.h), for the two things that
 * need it still: sockets in folders that are another user's have to be connected to again, when who
 * listened there comes again, and removed at the end. It does both at paths alone that were named
 * before the engine gave its rights up, and nothing else. Without one (the engine was not started as
 * root, or has its rights still) the caller does it itself.
 */

/* While the process has one thread. `argv`: main's, in whose place `ps` shows "headrace-helper". */
int helper_start(char **argv, struct err *err);
/* A path that will be connected to, or removed. One that does not fit is left out. */
void helper_note(const char *path);
/* From now on it knows all paths, and is asked. */
void helper_seal(void);

/* A socket of this type that is connected; -errno. `type`: with SOCK_NONBLOCK or not. */
int helper_connect(const char *path, int type);
/* A file or an empty folder. */
void helper_remove(const char *path);
