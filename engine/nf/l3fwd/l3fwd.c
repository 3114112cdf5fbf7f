/* SPDX-License-Identifier: Apache-2.0 */
#include "l3fwd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const fib_kinds[] = {"exact", "lpm", NULL}; /* enum fib_kind */
static const char *const drop_or_forward[] = {"drop", "forward", NULL};
static const char *const drop_or_pass[] = {"drop", "pass", NULL};

#define EDGES 16 /* out0 to out15, below */

static const struct param next_hop_params[] = {
	{.name = "edge", .type = PARAM_UINT, .max = EDGES - 1,
	 .offset = offsetof(struct l3fwd_next_hop_params, edge),
	 .doc = "number of the edge, out0 to out15, that packets leave on"},
	{.name = "dst_mac", .type = PARAM_MAC, .def = "\"02:00:00:00:00:02\"",
	 .offset = offsetof(struct l3fwd_next_hop_params, dst_mac), .doc = "the next hop's MAC"},
	{.name = "src_mac", .type = PARAM_MAC, .def = "\"02:00:00:00:00:01\"",
	 .offset = offsetof(struct l3fwd_next_hop_params, src_mac), .doc = "this router's MAC"},
	{0},
};

static const struct param route_params[] = {
	{.name = "prefix", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct l3fwd_route_params, prefix),
	 .doc = "IPv4 or IPv6 prefix; fib exact: an address"},
	{.name = "next_hop", .type = PARAM_UINT, .max = FIB_NEXT_HOP_MAX,
	 .offset = offsetof(struct l3fwd_route_params, next_hop), .doc = "index in `next_hops`"},
	{0},
};

static const struct param range_params[] = {
	{.name = "first", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct l3fwd_range_params, first), .doc = "IPv4 or IPv6 address"},
	{.name = "count", .type = PARAM_UINT, .required = true, .min = 1, .max = 2147483648.0,
	 .unit = "routes", .offset = offsetof(struct l3fwd_range_params, count),
	 .doc = "how many addresses, this one included"},
	{0},
};

const struct param l3fwd_params[] = {
	{.name = "fib", .type = PARAM_ENUM, .choices = fib_kinds, .def = "\"lpm\"",
	 .offset = offsetof(struct l3fwd_params, fib),
	 .doc = "exact: whole destination addresses; lpm: longest prefix match"},
	{.name = "next_hops", .type = PARAM_OBJECT, .list = true, .fields = next_hop_params,
	 .fields_size = sizeof(struct l3fwd_next_hop_params), .def = "[{}]",
	 .offset = offsetof(struct l3fwd_params, next_hops), .doc = "where routes lead to"},
	{.name = "routes", .type = PARAM_OBJECT, .list = true, .fields = route_params,
	 .fields_size = sizeof(struct l3fwd_route_params),
	 .offset = offsetof(struct l3fwd_params, routes), .doc = "0.0.0.0/0 and ::/0 are defaults"},
	{.name = "routes_file", .type = PARAM_FILE,
	 .offset = offsetof(struct l3fwd_params, routes_file),
	 .doc = "more routes: lines of `prefix [next-hop]`, IPv4 and IPv6, plain or gzip, # begins a "
		"comment; lines without a next hop get them round-robin over next_hops"},
	{.name = "ranges", .type = PARAM_OBJECT, .list = true, .fields = range_params,
	 .fields_size = sizeof(struct l3fwd_range_params),
	 .offset = offsetof(struct l3fwd_params, ranges),
	 .doc = "fib exact: routes to every address of these ranges, round-robin over next_hops; "
		"tables too large for a file, up to thousands of millions of routes"},
	{.name = "ipv4_capacity", .type = PARAM_UINT, .max = 2147483648.0, .unit = "routes",
	 .offset = offsetof(struct l3fwd_params, capacity[L3_IPV4]),
	 .doc = "0: as many as given and a quarter to spare; no table without routes"},
	{.name = "ipv6_capacity", .type = PARAM_UINT, .max = 2147483648.0, .unit = "routes",
	 .offset = offsetof(struct l3fwd_params, capacity[L3_IPV6]), .doc = "the same for IPv6"},
	{.name = "verify_checksum", .type = PARAM_BOOL, .def = "true",
	 .offset = offsetof(struct l3fwd_params, verify_checksum),
	 .doc = "drop IPv4 packets with a wrong header checksum, as RFC 1812 demands"},
	{.name = "martians", .type = PARAM_ENUM, .choices = drop_or_forward, .def = "\"drop\"",
	 .offset = offsetof(struct l3fwd_params, martians),
	 .doc = "packets from or to addresses that no router may forward"},
	{.name = "not_ip", .type = PARAM_ENUM, .choices = drop_or_pass, .def = "\"drop\"",
	 .offset = offsetof(struct l3fwd_params, not_ip),
	 .doc = "frames of other protocols; pass: unchanged on out0"},
	{0},
};

