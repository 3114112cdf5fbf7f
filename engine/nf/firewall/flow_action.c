/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "firewall.h"

/* A known flow passes, as long as an ACK changes nothing of its state. */
bool fw_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		    struct nf_flow_action *action)
{
	struct fw_worker *fw = w->state;
	struct flow_table *flows = fw->flows[flow->v6 ? FLOW_IPV6 : FLOW_IPV4];
	union fw_key key;
	bool low = flow->v6 ? fw_key6_make(&key.v6, flow->src6, flow->dst6, flow->sport, flow->dport,
					   flow->proto, 0)
			    : fw_key4_make(&key.v4, &flow->src, &flow->dst, flow->sport, flow->dport,
					   flow->proto, 0);
	struct flow *f = flow_find(flows, &key);
	enum track_state state;

	if (verdict || !f)
		return false;
	state = FW_STATE(f->user);
	if (track_next[state][low != !!(f->user & FW_ORIGIN_LOW) ? TRACK_REPLY : TRACK_ORIGIN][TRACK_ACK] !=
	    state)
		return false;
	action->counters = 1u << C_HITS;
	action->epochs = flow_epochs(flows);
	action->flow = flow_index(flows, f);
	action->expires = &f->expires;
	action->timeout = fw->timeouts[state];
	return true;
}
