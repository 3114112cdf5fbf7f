/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fib.h"

#define LPM_CAPACITY_MAX (UINT32_C(1) << 24)

/* What the kinds of tables are made with; fib_create has checked conf. */
int cuckoo_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err);
int lpm_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err);
