/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"
#include "core/param.h"

/*
 * Access rules as the user wrote them, before rte_acl sees them. Nothing here needs EAL, so
 * that parsers can be tested and fuzzed alone. Port and flag values are in host byte order.
 */
struct acl_rule {
	uint8_t family; /* 4, 6, or 0: both */
	bool deny;
	uint8_t proto, proto_mask;
	uint8_t src_len, dst_len;
	uint16_t sport[2], dport[2]; /* lowest, highest */
	/*
	 * ClassBench's last column. High byte: the TCP flags byte, or the ICMP type;
	 * low byte: the ICMP code.
	 */
	uint16_t flags, flags_mask;
	uint8_t src[16], dst[16];
};

struct acl_rules {
	struct acl_rule *items;
	size_t count, room;
};

/* One element of the plan's `rules`. */
struct acl_rule_conf {
	uint32_t action; /* enum acl_action */
	struct param_ip src, dst;
	struct param_list sport, dport;
	char *proto;
};

enum acl_action {
	ACL_PERMIT,
	ACL_DENY,
};

extern const char *const acl_actions[];
extern const struct param acl_rule_params[];

/* Every packet of both families. */
void acl_rule_any(struct acl_rule *rule);
static inline bool acl_rule_any_port(const struct acl_rule *rule)
{
	return rule->sport[0] == 0 && rule->sport[1] == UINT16_MAX && rule->dport[0] == 0 &&
	       rule->dport[1] == UINT16_MAX;
}

/* -EINVAL when the rule's family is the other one already. */
int acl_rule_set_src(struct acl_rule *rule, const struct param_ip *ip);
int acl_rule_set_dst(struct acl_rule *rule, const struct param_ip *ip);

/* `path` is that of the list, as "params.rules". */
int acl_rules_add_conf(struct acl_rules *rules, const struct param_list *list, const char *path,
		       struct err *err);
int acl_rules_add(struct acl_rules *rules, const struct acl_rule *rule);
void acl_rules_free(struct acl_rules *rules);

/*
 * ClassBench's filter format (Taylor and Turner, "ClassBench: A Packet Classification
 * Benchmark", IEEE/ACM ToN 15(3), 2007), one filter per line, IPv4 or IPv6:
 *	@src/len dst/len sport : sport dport : dport proto/mask [flags/mask]
 * Blank lines and lines that begin with # are skipped. Filters name no action.
 */
/* 1: a rule; 0: nothing on this line; -EINVAL. `place` is "file:line". */
int classbench_parse_line(const char *line, const char *place, struct acl_rule *rule,
			  struct err *err);
/* Appends to `rules`; `name` is the file's in messages. */
int classbench_read(FILE *f, const char *name, struct acl_rules *rules, struct err *err);
int classbench_load(const char *path, struct acl_rules *rules, struct err *err);
