/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <rte_cycles.h>

#define ATTRIBUTES_MAX 32
static_assert(RTA_MAX < ATTRIBUTES_MAX && NHA_MAX < ATTRIBUTES_MAX && NDA_MAX < ATTRIBUTES_MAX, "room");

struct attributes {
	const struct rtattr *of[ATTRIBUTES_MAX];
};

/* `len` bytes at `at`, which may not be aligned in an FPM frame: x86 and arm64 do not mind. */
static void attributes(struct attributes *a, const void *at, size_t len)
{
	const struct rtattr *rta = at;

	memset(a, 0, sizeof(*a));
	while (len >= sizeof(*rta) && rta->rta_len >= sizeof(*rta) && rta->rta_len <= len) {
		unsigned int type = rta->rta_type & NLA_TYPE_MASK;
		size_t step = RTA_ALIGN(rta->rta_len);

		if (type < ATTRIBUTES_MAX)
			a->of[type] = rta;
		if (step >= len)
			return;
		len -= step;
		rta = (const void *)((const char *)rta + step);
	}
}

static const void *payload(const struct attributes *a, unsigned int type, size_t *len)
{
	const struct rtattr *rta = a->of[type];

	*len = rta ? rta->rta_len - sizeof(*rta) : 0;
	return rta ? (const char *)rta + sizeof(*rta) : NULL;
}

static uint32_t number(const struct attributes *a, unsigned int type)
{
	uint32_t value = 0;
	size_t len;
	const void *p = payload(a, type, &len);

	if (p && len >= sizeof(value))
		memcpy(&value, p, sizeof(value));
	return value;
}

/* An address of a family from an attribute; false unless it is there and whole. */
static bool address_from(const struct attributes *a, unsigned int type, int family,
			 struct address *out)
{
	size_t len;
	const void *p = payload(a, type, &len);

	memset(out, 0, sizeof(*out));
	out->ipv6 = family == AF_INET6;
	out->len = out->ipv6 ? 128 : 32;
	if (!p || len != address_bytes(out))
		return false;
	memcpy(out->bytes, p, len);
	return true;
}

/* RFC 8950: an IPv4 route by an IPv6 next hop names the family. */
static bool via_from(const struct attributes *a, struct address *out)
{
	size_t len;
	const struct rtvia *via = payload(a, RTA_VIA, &len);

	if (!via || len < sizeof(*via))
		return false;
	memset(out, 0, sizeof(*out));
	out->ipv6 = via->rtvia_family == AF_INET6;
	out->len = out->ipv6 ? 128 : 32;
	if (len - sizeof(*via) != address_bytes(out))
		return false;
	memcpy(out->bytes, via->rtvia_addr, len - sizeof(*via));
	return true;
}

static void gateway_from(const struct attributes *a, int family, struct address *out)
{
	if (address_from(a, RTA_GATEWAY, family, out) || via_from(a, out))
		return;
	memset(out, 0, sizeof(*out));
}

/* RTA_MULTIPATH: a run of struct rtnexthop with attributes of its own; more than 16 are not used. */
static void multipath(const struct attributes *a, int family, struct spec *spec)
{
	size_t len;
	const struct rtnexthop *nh = payload(a, RTA_MULTIPATH, &len);

	while (nh && len >= sizeof(*nh) && nh->rtnh_len >= sizeof(*nh) && nh->rtnh_len <= len &&
	       spec->n_paths < PATHS_MAX) {
		struct path *p = &spec->paths[spec->n_paths++];
		size_t step = RTNH_ALIGN(nh->rtnh_len);
		struct attributes own;

		attributes(&own, RTNH_DATA(nh), nh->rtnh_len - sizeof(*nh));
		gateway_from(&own, family, &p->gateway);
		p->ifindex = nh->rtnh_ifindex;
		p->weight = (uint16_t)(nh->rtnh_hops + 1);
		if (step >= len)
			return;
		len -= step;
		nh = (const void *)((const char *)nh + step);
	}
}

static bool spec_from(const struct rtmsg *rtm, const struct attributes *a, struct spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	switch (rtm->rtm_type) {
	case RTN_BLACKHOLE:
	case RTN_UNREACHABLE:
	case RTN_PROHIBIT:
		spec->kind = SPEC_BLACKHOLE;
		return true;
	case RTN_UNICAST:
		break;
	default:
		return false;
	}
	if (a->of[RTA_NH_ID]) {
		spec->kind = SPEC_OBJECT;
		spec->object = number(a, RTA_NH_ID);
		return true;
	}
	if (a->of[RTA_MULTIPATH]) {
		multipath(a, rtm->rtm_family, spec);
		return spec->n_paths > 0;
	}
	spec->n_paths = 1;
	spec->paths[0].weight = 1;
	spec->paths[0].ifindex = (int)number(a, RTA_OIF);
	gateway_from(a, rtm->rtm_family, &spec->paths[0].gateway);
	return true;
}

