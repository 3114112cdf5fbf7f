/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <hs.h>

#include "rule.h"

/* Rules compiled for Hyperscan (or Vectorscan, which has the same interface). */
enum patterns_db {
	PATTERNS_STREAM,  /* TCP, in streaming mode */
	PATTERNS_SEGMENT, /* TCP, rules that look at each segment by itself */
	PATTERNS_PACKET,  /* everything, packet by packet: what is not TCP, and TCP without a stream
			   */
	PATTERNS_DBS,
};

struct patterns {
	hs_database_t *db[PATTERNS_DBS]; /* NULL: no rules for it */
	hs_scratch_t *scratch;           /* to be cloned, one for each worker */
	size_t stream_bytes;             /* of one stream's state */
	size_t rules[PATTERNS_DBS];
	uint32_t *part_rule;        /* index of the rule, by part */
	size_t n_parts, part_words; /* words of 64 bits that hold one bit for each */
};

/*
 * Whether Hyperscan knows what is in each expression. `skip`: rules with others are left out and
 * counted; otherwise the first is an error.
 */
int patterns_check(struct rules *rules, bool skip, struct err *err);

/*
 * A match has the rule's index as its id, or, where a rule has several expressions, the number of
 * rules plus that of the part. Errors name the rule's place.
 */
int patterns_compile(struct rules *rules, struct patterns *out, struct err *err);
void patterns_free(struct patterns *p);
