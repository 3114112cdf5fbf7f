/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "cuckoo.h"

/* headrace-bench-fib: how fast are the forwarding tables, beside DPDK's and the memory's limit. */

#define BENCH_RUNS_MAX 51

struct bench_options {
	enum fib_kind kind;
	enum fib_key key;
	enum fib_memory memory;
	uint64_t entries[32];
	unsigned int n_entries;
	const char *routes; /* file, or NULL */
	uint64_t updates;   /* changes/s beside the lookups */
	unsigned int runs, burst;
	double seconds; /* of each run of each measurement */
	bool peer, check;
	int socket;
};

/* What is put into a table, and asked of it. */
struct bench_input {
	enum fib_kind kind;
	enum fib_key key;
	size_t stride;
	uint64_t n;
	uint8_t *keys, *lens; /* lens NULL: exact */
	uint16_t *nhs;
};

/* The i-th key of a table of synthetic keys; every i below 2^32 gives another one. */
void bench_key(enum fib_key key, uint64_t i, void *out);
uint16_t bench_next_hop(uint64_t i);
int bench_input_make(struct bench_input *in, const struct bench_options *o, uint64_t n,
		     struct err *err);
void bench_input_free(struct bench_input *in);
/* A random key that is in the table, and one that is not (FIB_LPM: may be), into out. */
void bench_hit(const struct bench_input *in, uint64_t random, void *out);
void bench_miss(const struct bench_input *in, uint64_t random, void *out);

/* Something that is asked n keys at a time; returns a number that depends on the answers. */
struct bench_target {
	uint64_t (*ask)(void *ctx, const void *keys, unsigned int n);
	void *ctx;
};

enum bench_mix { BENCH_HITS, BENCH_MISSES, BENCH_MIXED };

/* Millions of lookups a second; only the lookups are timed, not the making of the keys. */
double bench_lookups(const struct bench_input *in, const struct bench_target *t, enum bench_mix mix,
		     const struct bench_options *o);
struct bench_target bench_fib_target(struct fib *f);
/* Millions of random lines of this memory a second, prefetched a batch ahead. */
double bench_gather(const void *memory, uint64_t lines, const struct bench_options *o);
double bench_now(void);

/* Lookups while a thread on another CPU changes the table; rate 0: as fast as it can. */
struct bench_beside {
	double lookups_mps, updates_ps;
};
int bench_updating(struct fib *f, const struct bench_input *in, uint64_t rate,
		   const struct bench_options *o, struct bench_beside *out);

/* DPDK's table for the same purpose, with the same entries. name NULL: there is none. */
struct bench_peer {
	const char *name;
	struct bench_target target;
	void (*destroy)(void *ctx);
};
int bench_peer_make(struct bench_peer *p, const struct bench_input *in, struct err *err);
/* DPDK memory that a peer, or FIB_LPM, takes for n entries. */
uint64_t bench_eal_bytes(const struct bench_options *o, uint64_t n);
/* Started once, when the first need for it comes. */
int bench_eal_start(uint64_t bytes, bool *hugepages, struct err *err);
