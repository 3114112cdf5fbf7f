/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Offload of state (docs/design/offload-state.md): a VNF tells its host what it decided for a flow,
 * and the host does that to the flow's next packets. This is the part of the memory of theirs in
 * which it is told; a link of the two has it, behind its packets.
 *
 * The VNF writes records, versions, `head`, `voided`, `done` and `tables`, the host the rest.
 * Neither believes what it reads: the host copies a record before it looks at it, and keeps what it
 * has to be sure of in memory of its own.
 */
#define OFFLOAD_RECORDS 1024 /* that wait for the host */
#define OFFLOAD_FLOWS_MAX (1u << 16)
#define OFFLOAD_FAMILIES 2

/* One decision. The key is as in plain.h, with 0 for the zone. */
struct offload_record {
	_Alignas(64) uint64_t key[5];
	uint8_t addrs[32]; /* as they leave; of IPv4 the first 8 bytes */
	uint32_t ports;
	uint16_t l3_delta, l4_delta;
	uint8_t macs[12];
	uint8_t sets, ttl, ttl_needed, family;
	uint32_t slot;    /* where its version and its count are */
	uint32_t version; /* as long as the slot's is the same, it holds */
	uint32_t tables;  /* what `tables` was when it was decided; it holds as long as that is the
			     same */
};

struct offload_area {
	_Alignas(64) _Atomic uint64_t head;   /* of the records */
	_Alignas(64) _Atomic uint32_t voided; /* grows after versions did */
	/*
	 * Of the packets that the VNF took, how many it has let out or dropped all of (the upper
	 * half), and how many packets it had let out by then: what tells that no packet of a flow
	 * is inside it.
	 */
	_Alignas(64) _Atomic uint64_t done;
	_Alignas(64) _Atomic uint32_t tables; /* grows before an update of tables is answered */
	/* The host's. */
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t
		seen; /* `voided`, as of which nothing void is applied or counted any more */
	_Alignas(64) struct offload_record records[OFFLOAD_RECORDS];
	/* then, for each slot, how many packets the host did it to, and its version */
};

static inline uint32_t offload_slots(uint32_t flows)
{
	return OFFLOAD_FAMILIES * flows;
}

static inline _Atomic uint64_t *offload_hits(struct offload_area *a)
{
	return (_Atomic uint64_t *)(a + 1);
}

static inline _Atomic uint32_t *offload_versions(struct offload_area *a, uint32_t flows)
{
	return (_Atomic uint32_t *)(offload_hits(a) + offload_slots(flows));
}

/* Whole lines; 0 without flows. */
static inline size_t offload_bytes(uint32_t flows)
{
	size_t slots = offload_slots(flows);

	return flows ? (sizeof(struct offload_area) +
			slots * (sizeof(uint64_t) + sizeof(uint32_t)) + 63) &
			       ~(size_t)63
		     : 0;
}
