/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "instance.h"
#include "rule.h"
#include "table/flow.h"

static const char *const unsupported[] = {"error", "skip", NULL};
static const char *const fragments[] = {"pass", "drop", NULL};
static const char *const actions[] = {
	[RULE_ALERT] = "alert", [RULE_MARK] = "mark", [RULE_DROP] = "drop", NULL};

static const struct param variable_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct rule_var, name), .doc = "without its $, as HOME_NET"},
	{.name = "value", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct rule_var, value),
	 .doc = "what stands for it, as [10.0.0.0/8, 192.168.0.0/16] or any"},
	{0},
};

static const struct param label_params[] = {
	{.name = "label", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct dpi_label_rule, label),
	 .doc = "an application or the protocol below it, as nDPI names it: BitTorrent, TLS"},
	{.name = "action", .type = PARAM_ENUM, .choices = actions, .required = true,
	 .offset = offsetof(struct dpi_label_rule, action),
	 .doc = "what happens to the flow's packets from the one on that settled the label"},
	{0},
};

const struct param dpi_params[] = {
	/* DPI_OWN_PARAMS of them. */
	{.name = "dscp", .type = PARAM_UINT, .max = 63, .def = "8",
	 .offset = offsetof(struct dpi_params, dscp),
	 .doc = "what rules with the action mark write into DSCP (RFC 2474) of the packet and all that "
		"follow in its flow, in both directions; 8 is CS1, lower effort of old"},
	{.name = "fragments", .type = PARAM_ENUM, .choices = fragments, .def = "\"pass\"",
	 .offset = offsetof(struct dpi_params, fragments),
	 .doc = "IP fragments are not looked into: let them pass, or drop them"},
	{.name = "label_rules", .type = PARAM_OBJECT, .list = true, .fields = label_params,
	 .fields_size = sizeof(struct dpi_label_rule),
	 .offset = offsetof(struct dpi_params, label_rules),
	 .doc = "what happens to flows by their label; needs labels"},

	{.name = "rules_file", .type = PARAM_FILE, .offset = offsetof(struct dpi_params, rules_file),
	 .doc = "rules in Suricata's syntax, one per line; # begins a comment"},
	{.name = "rules", .type = PARAM_STRING, .list = true, .offset = offsetof(struct dpi_params, rules),
	 .doc = "rules in the same syntax, besides those of the file"},
	{.name = "variables", .type = PARAM_OBJECT, .list = true, .fields = variable_params,
	 .fields_size = sizeof(struct rule_var), .offset = offsetof(struct dpi_params, variables),
	 .doc = "what $NAME in the addresses and ports of rules stands for"},
	{.name = "unsupported", .type = PARAM_ENUM, .choices = unsupported, .def = "\"error\"",
	 .offset = offsetof(struct dpi_params, unsupported),
	 .doc = "a rule with an option that is not supported: an error that names it, or skip the rule "
		"(counted as rules-skipped)"},
	{.name = "flows", .type = PARAM_UINT, .min = 1, .max = FLOW_CAPACITY_MAX, .def = "65536",
	 .unit = "flows", .offset = offsetof(struct dpi_params, flows),
	 .doc = "capacity of each worker's table, for IPv4 and IPv6 each; packets of flows beyond it are "
		"inspected one by one (flows-full)"},
	{.name = "idle_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "60", .unit = "s",
	 .offset = offsetof(struct dpi_params, idle_s), .doc = "a flow without packets for this long ends"},
	{.name = "closed_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "5",
	 .unit = "s", .offset = offsetof(struct dpi_params, closed_s),
	 .doc = "the same after RST, or FIN in both directions"},
	{.name = "streams", .type = PARAM_UINT, .min = 1, .max = 1u << 24, .def = "16384",
	 .unit = "streams", .offset = offsetof(struct dpi_params, streams),
	 .doc = "TCP directions with data that each worker inspects as streams at a time, in memory taken "
		"at the start; further ones are inspected segment by segment (streams-exhausted)"},
	{.name = "stream_bytes", .type = PARAM_UINT, .min = 1, .max = 4294967295.0, .def = "1048576",
	 .unit = "bytes", .offset = offsetof(struct dpi_params, stream_bytes),
	 .doc = "how much of each direction's beginning is inspected as a stream (streams-cut)"},
	{.name = "reorder_segments", .type = PARAM_UINT, .min = 1, .max = 1u << 24, .def = "1024",
	 .unit = "segments", .offset = offsetof(struct dpi_params, reorder_segments),
	 .doc = "segments of 2032 bytes that each worker can hold until those before them come"},
	{.name = "reorder_per_stream", .type = PARAM_UINT, .min = 1, .max = 65535, .def = "64",
	 .unit = "segments", .offset = offsetof(struct dpi_params, reorder_per_stream),
	 .doc = "how many of them one direction may have; beyond, the gap is given up (reorder-overflow)"},
	{.name = "labels", .type = PARAM_BOOL, .def = "false", .offset = offsetof(struct dpi_params, labels),
	 .doc = "find each flow's application, by nDPI"},
	{.name = "label_flows", .type = PARAM_UINT, .min = 1, .max = 1u << 24, .def = "8192",
	 .unit = "flows", .offset = offsetof(struct dpi_params, label_flows),
	 .doc = "flows of each worker whose application is being found; further ones get no label "
		"(labels-exhausted)"},
	{.name = "label_memory_mb", .type = PARAM_UINT, .min = 16, .max = 1u << 20, .def = "256",
	 .unit = "MB", .offset = offsetof(struct dpi_params, label_memory_mb),
	 .doc = "what nDPI takes by itself, in all instances: above it, new flows get no label"},
	{.name = "eve_file", .type = PARAM_OUTPUT, .offset = offsetof(struct dpi_params, eve_file),
	 .doc = "append events to this file, as JSON lines in the form of Suricata's EVE; "
		"a regular file (or /dev/null), and no link to one"},
	{.name = "eve_socket", .type = PARAM_OUTPUT, .offset = offsetof(struct dpi_params, eve_socket),
	 .doc = "send them to this Unix stream socket instead, on which a reader listens"},
	{.name = "eve_flows", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct dpi_params, eve_flows),
	 .doc = "also a flow event with label, packets and bytes at each flow's end"},
	{.name = "eve_events", .type = PARAM_UINT, .min = 1, .max = 1u << 24, .def = "8192",
	 .unit = "events", .offset = offsetof(struct dpi_params, eve_events),
	 .doc = "that can wait for the writing thread, for each worker, rounded up to a power of two; "
		"further ones are lost (alerts-lost)"},
	{0},
};

const char *const dpi_counters[] = {
	[C_ALERTS] = "alerts",
	[C_ALERTS_LOST] = "alerts-lost",
	[C_MARKED] = "marked",
	[C_SCANNED] = "bytes-inspected",
	[C_FLOWS_NEW] = "new-flows",
	[C_FLOWS] = "flows",
	[C_FLOWS_FULL] = "flows-full",
	[C_STREAMS] = "streams",
	[C_STREAMS_EXHAUSTED] = "streams-exhausted",
	[C_STREAMS_CUT] = "streams-cut",
	[C_REORDERED] = "reordered",
	[C_REORDER_OVERFLOW] = "reorder-overflow",
	[C_GAPS] = "gaps",
	[C_RETRANSMITTED] = "retransmitted",
	[C_FRAGMENTS] = "fragments",
	[C_LABELLED] = "labelled",
	[C_LABELS_EXHAUSTED] = "labels-exhausted",
	[C_RULES] = "rules",
	[C_RULES_SKIPPED] = "rules-skipped",
	NULL,
};
