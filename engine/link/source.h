/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "craft.h"
#include "ends.h"
#include "flows.h"
#include "link.h"
#include "pace.h"
#include "replay.h"

/* What a trial asks of one source. */
struct source_run {
	double rate_pps;   /* 0: as fast as possible */
	uint64_t packets;  /* UINT64_MAX: until the duration is over */
	uint64_t duration; /* TSC cycles */
	uint64_t start_tsc;
	unsigned int epoch;
};

/* Control thread. The source must be idle (source_busy) for start. */
bool link_is_source(const struct link *l);
bool source_busy(const struct link *l);
/* Everything that takes time before a start: sequences to zero. */
void source_prepare(struct link *l);
void source_start(struct link *l, const struct source_run *run);
void source_stop(struct link *l);
void source_set_rate(struct link *l, double rate_pps);
/* The replayed capture, NULL when the source makes its packets. */
struct replay *source_replay(const struct link *l);
uint64_t source_flow_count(const struct link *l);
/* Whether its packets carry stamps. */
bool source_stamps(const struct link *l);

struct source_conf {
	struct craft_conf craft;
	struct flows_conf flows;
	char *pcap_file;
	uint64_t flow_base;
};

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
	uint64_t intended, sent, sent_bytes, no_mbuf;
	uint64_t sizes[SIZE_CLASSES]; /* of what was sent */
	uint64_t first_tsc, last_tsc;
	_Atomic unsigned int done_epoch; /* the last trial that came to its end */
} __rte_cache_aligned;

struct source {
	struct link *link;
	const struct source_conf *conf;
	struct flows flows;
	struct craft craft;
	struct replay *replay;
	/* What is wanted; written by the control thread before `version`, read after it. */
	struct source_run run;
	bool stopped;
	_Atomic uint64_t version;
	uint16_t n_queues;
	struct source_queue *queues;
};

/* The link's rx; rxq->state is a struct source_queue. */
uint16_t source_rx(struct link_rxq *rxq, struct rte_mbuf **pkts, uint16_t n);
