/* SPDX-License-Identifier: Apache-2.0 */
/* What the fast path may do in our place (nf.h). */
#include "acl.h"

#include <netinet/in.h>
#include <string.h>

static uint32_t match_key(const struct rte_acl_ctx *ctx, const uint8_t *key)
{
	uint32_t match = 0;

	if (ctx)
		rte_acl_classify(ctx, &key, &match, 1, 1);
	return match;
}

/* The rules say the same of a tuple until they are replaced: asked again, so that the counter is known. */
static uint32_t match_tuple(const struct acl_set *set, const struct nf_flow *flow, bool swap)
{
	uint8_t key[ACL_IP4_KEY_BYTES] = {[9] = flow->proto};

	memcpy(key + 12, swap ? &flow->dst : &flow->src, 4);
	memcpy(key + 16, swap ? &flow->src : &flow->dst, 4);
	memcpy(key + 20, swap ? &flow->dport : &flow->sport, 2);
	memcpy(key + 22, swap ? &flow->sport : &flow->dport, 2);
	return match_key(set->ctx[ACL_IP4_PORTS], key);
}

static uint32_t match_tuple6(const struct acl_set *set, const struct nf_flow *flow, bool swap)
{
	uint8_t key[ACL_IP6_KEY_BYTES] = {[6] = flow->proto};

	memcpy(key + 8, swap ? flow->dst6 : flow->src6, 16);
	memcpy(key + 24, swap ? flow->src6 : flow->dst6, 16);
	memcpy(key + 40, swap ? &flow->dport : &flow->sport, 2);
	memcpy(key + 42, swap ? &flow->sport : &flow->dport, 2);
	return match_key(set->ctx[ACL_IP6_PORTS], key);
}

bool acl_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
		     struct nf_flow_action *action)
{
	struct acl *acl = w->nf->state;
	const struct acl_conf *conf = w->nf->conf;
	const struct acl_set *set = snapshot_get(&acl->set);
	bool reverse = flow->direction == NF_REVERSE;
	bool swap = reverse && conf->reverse == ACL_REVERSE_SWAP;
	uint32_t match;

	if (reverse && conf->reverse == ACL_REVERSE_PERMIT)
		return !verdict;
	/* Other flags of another packet may match another rule. */
	if (set->flags && flow->proto == IPPROTO_TCP)
		return false;
	match = flow->v6 ? match_tuple6(set, flow, swap) : match_tuple(set, flow, swap);
	action->counters = match == ACL_MATCH_PERMIT ? 1u << ACL_COUNT_PERMITTED
			   : !match			     ? 1u << ACL_COUNT_DEFAULT
							     : 0;
	return verdict == acl_verdict(set, match);
}
