/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "link.h"
#include "replay.h"

#define SINK_REPLAYS_MAX 8

/*
 * Control thread. Begin a trial: clear state for flows 0..n_flows-1 is made ready apart and
 * then taken over by the workers with the next packet, so no packet ever waits for a memset.
 * What arrives within `duration` (TSC cycles) of the first arrival is counted apart as well.
 */
bool link_is_sink(const struct link *l);
int sink_start(struct link *l, unsigned int epoch, uint64_t duration, uint64_t n_flows,
	       struct replay *const replays[SINK_REPLAYS_MAX], struct err *err);
/* The `top` flows with most loss, reordering and duplication: [{flow, received, lost, ...}]. */
json_t *sink_flows(struct link *l, unsigned int top);
