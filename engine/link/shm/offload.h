/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include <rte_hash_crc.h>

#include "shm.h"

/* Offload of state: what the host keeps of a VNF's decisions, in memory that the VNF does not have.
 */

#define SHM_WAYS 4

enum shm_flow_state {
	SHM_FLOW_FREE,
	/*
	 * It applies, but for as long as packets of the flow may be inside the VNF, and while some
	 * are held for that: then the next are held, too.
	 */
	SHM_FLOW_WAITS,
	SHM_FLOW_VOID, /* packets are held: those that come are for the VNF, and wait behind them */
};

/* A hit of IPv4 reads the first line only. */
struct shm_flow {
	_Alignas(64) uint64_t first; /* words of the key */
	uint64_t last;
	uint8_t addrs4[8];
	uint32_t ports;
	uint16_t l3_delta, l4_delta;
	uint8_t macs[12];
	uint8_t sets, ttl, ttl_needed;
	uint8_t family : 2, state : 6;
	uint32_t slot, version;
	uint32_t since;                   /* shm_offload.since, when it was decided */
	uint32_t held;                    /* packets of it */
	_Alignas(64) uint64_t between[3]; /* the other words of IPv6's key */
	uint8_t addrs[32];
	uint32_t after; /* how many packets have to be through the VNF before it applies */
};
static_assert(offsetof(struct shm_flow, between) == 64 && sizeof(struct shm_flow) == 128,
	      "two lines");

struct shm_held {
	struct rte_mbuf *m;
	uint32_t flow;
	bool raw; /* for the VNF, as it came */
};

struct shm_offload {
	struct shm_flow *flows;
	uint32_t set_mask, seed;
	uint32_t since;        /* grows when all that was decided is void */
	uint32_t tables, seen; /* as they were read last */
	uint32_t settled; /* so many packets are through the VNF, and what came of them was read */
	uint32_t slots;
	unsigned int lcore; /* that writes the link */
	bool apart;         /* another one reads it: nothing is offloaded */
	uint64_t serial;    /* of the mapping */
	struct offload_area *area;
	_Atomic uint64_t *hits_of;
	_Atomic uint32_t *versions;
	uint64_t tail;
	/* Packets as they come back: to be given at once, and once their flow has none inside the
	 * VNF. */
	struct rte_mbuf **back;
	struct shm_held *held;
	uint32_t ring_mask, back_from, back_n, held_from, held_n;
	struct {
		uint64_t hits, held, published, voided, stale, no_room, evicted, refused, fragments,
			tables;
	} n;
	struct ends gone_ends; /* held when the VNF ended */
};

static inline struct shm_held *shm_held_at(const struct shm_offload *o, uint32_t at)
{
	return &o->held[at & o->ring_mask];
}

static inline uint32_t shm_flow_hash(const struct shm_offload *o, const uint64_t *key,
				     unsigned int words)
{
	uint32_t h = o->seed;

	for (unsigned int i = 0; i < words; i++)
		h = rte_hash_crc_8byte(key[i], h);
	return h;
}
