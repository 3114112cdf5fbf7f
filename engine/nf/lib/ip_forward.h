/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ip.h>

/* What every router does to an IPv4 header. */

/* RFC 1071; the sum of a header with its checksum is 0xffff. */
static inline bool ip_checksum_ok(const struct rte_ipv4_hdr *ip, unsigned int bytes)
{
	const uint8_t *p = (const uint8_t *)ip;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < bytes; i += 4) {
		uint32_t word;

		memcpy(&word, p + i, sizeof(word));
		sum += word;
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* RFC 1624 for the one change that is always the same: the word of TTL loses 0x0100. */
static inline void ip_decrement_ttl(struct rte_ipv4_hdr *ip)
{
	uint32_t sum = ip->hdr_checksum + (uint32_t)rte_cpu_to_be_16(0x0100);

	ip->hdr_checksum = (uint16_t)(sum + (sum >= 0xffff));
	ip->time_to_live--;
}
