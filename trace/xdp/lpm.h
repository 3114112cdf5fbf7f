/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "shared.h"

/* The table of lpm.bpf.h, as it is built before the kernel has it. */
struct lpm {
	struct lpm_block *blocks; /* the first 256 are by the first byte of an address */
	uint32_t n, room;
};

struct lpm_prefix {
	uint8_t addr[16]; /* network order; bits behind `bits` are 0 */
	uint8_t bits;
	uint32_t value; /* not 0, without the bit of LPM_BLOCK */
};

/* An empty table; -ENOMEM. */
int lpm_init(struct lpm *t);
void lpm_fini(struct lpm *t);

/* All of them, whatever their order, which is changed. Of equal ones any wins. -ENOMEM. */
int lpm_fill(struct lpm *t, struct lpm_prefix *prefixes, uint32_t n);

/* What lpm.bpf.h finds. */
uint32_t lpm_lookup(const struct lpm *t, const uint8_t *addr, unsigned int bytes);
