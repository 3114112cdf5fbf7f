/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "core/nf.h"
#include "table/flow.h"

/*
 * What is in a checkpoint's memory: two halves, of which one is whole. An engine goes on with what that has,
 * writes into the other, and says so once all it took over is there: so one that is killed while it begins
 * takes nothing from the next.
 */
#define CHECKPOINT_MAGIC 0x68726370u /* "hrcp" */
#define CHECKPOINT_VERSION 1
#define CHECKPOINT_PARTS 16 /* flow tables of a segment */
#define CHECKPOINT_AT_ONCE 1024 /* records that a tick looks at: bounds how long it takes */

struct checkpoint_part {
	_Atomic uint32_t live; /* records of the table now */
	_Atomic uint32_t top;  /* slots at and above it were not written */
};

struct checkpoint_half {
	uint64_t layout; /* of the segment's tables: another one's is nobody's */
	_Atomic uint64_t life; /* of who wrote it: a slot of another one's is void */
	struct checkpoint_part parts[CHECKPOINT_PARTS];
	_Alignas(64) uint8_t slots[];
};

struct checkpoint_area {
	_Alignas(64) uint32_t magic;
	uint32_t version;
	_Atomic uint32_t whole; /* 1 or 2: the first or the second half; 0: neither */
};

/* A flow. Behind the key the function's own; `check` is of all behind it, and of where and whose it is. */
struct checkpoint_slot {
	_Atomic uint32_t check; /* 0: no flow */
	uint32_t expires, written; /* flow_now() */
	uint16_t user, pad;
	uint64_t key[];
};
#define CHECKPOINT_KEY_WORDS 5
#define CHECKPOINT_SLOT_MAX                                                                        \
	(sizeof(struct checkpoint_slot) + CHECKPOINT_KEY_WORDS * sizeof(uint64_t) + NF_KEPT_BYTES)

static inline uint64_t checkpoint_mix(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		h = flow_fold_mul(h ^ word, 0x9e3779b97f4a7c15);
	}
	for (; n; n--)
		h = flow_fold_mul(h ^ *at++, 0xbf58476d1ce4e5b9);
	return h;
}

static inline uint32_t checkpoint_check(const struct checkpoint_slot *s, uint32_t bytes, uint64_t life,
					uint32_t index)
{
	uint64_t h = life ^ (uint64_t)index * 0x94d049bb133111eb;

	h = checkpoint_mix(h, (const uint8_t *)s + sizeof(s->check), bytes - sizeof(s->check));
	return (uint32_t)(h >> 32) | 1;
}
