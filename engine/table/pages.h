/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Bytes by /proc/meminfo: "MemTotal", or what can still be had, "MemAvailable". UINT64_MAX: it does not say. */
uint64_t pages_memory(const char *which);
