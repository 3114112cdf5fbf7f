/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

static const char *const protocols[] = {"tcp", "udp", "any", NULL};
static const char *const modes[] = {"nat", "dsr", NULL};
static const char *const others[] = {"pass", "drop", NULL};

const struct param lb_backend_params[] = {
	{.name = "address", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct lb_backend_params, address),
	 .doc = "address of the backend, of the VIP's family"},
	{.name = "port", .type = PARAM_UINT, .max = 65535,
	 .offset = offsetof(struct lb_backend_params, port), .doc = "0: the VIP's own port"},
	{.name = "weight", .type = PARAM_UINT, .max = LB_WEIGHT_MAX, .def = "1",
	 .offset = offsetof(struct lb_backend_params, weight),
	 .doc = "share of new flows, relative to the other backends; 0: none"},
	{.name = "mac", .type = PARAM_MAC, .offset = offsetof(struct lb_backend_params, mac),
	 .doc = "when given, becomes the destination MAC; mode dsr needs it"},
	{.name = "count", .type = PARAM_UINT, .min = 1, .max = LB_BACKENDS_MAX, .def = "1",
	 .unit = "addresses", .offset = offsetof(struct lb_backend_params, count),
	 .doc = "so many backends alike, at this address and those that follow it"},
	{0},
};

static const struct param vip_params[] = {
	{.name = "address", .type = PARAM_IP, .required = true,
	 .offset = offsetof(struct lb_vip_params, address), .doc = "the virtual address"},
	{.name = "port", .type = PARAM_UINT, .max = 65535,
	 .offset = offsetof(struct lb_vip_params, port),
	 .doc = "0: all ports that no other VIP of this address has; ports are then kept"},
	{.name = "protocol", .type = PARAM_ENUM, .choices = protocols, .def = "\"any\"",
	 .offset = offsetof(struct lb_vip_params, protocol), .doc = "any: TCP and UDP"},
	{.name = "backends", .type = PARAM_OBJECT, .list = true, .fields = lb_backend_params,
	 .fields_size = sizeof(struct lb_backend_params),
	 .offset = offsetof(struct lb_vip_params, backends), .doc = "may be empty; see update"},
	{0},
};

const struct param lb_params[] = {
	{.name = "vips", .type = PARAM_OBJECT, .list = true, .required = true, .fields = vip_params,
	 .fields_size = sizeof(struct lb_vip_params), .offset = offsetof(struct lb_params, vips),
	 .doc = "what is balanced, and over which backends"},
	{.name = "mode", .type = PARAM_ENUM, .choices = modes, .def = "\"nat\"",
	 .offset = offsetof(struct lb_params, mode),
	 .doc = "nat: destination address and port rewritten; dsr: only the destination MAC (direct "
		"server return)"},
	{.name = "other", .type = PARAM_ENUM, .choices = others, .def = "\"pass\"",
	 .offset = offsetof(struct lb_params, other), .doc = "what becomes of traffic for no VIP"},
	{.name = "flows", .type = PARAM_UINT, .min = 1, .max = FLOW_CAPACITY_MAX, .def = "262144",
	 .unit = "flows", .offset = offsetof(struct lb_params, flows),
	 .doc = "capacity of each worker's flow table, for IPv4 and IPv6 each: 32 and 64 B, and an "
		"index of 11 to 21 B, per flow"},
	{.name = "table_size", .type = PARAM_UINT, .min = 3, .max = 5000011, .def = "65537",
	 .unit = "entries", .offset = offsetof(struct lb_params, table_size),
	 .doc = "of the Maglev table of each VIP; prime, and better 100 times the number of backends"},
	{.name = "idle_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "300",
	 .unit = "s", .offset = offsetof(struct lb_params, idle_timeout_s),
	 .doc = "a flow without packets for this long is forgotten, up to about a second later"},
	{0},
};