static void next_hop_set(struct l3fwd_next_hop *nh, const struct l3fwd_next_hop_params *p)
{
	uint8_t macs[12];

	memcpy(macs, p->dst_mac.bytes, 6);
	memcpy(macs + 6, p->src_mac.bytes, 6);
	memcpy(&nh->macs_low, macs, sizeof(nh->macs_low));
	memcpy(&nh->macs_high, macs + sizeof(nh->macs_low), sizeof(nh->macs_high));
	nh->edge = (uint32_t)p->edge;
}

static int set_next_hops(struct l3fwd *l3, const struct l3fwd_params *p, struct err *err)
{
	const struct l3fwd_next_hop_params *list = p->next_hops.items;

	if (!p->next_hops.count || p->next_hops.count > FIB_NEXT_HOP_MAX + 1u)
		return err_set(err, EINVAL, "params.next_hops", "%zu entries; allowed: 1 to %u",
			       p->next_hops.count, FIB_NEXT_HOP_MAX + 1u);
	/* Room for FIB_MISS too: its entry is addressed before the miss is seen. */
	l3->next_hops = aligned_alloc(64, (FIB_MISS + 1u) * sizeof(*l3->next_hops));
	if (!l3->next_hops)
		return err_set(err, ENOMEM, "params.next_hops", "out of memory");
	l3->n_next_hops = (unsigned int)p->next_hops.count;
	for (unsigned int i = 0; i < l3->n_next_hops; i++)
		next_hop_set(&l3->next_hops[i], &list[i]);
	return 0;
}

static void l3fwd_fini(struct nf *nf)
{
	struct l3fwd *l3 = nf->state;

	if (!l3)
		return;
	for (unsigned int i = 0; i < L3_FAMILIES; i++)
		fib_destroy(l3->fibs[i]);
	free(l3->next_hops);
	free(l3);
	nf->state = NULL;
}

static int l3fwd_init(struct nf *nf, struct err *err)
{
	const struct l3fwd_params *p = nf->conf;
	struct l3fwd *l3 = nf->state = calloc(1, sizeof(*l3));
	int rc;

	if (!l3)
		return err_set(err, ENOMEM, "params", "out of memory");
	l3->verify_checksum = p->verify_checksum;
	l3->forward_martians = p->martians;
	l3->pass_not_ip = p->not_ip;
	rc = set_next_hops(l3, p, err);
	if (!rc)
		rc = l3fwd_load_routes(l3, nf, err);
	if (rc)
		l3fwd_fini(nf);
	return rc;
}

static const char *const edges[] = {"out0",  "out1",  "out2",  "out3",  "out4",  "out5",
				    "out6",  "out7",  "out8",  "out9",  "out10", "out11",
				    "out12", "out13", "out14", "out15", NULL};
static const char *const drops[] = {"no-route",  "ttl-expired",    "bad-checksum", "martian",
				    "multicast", "link-multicast", "not-ip",       NULL};

static const struct nf_ops l3fwd_ops = {
	.name = "l3fwd",
	.doc = "IPv4 and IPv6 router's data path, by exact or longest match. It checks the header, looks the "
	       "destination up in an exact-match or longest-prefix table, decrements TTL or hop limit "
	       "(checksum updated incrementally), rewrites both MACs and sends the packet out on its next "
	       "hop's edge. Both directions use the same table. update: {routes: [{op: add | del | replace, "
	       "prefix, next_hop}, ...]}, wholly applied or not at all, beside running packets.",
	.standards = "RFC 1812 sections 5.2.2 (header checks), 5.3.1 (TTL), 5.3.4 (link-layer broadcasts), "
		     "5.3.7 (martians: 0/8, 127/8, 240/4, multicast sources, 169.254/16 of RFC "
		     "3927); RFC 1624 (checksum); RFC 8200 hop limit and RFC 4291 scopes (::, ::1, "
		     "fe80::/10). Left out: IP options are forwarded unread (no source routes), ICMP errors "
		     "and redirects are not sent, packets are not fragmented, ARP and ND are not spoken "
		     "(next hops carry MACs), multicast is dropped.",
	.params = l3fwd_params,
	.conf_size = sizeof(struct l3fwd_params),
	.edges = edges,
	.drops = drops,
	.reads = NF_F_MAC | NF_F_SRC_IP | NF_F_DST_IP | NF_F_TTL,
	.writes = NF_F_MAC | NF_F_TTL,
	.may_drop = true,
	.category = NF_NETWORK_ORIENTED,
	.state_key = NF_STATELESS,
	.wants_headers = true,
	.elastic = true,
	.init = l3fwd_init,
	.fini = l3fwd_fini,
	.process = l3fwd_process,
	.flow_action = l3fwd_flow_action,
	.update = l3fwd_update,
};
NF_REGISTER(l3fwd_ops)
