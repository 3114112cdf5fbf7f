/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 of n words (Aumasson and Bernstein, 2012): who picks them, and lacks the key, finds no two
 * of one hash. */
uint64_t siphash(const uint64_t key[2], const uint64_t *words, size_t n);
