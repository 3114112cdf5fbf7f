/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_hash_crc.h>

#include "fastpath.h"

/* Between fastpath.c (hits) and fastpath_record.c (what is learned). */

#define FAST_L2_BYTES 14u
#define FAST_L3_BYTES 20u

static inline struct fast_entry *fast_set(const struct fastpath *fp, uint32_t hash)
{
	return fp->entries + (size_t)(hash & fp->set_mask) * FAST_WAYS;
}

/* Where in its set a key is looked for first: spread over the ways, so that mostly one line is read. */
static inline unsigned int fast_home(uint32_t hash)
{
	return hash >> 30;
}

static inline uint32_t fast_hash(const struct fastpath *fp, const uint64_t key[2])
{
	return rte_hash_crc_8byte(key[1], rte_hash_crc_8byte(key[0], fp->seed));
}

static inline uint32_t fast_epochs(const struct fast_path *p, const struct fast_entry *e)
{
	static_assert(FAST_FLOWS_MAX == 4, "written out, so that there is no loop to predict");
	return p->epochs[0][e->flow[0]] + p->epochs[1][e->flow[1]] + p->epochs[2][e->flow[2]] +
	       p->epochs[3][e->flow[3]];
}
