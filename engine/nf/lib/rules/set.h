/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_acl.h>

#include "rule.h"

/*
 * A compiled rule set: one rte_acl context per kind of packet. A packet whose ports
 * cannot be seen (ICMP, GRE, a fragment) is looked up in a context of its own, that has only the
 * rules which say nothing of ports: a rule about port 0 can then never match a packet without
 * ports, and the tries of both stay smaller.
 */
enum acl_kind {
	ACL_IP4_PORTS, /* TCP, UDP and SCTP with the header whole */
	ACL_IP4_BARE,
	ACL_IP6_PORTS,
	ACL_IP6_BARE,
	ACL_KINDS,
};

/*
 * Keys, in network byte order. With ports the key has the layout of the packet itself from
 * its IP header on (without options), so that most packets need no copy. rte_acl reads four
 * bytes at a time: where the set matches flags, up to and with the TCP window.
 */
#define ACL_IP4_KEY_BYTES 36
#define ACL_IP6_KEY_BYTES 56

struct acl_bare_key {
	uint8_t proto;
	uint8_t pad[3];
	uint8_t addrs[32]; /* IPv4: 4 + 4 used */
	uint8_t icmp_type, icmp_code;
	uint8_t icmp; /* 1: type and code are known */
	uint8_t pad2;
};

struct acl_set {
	struct rte_acl_ctx *ctx[ACL_KINDS]; /* NULL: no rule can match */
	uint8_t default_verdict;
	bool flags; /* some rule looks at TCP flags: keys with ports are longer */
	uint32_t rules;
	uint64_t serial; /* never used again, as an address may be */
};

/*
 * What rte_acl answers: 0, no rule matches; otherwise one of these.
 */
#define ACL_MATCH_PERMIT 1
#define ACL_MATCH_DENY 2

/* Every rule has a priority of its own. */
#define ACL_RULES_MAX (RTE_ACL_MAX_PRIORITY - RTE_ACL_MIN_PRIORITY)

struct acl_set_options {
	bool match_flags;
	uint64_t max_bytes; /* of one context's run-time tables; 0: no bound */
	int socket_id;
};

/* NULL and err filled when the tables cannot be built. */
struct acl_set *acl_set_build(const struct acl_rules *rules, const struct acl_set_options *options,
			      struct err *err);
void acl_set_free(struct acl_set *set);
