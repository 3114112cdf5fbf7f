/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "core/pkt.h"
#include "set.h"

/* A packet as rte_acl wants to see it, laid out as nf/lib/rules/set.h says, for single lookups. */
union acl_key {
	uint8_t ip4[ACL_IP4_KEY_BYTES];
	uint8_t ip6[ACL_IP6_KEY_BYTES];
	struct acl_bare_key bare;
};

/* The kind of lookup that the key is for. The packet is IPv4 or IPv6. */
static inline enum acl_kind acl_key_make(union acl_key *key, const struct rte_mbuf *m)
{
	const uint32_t with_ports = 1u << (RTE_PTYPE_L4_TCP >> 8) | 1u << (RTE_PTYPE_L4_UDP >> 8) |
				    1u << (RTE_PTYPE_L4_SCTP >> 8);
	const uint8_t *l3 = pkt_l3_hdr(m);
	bool v6 = !pkt_is_ipv4(m);
	size_t pair = v6 ? 32 : 8; /* both addresses lie together, at the end of the fixed header */
	const uint8_t *addrs = l3 + (v6 ? 8 : 12);
	uint8_t proto = v6 ? pkt_ipv6_proto(m) : l3[9];

	memset(key, 0, sizeof(*key));
	if (with_ports >> (pkt_l4(m) >> 8) & 1) {
		uint8_t *to = v6 ? key->ip6 + 8 : key->ip4 + 12;

		key->ip4[v6 ? 6 : 9] = proto;
		memcpy(to, addrs, pair);
		memcpy(to + pair, pkt_l4_hdr(m), 4);
		return v6 ? ACL_IP6_PORTS : ACL_IP4_PORTS;
	}
	key->bare.proto = proto;
	memcpy(key->bare.addrs, addrs, pair);
	if (pkt_l4(m) == RTE_PTYPE_L4_ICMP) {
		memcpy(&key->bare.icmp_type, pkt_l4_hdr(m), 2);
		key->bare.icmp = 1;
	}
	return v6 ? ACL_IP6_BARE : ACL_IP4_BARE;
}

/* 0: no rule matches; or ACL_MATCH_PERMIT, ACL_MATCH_DENY. */
static inline uint32_t acl_key_match(const struct acl_set *set, const struct rte_mbuf *m)
{
	union acl_key key;
	const uint8_t *p = (const uint8_t *)&key;
	enum acl_kind kind = acl_key_make(&key, m);
	uint32_t match = 0;

	if (set->ctx[kind])
		rte_acl_classify(set->ctx[kind], &p, &match, 1, 1);
	return match;
}
