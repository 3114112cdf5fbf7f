/* SPDX-License-Identifier: Apache-2.0 */
#include "set.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_errno.h>

#define FIELDS_MAX 14

/* clang-format off */
#define PROTO(at) {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, at}
#define ADDR(n, at) {RTE_ACL_FIELD_TYPE_MASK, 4, n, n, at}
#define PORTS(n, input, at)                                                                        \
	{RTE_ACL_FIELD_TYPE_RANGE, 2, n, input, at},                                               \
	{RTE_ACL_FIELD_TYPE_RANGE, 2, (n) + 1, input, (at) + 2}
/* One group of four bytes: a byte to skip, the flags byte, and two to skip. */
#define TCP_FLAGS(n, input, at)                                                                    \
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, n, input, at},                                             \
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, (n) + 1, input, (at) + 1},                                 \
	{RTE_ACL_FIELD_TYPE_BITMASK, 2, (n) + 2, input, (at) + 2}
/* type and code, whether they are known, and a byte to skip */
#define ICMP(n, input, at)                                                                         \
	{RTE_ACL_FIELD_TYPE_BITMASK, 2, n, input, at},                                             \
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, (n) + 1, input, (at) + 2},                                 \
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, (n) + 2, input, (at) + 3}

#define BARE(member) offsetof(struct acl_bare_key, member)

/* The last three fields are used only where a rule looks at flags. */
static const struct layout {
	unsigned int words, fields; /* words of an address; fields without flags */
	bool ports;
	uint8_t family, icmp;
	struct rte_acl_field_def defs[FIELDS_MAX];
} layouts[ACL_KINDS] = {
	[ACL_IP4_PORTS] = {1, 5, true, 4, IPPROTO_ICMP,
			   {PROTO(9), ADDR(1, 12), ADDR(2, 16), PORTS(3, 3, 20),
			    TCP_FLAGS(5, 4, 32)}},
	[ACL_IP4_BARE] = {1, 3, false, 4, IPPROTO_ICMP,
			  {PROTO(BARE(proto)), ADDR(1, BARE(addrs)), ADDR(2, BARE(addrs) + 4),
			   ICMP(3, 3, BARE(icmp_type))}},
	[ACL_IP6_PORTS] = {4, 11, true, 6, IPPROTO_ICMPV6,
			   {PROTO(6), ADDR(1, 8), ADDR(2, 12), ADDR(3, 16), ADDR(4, 20),
			    ADDR(5, 24), ADDR(6, 28), ADDR(7, 32), ADDR(8, 36), PORTS(9, 9, 40),
			    TCP_FLAGS(11, 10, 52)}},
	[ACL_IP6_BARE] = {4, 9, false, 6, IPPROTO_ICMPV6,
			  {PROTO(BARE(proto)), ADDR(1, BARE(addrs)), ADDR(2, BARE(addrs) + 4),
			   ADDR(3, BARE(addrs) + 8), ADDR(4, BARE(addrs) + 12),
			   ADDR(5, BARE(addrs) + 16), ADDR(6, BARE(addrs) + 20),
			   ADDR(7, BARE(addrs) + 24), ADDR(8, BARE(addrs) + 28),
			   ICMP(9, 9, BARE(icmp_type))}},
};
/* clang-format on */

static bool proto_is(const struct acl_rule *rule, uint8_t proto)
{
	return ((rule->proto ^ proto) & rule->proto_mask) == 0;
}

static bool has_flags(const struct acl_rule *rule, const struct acl_set_options *options)
{
	return options->match_flags && rule->flags_mask;
}

/*
 * Whether the rule can match a packet of this kind; narrows *rule to those that carry what it
 * asks for: flags mean TCP where there are ports, and ICMP type and code where there are none.
 */
static bool rule_fits(struct acl_rule *rule, const struct layout *l,
		      const struct acl_set_options *options)
{
	uint8_t carrier = l->ports ? IPPROTO_TCP : l->icmp;

	if (rule->family && rule->family != l->family)
		return false;
	if (!l->ports && !acl_rule_any_port(rule))
		return false;
	if (l->ports && !proto_is(rule, IPPROTO_TCP) && !proto_is(rule, IPPROTO_UDP) &&
	    !proto_is(rule, IPPROTO_SCTP))
		return false;
	if (!has_flags(rule, options)) {
		rule->flags_mask = 0;
		return true;
	}
	if (!proto_is(rule, carrier))
		return false;
	/* TCP has no code: a rule that wants one is about ICMP. */
	if (l->ports && (rule->flags & rule->flags_mask & 0xff))
		return false;
	rule->proto = carrier;
	rule->proto_mask = 0xff;
	return true;
}

static void fill_addr(struct rte_acl_field *field, unsigned int words, const uint8_t addr[16],
		      uint8_t len)
{
	uint32_t word;

	for (unsigned int i = 0; i < words; i++) {
		unsigned int before = 32 * i;

		memcpy(&word, addr + 4 * i, sizeof(word));
		field[i].value.u32 = rte_be_to_cpu_32(word);
		field[i].mask_range.u32 = len <= before ? 0 : RTE_MIN(len - before, 32u);
	}
}

static void fill_flags(struct rte_acl_field field[3], const struct layout *l,
		       const struct acl_rule *rule)
{
	if (l->ports) {
		field[1].value.u8 = rule->flags >> 8;
		field[1].mask_range.u8 = rule->flags_mask >> 8;
		return;
	}
	if (!rule->flags_mask)
		return;
	field[0].value.u16 = rule->flags;
	field[0].mask_range.u16 = rule->flags_mask;
	field[1].value.u8 = 1;
	field[1].mask_range.u8 = 1;
}

