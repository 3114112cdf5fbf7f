/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "acl.h"

#include <netinet/in.h>
#include <string.h>

/* The rules say the same of a tuple until they are replaced: asked again, so that the counter is known. */
static uint32_t match_tuple(const struct acl_set *set, const struct nf_flow *flow, bool swap)
{
	uint8_t key[ACL_IP4_KEY_BYTES] = {[9] = flow->proto};
	const uint8_t *packet = key;
	uint32_t match = 0;

	memcpy(key + 12, swap ? &flow->dst : &flow->src, 4);
	memcpy(key + 16, swap ? &flow->src : &flow->dst, 4);
	memcpy(key + 20, swap ? &flow->dport : &flow->sport, 2);
	memcpy(key + 22, swap ? &flow->sport : &flow->dport, 2);
	if (set->ctx[ACL_IP4_PORTS])
		rte_acl_classify(set->ctx[ACL_IP4_PORTS], &packet, &match, 1, 1);
	return match;
}

bool acl_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action)
{
	const struct acl *acl = w->nf->state;
	const struct acl_conf *conf = w->nf->conf;
	const struct acl_set *set = atomic_load_explicit(&acl->set, memory_order_acquire);
	bool reverse = flow->direction == NF_REVERSE;
	uint32_t match;

	if (reverse && conf->reverse == ACL_REVERSE_PERMIT)
		return !verdict;
	/* Other flags of another packet may match another rule. */
	if (set->flags && flow->proto == IPPROTO_TCP)
		return false;
	match = match_tuple(set, flow, reverse && conf->reverse == ACL_REVERSE_SWAP);
	action->counters = match == ACL_MATCH_PERMIT ? 1u << ACL_COUNT_PERMITTED
			   : !match			     ? 1u << ACL_COUNT_DEFAULT
							     : 0;
	return verdict == acl_verdict(set, match);
}
