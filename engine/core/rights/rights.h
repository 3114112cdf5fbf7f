/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/*
 * What an engine may do once its links are up (docs/design/security.md): whoever takes it over, by
 * a packet or over a link, has a process without rights. Started as root it becomes a user that
 * nobody else is, without capabilities but those that its devices need, in the thread that closes
 * them; in any case it gains none by starting a program, and makes the system calls alone that an
 * engine makes (filter.c).
 */

/* One user for each engine: its number is this plus the process'. No distribution gives these out. */
#define RIGHTS_FIRST_USER 0x78000000u

/* Before threads are made; `argv`: main's. */
int rights_begin(char **argv, struct err *err);
/* `keep`: capabilities (1 << CAP_...). With the links up; on error the engine must end. */
int rights_drop(uint64_t keep, struct err *err);
/*
 * For a thread that needs capabilities of its own: before the drop it asks to keep them, and afterwards,
 * until this says so, whether it has them (and no others) now.
 */
void rights_hold(uint64_t keep);
bool rights_held(uint64_t keep);
/* The calling thread's capabilities become these, of those that it has. */
int rights_keep(uint64_t keep);
