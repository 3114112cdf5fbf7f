/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "nat.h"

/* A session's packets are translated the same as long as an ACK changes nothing of its state. */
static bool translated(struct nat_worker *nat, const struct flow_key4 *key, struct nf_flow_action *action)
{
	struct flow *f = flow_find(nat->sessions, key);
	enum track_state state, next;

	/* A hairpinned packet turns back: it is no longer on this run. */
	if (!f || f->user & NAT_HAIRPIN)
		return false;
	state = NAT_STATE(f->user);
	next = track_next[state][f->user & NAT_REPLY ? TRACK_REPLY : TRACK_ORIGIN][TRACK_ACK];
	if (next != state && next != TRACK_INVALID)
		return false;
	action->counters = 1u << C_HITS;
	action->epochs = flow_epochs(nat->sessions);
	action->flow = flow_index(nat->sessions, f);
	action->expires = &f->expires;
	action->timeout = nat->timeouts[state];
	return true;
}

bool nat_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action)
{
	struct nat_worker *nat = w->state;
	bool outward = flow->direction == NF_FORWARD;
	struct flow_key4 key = {.src = flow->src, .dst = flow->dst, .sport = flow->sport,
				.dport = flow->dport, .proto = flow->proto,
				.zone = outward ? 0 : NAT_INWARD};

	if (verdict)
		return false;
	if (flow->v6)
		return true; /* passes as it is */
	/* Not ours to translate: addresses alone say so. */
	if (outward ? !nat_is_inside(nat->params, flow->src) : !nat_is_outside(nat, flow->dst))
		return true;
	return translated(nat, &key, action);
}
