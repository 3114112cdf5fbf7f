/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Connection tracking: one table says what each packet does to its flow's state, for TCP (RFC
 * 9293 section 3.3.2, seen from the middle) and, with fewer states, for everything else.
 * Sequence numbers are not tracked.
 */
enum track_state {
	TRACK_NEW, /* not in the table yet */
	TRACK_SYN_SENT,
	TRACK_SYN_RECEIVED,
	TRACK_ESTABLISHED,
	TRACK_FIN_ORIGIN, /* the side that opened has sent FIN */
	TRACK_FIN_REPLY,
	TRACK_TIME_WAIT, /* both have */
	TRACK_RESET,
	TRACK_UDP,
	TRACK_UDP_REPLIED,
	TRACK_ICMP,
	TRACK_OTHER,
	TRACK_STATES,
	TRACK_INVALID = TRACK_STATES, /* drop the packet, the state stays */
	TRACK_REOPEN,		      /* a new connection of the same tuple: as for a new flow */
};

enum track_side {
	TRACK_ORIGIN, /* the way of the flow's first packet */
	TRACK_REPLY,
	TRACK_SIDES,
};

/* What a packet is, as far as states go. */
enum track_event {
	TRACK_ACK, /* also every packet that is not TCP */
	TRACK_SYN,
	TRACK_SYN_ACK,
	TRACK_FIN,
	TRACK_RST,
	TRACK_BAD, /* flags that no TCP sends together */
	TRACK_EVENTS,
};

extern const uint8_t track_next[TRACK_STATES][TRACK_SIDES][TRACK_EVENTS];
/* By (flags & 0x17): FIN, SYN, RST and ACK. */
extern const uint8_t track_events[0x18];

static inline enum track_event track_tcp_event(uint8_t flags)
{
	return (enum track_event)track_events[flags & 0x17];
}
