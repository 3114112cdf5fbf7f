/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "harness.h"
#include "table/flow.h"

/* Flows that a function of which there are checkpoints has now. */
static inline uint64_t kept_flows(struct harness *h)
{
	const struct nf_keeps *keeps = h->nf.ops->keeps;
	uint64_t n = 0;
	struct flow_table *t;
	bool v6;

	for (unsigned int i = 0; (t = keeps->table(&h->workers[0], i, &v6)); i++)
		n += flow_count(t) / keeps->records;
	return n;
}
