/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

uint64_t fuzz_tsc;
