/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const acl_actions[] = {"permit", "deny", NULL};

const struct param acl_rule_params[] = {
	{.name = "action", .type = PARAM_ENUM, .offset = offsetof(struct acl_rule_conf, action),
	 .choices = acl_actions, .required = true, .doc = "What happens to a packet that matches."},
	{.name = "src", .type = PARAM_IP, .offset = offsetof(struct acl_rule_conf, src),
	 .doc = "Source address or prefix; absent: any."},
	{.name = "dst", .type = PARAM_IP, .offset = offsetof(struct acl_rule_conf, dst),
	 .doc = "Destination address or prefix; absent: any."},
	{.name = "sport", .type = PARAM_UINT, .list = true, .max = UINT16_MAX,
	 .offset = offsetof(struct acl_rule_conf, sport),
	 .doc = "Source port, or the lowest and the highest: [80] or [1024, 65535]."},
	{.name = "dport", .type = PARAM_UINT, .list = true, .max = UINT16_MAX,
	 .offset = offsetof(struct acl_rule_conf, dport),
	 .doc = "Destination port, or the lowest and the highest."},
	{.name = "proto", .type = PARAM_STRING, .offset = offsetof(struct acl_rule_conf, proto),
	 .def = "\"any\"",
	 .doc = "any, tcp, udp, icmp, icmp6, sctp, gre, esp, ah, or a protocol number in quotes."},
	{0},
};

static const struct {
	const char *name;
	uint8_t number, mask;
} protos[] = {
	{"any", 0, 0},     {"icmp", 1, 0xff},   {"tcp", 6, 0xff},
	{"udp", 17, 0xff}, {"gre", 47, 0xff},   {"esp", 50, 0xff},
	{"ah", 51, 0xff},  {"icmp6", 58, 0xff}, {"sctp", 132, 0xff},
};

void acl_rule_any(struct acl_rule *rule)
{
	*rule = (struct acl_rule){
		.sport = {0, UINT16_MAX},
		.dport = {0, UINT16_MAX},
	};
}

/* Bits past the prefix are cleared: rte_acl's own reading of them is not documented. */
static void prefix_copy(uint8_t dst[16], const struct param_ip *ip)
{
	unsigned int whole = ip->len / 8;

	memset(dst, 0, 16);
	memcpy(dst, ip->addr, whole);
	if (ip->len % 8)
		dst[whole] = ip->addr[whole] & (0xff << (8 - ip->len % 8));
}

static int set_family(struct acl_rule *rule, const struct param_ip *ip)
{
	if (rule->family && rule->family != ip->family)
		return -EINVAL;
	rule->family = ip->family;
	return 0;
}

int acl_rule_set_src(struct acl_rule *rule, const struct param_ip *ip)
{
	prefix_copy(rule->src, ip);
	rule->src_len = ip->len;
	return set_family(rule, ip);
}

int acl_rule_set_dst(struct acl_rule *rule, const struct param_ip *ip)
{
	prefix_copy(rule->dst, ip);
	rule->dst_len = ip->len;
	return set_family(rule, ip);
}

static int set_ports(uint16_t range[2], const struct param_list *list)
{
	const uint64_t *ports = list->items;

	if (list->count == 0)
		return 0;
	if (list->count > 2)
		return -EINVAL;
	range[0] = ports[0];
	range[1] = ports[list->count - 1];
	return range[0] <= range[1] ? 0 : -EINVAL;
}

static int set_proto(struct acl_rule *rule, const char *text)
{
	unsigned long number;
	char *end;

	for (size_t i = 0; i < sizeof(protos) / sizeof(protos[0]); i++) {
		if (strcmp(text, protos[i].name) == 0) {
			rule->proto = protos[i].number;
			rule->proto_mask = protos[i].mask;
			return 0;
		}
	}
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	number = strtoul(text, &end, 10);
	if (*end || number > UINT8_MAX)
		return -EINVAL;
	rule->proto = number;
	rule->proto_mask = 0xff;
	return 0;
}

