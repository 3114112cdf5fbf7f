/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

#include "core/nf.h"
#include "eve.h"
#include "instance.h"
#include "patterns.h"
#include "table/flow.h"

/* What the files of the inspection itself share; dpi and ids know instance.h only. */

/* Of one direction of a TCP connection. */
enum dir_flag {
	DIR_SEEN = 1 << 0,  /* next_seq is valid */
	DIR_SYN = 1 << 1,   /* isn is valid */
	DIR_FIN = 1 << 2,   /* fin_seq is valid */
	DIR_OFFER = 1 << 4, /* offer is valid */
	DIR_END = 1 << 3,   /* all until FIN has been scanned, or as much as may be */
};

struct dpi_dir {
	uint32_t isn, offer; /* sequence numbers of the SYN that began it, and of the last SYN */
	uint32_t next_seq, fin_seq;
	uint32_t stream;    /* number of the stream's state + 1; 0: none */
	uint32_t held;      /* number of the first segment held + 1, by sequence; 0: none */
	uint32_t inspected; /* bytes */
	uint16_t n_held;
	uint8_t flags;
};

enum dpi_flow_flag {
	FLOW_CLIENT_HIGH = 1 << 0, /* the key's dst is the client */
	FLOW_BOTH = 1 << 1,        /* packets have been seen in both directions */
	FLOW_CLOSED = 1 << 2,      /* RST, or FIN in both directions */
	FLOW_LABELLED = 1 << 3,    /* label is final */
};

/*
 * State behind a key, whose lower address is its src. Index 0: to the server. What every packet
 * touches comes first, so that with the key of IPv4 it is one line, which the lookup prefetches; what
 * only TCP needs is the next line.
 */
struct dpi_flow {
	uint64_t bytes[2];
	uint32_t packets[2];
	uint32_t label; /* number of nDPI's state + 1; 0: none */
	uint16_t app[2];
	uint8_t flags;
	uint8_t action; /* enum rule_action of all that follows */
	uint8_t drop;   /* enum dpi_drop */
	uint8_t pad[5];
	struct dpi_dir dir[2];
};
static_assert(sizeof(struct flow) + sizeof(struct flow_key4) + offsetof(struct dpi_flow, dir) == 64,
	      "a line of its own for what every packet touches");
static_assert(sizeof(struct dpi_dir) == 32, "both directions in one line");

/* What only events tell of a flow; by flow_index, beside the table. */
struct dpi_birth {
	uint64_t id, tsc;
};

/* Part of a segment that came before its time. */
#define SEGMENT_BYTES 2032
struct dpi_segment {
	uint32_t seq, len;
	uint32_t next; /* number + 1 */
	uint32_t free;
	uint8_t data[SEGMENT_BYTES];
};

/*
 * Stacks of numbers that are not in use, one for each bucket of flows (nf/lib/shared_flows.h), whose numbers
 * are its own: who has the bucket takes and gives them.
 */
struct pool {
	uint32_t *free; /* by number, a bucket's one after the other */
	uint32_t *n;    /* by bucket */
	uint32_t size;  /* of a bucket's */
};

struct labels;

struct dpi {
	const struct dpi_params *params;
	bool leaf;
	struct rules rules;
	struct patterns patterns;
	struct eve *eve;
	struct labels *names; /* a module for names only; NULL without labels */
	struct dpi_worker **workers;
	unsigned int n_workers;
};

/*
 * In an elastic segment the first worker's tables, streams and segments are those of all of its
 * instance, each bucket's for who has it.
 */
struct dpi_worker {
	struct nf_worker *w;
	struct dpi *dpi;
	struct flow_table *flows[FLOW_FAMILIES];
	struct dpi_birth *births[FLOW_FAMILIES];
	uint32_t now, idle, closed; /* flow_now units */
	uint64_t now_tsc, next_id;
	hs_scratch_t *scratch;
	hs_stream_t **streams;
	struct pool stream_pool;
	uint64_t *stream_parts; /* by stream: which parts of rules have been found */
	uint64_t *packet_parts; /* the same of one packet */
	bool parts_dirty;
	struct dpi_segment *segments;
	struct pool segment_pool;
	struct labels *labels;
	struct eve_ring *ring;
	uint64_t *hits;  /* by rule */
	uint8_t *bounce; /* for packets of several mbuf segments */
};

