/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness.h"

/*
 * Packets for tests, from Ethernet up, with right lengths and checksums. What is zero in
 * struct craft is left out; a test then breaks the bytes that it wants broken.
 */
struct craft {
	uint8_t family;           /* 4 or 6 */
	uint8_t src[16], dst[16]; /* network byte order; IPv4 in the first four */
	uint8_t proto;            /* after IPv6 extension headers */
	uint16_t sport, dport;    /* TCP, UDP, SCTP; host byte order */
	uint8_t tcp_flags;
	uint8_t icmp_type, icmp_code;
	uint8_t ttl; /* 0: 64 */
	uint8_t tos;
	unsigned int vlans;   /* 0..2; two: 802.1ad outside 802.1Q */
	unsigned int options; /* IPv4 options, in words of NOPs, 0..10; IPv6: destination options */
	bool fragment;
	uint16_t fragment_offset; /* in units of 8 bytes */
	bool more_fragments;
	uint16_t payload; /* bytes behind the L4 header */
	uint16_t frame;   /* zeros up to this length, without FCS: as Ethernet's padding */
};

#define CRAFT_MAX 2048

/* Length of the frame written to buf[CRAFT_MAX]. */
uint32_t craft_build(const struct craft *c, uint8_t *buf);
/* Set addresses from text; both of one family. Fails on malformed text. */
void craft_addrs(struct craft *c, const char *src, const char *dst);

/* A growing list of packets that own their bytes. */
struct craft_list {
	struct harness_packet *packets;
	size_t n, room;
};

/* craft_build into the list. */
void craft_add(struct craft_list *list, const struct craft *c);
void craft_add_bytes(struct craft_list *list, const void *data, uint32_t len);
void craft_list_free(struct craft_list *list);

/*
 * What every NF must survive: well-formed packets of all kinds (TCP, UDP, ICMP, SCTP, GRE;
 * IPv4 and IPv6; options, extension headers, fragments, one and two VLAN tags; ARP, LLC), lies
 * in each length field, and each of those cut at every length.
 */
void craft_zoo(struct craft_list *list);