/* A bit beyond the prefix length is a typing error more often than not. Files of rules may have them: sets
 * that others made do. */
static int check_prefix(const struct param_ip *ip, const char *path, const char *key, struct err *err)
{
	char place[sizeof(err->path)], text[INET6_ADDRSTRLEN];
	uint8_t network[16];

	prefix_copy(network, ip);
	if (!ip->family || !memcmp(network, ip->addr, ip->family == 4 ? 4 : 16))
		return 0;
	snprintf(place, sizeof(place), "%s.%s", path, key);
	inet_ntop(ip->family == 4 ? AF_INET : AF_INET6, network, text, sizeof(text));
	return err_set(err, EINVAL, place, "bits are set beyond the prefix length %u; allowed: %s/%u",
		       ip->len, text, ip->len);
}

static int ports_refused(const struct param_list *given, const char *path, const char *key, struct err *err)
{
	const uint64_t *ports = given->items;
	char place[sizeof(err->path)], text[64];
	int n = snprintf(text, sizeof(text), "%llu, %llu", (unsigned long long)ports[0],
			 (unsigned long long)ports[1]); /* one port is never refused */

	if (given->count > 2)
		snprintf(text + n, sizeof(text) - n, ", %llu%s", (unsigned long long)ports[2],
			 given->count > 3 ? " and more" : "");
	snprintf(place, sizeof(place), "%s.%s", path, key);
	return err_set(err, EINVAL, place,
		       "got [%s]; not a range of ports; allowed: one port, or the lowest then the highest",
		       text);
}

static int rule_from_conf(struct acl_rule *rule, const struct acl_rule_conf *conf, const char *path,
			  struct err *err)
{
	char place[sizeof(err->path)];

	acl_rule_any(rule);
	if (check_prefix(&conf->src, path, "src", err) || check_prefix(&conf->dst, path, "dst", err))
		return -EINVAL;
	rule->deny = conf->action == ACL_DENY;
	if (conf->src.family)
		acl_rule_set_src(rule, &conf->src);
	if (conf->dst.family && acl_rule_set_dst(rule, &conf->dst)) {
		snprintf(place, sizeof(place), "%s.dst", path);
		return err_set(err, EINVAL, place,
			       "IPv%d, but src is IPv%d: a rule's addresses are of one family",
			       conf->dst.family, conf->src.family);
	}
	if (set_ports(rule->sport, &conf->sport))
		return ports_refused(&conf->sport, path, "sport", err);
	if (set_ports(rule->dport, &conf->dport))
		return ports_refused(&conf->dport, path, "dport", err);
	if (conf->proto && set_proto(rule, conf->proto)) {
		snprintf(place, sizeof(place), "%s.proto", path);
		return err_set(
			err, EINVAL, place,
			"\"%.32s\" is not a protocol: any, tcp, udp, icmp, icmp6, sctp, gre, "
			"esp, ah, or a number 0..255 in quotes",
			conf->proto);
	}
	return 0;
}

int acl_rules_add_conf(struct acl_rules *rules, const struct param_list *list, const char *path,
		       struct err *err)
{
	const struct acl_rule_conf *conf = list->items;
	char place[sizeof(err->path) - 16];
	struct acl_rule rule;
	int rc;

	for (size_t i = 0; i < list->count; i++) {
		snprintf(place, sizeof(place), "%s[%zu]", path, i);
		rc = rule_from_conf(&rule, &conf[i], place, err);
		if (rc)
			return rc;
		if (acl_rules_add(rules, &rule))
			return err_set(err, ENOMEM, place, "out of memory for rules");
	}
	return 0;
}

int acl_rules_add(struct acl_rules *rules, const struct acl_rule *rule)
{
	if (rules->count == rules->room) {
		size_t room = rules->room ? rules->room * 2 : 64;
		struct acl_rule *items = realloc(rules->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		rules->items = items;
		rules->room = room;
	}
	rules->items[rules->count++] = *rule;
	return 0;
}

void acl_rules_free(struct acl_rules *rules)
{
	free(rules->items);
	*rules = (struct acl_rules){0};
}
