/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <netinet/in.h>
#include <string.h>

/*
 * Sessions and mappings begin and end here, off the path of most packets.
 */

bool nat_is_outside(const struct nat_worker *nat, uint32_t addr)
{
	for (size_t i = 0; i < nat->params->pool.count; i++)
		if (nat_pool_addr(nat->params, i) == addr)
			return true;
	for (size_t i = 0; i < nat->statics->n_addrs; i++)
		if (nat->statics->addrs[i] == addr)
			return true;
	return false;
}

bool nat_is_inside(const struct nat_params *p, uint32_t addr)
{
	const struct param_ip *list = p->inside.items;

	for (size_t i = 0; i < p->inside.count; i++) {
		uint32_t prefix, mask = list[i].len ? ~0u << (32 - list[i].len) : 0;

		memcpy(&prefix, list[i].addr, sizeof(prefix));
		if (!((addr ^ prefix) & rte_cpu_to_be_32(mask)))
			return true;
	}
	return !p->inside.count;
}

/* The static mapping of an endpoint on one side, as the endpoint of the other side. */
bool nat_find_static(const struct nat_statics *statics, uint8_t proto, struct nat_endpoint e,
			bool inside, struct nat_endpoint *other)
{
	for (size_t i = 0; i < statics->count; i++) {
		const struct nat_static_params *s = &statics->list[i];
		const struct param_ip *near = inside ? &s->inside : &s->outside;
		const struct param_ip *far = inside ? &s->outside : &s->inside;
		uint64_t near_port = inside ? s->inside_port : s->outside_port;
		uint64_t far_port = inside ? s->outside_port : s->inside_port;

		if (proto != (s->protocol ? IPPROTO_UDP : IPPROTO_TCP) ||
		    memcmp(near->addr, &e.addr, sizeof(e.addr)) ||
		    rte_cpu_to_be_16((uint16_t)near_port) != e.port)
			continue;
		memcpy(&other->addr, far->addr, sizeof(other->addr));
		other->port = rte_cpu_to_be_16((uint16_t)far_port);
		return true;
	}
	return false;
}

struct flow_key4 nat_map_key(struct nat_endpoint e, uint8_t proto, bool inside)
{
	return (struct flow_key4){.src = e.addr, .sport = e.port, .proto = proto,
				  .zone = inside ? 0 : NAT_INWARD};
}

/* ICMP identifiers stand where the remote port would. */
struct flow_key4 nat_inward_key(const struct flow_key4 *outward, struct nat_endpoint outside)
{
	struct flow_key4 k = {.src = outward->dst, .dst = outside.addr, .sport = outward->dport,
			      .dport = outside.port, .proto = outward->proto,
			      .shard = outward->shard, .zone = NAT_INWARD};

	return k;
}

struct flow *nat_add_mapping(struct nat_worker *nat, struct nat_endpoint inside,
			     struct nat_endpoint outside, uint8_t proto, uint32_t now)
{
	struct flow_key4 ki = nat_map_key(inside, proto, true), ko = nat_map_key(outside, proto, false);
	struct flow *fi = flow_insert(nat->mappings, &ki), *fo;
	struct nat_map *mi, *mo;

	if (!fi)
		return NULL;
	fo = flow_insert(nat->mappings, &ko);
	if (!fo) {
		flow_delete(nat->mappings, fi);
		return NULL;
	}
	mi = flow_state4(fi);
	mo = flow_state4(fo);
	*mi = (struct nat_map){.addr = outside.addr, .port = outside.port,
			       .peer = flow_index(nat->mappings, fo)};
	*mo = (struct nat_map){.addr = inside.addr, .port = inside.port,
			       .peer = flow_index(nat->mappings, fi)};
	flow_touch(fi, now, nat->timeouts[TRACK_ESTABLISHED]);
	flow_touch(fo, now, nat->timeouts[TRACK_ESTABLISHED]);
	return fi;
}

void nat_end_mapping(struct nat_worker *nat, struct flow *inside)
{
	struct nat_map *m = flow_state4(inside);

	flow_delete(nat->mappings, flow_at(nat->mappings, m->peer));
	flow_delete(nat->mappings, inside);
}

