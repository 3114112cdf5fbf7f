/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "err.h"

/*
 * Sockets and TAPs belong to the network namespace of the thread that opens them, and stay usable
 * wherever they are used. Enter, open, leave; only the calling thread moves.
 */
/* NULL: stay here. 0, *saved for netns_leave; or -errno with the path of the namespace in err. */
int netns_enter(const char *file, int *saved, struct err *err);
void netns_leave(int saved);
