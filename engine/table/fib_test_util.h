/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fib.h"

static inline uint64_t rnd64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Key number i of a kind, different for every i below 2^32; spread over the key's bits. */
static inline const void *test_key(enum fib_key kind, uint64_t i, uint8_t buf[16])
{
	uint64_t w[2] = {(i * 0x9e3779b97f4a7c15u), i};
	uint32_t u32 = (uint32_t)i * 2654435761u;

	if (kind == FIB_KEY_MAC)
		w[0] &= 0xffffffffffff;
	if (kind == FIB_KEY_IPV4)
		memcpy(buf, &u32, 4);
	else
		memcpy(buf, w, kind == FIB_KEY_IPV6 ? 16 : 8);
	return buf;
}

static inline struct fib *test_fib(enum fib_kind kind, enum fib_key key, uint64_t capacity)
{
	struct fib_conf conf = {.kind = kind,
				.key = key,
				.capacity = capacity,
				.socket = -1,
				.memory = FIB_MEMORY_ORDINARY};
	struct fib *f = NULL;
	struct err err;

	assert_int_equal(fib_create(&f, &conf, "test", &err), 0);
	return f;
}
