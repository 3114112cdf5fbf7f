/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

/*
 * Typed parameter tables. Each link and NF describes its parameters once, in a
 * table; from it come the parser, the error messages, the JSON schema that
 * --describe prints, and the reference documentation. Unknown keys are errors.
 */
enum param_type {
	PARAM_BOOL,   /* bool */
	PARAM_UINT,   /* uint64_t, min..max */
	PARAM_DOUBLE, /* double, min..max */
	PARAM_STRING, /* char *, malloc'ed */
	PARAM_FILE,   /* char *, malloc'ed; a path, checked readable when parsed */
	PARAM_OUTPUT, /* char *, malloc'ed; a file or socket that is written to: a stranger's needs trust */
	PARAM_ENUM,   /* uint32_t index into choices */
	PARAM_MAC,    /* struct param_mac */
	PARAM_IP,     /* struct param_ip: IPv4 or IPv6 address, or prefix if /len given */
	PARAM_OBJECT, /* the struct that `fields` describes, embedded */
};

struct param_mac {
	uint8_t bytes[6];
};

struct param_ip {
	uint8_t family;   /* 0 = absent, 4 or 6 */
	uint8_t len;      /* prefix length; 32 or 128 for an address */
	uint8_t addr[16]; /* network byte order; IPv4 in the first four */
};

/* What a parameter with `list = true` is parsed into. */
struct param_list {
	void *items; /* array of the element type, malloc'ed; NULL when empty */
	size_t count;
};

struct param {
	const char *name; /* NULL ends a table */
	enum param_type type;
	bool list;
	bool required;
	size_t offset;      /* where the value goes in the conf struct */
	double min, max;    /* UINT, DOUBLE; for lists of them, each element */
	const char *def;    /* default in JSON text, NULL: zero/absent */
	const char *const *choices;  /* ENUM, NULL-terminated */
	const struct param *fields;  /* OBJECT */
	size_t fields_size;          /* OBJECT: sizeof the struct */
	const char *unit;   /* "packets", "ns", ...; may be NULL */
	const char *doc;
};

/*
 * Parse `obj` by `table` into the zeroed struct `out`. On error returns -EINVAL
 * with the path of the offending key below `path`, and leaves nothing allocated.
 * obj may be NULL (an empty object).
 */
int param_parse(const struct param *table, const json_t *obj, const char *path, void *out,
		struct err *err);

/* Free what param_parse allocated inside `out`; the struct itself is the caller's. */
void param_free(const struct param *table, void *out);

/* Whether a parsed `out` names any file. */
bool param_names_file(const struct param *table, const void *out);

/* The table as a JSON Schema object (draft 2020-12), additionalProperties false. */
json_t *param_schema(const struct param *table);

/* Parse one address or prefix / one MAC; -EINVAL when malformed. */
int param_ip_parse(const char *text, struct param_ip *ip);
int param_mac_parse(const char *text, struct param_mac *mac);