#define FIRED_MAX 16

/* One packet's inspection. */
struct inspection {
	struct dpi_worker *dw;
	struct flow *record;   /* NULL: the table is full */
	struct dpi_flow *flow; /* its state */
	struct rule_packet packet;
	const uint8_t *l3; /* the whole IP packet, contiguous */
	uint32_t l3_len;
	const uint8_t *payload;
	uint32_t seq, ack; /* TCP, host byte order */
	uint8_t tcp_flags;
	uint8_t action;  /* enum rule_action: the strongest of the rules that matched */
	uint64_t *parts; /* of what is being scanned */
	/* Rules that matched already: streams and segments are looked at by the same rules. */
	uint8_t n_fired;
	uint32_t fired[FIRED_MAX];
	unsigned int bucket;
};

static inline bool pool_take(struct pool *p, unsigned int bucket, uint32_t *number)
{
	if (!p->n[bucket])
		return false;
	*number = p->free[bucket * p->size + --p->n[bucket]];
	return true;
}

static inline void pool_give(struct pool *p, uint32_t number)
{
	uint32_t bucket = number / p->size;

	p->free[bucket * p->size + p->n[bucket]++] = number;
}

/* `size` in all, and what chance may give a bucket beyond its part. */
int pool_init(struct pool *p, uint64_t size, unsigned int buckets);
void pool_free(struct pool *p);
/* Numbers that there are in all buckets. */
uint32_t pool_numbers(const struct pool *p, unsigned int buckets);
/* Of the buckets that the worker has: numbers in use. */
uint32_t pool_used(const struct pool *p, const struct nf_worker *w);

/* process.c */
/* The end of a flow: its label, its record, what it held. */
void dpi_flow_end(struct dpi_worker *dw, enum flow_family family, struct flow *f);

/* scan.c */
/* `first`: the worker whose streams this one shares; NULL: they are its own. */
int scan_init(struct dpi_worker *dw, const struct dpi_worker *first, struct err *err);
void scan_fini(struct dpi_worker *dw, bool shares);
void scan_packet(struct inspection *in, enum patterns_db db, const void *data, uint32_t len);
/* `len` bytes that follow those before. Without a free stream: as a packet. */
void scan_stream(struct inspection *in, struct dpi_dir *d, const void *data, uint32_t len);
/* Bytes are missing: nothing is found across this point. */
void scan_gap(struct dpi_worker *dw, struct dpi_dir *d);
/* No more bytes come; `in` NULL: what is found at the end is of no interest. */
void scan_end(struct dpi_worker *dw, struct inspection *in, struct dpi_dir *d);
void scan_event(struct dpi_worker *dw, const struct inspection *in, enum eve_kind kind,
		uint32_t rule);

/* tcp.c */
void tcp_input(struct inspection *in);
/* Scans what is held in spite of gaps, ends both streams and gives all back. */
void tcp_end_both(struct inspection *in);
/* The same flow from the other side. */
void inspection_reverse(const struct inspection *in, struct inspection *out);

/* label.c, by nDPI; label_none.c without it. */
int labels_create(const struct dpi_params *p, bool flows, struct labels **out, struct err *err);
void labels_destroy(struct labels *l);
/* Looks at a packet; true when the flow's label has just become final. */
bool labels_packet(struct inspection *in);
/* The flow ends: what the label is by what has been seen. */
void labels_end(struct dpi_worker *dw, struct dpi_flow *flow);
uint8_t labels_action(const struct labels *l, const struct dpi_flow *flow);
/* fits eve_conf.label; arg is the struct labels */
const char *labels_name(void *arg, const uint16_t label[2], char *buf, unsigned int size);
/* Adds {name: flows} to `to`. */
void labels_count(const struct labels *l, json_t *to);
