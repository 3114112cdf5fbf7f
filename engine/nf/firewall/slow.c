/* SPDX-License-Identifier: Apache-2.0 */
#include "firewall.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_icmp.h>

#include "nf/lib/rules/key.h"
#include "nf/lib/tuple.h"

/* What the packet path does not do for every packet: rules, and protocols without ports. */

struct l3_view {
	const uint8_t *src, *dst;
	uint8_t proto;
	bool v6;
};

static struct l3_view l3_of(const struct rte_mbuf *m)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	if (pkt_is_ipv4(m))
		return (struct l3_view){l3 + 12, l3 + 16, l3[9], false};
	return (struct l3_view){l3 + 8, l3 + 24, pkt_ipv6_proto(m), true};
}

static uint8_t ask_rules(const struct fw_rules *rules, const struct rte_mbuf *m,
			 enum nf_direction dir)
{
	uint32_t match = acl_key_match(rules->sets[dir], m);

	if (match == ACL_MATCH_DENY)
		return NF_DROP(DROP_DENIED);
	if (!match && rules->default_deny[dir])
		return NF_DROP(DROP_DEFAULT);
	return 0;
}

/* The state that a flow begins in; TRACK_INVALID: not with this packet. */
static enum track_state first_state(const struct fw_params *p, const struct rte_mbuf *m)
{
	enum track_event event;

	switch (pkt_l4(m)) {
	case RTE_PTYPE_L4_UDP:
		return TRACK_UDP;
	case RTE_PTYPE_L4_ICMP:
		return TRACK_ICMP;
	case RTE_PTYPE_L4_TCP:
		event = track_tcp_event(((const struct rte_tcp_hdr *)pkt_l4_hdr(m))->tcp_flags);
		if (event == TRACK_SYN)
			return TRACK_SYN_SENT;
		return p->tcp_loose && event == TRACK_ACK ? TRACK_ESTABLISHED : TRACK_INVALID;
	}
	return TRACK_OTHER;
}

uint8_t fw_new_flow(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		    const union fw_key *key, bool v6, bool low, enum nf_direction dir, uint32_t now)
{
	const struct fw_params *p = w->nf->conf;
	struct fw_worker *fw = w->state;
	enum track_state state = first_state(p, m);
	struct flow *f;
	uint8_t denied;

	if (state == TRACK_INVALID)
		return NF_DROP(DROP_NOT_SYN);
	denied = ask_rules(rules, m, dir);
	if (denied)
		return denied;
	if (state == TRACK_SYN_SENT && fw->half_open[shared_bucket(w, m)] >= fw->half_open_max)
		return NF_DROP(DROP_SYN_FLOOD);
	f = flow_insert(fw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], key);
	if (!f)
		return NF_DROP(DROP_TABLE_FULL);
	f->user = (uint16_t)(state | (low ? FW_ORIGIN_LOW : 0));
	fw->half_open[shared_bucket(w, m)] += fw_half_open(state);
	flow_touch(f, now, fw->timeouts[state]);
	w->counters[C_NEW]++;
	return 0;
}

bool fw_gone(void *end, struct flow *f)
{
	const struct fw_end *e = end;

	e->fw->half_open[flow_shard(e->flows, f)] -= fw_half_open(FW_STATE(f->user));
	return true;
}

/* A key of what is neither TCP nor UDP; ICMP queries have their identifier on both sides. */
static bool make_key(union fw_key *key, const struct l3_view *l3, uint16_t id, uint8_t bucket)
{
	if (l3->v6)
		return fw_key6_make(&key->v6, l3->src, l3->dst, id, id, l3->proto, bucket);
	return fw_key4_make(&key->v4, l3->src, l3->dst, id, id, l3->proto, bucket);
}

/*
 * ICMP errors (RFC 792; RFC 4443) carry the packet they are about from its IP header on. They
 * pass when that packet's flow is known, and say nothing of its state.
 */
static bool is_error(uint8_t type, bool v6)
{
	if (v6)
		return type >= 1 && type <= 4;
	return type == 3 || type == 11 || type == 12;
}

/* The ports of what follows the embedded IP header; queries have their identifier for both. */
static void embedded_ports(uint16_t ports[2], uint8_t proto, uint8_t icmp, const uint8_t *l4)
{
	ports[0] = ports[1] = 0;
	if (proto == IPPROTO_TCP || proto == IPPROTO_UDP) {
		memcpy(ports, l4, 2 * sizeof(*ports));
	} else if (proto == icmp) {
		memcpy(&ports[0], l4 + 4, sizeof(*ports));
		ports[1] = ports[0];
	}
}

