/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include "core/nf.h"
#include "ipfix.h"

/* What the files of this NF share; nobody else includes it. */

enum mon_counter { C_NEW, C_NOT_RECORDED, C_RECORDS, C_MESSAGES, C_LOST, C_FLOWS };
enum mon_edge { EDGE_OUT, EDGE_EXPORT };
enum mon_export { EXPORT_NONE, EXPORT_SOCKET, EXPORT_EDGE };

struct mon_params {
	uint64_t flows;
	double idle_s, active_s, template_s;
	uint32_t export;
	struct param_ip collector, exporter;
	uint64_t port;
	struct param_mac dst_mac, src_mac;
};

/* Of one flow, behind its key. flow.user: TCP flags, and the type of service in the high byte. */
struct mon_state {
	uint64_t octets, packets;
	uint32_t first, last; /* flow_now() */
};
static_assert(sizeof(struct mon_state) == 24, "with an IPv4 key, in one line");

struct mon_worker {
	struct flow_table *flows[FLOW_FAMILIES];
	struct nf_worker *w;
	uint32_t idle, active, template_every; /* flow_now units */
	/* Wall-clock time of one TSC stamp; all others are taken from it. */
	uint64_t anchor_tsc, anchor_ms;
	uint32_t now, oldest, templates_at;
	bool open; /* a message has been begun */
	int socket;
	uint16_t ip_id;
	struct ipfix message;
};

void mon_process(struct nf_worker *w, struct burst *b);
bool mon_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action);
void mon_flow_account(struct nf_worker *w, const uint32_t *flows, struct rte_mbuf *const *pkts,
		      unsigned int n, uint64_t now);

/* One flow's record into the message, which is sent when full. */
void mon_export(struct mon_worker *mw, enum flow_family family, const struct flow *f,
		enum ipfix_end_reason reason);
/* Send what there is, when it is old enough or `force`. */
void mon_flush(struct mon_worker *mw, bool force);
/* To be called with each TSC stamp seen, before anything else. */
void mon_clock(struct mon_worker *mw, uint64_t tsc);
/* nf_ops.keeps (kept.c). */
extern const struct nf_keeps mon_keeps;
int mon_socket_open(const struct mon_params *p, struct err *err);
