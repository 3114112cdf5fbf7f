/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* The chain of elastic_test.c, cut into segments. */
#define ELASTIC_FUNCTIONS 6
#define ELASTIC_MOST 4 /* replicas */

struct elastic_partition {
	const char *first, *params; /* the first function's type, and parameters; NULL: none */
	bool elastic;      /* otherwise each segment has one replica */
	unsigned int named; /* in the names of segments; 0: in none */
	unsigned int burst;
	unsigned int cuts; /* bit i: behind the i-th function */
	unsigned int replicas[ELASTIC_FUNCTIONS]; /* of the segment that begins with this function */
};

json_t *elastic_plan(const struct elastic_partition *p);
