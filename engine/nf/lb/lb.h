/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include "core/nf.h"
#include "maglev.h"
#include "table/flow.h"
#include "table/snapshot.h"
#include "nf/lib/trail.h"
#include "nf/lib/tuple.h"

/* What the files of this NF share; nobody else includes it. */

#define LB_BACKENDS_MAX 65534 /* ever known to one instance: numbers are not used twice */
#define LB_WEIGHT_MAX 10000

enum lb_drop { DROP_NO_BACKEND, DROP_NOT_FOR_VIP, DROP_FRAGMENT };
enum lb_counter { C_HITS, C_NEW, C_TABLE_FULL, C_REASSIGNED, C_EXPIRED, C_FLOWS };

enum lb_protocol { LB_TCP, LB_UDP, LB_ANY };
enum lb_mode { LB_NAT, LB_DSR };
enum lb_other { LB_OTHER_PASS, LB_OTHER_DROP };

/* As in the plan. */
struct lb_backend_params {
	struct param_ip address;
	uint64_t port;
	uint64_t weight;
	struct param_mac mac;
	uint64_t count; /* addresses, this one and those that follow; 1 once the members are made */
};

struct lb_vip_params {
	struct param_ip address;
	uint64_t port;
	uint32_t protocol; /* enum lb_protocol */
	struct param_list backends;
};

struct lb_params {
	struct param_list vips;
	uint32_t mode;
	uint32_t other;
	uint64_t flows;
	uint64_t table_size;
	double idle_timeout_s;
};

extern const struct param lb_params[];
extern const struct param lb_backend_params[];

/* A backend as the control thread knows it. */
struct lb_member {
	struct lb_backend_params params;
	uint16_t vip; /* index in lb_params.vips */
	bool draining, removed, down;
};

struct lb_members {
	struct lb_member *list;
	unsigned int count;
};

/* A backend as packets need it: one cache line. Deltas are for csum_add below. */
struct lb_backend {
	uint8_t addr[16];
	uint8_t vip_addr[16];
	uint32_t ip_delta, l4_delta;                 /* VIP -> backend */
	uint16_t port, vip_port;                     /* network order; 0: kept */
	uint16_t vip;
	bool gone;                                   /* its flows go to other backends */
	bool has_mac;
	struct rte_ether_addr mac;
	uint8_t pad[10];
};
static_assert(sizeof(struct lb_backend) == 64, "one cache line");

/* (address, protocol, port) -> number; IPv4 addresses in the first four bytes. */
struct lb_key {
	uint8_t addr[16];
	uint16_t port; /* network order; 0: any */
	uint8_t proto; /* 0: the address as such */
	uint8_t family;
	uint32_t pad;
};
static_assert(sizeof(struct lb_key) == 24, "three words");

struct lb_slot {
	struct lb_key key;
	uint32_t value;
	uint32_t used;
};

struct lb_map {
	struct lb_slot *slots;
	uint32_t mask;
};

/* What workers read; replaced whole by each update. */
struct lb_config {
	struct lb_backend *backends;
	uint16_t *maglev; /* vips tables of m entries each */
	uint32_t m;
	unsigned int n_vips, n_backends;
	struct lb_map by_vip;     /* -> VIP, or LB_VIP_ADDRESS */
	struct lb_map by_backend; /* -> backend, for the way back */
};
#define LB_VIP_ADDRESS UINT32_MAX /* value of the entry that says: this address is a VIP's */
#define LB_NOT_FOUND (UINT32_MAX - 1)

/* Shared by the workers of an instance. */
struct lb {
	struct snapshot config;
	struct lb_members members; /* control thread only */
};

struct lb_worker {
	struct flow_table *flows[FLOW_FAMILIES];
	struct lb *lb;
	uint32_t timeout; /* in flow_now units */
};

int lb_members_init(struct lb_members *members, const struct lb_params *p, struct err *err);
int lb_config_build(const struct lb_params *p, const struct lb_members *members,
		    struct lb_config **out, struct err *err);
void lb_config_free(void *config);
/* No VIP's, so that it passes or is dropped whatever flows there are. */
bool lb_is_for_none(const struct lb_config *c, const union tuple_key *key, bool v6);
/* nf_ops.keeps (kept.c). */
extern const struct nf_keeps lb_keeps;
/* The VIP of a key, n_vips or more: none. */
uint32_t lb_find_vip(const struct lb_config *c, const void *flow_key, bool v6);
bool lb_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		    struct nf_flow_action *action);
void lb_process(struct nf_worker *w, struct burst *b);
int lb_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);
int lb_map_init(struct lb_map *map, size_t entries);
/* Returns what the key had, or LB_NOT_FOUND, and then it has `value`. */
uint32_t lb_map_add(struct lb_map *map, const struct lb_key *key, uint32_t value);
uint32_t lb_map_find(const struct lb_map *map, const struct lb_key *key);
