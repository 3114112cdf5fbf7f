/* SPDX-License-Identifier: Apache-2.0 */
/* ClassBench rule files. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "nf/lib/rules/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct acl_rules rules = {0};
	struct err err = {0};
	FILE *f;

	if (!size)
		return 0;
	f = fmemopen((void *)data, size, "r");
	if (!f)
		abort();
	/* What is refused is refused with a place and a reason. */
	if (classbench_read(f, "input", &rules, &err) && (!err.path[0] || !err.msg[0]))
		abort();
	for (size_t i = 0; i < rules.count; i++)
		if (rules.items[i].sport[0] > rules.items[i].sport[1] ||
		    rules.items[i].dport[0] > rules.items[i].dport[1])
			abort();
	acl_rules_free(&rules);
	fclose(f);
	return 0;
}
