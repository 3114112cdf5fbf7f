/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between plan.c and plan_segment.c. */
#include "plan.h"

/* -EINVAL unless name is fit to name a link, an NF or a segment. */
int plan_check_name(const char *name, const char *path, struct err *err);

/* Parse obj into p->segments[si]; links and NFs must have been parsed. */
int plan_parse_segment(struct plan *p, unsigned int si, json_t *obj, struct err *err);

/* -EINVAL unless all that elastic segments have can be so; once all else of the plan is parsed. */
int plan_check_elastic(struct plan *p, struct err *err);

/* s->parallel from names (char *) and CPUs (uint64_t), once all else of the segment is parsed. */
int plan_parse_parallel(const struct plan *p, struct plan_segment *s, const struct param_list *names,
			const struct param_list *cpus, const char *segment, struct err *err);
