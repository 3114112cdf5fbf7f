/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_hash_crc.h>
#include <rte_prefetch.h>

#include "nf/lib/rules/set.h"

/*
 * A worker's exact-match cache of IPv4 flows with ports in front of rte_acl, as Open vSwitch's
 * EMC is in front of its classifier (Pfaff et al., "The Design and Implementation of Open
 * vSwitch", NSDI 2015, section 4.2): traffic has few flows and many packets, and a hit costs one
 * cache line instead of a walk of some ten. Nothing is kept that the rules would not say anew.
 *
 * A bucket is a line of four entries, each the key and what rte_acl answered. The lanes are
 * compared all at once; the compiler makes what SIMD the machine has of them.
 */
typedef uint64_t acl_lanes __attribute__((vector_size(32)));

struct acl_bucket {
	acl_lanes addrs; /* source and destination */
	acl_lanes rest;  /* ports, protocol, TCP flags; and the answer + 1 in the top 16 bits */
};

_Static_assert(sizeof(struct acl_bucket) == 64, "a bucket is a cache line");

#define ACL_CACHE_WAYS 4
#define ACL_CACHE_ANSWER_SHIFT 48
#define ACL_CACHE_KEY_BITS (UINT64_MAX >> (64 - ACL_CACHE_ANSWER_SHIFT))

struct acl_cache_key {
	uint64_t addrs, rest;
};

/* From a key with ports (set.h). */
static inline struct acl_cache_key acl_cache_key(const uint8_t *packet, bool flags)
{
	struct acl_cache_key key;
	uint32_t ports;

	memcpy(&key.addrs, packet + 12, sizeof(key.addrs));
	memcpy(&ports, packet + 20, sizeof(ports));
	key.rest = ports | (uint64_t)packet[9] << 32;
	if (flags && packet[9] == IPPROTO_TCP)
		key.rest |= (uint64_t)packet[33] << 40;
	return key;
}

static inline uint32_t acl_cache_hash(struct acl_cache_key key)
{
	return rte_hash_crc_8byte(key.rest, rte_hash_crc_8byte(key.addrs, 0));
}

/* The answer + 1, or 0. Two entries of one key, from one burst, have the same answer. */
static inline uint32_t acl_cache_find(const struct acl_bucket *b, struct acl_cache_key key)
{
	acl_lanes differ = (b->addrs ^ key.addrs) | ((b->rest ^ key.rest) & ACL_CACHE_KEY_BITS);
	acl_lanes hit = (acl_lanes)(differ == 0) & b->rest;

	return (hit[0] | hit[1] | hit[2] | hit[3]) >> ACL_CACHE_ANSWER_SHIFT;
}

/* `way` chooses the entry that goes when all are taken. */
static inline void acl_cache_put(struct acl_bucket *b, struct acl_cache_key key, uint32_t answer,
				 unsigned int way)
{
	uint64_t *addrs = (uint64_t *)&b->addrs, *rest = (uint64_t *)&b->rest;

	for (unsigned int i = 0; i < ACL_CACHE_WAYS; i++)
		if (!rest[i])
			way = i;
	addrs[way] = key.addrs;
	rest[way] = key.rest | (uint64_t)(answer + 1) << ACL_CACHE_ANSWER_SHIFT;
}
