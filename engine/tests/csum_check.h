/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * For tests: are all checksums of a frame right? Recomputed from the bytes alone (RFC 1071, and
 * the pseudo-headers of RFC 9293, RFC 768 and RFC 8200), so that nothing is shared with the
 * incremental updates that are tested. Frames without VLAN tags or IPv6 extension headers.
 */
static inline uint32_t csum_check_sum(const uint8_t *p, uint32_t bytes, uint32_t sum)
{
	for (uint32_t i = 0; i < bytes; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	return sum;
}

static inline bool csum_check_is_whole(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static inline bool csum_check_l4(const uint8_t *l4, uint32_t bytes, uint8_t proto,
				 const uint8_t *addrs, uint32_t addr_bytes)
{
	uint32_t sum = csum_check_sum(addrs, addr_bytes, proto + bytes);

	if (proto == 1)
		sum = 0; /* ICMP has no pseudo-header; ICMPv6 has */
	else if (proto != 6 && proto != 17 && proto != 58)
		return true;
	if (proto == 17 && !l4[6] && !l4[7])
		return addr_bytes == 8; /* none was made; IPv6 wants one */
	return csum_check_is_whole(csum_check_sum(l4, bytes, sum));
}

static inline bool csum_check(const uint8_t *frame)
{
	const uint8_t *ip = frame + 14;
	uint32_t ihl = (ip[0] & 15) * 4;

	if (ip[0] >> 4 == 4)
		return csum_check_is_whole(csum_check_sum(ip, ihl, 0)) &&
		       ((ip[6] & 0x3f) || ip[7] ||
			csum_check_l4(ip + ihl, (ip[2] << 8 | ip[3]) - ihl, ip[9], ip + 12, 8));
	return csum_check_l4(ip + 40, ip[4] << 8 | ip[5], ip[6], ip + 8, 32);
}
