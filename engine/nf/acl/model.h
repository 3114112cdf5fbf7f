/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "nf/lib/rules/rule.h"

/*
 * The plain model that tests hold the NF against: one rule after the other, field by field,
 * as the rule's meaning is written down and with nothing of rte_acl in it.
 */
struct model_packet {
	uint8_t family, proto;
	uint8_t src[16], dst[16];
	bool ports, flags; /* known */
	uint16_t sport, dport;
	uint16_t flag_bits; /* TCP flags or ICMP type << 8, ICMP code */
};

static inline bool model_prefix(const uint8_t *addr, const uint8_t *prefix, unsigned int len)
{
	for (unsigned int bit = 0; bit < len; bit += 8) {
		uint8_t mask = len - bit >= 8 ? 0xff : 0xff << (8 - (len - bit));

		if ((addr[bit / 8] ^ prefix[bit / 8]) & mask)
			return false;
	}
	return true;
}

static inline bool model_port(bool known, uint16_t port, const uint16_t range[2])
{
	if (range[0] == 0 && range[1] == UINT16_MAX)
		return true;
	return known && range[0] <= port && port <= range[1];
}

static inline bool model_match(const struct acl_rule *r, const struct model_packet *p,
			       bool match_flags)
{
	if (r->family && r->family != p->family)
		return false;
	if (!model_prefix(p->src, r->src, r->src_len) || !model_prefix(p->dst, r->dst, r->dst_len))
		return false;
	if ((p->proto ^ r->proto) & r->proto_mask)
		return false;
	if (!model_port(p->ports, p->sport, r->sport) || !model_port(p->ports, p->dport, r->dport))
		return false;
	if (!match_flags || !r->flags_mask)
		return true;
	return p->flags && ((p->flag_bits ^ r->flags) & r->flags_mask) == 0;
}

/* The index of the first rule that matches, -1: none. */
static inline long model_first(const struct acl_rules *rules, const struct model_packet *p,
			       bool match_flags)
{
	for (size_t i = 0; i < rules->count; i++)
		if (model_match(&rules->items[i], p, match_flags))
			return i;
	return -1;
}
