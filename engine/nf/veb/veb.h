/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_meter.h>

#include "core/nf.h"
#include "macs.h"

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
	DROP_RATE,
	DROP_RATE_IN,
	DROP_CAPACITY,
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
	uint64_t capacity_bps;
	double ageing_s;
};

/* Meters of one worker: its share of each rate. */
struct veb_meter {
	bool on;
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
	struct veb_meter out[VEB_PORTS_MAX], in[VEB_PORTS_MAX], flood, capacity;
};

void veb_process(struct nf_worker *w, struct burst *b);
