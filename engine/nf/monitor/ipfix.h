/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "table/flow.h"

/*
 * IPFIX messages (RFC 7011) with two templates, one for each family, of the information elements
 * that flow records everywhere have. Pure: bytes in a buffer, no clock and no socket.
 */
#define IPFIX_MESSAGE_MAX 1400 /* RFC 7011 section 10.3.3: no fragmentation on the way */

enum ipfix_end_reason { /* IANA element 136 */
	IPFIX_IDLE = 1,
	IPFIX_ACTIVE = 2,
	IPFIX_FORCED = 4,
};

struct ipfix_record {
	uint64_t octets, packets;
	uint64_t start_ms, end_ms; /* since the UNIX epoch */
	uint16_t icmp_type_code;
	uint8_t tcp_flags, tos;
	uint8_t end_reason;
};

struct ipfix {
	uint32_t domain;   /* observation domain */
	uint32_t sequence; /* data records sent so far, in this domain */
	uint32_t records;  /* in the message being built */
	uint16_t set;      /* offset of the open data set, 0: none */
	uint16_t set_template;
	uint16_t len;
	uint8_t buf[IPFIX_MESSAGE_MAX];
};

/* An empty message; with templates, which over UDP must be repeated (RFC 7011 section 8.1). */
void ipfix_begin(struct ipfix *x, bool templates);
/* False: there is no room for it, send the message first. Key as the family's flow_key. */
bool ipfix_add(struct ipfix *x, enum flow_family family, const void *key,
	       const struct ipfix_record *r);
/* Closes the message, which is then x->len bytes in x->buf. */
void ipfix_end(struct ipfix *x, uint32_t unix_s);
