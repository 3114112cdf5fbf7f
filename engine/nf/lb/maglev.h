/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Maglev hashing: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
 * Balancer", NSDI 2016, section 3.4. A table of M entries (M prime) in which every backend has
 * nearly its fair share, and which hardly changes when the set of backends does.
 *
 * Weights: in each round a backend takes a turn once its accumulated weight has reached the greatest
 * weight, so its share is proportional to its weight (the paper says only that turns may differ).
 */
#define MAGLEV_NONE UINT16_MAX

struct maglev_backend {
	char name[64];   /* what the permutation is made from: the same name, the same order */
	uint32_t weight; /* 0: takes no entries */
	uint16_t value;  /* what its entries hold */
};

bool maglev_is_prime(uint32_t m);

/*
 * Fill table[0..m-1]; all MAGLEV_NONE when no backend has weight. m prime. 0 or -ENOMEM.
 */
int maglev_fill(uint16_t *table, uint32_t m, const struct maglev_backend *backends, unsigned int n);
