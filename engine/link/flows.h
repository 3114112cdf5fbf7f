/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/param.h"

/*
 * The flows of a source: what differs between its packets. A flow's record holds its varying
 * header words, their share of the checksums, and its sequence number: half a cache line, so
 * that making a packet touches one line of flow state.
 */
enum flow_kind {
	FLOW_UDP,
	FLOW_TCP,
	FLOW_OTHER, /* IP only; the protocol number is the flow's */
	FLOW_KINDS,
};

struct flow {
	uint32_t src, dst; /* network order; IPv6: the low 32 bits, or dst6's index */
	uint16_t sport, dport;
	uint16_t ip_sum; /* ones' complement sum of what the flow adds to the IPv4 header */
	uint16_t l4_sum; /* the same for the L4 checksum, pseudo-header included */
	uint32_t seq;
	uint8_t kind, proto;
	uint16_t unused;
	uint64_t pad;
};

static_assert(sizeof(struct flow) == 32, "two flows per cache line");

enum flow_order { ORDER_ROUND_ROBIN, ORDER_RANDOM, ORDER_ZIPF };

struct flows_conf {
	uint64_t flows;
	struct param_list vary; /* uint32_t: enum flow_field */
	uint32_t order;
	double zipf_s;
	uint32_t protocol; /* FLOW_UDP or FLOW_TCP */
	struct param_ip src_ip, dst_ip;
	uint64_t src_port, dst_port;
	char *dst_ips_file;
	char *headers_file;
	uint64_t seed;
};

enum flow_field { VARY_SRC_IP, VARY_DST_IP, VARY_SRC_PORT, VARY_DST_PORT };

/* One entry of Walker's alias table: an exact draw from any distribution in O(1). */
struct alias {
	uint32_t threshold, other;
};

struct flows {
	uint64_t n;
	bool ipv6;
	bool table; /* records are in `flow`; otherwise computed from the index, unsequenced */
	struct flow *flow;
	uint8_t (*dst6)[16]; /* IPv6 destinations from a file */
	uint32_t *dst4;      /* IPv4 destinations from a file, network order */
	uint64_t n_dst;
	uint32_t order;
	struct alias *alias; /* of one queue's share of the flows */
	uint64_t n_alias;
	struct flow base; /* for computed flows */
	bool vary[4];
};

/* Above this many, flows are computed and share one sequence. */
#define FLOWS_TABLE_MAX (1u << 22)

/* n_queues: among how many generators the flows are divided. */
int flows_create(struct flows *f, const struct flows_conf *c, unsigned int n_queues,
		 struct err *err);
void flows_destroy(struct flows *f);
void flows_reset_sequences(struct flows *f);

/* The record of computed flow i. */
void flows_compute(const struct flows *f, uint64_t i, struct flow *out);

/* Walker's alias method over Zipf(s) of n ranks. */
struct alias *alias_zipf(uint64_t n, double s);

static inline uint16_t sum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}
