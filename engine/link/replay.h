/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/err.h"

/*
 * A capture to be replayed. Its packets stay as they are, unstamped; the sink knows them again by a
 * digest over what a chain leaves alone: L4 payload, IPv4 identification, lengths (anything
 * that is not IP: all after the MAC addresses). Packets of equal digest share a slot.
 */
struct replay_slot {
	uint64_t digest;
	/* By the source's lcore, this one last: who reads it first knows no later one of `sent`. */
	_Atomic uint64_t sent_tsc; /* intended time of the last one sent */
	_Atomic uint32_t sent;
	_Atomic uint32_t received; /* by the sinks' lcores */
};

struct replay_packet {
	uint32_t offset;
	uint16_t len;
	uint32_t slot;
	uint64_t at_ns; /* since the first; never before the one ahead of it */
};

struct replay {
	uint32_t n_packets, n_slots, mask;
	struct replay_packet *packets;
	struct replay_slot *slots;
	uint32_t *index; /* open addressing: slot + 1, 0 is free */
	uint8_t *data;
	uint64_t period_ns; /* until it begins again: its duration and a mean gap; 0: all at one time */
};

/* What a capture needs of packet buffers, before there are any. */
struct replay_size {
	uint64_t packets;
	uint32_t largest_bytes; /* without FCS */
	uint64_t period_ns;     /* as of a replay */
};

/* pcap or pcapng, either of them in gzip. */
int replay_measure(const char *file, struct replay_size *size, struct err *err);

/* Errors name file and packet number. max_len: room in a packet buffer. */
int replay_load(const char *file, uint32_t max_len, struct replay **out, struct err *err);
void replay_free(struct replay *r);
void replay_reset(struct replay *r);

uint64_t replay_digest(uint8_t *data, uint16_t len);
/* NULL: no packet of this capture. */
struct replay_slot *replay_find(const struct replay *r, uint64_t digest);

/* The source's lcore, before the packet is where a sink may find it. */
static inline void replay_sent(struct replay_slot *s, uint64_t tsc)
{
	uint32_t sent = atomic_load_explicit(&s->sent, memory_order_relaxed) + 1;

	atomic_store_explicit(&s->sent, sent, memory_order_release);
	atomic_store_explicit(&s->sent_tsc, tsc, memory_order_release);
}
