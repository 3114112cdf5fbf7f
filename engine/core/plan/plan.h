/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/link.h"
#include "core/nf.h"
#include "core/param.h"

/*
 * The plan: one JSON document, parsed and checked as a whole before anything is started
 * (docs/design/contracts.md). Names are resolved to indices here, so that nothing behind the
 * parser can meet a dangling one.
 */

#define PLAN_CLASSES_MAX 8
#define PLAN_CPU_MAX 1023
#define ELASTIC_REPLICAS_MAX 64
#define ELASTIC_INPUTS_MAX 16 /* links that an elastic segment reads */

/* Timed loads of fewer cycles than this, and not of the class before; the last takes the rest. */
struct plan_class {
	char *name;
	uint64_t below_cycles;
};

#define LOCATE_EVERY_MAX 1000000000

struct plan_locate {
	uint64_t every; /* packets; 0: off */
	struct param_list classes; /* struct plan_class */
};

enum { WAIT_POLL, WAIT_ADAPTIVE, WAIT_INTERRUPT };

/* What workers do when there is nothing to do (loop/worker.c). */
struct plan_wait {
	uint32_t mode;
	uint64_t idle_polls, sleep_us;
};

#define POOL_ANY_NODE 1024

struct plan_engine {
	bool hugepages;
	uint64_t memory_mb;
	char *file_prefix;
	uint64_t simd_bits;
	uint64_t mbufs;
	uint64_t mbufs_hot;
	uint64_t mbuf_data_bytes;
	uint64_t packets_node; /* POOL_ANY_NODE: wherever the kernel gives them */
	struct param_list pci; /* char * */
	struct param_list spare_cpus; /* uint64_t */
	struct plan_locate locate;
	struct plan_wait wait;
};

struct plan_link {
	const char *name;
	const struct link_ops *ops;
	void *conf;
};

struct plan_nf {
	const char *name;
	const struct nf_ops *ops;
	void *conf;
	int segment; /* index of the one segment it appears in, -1: none */
};

enum target_kind {
	TO_NODE, /* index: position in plan_segment.nodes */
	TO_LINK, /* index: position in plan.links; in a replica: of its outlets */
	TO_DROP,
};

struct target {
	uint8_t kind;
	uint16_t index;
};

struct plan_input {
	unsigned int link;
	enum nf_direction direction;
	int port; /* written into its packets' mbufs, see nf_port; -1: not given */
	struct target to;
};

struct plan_node {
	unsigned int nf;
	unsigned int n_edges;
	struct target next[NF_DIRECTIONS][NF_EDGES_MAX];
};

#define PARALLEL_MAX 8

/* Neighbours that work on a packet at the same time: the first on the replica's CPU, the others beside. */
struct plan_parallel {
	unsigned int n;               /* 0: none */
	uint16_t nodes[PARALLEL_MAX]; /* in the chain's order */
	bool copies[PARALLEL_MAX];    /* works on a copy of the packet, as a later one writes it */
};

struct plan_segment {
	const char *name;
	unsigned int *cpus; /* the replicas', then those of functions beside: function by function */
	unsigned int n_cpus, n_all_cpus;
	unsigned int elastic;    /* replicas that there may be; 0: always as many as CPUs */
	unsigned int shares;     /* elastic ones that have a packet in one bucket: the first of them */
	unsigned int n_replicas; /* that are made: `elastic`, or n_cpus */
	unsigned int burst;
	unsigned int fastpath; /* flows; 0: off */
	struct plan_parallel parallel;
	enum steer steer;
	struct plan_input *inputs;
	unsigned int n_inputs;
	struct plan_node *nodes;
	unsigned int n_nodes;
};

struct plan {
	json_t *json; /* owns every name */
	struct plan_engine engine;
	struct plan_link *links;
	unsigned int n_links;
	struct plan_nf *nfs;
	unsigned int n_nfs;
	struct plan_segment *segments;
	unsigned int n_segments;
};

/* Parse a document or a file. *plan is to be freed with plan_free; on error nothing is left. */
int plan_parse(json_t *json, struct plan **plan, struct err *err);
int plan_load(const char *file, struct plan **plan, struct err *err);
void plan_free(struct plan *plan);

/*
 * What the buckets of an elastic segment are of: NF_STATE_FLOW, or the address by which one of the functions
 * keeps what it keeps, of all segments that share them.
 */
enum nf_state_key plan_buckets_by(const struct plan *p, const struct plan_segment *s);
/* Which of these functions says what bucket a packet is of, in plan.nfs; -1: none. */
int plan_bucket_teller(const struct plan *p, const struct plan_segment *s);
/* Which segment reads a link; -1: none. Whether one writes it, and how many replicas do in all. */
int plan_reader(const struct plan *p, unsigned int link);
bool plan_writes(const struct plan_segment *s, unsigned int link);
unsigned int plan_writers(const struct plan *p, unsigned int link);

/* --describe: what this engine understands, as JSON Schema and declarations. */
json_t *describe(void);

/* Parameter tables of the plan's fixed parts, for it. */
extern const struct param plan_engine_params[];
extern const struct param plan_segment_params[];

/* Number of edges of an NF, and an edge's number by its name (-1: none such). */
unsigned int nf_edge_count(const struct nf_ops *ops);
const char *nf_edge_name(const struct nf_ops *ops, unsigned int edge);
int nf_edge_find(const struct nf_ops *ops, const char *name);
unsigned int str_list_len(const char *const *list);
