/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#include "fuzz.h"
#include "tests/packets.h"

/* An input as a program: what its bytes say, and packets made as they say. */
struct input {
	const uint8_t *at, *end;
};

static inline unsigned int take(struct input *in, unsigned int bytes)
{
	unsigned int v = 0;

	while (bytes-- && in->at < in->end)
		v = v << 8 | *in->at++;
	return v;
}

/* Addresses of few values, so that flows meet again and meet the parameters' rules. */
static inline void take_addrs(struct input *in, const char *const ip4[4], const char *const ip6[4],
			      struct craft *c)
{
	const char *const *of = take(in, 1) & 1 ? ip6 : ip4;
	unsigned int which = take(in, 1);

	craft_addrs(c, of[which & 3], of[which >> 2 & 3]);
	c->src[3] += which >> 6;
}

/* A well-formed packet with some bytes changed, as random bytes seldom are IP; its length. */
static inline uint32_t take_packet(struct input *in, const char *const ip4[4], const char *const ip6[4],
				   uint8_t buf[CRAFT_MAX])
{
	static const uint8_t protos[] = {IPPROTO_TCP,    IPPROTO_UDP,  IPPROTO_ICMP,
					 IPPROTO_ICMPV6, IPPROTO_SCTP, IPPROTO_GRE};
	struct craft c = {0};
	unsigned int shape, edits;
	uint32_t len;

	take_addrs(in, ip4, ip6, &c);
	shape = take(in, 2);
	c.proto = protos[(shape & 7) % sizeof(protos)];
	c.vlans = (shape >> 3 & 3) % 3;
	c.options = shape >> 5 & 3;
	c.fragment = shape >> 7 & 1;
	c.more_fragments = shape >> 8 & 1;
	c.fragment_offset = shape >> 9 & 3;
	c.payload = (shape >> 11) * 4;
	c.tcp_flags = take(in, 1);
	c.ttl = take(in, 1);
	c.icmp_type = c.tcp_flags;
	c.sport = take(in, 1);
	c.dport = take(in, 1);
	len = craft_build(&c, buf);
	for (edits = take(in, 1) & 7; edits; edits--) {
		unsigned int at = take(in, 1);

		buf[at % len] = take(in, 1);
	}
	if (take(in, 1) & 1)
		len = RTE_MIN(len, take(in, 1)); /* cut off */
	return len;
}
