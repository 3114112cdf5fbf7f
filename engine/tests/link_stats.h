/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <jansson.h>

#include "core/link.h"

/* A number among what a link counted, by its key in `outer`; NULL: outside of any. */
static inline int64_t link_count(struct link *l, const char *outer, const char *key)
{
	json_t *stats = l->ops->stats(l);
	json_t *o = outer ? json_object_get(stats, outer) : stats;
	int64_t value = json_integer_value(json_object_get(o, key));

	json_decref(stats);
	return value;
}
