/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/ends.h"
#include "core/link.h"
#include "core/trial.h"
#include "craft.h"
#include "flows.h"
#include "due.h"
#include "replay.h"

struct source_conf {
	struct craft_conf craft;
	struct flows_conf flows;
	char *pcap_file;
	uint32_t timing; /* of a capture: enum timing */
	uint64_t flow_base;
};

enum timing { TIMING_LOAD, TIMING_CAPTURE };

/* One per reading replica, written by its lcore. */
struct source_queue {
	struct source *source;
	uint64_t version; /* of the command it has seen */
	unsigned int epoch;
	bool running;
	uint16_t index;
	uint16_t frame; /* position in the sequence of sizes */
	uint32_t mac;
	uint64_t flow, first_flow, n_flows;
	uint32_t seq; /* of computed flows, which share one sequence */
	uint64_t rng;
	uint64_t magic;
	struct pace pace;
	double per_ns;     /* a replay by its own times: cycles for each ns of the capture; 0: not so */
	int64_t began;     /* its first packet's due time, cycles since start */
	uint64_t rounds;   /* how often the capture has been sent */
	uint64_t intended, sent, sent_bytes, no_mbuf;
	uint64_t sizes[SIZE_CLASSES]; /* of what was sent */
	uint64_t first_tsc, last_tsc;
	_Atomic unsigned int done_epoch; /* the last trial that came to its end */
	struct send_run run; /* as the command of `version` has it */
} __rte_cache_aligned;

struct source {
	struct link *link;
	const struct source_conf *conf;
	struct flows flows;
	struct craft craft;
	struct replay *replay;
	/* What is wanted: the control thread's, but for lcores that copy it when `version` is not theirs. */
	struct send_run run;
	bool stopped;
	_Atomic uint64_t version;
	atomic_flag held; /* while either writes or copies the two */
	uint16_t n_queues;
	struct source_queue *queues;
};

/* Whether the run is a replay in the capture's own distances. */
bool source_timed(const struct source *s, const struct send_run *run);
/* How many of such a replay are due before its time is over. */
uint64_t source_timed_packets(const struct source *s, const struct send_run *run);

/* The link's rx; rxq->state is a struct source_queue. */
uint16_t source_rx(struct link_rxq *rxq, struct rte_mbuf **pkts, uint16_t n);