static bool prefix_from(const struct rtmsg *rtm, const struct attributes *a, struct address *prefix)
{
	if (rtm->rtm_family != AF_INET && rtm->rtm_family != AF_INET6)
		return false;
	if (!address_from(a, RTA_DST, rtm->rtm_family, prefix) && a->of[RTA_DST])
		return false;
	if (rtm->rtm_dst_len > prefix->len)
		return false;
	prefix->len = rtm->rtm_dst_len;
	for (unsigned int bit = prefix->len; bit < 8 * sizeof(prefix->bytes); bit++)
		prefix->bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
	return true;
}

void netlink_idle(struct netlink *nl)
{
	if (!nl->deleting)
		return;
	nl->deleting = false;
	vnf_route_del(nl->vnf, &nl->deleted);
}

static void route(struct netlink *nl, const struct nlmsghdr *h, size_t len)
{
	const struct rtmsg *rtm = NLMSG_DATA(h);
	struct attributes a;
	struct address prefix;
	struct spec spec;
	uint32_t table;

	if (len < sizeof(*rtm) || !nl->routes)
		return;
	attributes(&a, (const char *)rtm + sizeof(*rtm), len - sizeof(*rtm));
	table = a.of[RTA_TABLE] ? number(&a, RTA_TABLE) : rtm->rtm_table;
	if (table != RT_TABLE_MAIN && table != RT_TABLE_UNSPEC)
		return;
	if (rtm->rtm_flags & RTM_F_CLONED || !prefix_from(rtm, &a, &prefix)) {
		nl->vnf->ignored++;
		return;
	}
	if (h->nlmsg_type == RTM_DELROUTE) {
		netlink_idle(nl);
		nl->deleting = true;
		nl->deleted = prefix;
		return;
	}
	if (!spec_from(rtm, &a, &spec)) {
		nl->vnf->ignored++;
		return;
	}
	if (nl->deleting && address_equal(&nl->deleted, &prefix))
		nl->deleting = false;
	netlink_idle(nl);
	if (nl->kernel && nl->vnf->down)
		return;
	vnf_route_put(nl->vnf, &prefix, &spec);
}

static void group_from(const struct attributes *a, struct object *o)
{
	size_t len;
	const struct nexthop_grp *g = payload(a, NHA_GROUP, &len);

	for (; g && len >= sizeof(*g) && o->n_group < PATHS_MAX; g++, len -= sizeof(*g)) {
		o->group[o->n_group] = g->id;
		o->weights[o->n_group++] = (uint16_t)(g->weight + 1);
	}
}

static void next_hop(struct netlink *nl, const struct nlmsghdr *h, size_t len)
{
	const struct nhmsg *nhm = NLMSG_DATA(h);
	struct object o = {0};
	struct attributes a;

	if (len < sizeof(*nhm) || !nl->routes)
		return;
	attributes(&a, (const char *)nhm + sizeof(*nhm), len - sizeof(*nhm));
	netlink_idle(nl);
	o.id = number(&a, NHA_ID);
	if (h->nlmsg_type == RTM_DELNEXTHOP) {
		vnf_object_del(nl->vnf, o.id);
		return;
	}
	if (a.of[NHA_BLACKHOLE]) {
		o.spec.kind = SPEC_BLACKHOLE;
	} else if (a.of[NHA_GROUP]) {
		group_from(&a, &o);
	} else {
		o.spec.n_paths = 1;
		o.spec.paths[0].weight = 1;
		o.spec.paths[0].ifindex = (int)number(&a, NHA_OIF);
		if (!address_from(&a, NHA_GATEWAY, nhm->nh_family, &o.spec.paths[0].gateway))
			memset(&o.spec.paths[0].gateway, 0, sizeof(o.spec.paths[0].gateway));
	}
	vnf_object_put(nl->vnf, &o);
}

static void link_state(struct netlink *nl, const struct nlmsghdr *h, size_t len)
{
	const struct ifinfomsg *ifi = NLMSG_DATA(h);
	struct attributes a;
	char name[IFNAMSIZ] = "";
	const void *p;
	size_t n;

	if (len < sizeof(*ifi))
		return;
	attributes(&a, (const char *)ifi + sizeof(*ifi), len - sizeof(*ifi));
	p = payload(&a, IFLA_IFNAME, &n);
	if (!p || !n || n > sizeof(name))
		return;
	memcpy(name, p, n);
	name[sizeof(name) - 1] = '\0';
	vnf_link(nl->vnf, name, ifi->ifi_index,
		 h->nlmsg_type == RTM_NEWLINK && ifi->ifi_flags & IFF_UP);
}