/* RFC 792: at least eight bytes of the payload come along. */
static bool embedded_key4(union fw_key *key, const uint8_t *ip, uint32_t have, uint8_t bucket)
{
	uint16_t ports[2];
	uint32_t ihl;

	if (have < 20 || ip[0] >> 4 != 4)
		return false;
	ihl = (ip[0] & 15) * 4;
	if (ihl < 20 || have < ihl + 8 || (ip[6] & 0x1f) || ip[7])
		return false;
	embedded_ports(ports, ip[9], IPPROTO_ICMP, ip + ihl);
	fw_key4_make(&key->v4, ip + 12, ip + 16, ports[0], ports[1], ip[9], bucket);
	return true;
}

/* Embedded packets with extension headers are not looked into. */
static bool embedded_key6(union fw_key *key, const uint8_t *ip, uint32_t have, uint8_t bucket)
{
	uint16_t ports[2];

	if (have < 48 || ip[0] >> 4 != 6)
		return false;
	embedded_ports(ports, ip[6], IPPROTO_ICMPV6, ip + 40);
	fw_key6_make(&key->v6, ip + 8, ip + 24, ports[0], ports[1], ip[6], bucket);
	return true;
}

static uint8_t icmp_error(struct nf_worker *w, const struct rte_mbuf *m, bool v6)
{
	struct fw_worker *fw = w->state;
	const uint8_t *inner = (const uint8_t *)pkt_l4_hdr(m) + 8;
	uint32_t before = pkt_l2_len(m) + pkt_l3_len(m) + 8, have = m->data_len - before;
	union fw_key key;

	if (!(v6 ? embedded_key6(&key, inner, have, pkt_bucket(m))
		 : embedded_key4(&key, inner, have, pkt_bucket(m))) ||
	    !flow_find(fw->flows[v6 ? FLOW_IPV6 : FLOW_IPV4], &key))
		return NF_DROP(DROP_ICMP_UNRELATED);
	w->counters[C_RELATED]++;
	return 0;
}

/* RFC 4890 section 4.4: neighbours must find each other through a bridging firewall. */
static bool is_neighbour_discovery(uint8_t type)
{
	return type >= 133 && type <= 137;
}

static bool is_query(uint8_t type, bool v6)
{
	if (v6)
		return type == 128 || type == 129;
	return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

/* Answers do not begin flows. */
static bool is_answer(uint8_t type, bool v6)
{
	if (v6)
		return type == 129;
	return type == 0 || type == 14 || type == 16 || type == 18;
}

static uint8_t icmp(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		    const struct l3_view *l3, enum nf_direction dir, uint32_t now)
{
	const struct rte_icmp_hdr *icmp = pkt_l4_hdr(m);
	struct fw_worker *fw = w->state;
	union fw_key key;
	bool low;

	if (is_error(icmp->icmp_type, l3->v6))
		return icmp_error(w, m, l3->v6);
	if (l3->v6 && is_neighbour_discovery(icmp->icmp_type))
		return 0;
	low = make_key(&key, l3, is_query(icmp->icmp_type, l3->v6) ? icmp->icmp_ident : 0,
		       pkt_bucket(m));
	if (is_answer(icmp->icmp_type, l3->v6) &&
	    !flow_find(fw->flows[l3->v6 ? FLOW_IPV6 : FLOW_IPV4], &key))
		return NF_DROP(DROP_ICMP_UNRELATED);
	return fw_known_or_new(w, rules, m, &key, l3->v6, low, dir, now);
}

uint8_t fw_other(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		 enum nf_direction dir, uint32_t now)
{
	const struct fw_params *p = w->nf->conf;
	struct l3_view l3;
	union fw_key key;
	bool low;

	if (pkt_malformed(m))
		return NF_ABORT;
	if (!pkt_is_ipv4(m) && !pkt_is_ipv6(m))
		return p->non_ip == ACL_DENY ? NF_DROP(DROP_NON_IP) : 0;
	l3 = l3_of(m);
	if (pkt_l4(m) == RTE_PTYPE_L4_ICMP)
		return icmp(w, rules, m, &l3, dir, now);
	/* A TCP, UDP or ICMP header that is cut off cannot be judged. */
	if (l3.proto == IPPROTO_TCP || l3.proto == IPPROTO_UDP ||
	    l3.proto == (l3.v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return NF_ABORT;
	low = make_key(&key, &l3, 0, pkt_bucket(m));
	return fw_known_or_new(w, rules, m, &key, l3.v6, low, dir, now);
}
