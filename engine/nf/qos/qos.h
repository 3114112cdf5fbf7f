/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_meter.h>

#include "core/nf.h"
#include "nf/lib/rules/set.h"
#include "shape.h"

/* What the files of this NF share; nobody else includes it. */

#define QOS_CLASSES_MAX 64
#define QOS_DSCPS 64
#define QOS_KEEP 64 /* as a DSCP to write: leave it */
#define QOS_NO_CLASS QOS_CLASSES_MAX

enum qos_meter { METER_NONE, METER_SRTCM, METER_TRTCM, METER_TRTCM_4115 };
enum qos_drop { DROP_YELLOW, DROP_RED, DROP_QUEUE_FULL };
enum qos_counter { C_GREEN, C_YELLOW, C_RED, C_UNCLASSIFIED, C_MARKED, C_SHAPED };

struct qos_class_params {
	struct param_list dscp, rules;
	uint32_t meter;
	uint64_t cir_bps, pir_bps, cbs_bytes, pbs_bytes;
	uint64_t mark[RTE_COLORS]; /* 0..63, or QOS_KEEP */
	bool drop[RTE_COLORS];
	uint64_t subport, tc, queue;
};

struct qos_params {
	struct param_list classes;
	uint64_t overhead_bytes;
	struct shape_params shaper;
};

union qos_profile {
	struct rte_meter_srtcm_profile srtcm;
	struct rte_meter_trtcm_profile trtcm;
	struct rte_meter_trtcm_rfc4115_profile trtcm_4115;
};

/* A class as the workers share it. */
struct qos_class {
	union qos_profile profile;
	struct acl_set *set; /* NULL: by DSCP only */
	uint8_t meter;	     /* enum qos_meter */
	uint8_t mark[RTE_COLORS];
	uint8_t verdict[RTE_COLORS];
	uint8_t subport, tc, queue; /* of the shaper */
};

struct qos {
	unsigned int n_classes;
	bool rules; /* some class has a set */
	uint8_t by_dscp[QOS_DSCPS]; /* the first class that names it, or QOS_NO_CLASS */
	struct qos_class classes[QOS_CLASSES_MAX];
};

union qos_state {
	struct rte_meter_srtcm srtcm;
	struct rte_meter_trtcm trtcm;
	struct rte_meter_trtcm_rfc4115 trtcm_4115;
};

struct qos_worker {
	struct qos *qos;
	uint32_t overhead;
	struct shaper *shapers[NF_DIRECTIONS]; /* NULL: not shaped */
	union qos_state meters[QOS_CLASSES_MAX];
};

void qos_process(struct nf_worker *w, struct burst *b);
void qos_poll(struct nf_worker *w);
void qos_tick(struct nf_worker *w, uint64_t now_tsc);
