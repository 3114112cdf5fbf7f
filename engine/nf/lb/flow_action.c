/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "lb.h"

/* Forward: a flow in the table keeps its backend. Back, and towards no VIP: the tables alone decide. */
bool lb_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		    struct nf_flow_action *action)
{
	struct lb_worker *lw = w->state;
	const struct lb_config *c = atomic_load_explicit(&lw->lb->config.current, memory_order_acquire);
	struct flow_table *flows = lw->flows[flow->v6 ? FLOW_IPV6 : FLOW_IPV4];
	union tuple_key key;
	struct flow *f;

	if (flow->direction == NF_REVERSE)
		return !verdict;
	tuple_of_flow(&key, flow);
	f = flow_find(flows, &key);
	if (!f)
		return lb_is_for_none(c, &key, flow->v6);
	if (verdict || c->backends[f->user].gone)
		return false;
	action->sets = c->backends[f->user].has_mac ? NF_SETS_DST_MAC : 0;
	action->counters = 1u << C_HITS;
	action->epochs = flow_epochs(flows);
	action->flow = flow_index(flows, f);
	action->expires = &f->expires;
	action->timeout = lw->timeout;
	return true;
}
