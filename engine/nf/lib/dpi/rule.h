/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"
#include "core/param.h"

/*
 * Signatures in the syntax that Suricata and Snort 2 share, a documented part of it:
 *	action proto src sports -> dst dports (option; option:value; ...)
 * Nothing here needs EAL or Hyperscan: a rule becomes a header to compare and regular expressions
 * (rule_expr.c), all of which must be found. Ports are in host byte order.
 */
#define RULE_EXPRS_MAX 32
#define RULE_CONTENT_MAX 1024 /* bytes */

enum rule_action {
	RULE_ALERT,
	RULE_MARK,
	RULE_DROP,
};

enum rule_flow {
	RULE_TO_SERVER = 1 << 0,
	RULE_TO_CLIENT = 1 << 1,
	RULE_ESTABLISHED = 1 << 2,
	RULE_ONLY_STREAM = 1 << 3,
	RULE_NO_STREAM = 1 << 4,
};

struct rule_addr {
	struct param_ip ip;
	bool negated;
};

struct rule_range {
	uint16_t low, high;
	bool negated;
};

/* No items: any. Otherwise one of those not negated, if there are such, and none of the negated. */
struct rule_addrs {
	struct rule_addr *items;
	size_t count;
};

struct rule_ranges {
	struct rule_range *items;
	size_t count;
};

struct rule {
	char place[80]; /* "file:line", for messages about its expressions */
	uint32_t sid, gid, rev, priority;
	uint8_t action;  /* enum rule_action */
	uint8_t proto;   /* 0: any ("ip") */
	bool icmp;       /* proto is 1 for IPv4, and 58 for IPv6 */
	uint8_t flow;    /* enum rule_flow */
	bool both_ways;  /* <> */
	bool positioned; /* offset or depth: positions are a segment's too */
	bool has_size;   /* dsize */
	struct rule_range size;
	struct rule_addrs src, dst;
	struct rule_ranges sport, dport;
	char *msg, *classtype;
	char *exprs[RULE_EXPRS_MAX];
	unsigned int n_exprs;
	uint32_t first_part; /* patterns.c: number of exprs[0] among all rules', if there are
				several */
};

/* $name in a header stands for `value`. */
struct rule_var {
	char *name, *value;
};

struct rules {
	struct param_list vars; /* of struct rule_var, the caller's */
	struct rule *items;
	size_t count, room;
	size_t skipped; /* left out, as they were asked to be */
};

/* A packet as rules see it. */
struct rule_packet {
	uint8_t family, proto;
	bool to_server, established;
	uint16_t sport, dport;
	const uint8_t *src, *dst;
	uint32_t size; /* of the payload */
};

/*
 * 1: a rule; 0: nothing on this line; -EINVAL: not a rule; -ENOTSUP: one with something that is not
 * supported here. `place` is where it stands.
 */
int rule_parse(const char *line, const char *place, const struct param_list *vars,
	       struct rule *rule, struct err *err);
void rule_free(struct rule *rule);

/* All that is in a rule but its expressions. */
bool rule_applies(const struct rule *rule, const struct rule_packet *p);

/* `skip`: what is not supported is left out and counted; otherwise it is an error. */
int rules_add_line(struct rules *rules, const char *line, const char *place, bool skip,
		   struct err *err);
int rules_read(FILE *f, const char *name, struct rules *rules, bool skip, struct err *err);
int rules_load(const char *path, struct rules *rules, bool skip, struct err *err);
/* Inline rules: a list of strings; `path` is that of the list. */
int rules_add_list(struct rules *rules, const struct param_list *list, const char *path, bool skip,
		   struct err *err);
/* Each sid once. */
int rules_check(const struct rules *rules, struct err *err);
void rules_free(struct rules *rules);

/* Of one rule's detection options, in order (rule_options.c); made into expressions at the end. */
struct rule_item {
	bool regex;
	bool nocase, relative, anchored;
	char flags[4]; /* of a regex: among "smx" */
	bool has_offset, has_depth, has_distance, has_within;
	uint32_t offset, depth, distance, within;
	uint8_t *bytes; /* content, or the text of the regex */
	size_t len;
};

struct rule_text {
	const char *place;
	struct err *err;
	struct rule *rule;
	const struct param_list *vars;
	struct rule_item items[RULE_EXPRS_MAX];
	unsigned int n_items;
};

/* Parse what is between the brackets. 0, -EINVAL or -ENOTSUP. */
int rule_options_parse(struct rule_text *t, const char *text);
/* Expressions from items. */
int rule_exprs_make(struct rule_text *t);
/* Header fields (rule_header.c): all up to the bracket, to which *rest is set. */
int rule_header_parse(struct rule_text *t, const char *line, const char **rest);
