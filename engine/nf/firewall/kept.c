/* SPDX-License-Identifier: Apache-2.0 */
/* Flows in checkpoints. */
#include <netinet/in.h>
#include <string.h>

#include "firewall.h"

static struct flow_table *table(struct nf_worker *w, unsigned int i, bool *v6)
{
	struct fw_worker *fw = w->state;

	*v6 = i == FLOW_IPV6;
	return i < FLOW_FAMILIES ? fw->flows[i] : NULL;
}

static bool save(struct nf_worker *w, unsigned int i, struct flow *f, void *own, uint32_t *expires)
{
	(void)w;
	(void)i;
	(void)f;
	(void)own;
	(void)expires;
	return true;
}

/* A key that a packet may have: with the smaller endpoint first. */
static bool sound_key(const void *key, bool v6)
{
	const struct flow_key6 *k6 = key;
	union fw_key made;

	if (!v6)
		return fw_key4_sound(key);
	memset(&made, 0, sizeof(made));
	fw_key6_make(&made.v6, k6->src, k6->dst, k6->sport, k6->dport, k6->proto, 0);
	return !memcmp(&made, key, sizeof(*k6));
}

static bool sound_state(const struct nf_kept *kept, uint8_t proto)
{
	enum track_state state = FW_STATE(kept->user);

	if (state == TRACK_NEW || state >= TRACK_STATES || kept->user & ~(0xff | FW_ORIGIN_LOW))
		return false;
	switch (state) {
	case TRACK_UDP:
	case TRACK_UDP_REPLIED:
		return proto == IPPROTO_UDP;
	case TRACK_ICMP:
		return proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6;
	case TRACK_OTHER: /* also of a flow that began with a fragment */
		return true;
	default:
		return proto == IPPROTO_TCP;
	}
}

static struct flow *restore(struct nf_worker *w, unsigned int i, const struct nf_kept *kept)
{
	struct fw_worker *fw = w->state;
	bool v6 = i == FLOW_IPV6, half_open = fw_half_open(FW_STATE(kept->user));
	union {
		struct flow_key4 v4;
		struct flow_key6 v6;
		uint64_t words[5];
	} key;
	struct flow *f;

	memset(&key, 0, sizeof(key));
	memcpy(&key, kept->key, v6 ? sizeof(key.v6) : sizeof(key.v4));
	if (!sound_key(&key, v6) || !sound_state(kept, v6 ? key.v6.proto : key.v4.proto) ||
	    (half_open && *fw->half_open >= fw->half_open_max) || flow_find(fw->flows[i], &key))
		return NULL;
	f = flow_insert(fw->flows[i], &key);
	if (!f)
		return NULL;
	f->user = kept->user;
	f->expires = flow_bounded(kept->expires, kept->now, fw->timeouts[FW_STATE(f->user)]);
	*fw->half_open += half_open;
	return f;
}

const struct nf_keeps fw_keeps = {
	.records = 1,
	.table = table,
	.save = save,
	.restore = restore,
};
