/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <string.h>

/*
 * The measuring stamp: the last 16 bytes of a frame's payload (FCS not counted).
 *
 *	bits 63..48 of the first word	magic: 'H' and the trial's epoch (mod 256)
 *	bits 47..0			intended send time, TSC cycles mod 2^48 (34 h at 2.3 GHz)
 *	bits 63..32 of the second word	flow
 *	bits 31..0			sequence within the flow
 *
 * Words are little-endian. The time is when the packet was due, not when it left: a generator
 * that stalls shows up as latency instead of hiding it (open loop).
 */
#define STAMP_BYTES 16
#define STAMP_TIME_MASK ((1ull << 48) - 1)

struct stamp {
	uint64_t magic_time, flow_seq;
};

static inline uint64_t stamp_magic(unsigned int epoch)
{
	return (uint64_t)('H' << 8 | (epoch & 0xff)) << 48;
}

static inline void stamp_write(uint8_t *end, uint64_t magic_time, uint64_t flow_seq)
{
	memcpy(end - 16, &magic_time, 8);
	memcpy(end - 8, &flow_seq, 8);
}

static inline struct stamp stamp_read(const uint8_t *end)
{
	struct stamp s;

	memcpy(&s, end - STAMP_BYTES, sizeof(s));
	return s;
}
