/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "l3fwd.h"

/* The destination's route decides; what a packet can have wrong by itself is excluded. */
bool l3fwd_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		       struct nf_flow_action *action)
{
	(void)w;
	(void)flow;
	if (verdict >= NF_DROP(0))
		return verdict == NF_DROP(DROP_NO_ROUTE);
	action->sets = NF_SETS_DST_MAC | NF_SETS_SRC_MAC;
	return true;
}
