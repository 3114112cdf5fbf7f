/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/link.h"
#include "port_times.h"

struct port_conf {
	char *devargs;
	uint64_t rx_descriptors, tx_descriptors, mtu;
	struct param_list rss_fields; /* of uint32_t: enum port_rss */
	char *rss_key;
	bool promiscuous;
	uint64_t wait_link_ms;
	bool times;
};

enum port_rss { PORT_RSS_IP, PORT_RSS_TCP, PORT_RSS_UDP };

struct port_queue {
	uint16_t port, queue;
	bool timed;
	struct port_times times;
} __rte_cache_aligned;

struct port_state {
	bool probed, started;
	int claim; /* see claim.h */
	struct port_queue *rx, *tx;
};

/* Queues, RSS, MTU; no flow control; started. */
int port_configure(struct link *l, struct err *err);

/* What the device does with pause frames now (IEEE 802.3 annex 31B): "off", "rx", "tx", "full";
 * "none" when it knows nothing of them. */
const char *port_flow_control(uint16_t port);
