/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "core/err.h"
#include "core/loop/elastic.h"

/* Control thread: which replica of an elastic segment has which buckets. */

struct engine;

struct elastic_moved {
	unsigned int buckets;
	uint64_t waited; /* packets that waited meanwhile */
	uint64_t took_ns;
};

/* Each bucket to that replica, which must run; what it has already stays. -EBUSY: somebody did not follow. */
int elastic_move(struct engine *e, unsigned int segment, const uint8_t to[PKT_BUCKETS],
		 struct elastic_moved *moved, struct err *err);
/* {"segment", "buckets", "waited", "took_ns"} */
json_t *elastic_moved_json(const char *segment, const struct elastic_moved *moved);
/* As many to each of the first `running` replicas, by as few moves as that takes. */
void elastic_spread(const struct elastic *elastic, unsigned int running, uint8_t to[PKT_BUCKETS]);
