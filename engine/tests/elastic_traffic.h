/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Traffic for elastic_test.c: made once, in steps, with answers to what has left the chain; then the same
 * packets again. Each packet's last four bytes say which one it is.
 */
#define TRAFFIC_FRAME_MAX 192
#define TRAFFIC_MAX 200000

enum traffic_link { TRAFFIC_OUTWARD, TRAFFIC_ANSWERS, TRAFFIC_LINKS };

struct traffic_packet {
	uint32_t step, flow; /* packets of a flow keep their order; those of flow 0 need not */
	uint8_t link;
	uint16_t len;
	uint8_t data[TRAFFIC_FRAME_MAX];
};

struct traffic {
	unsigned int n, seed;
	struct traffic_packet *packets;
};

void traffic_open(struct traffic *t, unsigned int seed);
void traffic_close(struct traffic *t);
unsigned int traffic_pick(unsigned int *seed, unsigned int n);
/* The outward packets of a step. */
void traffic_make(struct traffic *t, unsigned int step, unsigned int n);
/* An answer to a packet as it left the chain; and one that answers to nothing. */
void traffic_answer(struct traffic *t, unsigned int step, const uint8_t *data, uint16_t len);
void traffic_stray(struct traffic *t, unsigned int step);
/* Which packet it is. */
uint32_t traffic_number(const uint8_t *data, uint16_t len);
