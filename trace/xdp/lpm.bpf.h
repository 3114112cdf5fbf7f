/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include "common.bpf.h"

/*
 * Longest prefix match, a byte of the address at a step, the first two at once (controlled prefix
 * expansion: Srinivasan and Varghese, 1999). The kernel's LPM trie has a node for each bit where
 * prefixes part.
 */
#define LPM_MAP(name)                                                                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, 256);                                                          \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, struct lpm_block);                                                   \
	} name SEC(".maps")

/* The value of the longest prefix that an address of `bytes` bytes has, or 0. */
static __always_inline __u32 lpm_find(void *map, const __u8 *addr, int bytes)
{
	__u32 e = LPM_BLOCK | addr[0];

#pragma clang loop unroll(full)
	for (int i = 1; i < bytes; i++) {
		const struct lpm_block *b;
		__u32 at = e & ~LPM_BLOCK;

		if (!(e & LPM_BLOCK))
			break;
		b = bpf_map_lookup_elem(map, &at);
		if (!b)
			return 0;
		e = b->entry[addr[i]];
	}
	return e;
}
