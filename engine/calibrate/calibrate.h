/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_cycles.h>

#include "core/err.h"

/*
 * headrace-calibrate: what memory, cores, rings and clocks of this server cost, in TSC cycles.
 *
 * Other work on the machine only ever makes a measurement longer, so each figure is a median over
 * rounds with the least beside it, and what is compared is measured in turn within each round.
 */
#define CPUS_MAX 256
#define NODES_MAX 16
#define ROUNDS_MAX 101
#define LINE 64

struct options {
	unsigned int cpus[CPUS_MAX], n_cpus;
	unsigned int nodes[NODES_MAX], n_nodes; /* with memory; the first is that of cpus[0] */
	size_t l1_bytes, l2_bytes, llc_bytes, memory_bytes;
	unsigned int rounds;
	const char *only; /* NULL: all parts */
	size_t thrash_bytes;
};

/* Memory on huge pages where the kernel has some; page_bytes says what it became. */
struct region {
	uint8_t *addr;
	size_t bytes, page_bytes;
};

int region_map(struct region *r, size_t bytes, int node, struct err *err);
void region_unmap(struct region *r);

/* A line that leads to another one: what loads have to wait for. */
struct line {
	struct line *next;
	uint64_t value;
	uint64_t pad[6];
};
_Static_assert(sizeof(struct line) == LINE, "one cache line");

/* Make the first `n` lines one random cycle; the order defeats prefetchers. */
int lines_shuffle(struct line *lines, size_t n, struct err *err);
struct line *lines_walk(struct line *at, size_t steps);

/* Another CPU that does what it is told, and meanwhile waits without touching anything else. */
struct partner {
	pthread_t thread;
	void (*job)(void *arg);
	void *arg;
	_Alignas(LINE) atomic_uint asked;
	_Alignas(LINE) atomic_uint done;
};

int pin_to(unsigned int cpu, struct err *err);
int partner_start(struct partner *p, unsigned int cpu, struct err *err);
void partner_begin(struct partner *p, void (*job)(void *arg), void *arg);
void partner_wait(struct partner *p);
void partner_stop(struct partner *p);

static inline void partner_run(struct partner *p, void (*job)(void *arg), void *arg)
{
	partner_begin(p, job, arg);
	partner_wait(p);
}

/* Rounds of one figure. */
struct sample {
	unsigned int n;
	double values[ROUNDS_MAX];
};

void sample_add(struct sample *s, double value);
double sample_median(const struct sample *s);
json_t *sample_json(const struct sample *s); /* {"median", "min", "max"} */
double values_at(const double *sorted, size_t n, double share);
void values_sort(double *values, size_t n);

uint64_t random_next(uint64_t *state);
double tsc_hz(void);

/* The parts: each returns an object or array, NULL with err set when it failed. */
json_t *measure_chase(const struct options *o, struct err *err);
json_t *measure_gather(const struct options *o, struct err *err);
json_t *measure_transfer(const struct options *o, struct err *err);
json_t *measure_ring(const struct options *o, struct err *err);
json_t *measure_clock(const struct options *o, struct err *err);
json_t *measure_share(const struct options *o, struct err *err);
json_t *measure_placed(const struct options *o, struct err *err);

/* Walk through `bytes` for ever: a neighbour that takes the last-level cache (Sieber et al. 2017). */
int thrash(const struct options *o, struct err *err);
