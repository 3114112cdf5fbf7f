/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "core/err.h"
#include "core/loop/elastic.h"

/* Control thread: which replica of an elastic segment has which buckets. */

struct engine;

/* The control thread hears nobody else meanwhile: so long, unless a request says otherwise. */
#define ELASTIC_WITHIN_MS 1000
#define ELASTIC_WITHIN_MAX_MS 10000

struct elastic_moved {
	unsigned int buckets;
	uint64_t waited; /* packets that waited meanwhile */
	uint64_t took_ns;
	bool late; /* they have moved, and what waited has not all been let go yet */
};

/*
 * Each bucket to that replica, which must run; what it has already stays. -EBUSY: somebody did not follow in
 * time, and they stay where they are.
 */
int elastic_move(struct engine *e, unsigned int segment, const uint8_t to[PKT_BUCKETS],
		 unsigned int within_ms, struct elastic_moved *moved, struct err *err);
/* A request's `within_ms`. */
int elastic_within(const json_t *req, unsigned int *within_ms, struct err *err);
/* {"segment", "buckets", "waited", "took_ns"}, and "late" where it is so */
json_t *elastic_moved_json(const char *segment, const struct elastic_moved *moved);
/* Its function of this number in plan.nfs has the segment's owners. */
void elastic_tell(struct engine *e, unsigned int nf);
/* Nobody who steers by `elastic`, and runs, has packets of buckets that its generation gave to others. */
bool elastic_followed(const struct engine *e, const struct elastic *elastic);
/* Packets that had to wait with who steers by it, in all; NULL: by whatever. */
uint64_t elastic_waited(const struct engine *e, const struct elastic *elastic);
/* One of the first `running` replicas has no bucket. */
bool elastic_lacks(const struct elastic *elastic, unsigned int running);
/* As many to each of the first `running` replicas, by as few moves as that takes. */
void elastic_spread(const struct elastic *elastic, unsigned int running, uint8_t to[PKT_BUCKETS]);
