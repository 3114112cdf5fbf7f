/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "link.h"
#include "replay.h"

#define SINK_REPLAYS_MAX 8

/* What a trial asks of all sinks. */
struct sink_run {
	unsigned int epoch;
	uint64_t duration; /* TSC cycles: what arrives within it of the first is counted apart, too */
	uint64_t n_flows;
	struct replay *replays[SINK_REPLAYS_MAX];
	bool blind; /* no source marks its packets */
};

/*
 * Control thread. Begin a trial: clear state for flows 0..n_flows-1 is made ready apart and
 * then taken over by the workers with the next packet, so no packet ever waits for a memset.
 */
bool link_is_sink(const struct link *l);
int sink_start(struct link *l, const struct sink_run *run, struct err *err);
/* The `top` flows with most loss, reordering and duplication: [{flow, received, lost, ...}]. */
json_t *sink_flows(struct link *l, unsigned int top);
