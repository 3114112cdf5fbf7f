/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/nf.h"

/*
 * What dpi and ids share. They are one inspection; ids is a leaf, whose packets end there. Without
 * Hyperscan (missing.c) both are there, too, and say at their start what they lack.
 */
enum dpi_counter {
	C_ALERTS,
	C_ALERTS_LOST,
	C_MARKED,
	C_SCANNED,
	C_FLOWS_NEW,
	C_FLOWS,
	C_FLOWS_FULL,
	C_STREAMS,
	C_STREAMS_EXHAUSTED,
	C_STREAMS_CUT,
	C_REORDERED,
	C_REORDER_OVERFLOW,
	C_GAPS,
	C_RETRANSMITTED,
	C_FRAGMENTS,
	C_LABELLED,
	C_LABELS_EXHAUSTED,
	C_RULES,
	C_RULES_SKIPPED,
};

enum dpi_drop { DROP_MATCHED, DROP_LABEL, DROP_FRAGMENT };

struct dpi_label_rule {
	char *label;
	uint32_t action; /* enum rule_action */
};

struct dpi_params {
	struct param_list rules, variables, label_rules;
	char *rules_file, *eve_file, *eve_socket;
	uint32_t unsupported, fragments;
	uint64_t flows, streams, stream_bytes, reorder_segments, reorder_per_stream, dscp;
	uint64_t label_flows, label_memory_mb, eve_events;
	double idle_s, closed_s;
	bool labels, eve_flows;
};

/* The first parameters of the table are dpi's alone. */
#define DPI_OWN_PARAMS 3
extern const struct param dpi_params[];
extern const char *const dpi_counters[];
#define DPI_STANDARDS                                                                                  \
	"Rules: the part of Suricata's and Snort's syntax that is in docs/inspection.md; TCP streams " \
	"in the order of RFC 9293 sequence numbers, the first copy of a byte counts. "

int dpi_instance_init(struct nf *nf, bool leaf, struct err *err);
void dpi_instance_fini(struct nf *nf);
int dpi_worker_init(struct nf_worker *w, struct err *err);
void dpi_worker_fini(struct nf_worker *w);
void dpi_tick(struct nf_worker *w, uint64_t now_tsc);
void dpi_rest(struct nf_worker *w, bool rests);
int dpi_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);
void dpi_process(struct nf_worker *w, struct burst *b);
