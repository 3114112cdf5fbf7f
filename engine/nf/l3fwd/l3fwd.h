/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include "core/nf.h"
#include "table/fib.h"

/* What the files of this NF share; nobody else includes it. */

enum l3fwd_drop {
	DROP_NO_ROUTE,
	DROP_TTL_EXPIRED,
	DROP_BAD_CHECKSUM,
	DROP_MARTIAN,
	DROP_MULTICAST,
	DROP_LINK_MULTICAST,
	DROP_NOT_IP,
};

enum l3fwd_family { L3_IPV4, L3_IPV6, L3_FAMILIES };

/* As in the plan. */
struct l3fwd_next_hop_params {
	uint64_t edge;
	struct param_mac dst_mac, src_mac;
};

struct l3fwd_route_params {
	struct param_ip prefix;
	uint64_t next_hop;
};

struct l3fwd_range_params {
	struct param_ip first;
	uint64_t count;
};

struct l3fwd_params {
	uint32_t fib; /* enum fib_kind */
	struct param_list next_hops, routes, ranges;
	char *routes_file;
	uint64_t capacity[L3_FAMILIES];
	bool verify_checksum;
	uint32_t martians, not_ip; /* 0: drop; 1: forward, pass */
};

extern const struct param l3fwd_params[];

/* The first 12 bytes of the frame as it leaves, and where it goes. */
struct l3fwd_next_hop {
	uint64_t macs_low;
	uint32_t macs_high;
	uint32_t edge;
};
static_assert(sizeof(struct l3fwd_next_hop) == 16, "four in a line");

/* Shared by the workers of an instance. */
struct l3fwd {
	struct fib *fibs[L3_FAMILIES]; /* NULL: no routes of that family */
	struct l3fwd_next_hop *next_hops;
	unsigned int n_next_hops;
	bool verify_checksum, forward_martians, pass_not_ip;
};

/* Fill the tables from the list and the file of routes; errors name the route's place. */
int l3fwd_load_routes(struct l3fwd *l3, struct nf *nf, struct err *err);

/* Of one family, in the tables' form. */
struct l3fwd_keys {
	const uint8_t *keys;
	size_t n;
};

/* What is wrong with the ranges, by themselves and beside the routes that have been read. */
int l3fwd_ranges_check(const struct l3fwd_params *p, enum l3fwd_family family,
		       const struct l3fwd_keys *routes, struct err *err);
uint64_t l3fwd_ranges_count(const struct l3fwd_params *p, enum l3fwd_family family);
int l3fwd_ranges_load(const struct l3fwd_params *p, enum l3fwd_family family, struct fib *fib,
		      unsigned int next_hops, struct err *err);

int l3fwd_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);
bool l3fwd_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		       struct nf_flow_action *action);
void l3fwd_process(struct nf_worker *w, struct burst *b);

/* The prefix in the form that the tables take; bits below its length must be 0. */
int l3fwd_route(const struct param_ip *prefix, const char *path, struct fib_route *route,
		struct err *err);
int l3fwd_check_length(const struct fib *f, const struct fib_route *route, const char *path,
		       struct err *err);
