/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "err.h"
#include "offload.h"
#include "param.h"
#include "trial.h"

/*
 * The contract of a link: it gives bursts of packets and takes them. A replica that
 * reads has its own receive queue, one that writes its own transmit queue; a queue is used by
 * one lcore only, so a link needs locks only where queues share something.
 */
struct link_rxq {
	struct link *link;
	uint16_t index; /* 0..link->n_rxq-1 */
	void *state;
};

struct link_txq {
	struct link *link;
	uint16_t index;
	void *state;
};

struct link {
	const struct link_ops *ops;
	char name[32];
	const void *conf;
	void *state;
	uint16_t n_rxq, n_txq; /* how many readers and writers the plan has; set before init */
	uint16_t opened_txq;   /* engine's: transmit queues handed out so far */
	bool wait;             /* set by init: writers keep what the link does not take */
	bool spare;            /* set by init: a later plan may have others read and write it */
	int socket_id;
	uint16_t port_id; /* ethdev port, when the link is one */
	struct rte_mempool *pool;
};

/* Packets for a peer that is being replaced. */
struct link_held {
	uint64_t waited; /* in all */
	uint32_t most, now;
};

/* How a writer spreads packets over the reader queues of a link (struct outlet does it). */
enum steer {
	STEER_HASH, /* symmetric flow hash */
	STEER_EVEN, /* each new flow to the next replica in turn (Zheng et al. 2019) */
};

struct link_ops {
	const char *name;
	const char *doc;
	const struct param *params;
	size_t conf_size;
	bool reads, writes; /* may be a segment's input / output */
	/* Writers choose the reader queue (ring); otherwise the device does (RSS). */
	bool writer_steers;
	/* Packets come from outside, or fresh: classification must be done anew. */
	bool unclassified;
	/* What it gives has nf_port set already. */
	bool marks_port;

	int (*init)(struct link *l, struct err *err);
	void (*fini)(struct link *l);
	/* NULL: q->state is the link's, as it is when these are called. */
	int (*rx_open)(struct link_rxq *q, struct err *err);
	int (*tx_open)(struct link_txq *q, struct err *err);
	void (*rx_close)(struct link_rxq *q);
	void (*tx_close)(struct link_txq *q);

	/* Worker lcore. */
	uint16_t (*rx)(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n);
	/* `dest` is the reader queue when writer_steers; returns how many were taken, in order. */
	uint16_t (*tx)(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n);

	/*
	 * Worker lcore, for engine.wait; NULL: the link can only be polled. A descriptor that can
	 * be read when packets came (-1: none now); say that it will be waited on, false when
	 * packets are there already; and that the wait is over.
	 */
	int (*wait_fd)(struct link_rxq *q);
	bool (*wait_arm)(struct link_rxq *q);
	void (*wait_disarm)(struct link_rxq *q);

	/*
	 * Offload of state (offload.h): for how many flows the plan has this end tell what was
	 * decided (0: it tells nothing), and, on the reader's lcore, where: NULL while there is no
	 * peer to be told. `which` is another one for each peer. Control thread: an update of
	 * tables is about to be answered.
	 */
	uint32_t (*tells)(const struct link *l);
	struct offload_area *(*told)(struct link_rxq *q, uint32_t *flows, uint64_t *which);
	void (*tables_changed)(struct link *l);

	/*
	 * Checkpoints (docs/design/checkpoints.md): how often the plan has this end's segment write one, in
	 * ms (0: never), and on the reader's lcore where to: memory that the peer keeps for whoever comes
	 * after this engine; NULL: there is none. It stays mapped until `fini`.
	 */
	uint32_t (*checkpoint_ms)(const struct link *l);
	void *(*kept)(const struct link *l, size_t *bytes);

	/*
	 * Control thread, while no lcore polls: the peer is about to be replaced, and packets for it wait
	 * here; those that wait go to whom it has by now, before what comes. At any time: whether some wait,
	 * or would.
	 */
	int (*hold)(struct link *l, struct err *err);
	int (*release)(struct link *l, struct err *err);
	bool (*holds)(const struct link *l, struct link_held *held);
	/* The same, of who is replaced: 1: nothing is in it either way; -ENOTSUP: its peer is not told. */
	int (*drained)(const struct link *l);

	/*
	 * Control thread, with writer_steers, for elastic segments: a mark behind what was put into
	 * this reader queue so far, and whether its reader has taken all before a mark.
	 */
	uint32_t (*written)(const struct link *l, uint16_t queue);
	bool (*taken)(const struct link *l, uint16_t queue, uint32_t mark);
	uint32_t (*waiting)(const struct link *l, uint16_t queue); /* packets in it */

	/* Control thread. */
	json_t *(*stats)(struct link *l);
	/* Capabilities (1 << CAP_...) that `fini` needs in it; NULL: none (core/rights/rights.h). */
	uint64_t (*keeps)(const struct link *l);

	/* Its part in trials (trial.h); NULL: none. */
	const struct link_sender *sends;
	const struct link_meter *measures;
};

void link_register(const struct link_ops *ops);
const struct link_ops *link_find(const char *name);
const struct link_ops *link_at(unsigned int i);

#define LINK_REGISTER(ops)                                                                         \
	__attribute__((constructor)) static void link_register_##ops(void) { link_register(&ops); }
