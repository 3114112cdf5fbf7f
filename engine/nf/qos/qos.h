/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_meter.h>
#include <rte_spinlock.h>

#include "core/nf.h"
#include "nf/lib/rules/set.h"
#include "shape.h"
#include "table/flow.h"

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

/*
 * A class' meter: each worker's own, of its part of the rates; in an elastic segment one for all workers, as
 * a class is of all flows, and replicas that rest would take their parts with them.
 */
struct qos_meter_state {
	rte_spinlock_t lock; /* where it is shared */
	/*
	 * The latest burst's time that it has seen. Another worker's burst may be of before: rte_meter would
	 * take the difference for some centuries, and fill the bucket.
	 */
	uint64_t newest;
	union qos_state state;
} __rte_cache_aligned;

struct qos_worker {
	struct qos *qos;
	uint32_t overhead;
	bool shares; /* its meters, with other workers */
	uint64_t now; /* TSC, of its last tick */
	struct shaper *shapers[NF_DIRECTIONS]; /* NULL: not shaped */
	struct qos_meter_state *meters;	       /* by class */
	struct flow_table *kept; /* classes with meters, for checkpoints; NULL in an elastic segment */
};

static inline enum rte_color qos_meter(struct qos_meter_state *m, struct qos_class *c, uint64_t now,
				       uint32_t bytes)
{
	union qos_state *state = &m->state;

	now = m->newest = RTE_MAX(now, m->newest);
	switch (c->meter) {
	case METER_SRTCM:
		return rte_meter_srtcm_color_blind_check(&state->srtcm, &c->profile.srtcm, now, bytes);
	case METER_TRTCM:
		return rte_meter_trtcm_color_blind_check(&state->trtcm, &c->profile.trtcm, now, bytes);
	case METER_TRTCM_4115:
		return rte_meter_trtcm_rfc4115_color_blind_check(
			&state->trtcm_4115, &c->profile.trtcm_4115, now, bytes);
	}
	return RTE_COLOR_GREEN;
}

/* kept.c */
extern const struct nf_keeps qos_keeps;
int qos_keep(struct nf_worker *w, struct qos_worker *qw, struct err *err);
void qos_process(struct nf_worker *w, struct burst *b);
void qos_poll(struct nf_worker *w);
void qos_tick(struct nf_worker *w, uint64_t now_tsc);
