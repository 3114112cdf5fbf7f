/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments a link is between. */
#include "plan.h"

int plan_reader(const struct plan *p, unsigned int link)
{
	for (unsigned int s = 0; s < p->n_segments; s++)
		for (unsigned int i = 0; i < p->segments[s].n_inputs; i++)
			if (p->segments[s].inputs[i].link == link)
				return (int)s;
	return -1;
}

bool plan_writes(const struct plan_segment *s, unsigned int link)
{
	for (unsigned int i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].to.kind == TO_LINK && s->inputs[i].to.index == link)
			return true;
	for (unsigned int i = 0; i < s->n_nodes; i++)
		for (int d = 0; d < NF_DIRECTIONS; d++)
			for (unsigned int e = 0; e < s->nodes[i].n_edges; e++)
				if (s->nodes[i].next[d][e].kind == TO_LINK &&
				    s->nodes[i].next[d][e].index == link)
					return true;
	return false;
}

unsigned int plan_writers(const struct plan *p, unsigned int link)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < p->n_segments; s++)
		if (plan_writes(&p->segments[s], link))
			n += p->segments[s].n_replicas;
	return n;
}
