/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "err.h"

/*
 * DPDK's log. While the engine starts it is kept, so that bad input is answered by one line; what
 * DPDK says later, and before it gives up altogether, goes to stderr at once.
 */
void log_keep(void);
void log_release(void);

/* Around a call into DPDK: forget what was said before; add the first error since to ours. */
void log_forget(void);
void log_explain(struct err *err);
