/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between plan.c and plan_segment.c. */
#include "plan.h"

/* -EINVAL unless name is fit to name a link, an NF or a segment. */
int plan_check_name(const char *name, const char *path, struct err *err);

/* Parse obj into p->segments[si]; links and NFs must have been parsed. */
int plan_parse_segment(struct plan *p, unsigned int si, json_t *obj, struct err *err);
