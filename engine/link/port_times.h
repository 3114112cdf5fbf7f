/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <rte_mbuf.h>

/*
 * Times of packets that come and go by a device, for the anatomy of a hosted chain (Wang et al., figure 8).
 *
 * A device's queues keep no times of ours. What can be had: how long a packet stayed in this engine,
 * from one such port to another, and how old it was when it came and when it left, by the generator's
 * stamp in it (stamp.h). The mean age on its return less that when it left is what was spent outside,
 * all of it by one clock, even if a machine with another clock was in between. An engine with sources
 * tells nothing of stays: its packets are made in the buffers of those that came and ended here.
 */
struct port_times {
	uint64_t aged, age_cycles;
	uint64_t stays, stay_cycles;
};

/* 0 or -ENOMEM; once for all ports that take times. */
int port_times_init(void);
void port_times_in(struct port_times *t, struct rte_mbuf *const *pkts, uint16_t n);
/* As rte_eth_tx_burst; only what the device took is counted. */
uint16_t port_times_out(struct port_times *t, uint16_t port, uint16_t queue, struct rte_mbuf **pkts,
			uint16_t n);
void port_times_add(struct port_times *sum, const struct port_times *t);
json_t *port_times_json(uint64_t count, uint64_t cycles);