static struct flow_key4 outward_key(struct nat_endpoint inside, const struct flow_key4 *inward)
{
	return (struct flow_key4){.src = inside.addr, .dst = inward->src, .sport = inside.port,
				  .dport = inward->sport, .proto = inward->proto,
				  .shard = inward->shard};
}

static void set_way(struct flow *f, struct nat_endpoint from, struct nat_endpoint to, uint8_t proto,
		    uint32_t mapping)
{
	struct nat_way *way = nat_way(f);

	way->addr = to.addr;
	way->port = to.port;
	way->mapping = mapping;
	way->l3_delta = csum_delta(&from.addr, &to.addr, sizeof(from.addr));
	way->l4_delta = csum_delta(&from.port, &to.port, sizeof(from.port));
	/* ICMP's checksum does not cover addresses. */
	if (proto != IPPROTO_ICMP)
		way->l4_delta = csum_fold(way->l4_delta + way->l3_delta);
}

static enum track_state first_state(const struct rte_mbuf *m, uint8_t proto)
{
	if (proto == IPPROTO_ICMP)
		return TRACK_ICMP;
	if (proto == IPPROTO_UDP)
		return TRACK_UDP;
	/* Taken up in the middle: it may be gone any time, so it has the short timeout. */
	return track_tcp_event(((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags) == TRACK_SYN
		       ? TRACK_SYN_SENT
		       : TRACK_OTHER;
}

struct flow *nat_add_session(struct nat_worker *nat, const struct flow_key4 *outward,
			     struct nat_endpoint outside, struct flow *mapping, enum track_state state,
			     uint32_t now)
{
	struct nat_endpoint inside = {outward->src, outward->sport};
	struct flow_key4 inward = nat_inward_key(outward, outside);
	uint32_t map = mapping ? flow_index(nat->mappings, mapping) : NAT_NO_MAPPING;
	struct flow *fo = flow_insert(nat->sessions, outward), *fi;

	if (!fo)
		return NULL;
	fi = flow_insert(nat->sessions, &inward);
	if (!fi) {
		flow_delete(nat->sessions, fo);
		return NULL;
	}
	set_way(fo, inside, outside, outward->proto, map);
	set_way(fi, outside, inside, outward->proto, map);
	nat_way(fo)->peer = flow_index(nat->sessions, fi);
	nat_way(fi)->peer = flow_index(nat->sessions, fo);
	fo->user = fi->user = (uint16_t)state;
	flow_touch(fo, now, nat->timeouts[state]);
	flow_touch(fi, now, nat->timeouts[state]);
	if (mapping)
		((struct nat_map *)flow_state4(mapping))->sessions++;
	return fo;
}

/* The inside record of the mapping of an endpoint, made when there is none. */
static struct flow *take_mapping(struct nf_worker *w, struct rte_mbuf *m,
				 const struct flow_key4 *key, uint32_t now, uint8_t *verdict)
{
	struct nat_worker *nat = w->state;
	struct nat_endpoint inside = {key->src, key->sport}, outside;
	struct flow_key4 k = nat_map_key(inside, key->proto, true);
	struct flow *f = flow_find(nat->mappings, &k);

	if (f)
		return f;
	if (!nat_pick_outside(w, m, key, now, &outside)) {
		*verdict = NF_DROP(DROP_PORTS_EXHAUSTED);
		return NULL;
	}
	f = nat_add_mapping(nat, inside, outside, key->proto, now);
	if (!f)
		*verdict = NF_DROP(DROP_TABLE_FULL);
	return f;
}

struct flow *nat_new_outward(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
			     uint32_t now, uint8_t *verdict)
{
	struct nat_worker *nat = w->state;
	struct nat_endpoint inside = {key->src, key->sport}, outside;
	struct flow *mapping = NULL, *f;

	if (nat_find_static(nat->statics, key->proto, inside, true, &outside)) {
		/* nothing to choose */
	} else if (nat->params->mapping == NAT_ENDPOINT_INDEPENDENT) {
		const struct nat_map *map;

		mapping = take_mapping(w, m, key, now, verdict);
		if (!mapping)
			return NULL;
		map = flow_state4(mapping);
		outside = (struct nat_endpoint){map->addr, map->port};
	} else if (!nat_pick_outside(w, m, key, now, &outside)) {
		*verdict = NF_DROP(DROP_PORTS_EXHAUSTED);
		return NULL;
	}
	f = nat_add_session(nat, key, outside, mapping, first_state(m, key->proto), now);
	if (!f) {
		*verdict = NF_DROP(DROP_TABLE_FULL);
		if (mapping && !((struct nat_map *)flow_state4(mapping))->sessions)
			nat_end_mapping(nat, mapping);
		return NULL;
	}
	w->counters[C_NEW]++;
	flow_at(nat->sessions, nat_way(f)->peer)->user |= NAT_REPLY;
	if (nat_is_outside(nat, key->dst))
		f->user |= NAT_HAIRPIN;
	return f;
}

/* Where an unknown packet from outside may go in: a static mapping, or an open one. */
static bool find_inside(struct nat_worker *nat, const struct flow_key4 *key, struct nat_endpoint *inside,
			struct flow **mapping)
{
	const struct nat_params *p = nat->params;
	struct nat_endpoint outside = {key->dst, key->dport};
	struct flow_key4 k = nat_map_key(outside, key->proto, false);
	const struct nat_map *map;
	struct flow *f;

	if (nat_find_static(nat->statics, key->proto, outside, false, inside))
		return true;
	if (p->mapping != NAT_ENDPOINT_INDEPENDENT || p->filtering != NAT_ENDPOINT_INDEPENDENT)
		return false;
	f = flow_find(nat->mappings, &k);
	if (!f)
		return false;
	map = flow_state4(f);
	*inside = (struct nat_endpoint){map->addr, map->port};
	*mapping = flow_at(nat->mappings, map->peer);
	return true;
}

struct flow *nat_new_inward(struct nf_worker *w, struct rte_mbuf *m, const struct flow_key4 *key,
			    uint32_t now, uint8_t *verdict)
{
	struct nat_worker *nat = w->state;
	struct nat_endpoint inside;
	struct flow_key4 outward;
	struct flow *mapping = NULL, *f;

	if (!find_inside(nat, key, &inside, &mapping)) {
		*verdict = NF_DROP(DROP_NO_MAPPING);
		return NULL;
	}
	outward = outward_key(inside, key);
	f = nat_add_session(nat, &outward, (struct nat_endpoint){key->dst, key->dport}, mapping,
			    first_state(m, key->proto), now);
	if (!f) {
		*verdict = NF_DROP(DROP_TABLE_FULL);
		return NULL;
	}
	w->counters[C_NEW]++;
	f->user |= NAT_REPLY;
	/* Hairpinned: the other host inside answers to an outside endpoint, too. */
	if (nat_is_outside(nat, key->src))
		f->user |= NAT_HAIRPIN;
	return flow_at(nat->sessions, nat_way(f)->peer);
}

void nat_end_session(struct nat_worker *nat, struct flow *f)
{
	struct flow *mapping = flow_at(nat->mappings, nat_way(f)->mapping);

	flow_delete(nat->sessions, flow_at(nat->sessions, nat_way(f)->peer));
	if (mapping && !--((struct nat_map *)flow_state4(mapping))->sessions)
		nat_end_mapping(nat, mapping);
}

/* A session lives while either way is used: what has expired is its younger record. */
bool nat_session_gone(void *worker, struct flow *f)
{
	struct nat_worker *nat = worker;
	const struct flow *peer = flow_at(nat->sessions, nat_way(f)->peer);

	if ((int32_t)(peer->expires - f->expires) > 0) {
		f->expires = peer->expires;
		return false;
	}
	nat_end_session(nat, f);
	return true;
}

/* Mappings end with their last session, not by themselves. */
bool nat_mapping_gone(void *worker, struct flow *f)
{
	struct nat_worker *nat = worker;

	f->expires += nat->timeouts[TRACK_ESTABLISHED];
	return false;
}
