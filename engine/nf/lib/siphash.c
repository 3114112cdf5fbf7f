/* SPDX-License-Identifier: Apache-2.0 */
#include "siphash.h"

static inline uint64_t rotate(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

uint64_t siphash(const uint64_t key[2], const uint64_t *words, size_t n)
{
	uint64_t v[] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
			key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};

	for (size_t i = 0; i < n; i++)
		sip_word(v, words[i]);
	sip_word(v, (uint64_t)n << 59); /* the length in bytes, in the last one's highest */
	v[2] ^= 0xff;
	for (unsigned int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
