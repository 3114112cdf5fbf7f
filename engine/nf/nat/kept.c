/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions in checkpoints: each once, by its outward way. */
#include <netinet/in.h>
#include <string.h>

#include "nat.h"

struct kept {
	uint32_t addr; /* outside */
	uint16_t port;
	uint16_t inward; /* flow.user of the other way */
};

static struct flow_table *table(struct nf_worker *w, unsigned int i, bool *v6)
{
	struct nat_worker *nat = w->state;

	*v6 = false;
	return i ? NULL : nat->sessions;
}

static bool save(struct nf_worker *w, unsigned int i, struct flow *f, void *own, uint32_t *expires)
{
	struct nat_worker *nat = w->state;
	const struct nat_way *way = nat_way(f);
	const struct flow *inward = flow_at(nat->sessions, way->peer);
	struct flow_key4 key;
	struct kept kept;

	(void)i;
	memcpy(&key, f->key, sizeof(key));
	if (key.zone == NAT_INWARD || !inward)
		return false;
	/* A session lives while either way is used. */
	if ((int32_t)(inward->expires - *expires) > 0)
		*expires = inward->expires;
	kept = (struct kept){.addr = way->addr, .port = way->port, .inward = inward->user};
	memcpy(own, &kept, sizeof(kept));
	return true;
}

/* As the functions that begin sessions would have it. */
static bool sound_states(const struct nf_kept *kept, uint16_t inward, uint8_t proto)
{
	enum track_state state = NAT_STATE(kept->user);
	uint16_t flags = kept->user & ~0xff;

	if (state == TRACK_NEW || state >= TRACK_STATES || NAT_STATE(inward) != state)
		return false;
	if (flags & ~(NAT_REPLY | NAT_HAIRPIN) || (inward & ~0xff) & ~NAT_REPLY ||
	    !(flags & NAT_REPLY) != !!(inward & NAT_REPLY))
		return false;
	switch (state) {
	case TRACK_UDP:
	case TRACK_UDP_REPLIED:
		return proto == IPPROTO_UDP;
	case TRACK_ICMP:
		return proto == IPPROTO_ICMP;
	default:
		return proto == IPPROTO_TCP;
	}
}

static bool is_ours(const struct nat_worker *nat, const struct flow_key4 *key, struct nat_endpoint outside)
{
	const struct nat_params *p = nat->params;
	struct nat_endpoint inside = {key->src, key->sport}, fixed;
	uint16_t port = rte_be_to_cpu_16(outside.port);

	if (nat_find_static(nat->statics, key->proto, inside, true, &fixed))
		return fixed.addr == outside.addr && fixed.port == outside.port;
	if (nat_find_static(nat->statics, key->proto, outside, false, &fixed) ||
	    !nat_is_inside(p, key->src) || port < p->port_min || port > p->port_max)
		return false;
	for (size_t i = 0; i < p->pool.count; i++)
		if (nat_pool_addr(p, i) == outside.addr)
			return true;
	return false;
}

/* The mapping of its inside endpoint, made where there is none. False: it, or the outside, has another. */
static bool mapping_of(struct nat_worker *nat, const struct flow_key4 *key, struct nat_endpoint outside,
		       uint32_t now, struct flow **mapping)
{
	struct nat_endpoint inside = {key->src, key->sport}, fixed;
	struct flow_key4 ki = nat_map_key(inside, key->proto, true);
	struct flow_key4 ko = nat_map_key(outside, key->proto, false);
	const struct nat_map *map;

	if (nat->params->mapping != NAT_ENDPOINT_INDEPENDENT ||
	    nat_find_static(nat->statics, key->proto, inside, true, &fixed))
		return true;
	*mapping = flow_find(nat->mappings, &ki);
	if (*mapping) {
		map = flow_state4(*mapping);
		return map->addr == outside.addr && map->port == outside.port;
	}
	if (flow_find(nat->mappings, &ko))
		return false;
	*mapping = nat_add_mapping(nat, inside, outside, key->proto, now);
	return *mapping != NULL;
}

static struct flow *restore(struct nf_worker *w, unsigned int i, const struct nf_kept *kept)
{
	struct nat_worker *nat = w->state;
	struct flow *mapping = NULL, *f, *peer;
	struct nat_endpoint outside;
	struct flow_key4 key, inward;
	struct kept own;

	(void)i;
	memcpy(&key, kept->key, sizeof(key));
	memcpy(&own, kept->own, sizeof(own));
	outside = (struct nat_endpoint){own.addr, own.port};
	inward = nat_inward_key(&key, outside);
	if (key.zone || key.shard || !sound_states(kept, own.inward, key.proto) ||
	    !is_ours(nat, &key, outside) || flow_find(nat->sessions, &key) ||
	    flow_find(nat->sessions, &inward) || !mapping_of(nat, &key, outside, kept->now, &mapping))
		return NULL;
	f = nat_add_session(nat, &key, outside, mapping, NAT_STATE(kept->user), kept->now);
	if (!f) {
		if (mapping && !((struct nat_map *)flow_state4(mapping))->sessions)
			nat_end_mapping(nat, mapping);
		return NULL;
	}
	peer = flow_at(nat->sessions, nat_way(f)->peer);
	f->user = kept->user & ~NAT_HAIRPIN;
	f->user |= nat_is_outside(nat, key.dst) ? NAT_HAIRPIN : 0;
	peer->user = own.inward;
	f->expires = peer->expires =
		flow_bounded(kept->expires, kept->now, nat->timeouts[NAT_STATE(f->user)]);
	return f;
}

const struct nf_keeps nat_keeps = {
	.bytes = sizeof(struct kept),
	.records = 2,
	.table = table,
	.save = save,
	.restore = restore,
};
