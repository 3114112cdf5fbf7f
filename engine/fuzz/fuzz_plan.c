/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: everything that is checked before anything is started. */
#include "fuzz.h"

#include <stdlib.h>

#include "core/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *json = json_loadb((const char *)data, size, 0, NULL);
	struct plan *plan = NULL;
	struct err err = {0};

	if (!json)
		return 0;
	if (plan_parse(json, &plan, &err) == 0)
		plan_free(plan);
	else if (!err.msg[0] || plan)
		abort();
	json_decref(json);
	return 0;
}
