/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_meter.h>

#include "core/nf.h"
#include "macs.h"
#include "nic.h"

/* What the files of this NF share; nobody else includes it. */

#define VEB_PORTS_MAX NF_EDGES_MAX

enum veb_mode { VEB_MODE_VEB, VEB_MODE_VEPA };
enum veb_unknown { UNKNOWN_FLOOD, UNKNOWN_UPLINK, UNKNOWN_DROP };

enum veb_drop {
	DROP_NO_PORT,
	DROP_BAD_SOURCE,
	DROP_SPOOFED,
	DROP_RESERVED,
	DROP_FILTERED,
	DROP_UNKNOWN,
	DROP_FLOOD_LIMIT,
	DROP_UPLINK_OUT,
	DROP_UPLINK_IN,
	DROP_RATE,
	DROP_RATE_IN,
	DROP_CAPACITY,
	DROP_QUEUE_FULL,
};

enum veb_counter {
	C_FORWARDED,
	C_FLOODED,
	C_COPIES,
	C_COPIES_LOST,
	C_LEARNT,
	C_MOVED,
	C_TABLE_FULL,
	C_EXPIRED,
	C_WAITED,
	C_WAITED_NS,
	C_UPLINK_OUT_BYTES,
	C_UPLINK_IN_BYTES,
	C_TO_HOST_BYTES,
	C_FROM_HOST_BYTES,
};

struct veb_port_params {
	bool uplink, spoof_check, reflect;
	struct param_list macs; /* struct param_mac */
	uint64_t rate_bps, in_rate_bps;
};

struct veb_params {
	struct param_list ports; /* struct veb_port_params */
	uint32_t mode, unknown;
	bool learning;
	uint64_t addresses, flood_pps, flood_burst, burst_bytes, overhead_bytes;
	uint64_t capacity_bps, queue_packets;
	double ageing_s;
};

/* Of one worker: its share of the bound on floods. */
struct veb_meter {
	struct rte_meter_srtcm_profile profile;
	struct rte_meter_srtcm state;
};

struct veb_port {
	bool uplink, spoof_check, reflect;
	uint8_t to_uplink;    /* where what leaves the server goes; itself, where there is none */
	uint64_t flood;	      /* bit per port that gets what comes in here and floods */
};

struct veb {
	struct macs macs;
	unsigned int n_ports;
	struct veb_port ports[VEB_PORTS_MAX];
};

struct veb_worker {
	struct veb *veb;
	uint32_t overhead;
	bool limited; /* there are limits, and so queues */
	struct veb_meter flood;
	struct nic_clock clock;
	double ns_per_time;
	struct nic_way in, out;
};

/* One frame in, by which port; what the steps of switching need of it. */
struct veb_frame {
	struct rte_mbuf *m;
	uint64_t now; /* TSC */
	uint16_t in;
	enum nf_direction dir;
};

static inline const struct veb_port_params *veb_port_at(const struct veb_params *p, unsigned int i)
{
	return (const struct veb_port_params *)p->ports.items + i;
}

bool veb_has_limits(const struct veb_params *p);
/* Each replica has its share of the limits, and queues of its own. */
int veb_limits_start(struct veb_worker *vw, const struct veb_params *p, const struct nf_worker *w,
		     struct err *err);
void veb_limits_stop(struct veb_worker *vw); /* frees the frames that wait */
/* Past a port's limits, in or out: 0, NF_HOLD (it waits), or the drop. */
uint8_t veb_pass(struct nf_worker *w, struct nic_way *way, unsigned int port,
		 struct nic_frame *frame);
/* The verdict on a frame that has come in: NF_HOLD when it waits to leave. */
uint8_t veb_switch(struct nf_worker *w, const struct veb_frame *f);
void veb_process(struct nf_worker *w, struct burst *b);
void veb_poll(struct nf_worker *w);
/* Lets go what limits have time for. */
void veb_serve(struct nf_worker *w, uint64_t now_tsc);
