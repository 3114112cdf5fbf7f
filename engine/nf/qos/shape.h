/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_sched.h>

#include "core/nf.h"

/*
 * The shaper: DPDK's hierarchical scheduler (port, subports, pipes, 13 traffic classes, of which the
 * last has four queues), one per worker and direction. What it has queued the NF holds.
 */
#define SHAPE_TCS RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE
#define SHAPE_BEST_EFFORT RTE_SCHED_TRAFFIC_CLASS_BE
#define SHAPE_BATCH 8 /* packets dequeued at a time, and so the most that can wait to be released */

enum shape_pipe_by { PIPE_BY_NONE, PIPE_BY_SRC, PIPE_BY_DST, PIPE_BY_FLOW };
enum shape_directions { SHAPE_BOTH, SHAPE_FORWARD, SHAPE_REVERSE };

/* The limits of a subport, or of a pipe. */
struct shape_limits {
	uint64_t rate_bps, burst_bytes, period_ms;
	struct param_list tc_rate_bps;
};

struct shape_subport_params {
	struct shape_limits limits;
	uint64_t pipes, profile;
};

struct shape_profile_params {
	struct shape_limits limits;
	struct param_list weights;
};

struct shape_params {
	uint64_t rate_bps, mtu_bytes;
	uint32_t directions, pipe_by;
	struct param_list queue_packets, subports, profiles;
};

struct shaper {
	struct rte_sched_port *port;
	uint16_t *queued; /* packets per queue of the port */
	uint16_t queue_packets[SHAPE_TCS];
	uint32_t *pipes; /* per subport, less one: a mask */
	uint32_t pipe_by, overhead, frame_max;
	/* The line behind the port, where the subports together may send more than it takes. */
	bool has_line;
	double credit, burst, bytes_per_cycle;
	uint64_t credit_at; /* TSC */
	struct rte_mbuf *ready[SHAPE_BATCH];
	uint16_t n_ready;
};

extern const struct param shape_params[];

unsigned int shape_subports(const struct shape_params *p);
bool shape_wanted(const struct shape_params *p, enum nf_direction dir);
/* Everything that can be wrong without a scheduler; `path` is where the parameters are. */
int shape_check(const struct shape_params *p, uint32_t overhead, unsigned int workers,
		const char *path, struct err *err);
int shape_create(struct shaper **s, const struct shape_params *p, const struct nf_worker *w,
		 uint32_t overhead, struct err *err);
void shape_free(struct shaper *s);

/* False: its queue is full. Otherwise *m is marked for its queue, and counted as there. */
bool shape_admit(struct shaper *s, struct rte_mbuf *m, unsigned int subport, unsigned int tc,
		 unsigned int queue);
void shape_enqueue(struct shaper *s, struct rte_mbuf **pkts, unsigned int n);
/* Releases what is due on edge 0; returns how many. */
unsigned int shape_release(struct shaper *s, struct nf_worker *w, enum nf_direction dir);
