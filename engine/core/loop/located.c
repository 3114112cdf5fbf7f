/* SPDX-License-Identifier: Apache-2.0 */
/* Where packets were, as JSON for the control and telemetry sockets. */
#include "located.h"

#include <stdio.h>

json_t *located_json(const struct located *l, const struct plan_engine *plan)
{
	const struct plan_class *classes = plan->locate.classes.items;
	json_t *by_class = json_object(), *by_cycles = json_object();
	char key[16];

	for (size_t i = 0; i < plan->locate.classes.count; i++)
		json_object_set_new(by_class, classes[i].name, json_integer((json_int_t)l->classes[i]));
	for (unsigned int i = 0; i < LOCATED_BUCKETS; i++) {
		if (!l->buckets[i])
			continue;
		snprintf(key, sizeof(key), "%u", i * LOCATED_STEP);
		json_object_set_new(by_cycles, key, json_integer(l->buckets[i]));
	}
	return json_pack("{s:I, s:I, s:f, s:o, s:o}", "samples", (json_int_t)l->samples, "disturbed",
			 (json_int_t)l->disturbed, "mean_cycles",
			 l->samples ? (double)l->cycles / (double)l->samples : 0.0, "classes", by_class,
			 "cycles", by_cycles);
}
