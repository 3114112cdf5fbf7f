/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "err.h"

/*
 * A trial: links that make packets (senders) begin at one instant, links that measure (meters) count
 * anew. Both say so in their link_ops; nothing else tells them from other links.
 */

struct link;
struct replay; /* between senders and meters alone: link/replay.h */

#define TRIAL_REPLAYS_MAX 8

/* What a trial asks of one sender. */
struct send_run {
	double rate_pps;   /* 0: as fast as possible */
	uint64_t packets;  /* UINT64_MAX: until the duration is over */
	bool counted;      /* so many were asked for; else they are what the rate gives in the duration */
	uint64_t duration; /* TSC cycles */
	uint64_t start_tsc;
	unsigned int epoch;
};

/* Packets that are known again, though unmarked. */
struct trial_replay {
	const char *sender; /* the link's name */
	struct replay *replay;
};

/* What a trial asks of all meters: `announce` of every sender that begins with it has added to it. */
struct trial {
	unsigned int epoch;
	uint64_t duration; /* TSC cycles: what arrives within it of the first is counted apart, too */
	uint64_t n_flows;
	unsigned int n_replays;
	struct trial_replay replays[TRIAL_REPLAYS_MAX];
	bool blind;               /* no sender marks its packets */
	const struct link *links; /* all of the engine, for names in a meter's parameters */
	unsigned int n_links;
};

/* Control thread. */
struct link_sender {
	bool (*busy)(const struct link *l); /* with a trial; all below but stop and set_rate need it idle */
	void (*announce)(const struct link *l, struct trial *t);
	/* Everything that takes time before a start. */
	void (*prepare)(struct link *l);
	void (*start)(struct link *l, const struct send_run *run);
	void (*stop)(struct link *l);
	void (*set_rate)(struct link *l, double rate_pps);
};

struct link_meter {
	/*
	 * Begin anew. Clear state for the trial's flows is made ready apart and then taken over by the
	 * workers with the next packet, so no packet ever waits for a memset.
	 */
	int (*start)(struct link *l, const struct trial *t, struct err *err);
	/* The `top` flows with most loss, reordering and duplication: [{flow, received, lost, ...}]. */
	json_t *(*flows)(struct link *l, unsigned int top);
	/*
	 * Delays in slices of time between two TSCs: {columns, queues: [[row, ...], ...]}, one list of each
	 * writer. NULL: it measures none.
	 */
	json_t *(*slices)(struct link *l, uint64_t since, uint64_t until);
};