static void fill_rule(struct rte_acl_rule *out, const struct layout *l, const struct acl_rule *rule,
		      uint32_t index, bool flags)
{
	struct rte_acl_field *f = out->field;

	out->data.category_mask = 1;
	out->data.priority = RTE_ACL_MAX_PRIORITY - index; /* the first that matches wins */
	out->data.userdata = rule->deny ? ACL_MATCH_DENY : ACL_MATCH_PERMIT;
	f[0].value.u8 = rule->proto;
	f[0].mask_range.u8 = rule->proto_mask;
	fill_addr(f + 1, l->words, rule->src, rule->src_len);
	fill_addr(f + 1 + l->words, l->words, rule->dst, rule->dst_len);
	f += 1 + 2 * l->words;
	if (l->ports) {
		f[0].value.u16 = rule->sport[0];
		f[0].mask_range.u16 = rule->sport[1];
		f[1].value.u16 = rule->dport[0];
		f[1].mask_range.u16 = rule->dport[1];
		f += 2;
	}
	if (flags)
		fill_flags(f, l, rule);
}

/* Rules of this kind as rte_acl wants them, one after the other; *count of them. */
static char *compile(const struct acl_rules *rules, const struct layout *l,
		     const struct acl_set_options *options, unsigned int fields, size_t *count)
{
	size_t size = RTE_ACL_RULE_SZ(fields);
	char *out = calloc(rules->count, size);

	*count = 0;
	for (size_t i = 0; out && i < rules->count; i++) {
		struct acl_rule rule = rules->items[i];

		if (!rule_fits(&rule, l, options))
			continue;
		fill_rule((struct rte_acl_rule *)(out + *count * size), l, &rule, i,
			  fields > l->fields);
		(*count)++;
	}
	return out;
}

static bool any_flags(const struct acl_rules *rules, const struct layout *l,
		      const struct acl_set_options *options)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct acl_rule rule = rules->items[i];

		if (has_flags(&rule, options) && rule_fits(&rule, l, options))
			return true;
	}
	return false;
}

static struct rte_acl_ctx *context(const void *items, size_t count, const struct layout *l,
				   unsigned int fields, const struct acl_set_options *options)
{
	/* rte_acl_create answers a known name with the context that has it. */
	static atomic_uint serial;
	char name[RTE_ACL_NAMESIZE];
	struct rte_acl_param param = {
		.name = name,
		.socket_id = options->socket_id,
		.rule_size = RTE_ACL_RULE_SZ(fields),
		.max_rule_num = count,
	};
	struct rte_acl_config config = {
		.num_categories = 1,
		.num_fields = fields,
		.max_size = options->max_bytes,
	};
	struct rte_acl_ctx *ctx;
	int rc;

	memcpy(config.defs, l->defs, fields * sizeof(config.defs[0]));
	snprintf(name, sizeof(name), "headrace-acl-%u", atomic_fetch_add(&serial, 1));
	ctx = rte_acl_create(&param);
	if (!ctx)
		return NULL;
	rc = rte_acl_add_rules(ctx, items, count);
	if (!rc)
		rc = rte_acl_build(ctx, &config);
	if (!rc)
		return ctx;
	rte_acl_free(ctx);
	rte_errno = -rc;
	return NULL;
}

static int build_failed(size_t count, int family, const struct acl_set_options *options,
			struct err *err)
{
	if (rte_errno == ERANGE && options->max_bytes)
		return err_set(err, ENOSPC, "params.table_mb",
			       "%lu MiB are too few for the tables of %zu IPv%d rules: give more, "
			       "or 0 for no bound",
			       options->max_bytes >> 20, count, family);
	return err_set(err, ENOMEM, "params.rules",
		       "rte_acl cannot build tables for %zu IPv%d rules (%s): give the engine more "
		       "memory_mb, or use fewer rules",
		       count, family, rte_strerror(rte_errno));
}

static int build_kind(struct acl_set *set, enum acl_kind kind, const struct acl_rules *rules,
		      const struct acl_set_options *options, struct err *err)
{
	const struct layout *l = &layouts[kind];
	bool flags = any_flags(rules, l, options);
	unsigned int fields = l->fields + (flags ? 3 : 0);
	size_t count;
	char *items = compile(rules, l, options, fields, &count);

	if (!items)
		return err_set(err, ENOMEM, "params.rules", "out of memory for %zu rules",
			       rules->count);
	if (count)
		set->ctx[kind] = context(items, count, l, fields, options);
	free(items);
	if (count && !set->ctx[kind])
		return build_failed(count, l->family, options, err);
	if (l->ports)
		set->flags |= flags;
	return 0;
}

struct acl_set *acl_set_build(const struct acl_rules *rules, const struct acl_set_options *options,
			      struct err *err)
{
	static atomic_uint_fast64_t serial;
	struct acl_set *set;

	if (rules->count > ACL_RULES_MAX) {
		err_set(err, EINVAL, "params.rules", "%zu rules; at most %u are allowed",
			rules->count, (unsigned int)ACL_RULES_MAX);
		return NULL;
	}
	set = calloc(1, sizeof(*set));
	if (!set) {
		err_set(err, ENOMEM, "params.rules", "out of memory");
		return NULL;
	}
	set->rules = rules->count;
	set->serial = atomic_fetch_add(&serial, 1) + 1;
	for (enum acl_kind kind = 0; rules->count && kind < ACL_KINDS; kind++) {
		if (build_kind(set, kind, rules, options, err)) {
			acl_set_free(set);
			return NULL;
		}
	}
	return set;
}

void acl_set_free(struct acl_set *set)
{
	if (!set)
		return;
	for (enum acl_kind kind = 0; kind < ACL_KINDS; kind++)
		rte_acl_free(set->ctx[kind]);
	free(set);
}