static void interface_address(struct netlink *nl, const struct nlmsghdr *h, size_t len)
{
	const struct ifaddrmsg *ifa = NLMSG_DATA(h);
	struct attributes a;
	struct address address;

	if (len < sizeof(*ifa) || (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6))
		return;
	attributes(&a, (const char *)ifa + sizeof(*ifa), len - sizeof(*ifa));
	/* rtnetlink(7): on a point-to-point link IFA_ADDRESS is the other end's. */
	if ((!address_from(&a, IFA_LOCAL, ifa->ifa_family, &address) &&
	     !address_from(&a, IFA_ADDRESS, ifa->ifa_family, &address)) ||
	    ifa->ifa_prefixlen > address.len)
		return;
	address.len = ifa->ifa_prefixlen;
	if (h->nlmsg_type == RTM_NEWADDR)
		vnf_address_put(nl->vnf, (int)ifa->ifa_index, &address);
	else
		vnf_address_del(nl->vnf, (int)ifa->ifa_index, &address);
}

#define USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)

static void neighbour(struct netlink *nl, const struct nlmsghdr *h, size_t len)
{
	const struct ndmsg *ndm = NLMSG_DATA(h);
	struct attributes a;
	struct address address;
	const void *mac;
	size_t n;

	if (len < sizeof(*ndm) || (ndm->ndm_family != AF_INET && ndm->ndm_family != AF_INET6))
		return;
	attributes(&a, (const char *)ndm + sizeof(*ndm), len - sizeof(*ndm));
	if (!address_from(&a, NDA_DST, ndm->ndm_family, &address))
		return;
	mac = payload(&a, NDA_LLADDR, &n);
	if (h->nlmsg_type == RTM_NEWNEIGH && ndm->ndm_state & USABLE && mac && n == 6)
		vnf_neighbour_put(nl->vnf, ndm->ndm_ifindex, &address, mac);
	else
		vnf_neighbour_del(nl->vnf, ndm->ndm_ifindex, &address);
}

static void message(struct netlink *nl, const struct nlmsghdr *h, bool *dump_done)
{
	size_t len = h->nlmsg_len - NLMSG_HDRLEN;

	/* Links, addresses and neighbours are the kernel's to tell. */
	if (!nl->kernel && h->nlmsg_type != RTM_NEWROUTE && h->nlmsg_type != RTM_DELROUTE &&
	    h->nlmsg_type != RTM_NEWNEXTHOP && h->nlmsg_type != RTM_DELNEXTHOP)
		return;
	switch (h->nlmsg_type) {
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		route(nl, h, len);
		break;
	case RTM_NEWNEXTHOP:
	case RTM_DELNEXTHOP:
		next_hop(nl, h, len);
		break;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		link_state(nl, h, len);
		break;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		interface_address(nl, h, len);
		break;
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		neighbour(nl, h, len);
		break;
	case NLMSG_DONE:
		*dump_done = true;
		break;
	}
}

/* How many bytes had their turn, all unless it is late; or -EPROTO. */
static long messages(struct netlink *nl, const void *buf, size_t len, bool *dump_done)
{
	size_t at = 0;

	while (len - at >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const void *)((const char *)buf + at);

		if (h->nlmsg_len < NLMSG_HDRLEN || h->nlmsg_len > len - at)
			return -EPROTO;
		if (nl->until && rte_rdtsc() > nl->until) {
			nl->late = true;
			return (long)at;
		}
		message(nl, h, dump_done);
		at += RTE_MIN(NLMSG_ALIGN((size_t)h->nlmsg_len), len - at);
	}
	return at == len ? (long)at : -EPROTO;
}

int netlink_parse(struct netlink *nl, const void *buf, size_t len, bool *dump_done)
{
	long n = messages(nl, buf, len, dump_done);

	return n < 0 ? (int)n : 0;
}

long fpm_parse(struct netlink *nl, const uint8_t *buf, size_t len)
{
	size_t used = 0;
	bool done;
	long n;

	nl->late = false;
	while (len - used >= 4) {
		const uint8_t *f = buf + used;
		size_t frame = (size_t)f[2] << 8 | f[3];

		if (f[0] != 1 || f[1] != 1 || frame < 4)
			return -EPROTO;
		if (frame > len - used)
			break;
		n = messages(nl, f + 4 + nl->at, frame - 4 - nl->at, &done);
		if (n < 0)
			return -EPROTO;
		nl->at = nl->late ? nl->at + (size_t)n : 0;
		if (nl->late)
			break;
		used += frame;
	}
	return (long)used;
}
