/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/link.h"
#include "core/nf.h"
#include "core/pkt.h"
#include "core/plan/plan.h"

/*
 * An elastic segment (docs/design/elastic.md): flows are steered by bucket, of PKT_BUCKETS, and which replica
 * has a bucket may change while packets come. Its links' writers look it up in tables of their own, which
 * they take over between two polls; packets of a bucket that nobody has just then wait with the writer.
 */
#define ELASTIC_NOBODY 0xff
#define ELASTIC_WAITING 4096 /* packets, of each writer; a power of two */
#define ELASTIC_CLOSED UINT32_MAX /* a generation that no segment's comes to */

struct outlet;
struct replica;

/* A segment's. The control thread writes it. */
struct elastic {
	_Atomic uint8_t owners[PKT_BUCKETS]; /* replica, or ELASTIC_NOBODY while it moves */
	_Atomic uint32_t generation;         /* of them: grows once they are as writers shall have them */
	unsigned int replicas;               /* that there may be */
};

/* A writer's, for one of the segment's links. */
struct elastic_way {
	/* The reader's; the control thread puts another one there when segments change (repartition.c). */
	const struct elastic *_Atomic elastic;
	bool keeps; /* its packets have their bucket already: they come from a segment that shares it */
	const struct nf *asks; /* whose bucket_of is asked; NULL: the tuple's hash tells */
	uint8_t direction;     /* that its packets take through the segment */
	uint8_t by;            /* enum nf_state_key: what of a packet tells, where nobody is asked */
	uint8_t to[PKT_BUCKETS];
	_Atomic uint32_t seen;     /* the generation that `to` is of */
	uint32_t first, n;         /* of `waiting`, which goes round */
	uint64_t waited;           /* packets that had to, in all */
	uint32_t most;             /* of them at a time */
	uint64_t packets[PKT_BUCKETS]; /* steered */
	struct rte_mbuf *waiting[ELASTIC_WAITING];
};

/* NULL: out of memory. Buckets are spread over the first `running` replicas. */
struct elastic *elastic_create(unsigned int replicas, unsigned int running);
void elastic_free(struct elastic *e);
struct elastic_way *elastic_way_create(const struct elastic *e);
void elastic_way_free(struct elastic_way *way);

static inline const struct elastic *elastic_of(const struct elastic_way *way)
{
	return atomic_load_explicit(&way->elastic, memory_order_acquire);
}

/* Worker lcore. Packets into the outlet's queues, or its waiting place. */
void elastic_steer(struct outlet *o, struct rte_mbuf **pkts, uint16_t n);
/* Between two polls: owners as they are now, once nothing is queued by the former ones. */
void elastic_adopt(struct replica *r);
/* Packets wait with this writer. */
bool elastic_waits(const struct replica *r);

/* No room for what another poll may bring. */
static inline bool elastic_is_full(const struct elastic_way *way, uint32_t room)
{
	return way->n > ELASTIC_WAITING - room;
}
