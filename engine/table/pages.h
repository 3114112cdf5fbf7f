/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Bytes: "MemTotal", or what can still be had, "MemAvailable" (proc(5)). UINT64_MAX: it is not told. */
uint64_t pages_memory(const char *which);
