/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "core/err.h"

/*
 * What a NIC's limits do to frames (docs/design/nic.md): each port has a queue each way, and in front
 * of every limit frames wait until it has time for them. Frames are lost only where a queue is full.
 *
 * A way is one of the NIC's two: in from its ports, or out to them. Per way there is a limit for each
 * port, and one that the virtual functions' ports share: the device's interface to the host.
 */
#define NIC_PORTS_MAX 64
#define NIC_QUANTUM 2048 /* bytes: a port's share of each turn, over the longest frame without jumbos */

/*
 * Times are TSC cycles since the start, times 256. A device works while this lcore looks elsewhere: what
 * is found now may have come at any time since it last looked, `lag` ago. After a long absence it takes
 * a while until all that has piled up in front of the NIC is found: the lag goes as time passes.
 */
struct nic_clock {
	uint64_t start; /* TSC */
	uint64_t now, lag;
};

/* A limit, as time that each byte takes. */
struct nic_limit {
	bool on;
	uint64_t until; /* when it is through with what it has taken */
	uint64_t slack; /* the most of a lag that it makes up for */
	double per_byte;
};

struct nic_frame {
	struct rte_mbuf *m;
	uint64_t since; /* when it began to wait */
	uint32_t bytes; /* as limits count them */
	uint8_t dir;	/* enum nf_direction */
	bool created;	/* a copy: not held, as it has never come in */
	bool paid;	/* limits have taken it; it waits for room to leave */
};

struct nic_queue {
	struct nic_frame *frames; /* a ring */
	uint32_t head, n;
	uint32_t deficit; /* bytes of its turn that are left (Shreedhar and Varghese, 1996) */
	bool shares;	  /* the limit of all */
	struct nic_limit own;
};

struct nic_way {
	struct nic_queue queues[NIC_PORTS_MAX];
	struct nic_limit shared;
	uint64_t waiting; /* bit per port with frames */
	uint64_t sharing; /* bit per port that shares the limit */
	uint32_t depth;
	unsigned int turn;
};

/* Never backwards: a tick's time may be older than a poll's. */
void nic_clock_set(struct nic_clock *clock, uint64_t tsc);
/* Bits/s of one replica's share; 0: no limit. */
void nic_limit_set(struct nic_limit *limit, double bps, uint64_t slack_bytes);
int nic_way_init(struct nic_way *way, unsigned int ports, uint32_t depth, struct err *err);
void nic_way_fini(struct nic_way *way); /* frees the frames that wait */

/* A frame that finds nobody waiting, and its limits free, goes at once; true: limits have taken it. */
bool nic_way_pass(struct nic_way *way, unsigned int port, const struct nic_clock *clock,
		  uint32_t bytes);
/* False when the queue is full. */
bool nic_way_wait(struct nic_way *way, unsigned int port, const struct nic_frame *frame);
/* The port whose first frame may go now; -1: none. */
int nic_way_next(struct nic_way *way, uint64_t now);
/* That frame, which limits take now. It stays the caller's. */
struct nic_frame nic_way_take(struct nic_way *way, unsigned int port);
/* Back to where it was: there was no room to leave. */
void nic_way_put_back(struct nic_way *way, unsigned int port, const struct nic_frame *frame);
/* Whether the port's own limit, rather than the shared one, is what its frames wait for. */
bool nic_way_own(const struct nic_way *way, unsigned int port);
