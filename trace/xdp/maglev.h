/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct maglev_member {
	uint64_t name; /* by which its permutation is chosen */
	uint32_t weight, value;
};

/*
 * Fills a table whose size is prime (Eisenbud et al., NSDI 2016, section 3.4): members take turns,
 * those of less weight more seldom. Without any weight it stays as it is. -ENOMEM.
 */
int maglev_fill(uint32_t *table, uint32_t size, const struct maglev_member *members, uint32_t n);
