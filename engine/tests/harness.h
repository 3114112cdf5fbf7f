/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/nf.h"
#include "core/pkt.h"

/*
 * Packets in, packets out: runs one NF as the engine would, for unit tests and fuzzers.
 *
 * It makes the instance from JSON parameters by the NF's own table, classifies packets when the
 * NF wants headers, feeds bursts, and applies the verdicts. It is linked instead of the engine's
 * segment.c: nf_emit, nf_release, nf_drop_held and nf_alloc are its own. After every burst it
 * checks conservation, the range of verdicts, and that no mbuf has been lost; what is wrong there
 * is a bug, not an input, and ends the program with a message.
 *
 * Every packet lies in an external buffer of exactly its size. AddressSanitizer says nothing of
 * a read past the data inside an ordinary mbuf, as that memory is the pool's own.
 */

struct harness_config {
	unsigned int workers;   /* 0: one */
	uint16_t headroom;      /* bytes before each packet that an NF may prepend to */
	uint32_t first_segment; /* bytes in a packet's first mbuf, the rest in a second; 0: one */
	unsigned int emit_room; /* nf_emit and nf_release per burst before -ENOBUFS; 0: no bound */
	bool elastic; /* as in an elastic segment: buckets go to the worker that has their packets */
};

struct harness_packet {
	const void *data;
	uint32_t len;
	uint16_t port; /* for nf_port */
};

#define HARNESS_CREATED (-1)

/* A packet that left the NF. */
struct harness_out {
	int64_t origin; /* its position among all packets put in, or HARNESS_CREATED */
	uint8_t edge;
	uint8_t direction;
	uint32_t len;
	uint8_t *data;
};

struct harness_counts {
	uint64_t in, created, out, consumed, aborted, held;
	uint64_t dropped[NF_DROPS_MAX];
};

struct harness {
	struct nf nf;
	struct nf_worker *workers;
	_Atomic uint8_t owners[PKT_BUCKETS]; /* with `elastic` */
	unsigned int worker; /* the one that harness_run uses; 0 at first */
	struct harness_config config;
	uint64_t now; /* TSC, moved by harness_advance only */
	struct harness_counts counts;

	/* The verdict of every packet put in, and all that came out, in order. */
	uint8_t *verdicts;
	size_t n_verdicts, verdicts_room;
	struct harness_out *out;
	size_t n_out, out_room;

	unsigned int emitted; /* in this burst or tick */
	void *conf;
};

/*
 * An instance of the NF `type` with `params` (JSON object, NULL: all defaults). NULL when the
 * parameters are refused, with err filled. Starts EAL at the first call. config may be NULL.
 */
struct harness *harness_new(const char *type, const char *params,
			    const struct harness_config *config, struct err *err);
/* Ends the instance; fails when it has kept an mbuf. */
void harness_free(struct harness *h);

/* Feed packets in bursts of `burst`; verdicts and outputs are appended. */
void harness_run(struct harness *h, enum nf_direction dir, unsigned int burst,
		 const struct harness_packet *in, size_t n);
/* Let time pass, then tick and poll every worker. */
void harness_advance(struct harness *h, uint64_t ns);
/* Poll every worker, as the segment does while the NF holds packets. */
void harness_poll(struct harness *h);
/* nf_ops.update with `op` as JSON; the reply as the NF gave it, NULL for none. */
int harness_update(struct harness *h, const char *op, json_t **reply, struct err *err);
/* Forget verdicts and outputs; counts and the NF's state stay. */
void harness_forget(struct harness *h);

/*
 * The same packets at burst sizes 1, 7, 32 and 64, each on a fresh instance: fails unless
 * verdicts and outputs agree. Returns the last instance for more checks; NULL as harness_new.
 */
struct harness *harness_run_all(const char *type, const char *params,
				const struct harness_config *config, enum nf_direction dir,
				const struct harness_packet *in, size_t n, struct err *err);

/* The value of a counter of the NF, all workers together; fails on an unknown name. */
uint64_t harness_counter(const struct harness *h, const char *name);
/* The number of packets dropped for a reason by name. */
uint64_t harness_dropped(const struct harness *h, const char *reason);
/* The verdict that drops for a reason by name. */
uint8_t harness_drop(const struct harness *h, const char *reason);
