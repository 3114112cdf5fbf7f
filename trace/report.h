/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "load.h"
#include "names.h"
#include "shared.h"

/* The whole result as one JSON object; docs/trace.md names its members. NULL: no memory. */
json_t *report(struct tracer *t, const struct options *o, struct names *n, double duration_s,
	       json_t *paths, uint64_t paths_beyond);
json_t *report_path(const struct path *p, struct names *n);
json_t *report_left_out(const struct tracer *t);
