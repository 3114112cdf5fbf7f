/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "stage.h"

#define STAGES_MAX 30 /* the kernel allows 33 tail calls one after the other */

struct bpf_link;
struct xdp_ends_bpf;

/* One direction of a chain, between two interfaces. */
struct chain {
	const char *direction;
	unsigned int enter, leave; /* interfaces */
	struct xdp_ends_bpf *ends;
	struct stage stages[STAGES_MAX];
	unsigned int n;
	int link; /* what attaches it, until this process ends */
};

/* Loads what `conf` describes; `before`: the other direction, or NULL. chain_fini in any case. As
 * stage.h's functions otherwise. */
int chain_load(struct chain *c, const json_t *conf, const struct chain *before, struct problem *p);
int chain_attach(struct chain *c, bool generic, struct problem *p);
void chain_fini(struct chain *c);

/* Adds what was counted to an object, by DIRECTION/FUNCTION/WHAT. */
void chain_counters(const struct chain *c, json_t *to);
