/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <cmocka.h>

#include <rte_jhash.h>

#include "netlink.h"
#include "tests/packets.h"

/*
 * a has e0 on port 0 and e1 on port 1, with gateways 10.1.0.2 and .3 behind e1; b is on port 1, too,
 * and is a's neighbour 10.1.0.4, as a is b's 10.1.0.1. Without namespaces interface N has index N + 1.
 */
#define PARAMS                                                                                     \
	"{\"vnfs\": [{\"name\": \"a\", \"learn\": \"none\", \"hold_s\": 10, \"interfaces\": ["            \
	"{\"name\": \"e0\", \"port\": 0, \"mac\": \"02:00:00:00:0a:00\", "                             \
	"\"addresses\": [\"10.0.0.1/24\", \"2001:db8::1/64\"]},"                                      \
	"{\"name\": \"e1\", \"port\": 1, \"mac\": \"02:00:00:00:0a:01\", "                             \
	"\"addresses\": [\"10.1.0.1/24\"], \"neighbours\": ["                                        \
	"{\"address\": \"10.1.0.2\", \"mac\": \"02:00:00:00:01:02\"},"                               \
	"{\"address\": \"10.1.0.3\", \"mac\": \"02:00:00:00:01:03\"},"                               \
	"{\"address\": \"10.1.0.4\", \"mac\": \"02:00:00:00:0b:00\"}]}]},"                           \
	"{\"name\": \"b\", \"learn\": \"none\", \"interfaces\": ["                                     \
	"{\"name\": \"e0\", \"port\": 1, \"mac\": \"02:00:00:00:0b:00\", "                             \
	"\"addresses\": [\"10.1.0.4/24\"], \"neighbours\": ["                                        \
	"{\"address\": \"10.1.0.1\", \"mac\": \"02:00:00:00:0a:01\"},"                               \
	"{\"address\": \"10.1.0.9\", \"mac\": \"02:00:00:00:01:09\"}]}]}], \"nodes\": 4096}"
#define PUNT 15
#define NOT_SENT UINT32_MAX

static const uint8_t mac_a0[] = {2, 0, 0, 0, 0x0a, 0},
		     mac_b0[] = {2, 0, 0, 0, 0x0b, 0};

static struct harness *make(void)
{
	struct err err = {0};
	struct harness *h = harness_new("router", PARAMS, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static struct vnf *vnf_of(struct harness *h, unsigned int i)
{
	return &((struct router *)h->nf.state)->vnfs[i];
}

/* A packet for `dst` by way of a VNF's MAC; the edge that it left on. */
static uint32_t send_with(struct harness *h, const uint8_t *mac, uint16_t port, const char *dst,
			  uint8_t ttl, uint16_t sport)
{
	struct craft c = {.family = strchr(dst, ':') ? 6 : 4, .proto = IPPROTO_UDP, .sport = sport,
			  .dport = 2, .payload = 30, .ttl = ttl};
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, 0, port};

	craft_addrs(&c, c.family == 4 ? "198.51.100.7" : "2001:db8:ff::7", dst);
	p.len = craft_build(&c, buf);
	memcpy(buf, mac, 6);
	harness_forget(h);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	return h->n_out ? h->out[0].edge : NOT_SENT;
}

static uint32_t send_to(struct harness *h, const char *dst)
{
	return send_with(h, mac_a0, 0, dst, 64, 1);
}

/* Last byte of the destination MAC of what came out. */
static unsigned int mac_out(const struct harness *h)
{
	return h->out[0].data[5];
}

/* FPM frames, as zebra makes them. */
struct frame {
	uint8_t buf[512];
	size_t len;
};

static void put(struct frame *f, const void *data, size_t len)
{
	memcpy(f->buf + f->len, data, len);
	f->len += len;
	while (f->len % 4)
		f->buf[f->len++] = 0;
}

static void attribute(struct frame *f, uint16_t type, const void *data, size_t len)
{
	struct rtattr rta = {.rta_len = (uint16_t)(sizeof(rta) + len), .rta_type = type};

	put(f, &rta, sizeof(rta));
	put(f, data, len);
}

static void begin(struct frame *f, uint16_t type)
{
	struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE};

	f->len = 4;
	put(f, &h, sizeof(h));
}

static void finish(struct frame *f)
{
	uint32_t nl = (uint32_t)f->len - 4;

	f->buf[0] = f->buf[1] = 1;
	f->buf[2] = (uint8_t)(f->len >> 8);
	f->buf[3] = (uint8_t)f->len;
	memcpy(f->buf + 4, &nl, sizeof(nl));
}

static void feed(struct netlink *nl, struct frame *f)
{
	finish(f);
	assert_int_equal(fpm_parse(nl, f->buf, f->len), (long)f->len);
	while (users_resolve(nl->vnf))
		;
}

static void feed_route(struct netlink *nl, uint16_t type, const uint8_t *prefix, uint8_t len,
		       uint8_t kind, uint32_t nh_id)
{
	struct rtmsg rtm = {.rtm_family = AF_INET, .rtm_dst_len = len, .rtm_table = RT_TABLE_MAIN,
			    .rtm_type = kind};
	struct frame f;

	begin(&f, type);
	put(&f, &rtm, sizeof(rtm));
	attribute(&f, RTA_DST, prefix, 4);
	if (nh_id)
		attribute(&f, RTA_NH_ID, &nh_id, sizeof(nh_id));
	feed(nl, &f);
}

static void feed_next_hop(struct netlink *nl, uint32_t id, uint8_t last, uint32_t oif)
{
	struct nhmsg nhm = {.nh_family = AF_INET};
	uint8_t gateway[4] = {10, 1, 0, last};
	struct frame f;

	begin(&f, RTM_NEWNEXTHOP);
	put(&f, &nhm, sizeof(nhm));
	attribute(&f, NHA_ID, &id, sizeof(id));
	attribute(&f, NHA_GATEWAY, gateway, sizeof(gateway));
	attribute(&f, NHA_OIF, &oif, sizeof(oif));
	feed(nl, &f);
}

static void feed_id(struct netlink *nl, uint16_t type, uint32_t id)
{
	struct nhmsg nhm = {.nh_family = AF_UNSPEC};
	struct frame f;

	begin(&f, type);
	put(&f, &nhm, sizeof(nhm));
	attribute(&f, NHA_ID, &id, sizeof(id));
	feed(nl, &f);
}

static void feed_group(struct netlink *nl, uint32_t id, uint32_t one, uint32_t other, uint8_t weight)
{
	struct nhmsg nhm = {.nh_family = AF_UNSPEC};
	struct nexthop_grp group[2] = {{.id = one}, {.id = other, .weight = (uint8_t)(weight - 1)}};
	struct frame f;

	begin(&f, RTM_NEWNEXTHOP);
	put(&f, &nhm, sizeof(nhm));
	attribute(&f, NHA_ID, &id, sizeof(id));
	attribute(&f, NHA_GROUP, group, sizeof(group));
	feed(nl, &f);
}

static const uint8_t net10_2[4] = {10, 2, 0, 0}, any[4] = {0};

static void test_own(void **state)
{
	struct harness *h = make();
	static const uint8_t nobody[] = {2, 9, 9, 9, 9, 9}, broadcast[] = {255, 255, 255, 255, 255, 255};

	(void)state;
	assert_int_equal(send_to(h, "10.0.0.1"), PUNT);
	assert_int_equal(send_to(h, "2001:db8::1"), PUNT);
	assert_int_equal(send_to(h, "10.0.0.77"), PUNT); /* on the link, not resolved */
	assert_int_equal(send_to(h, "224.0.0.5"), PUNT);
	assert_int_equal(send_with(h, mac_a0, 0, "10.1.0.2", 1, 1), PUNT); /* its ICMP */
	assert_int_equal(send_to(h, "10.1.0.2"), 1);
	assert_int_equal(mac_out(h), 2);
	assert_int_equal(h->out[0].data[14 + 8], 63);
	assert_int_equal(send_to(h, "192.0.2.1"), NOT_SENT);
	assert_int_equal(harness_dropped(h, "no-route"), 1);
	assert_int_equal(send_with(h, nobody, 0, "10.1.0.2", 64, 1), NOT_SENT);
	assert_int_equal(send_with(h, mac_a0, 1, "10.1.0.2", 64, 1), NOT_SENT); /* another port */
	assert_int_equal(harness_dropped(h, "no-vnf"), 2);
	/* Both interfaces on port 1 hear it: one copy more. */
	assert_int_equal(send_with(h, broadcast, 1, "10.1.0.255", 64, 1), PUNT);
	assert_int_equal(h->n_out, 2);
	assert_int_equal(h->out[1].edge, PUNT);
	harness_free(h);
}

static void test_objects(void **state)
{
	struct harness *h = make();
	struct netlink nl = {.vnf = vnf_of(h, 0), .routes = true};

	(void)state;
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 7);
	assert_int_equal(send_to(h, "10.2.3.4"), PUNT); /* its next hop is not known yet */
	feed_next_hop(&nl, 7, 2, 2);
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	assert_int_equal(mac_out(h), 2);
	feed_next_hop(&nl, 7, 3, 2); /* all its routes move */
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	assert_int_equal(mac_out(h), 3);
	feed_next_hop(&nl, 7, 99, 2);
	assert_int_equal(send_to(h, "10.2.3.4"), PUNT);
	feed_id(&nl, RTM_DELNEXTHOP, 7);
	assert_int_equal(send_to(h, "10.2.3.4"), PUNT);
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_BLACKHOLE, 0);
	assert_int_equal(send_to(h, "10.2.3.4"), NOT_SENT);
	assert_int_equal(harness_dropped(h, "blackhole"), 1);
	harness_free(h);
}

/* zebra replaces by deleting and adding: nothing is lost between, in one frame or two. */
static void test_replace(void **state)
{
	struct harness *h = make();
	struct netlink nl = {.vnf = vnf_of(h, 0), .routes = true};

	(void)state;
	feed_next_hop(&nl, 1, 2, 2);
	feed_next_hop(&nl, 2, 3, 2);
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 1);
	feed_route(&nl, RTM_DELROUTE, net10_2, 16, RTN_UNICAST, 0);
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 2);
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	assert_int_equal(mac_out(h), 3);
	feed_route(&nl, RTM_DELROUTE, net10_2, 16, RTN_UNICAST, 0);
	netlink_idle(&nl);
	assert_int_equal(send_to(h, "10.2.3.4"), NOT_SENT);
	assert_int_equal(vnf_of(h, 0)->routes[0], 0);
	assert_int_equal(vnf_of(h, 0)->n_users, 0);
	harness_free(h);
}

/* Each route by a next-hop object of its own, from route `first` on; how many were refused. */
static uint64_t feed_many(struct vnf *v, struct netlink *nl, unsigned int first, unsigned int n)
{
	uint64_t before = v->no_room;

	for (unsigned int i = first; i < first + n; i++) {
		uint8_t prefix[4] = {20, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};

		feed_next_hop(nl, i + 1, 2, 2);
		feed_route(nl, RTM_NEWROUTE, prefix, 32, RTN_UNICAST, i + 1);
	}
	return v->no_room - before;
}

/*
 * One VNF wants all that there is. Of next hop numbers it gets all but the other's half, and of the
 * trie's nodes; the other has its half then, to the last one.
 */
static void test_quota(void **state)
{
	struct harness *h = make();
	struct vnf *greedy = vnf_of(h, 0), *other = vnf_of(h, 1);
	struct netlink a = {.vnf = greedy, .routes = true}, b = {.vnf = other, .routes = true};
	struct router *r = h->nf.state;
	uint32_t part = ROUTER_HOPS_MAX / 2, mine = other->n_hops;

	(void)state;
	assert_true(feed_many(greedy, &a, 0, 66000) > 0);
	assert_int_equal(greedy->n_hops, ROUTER_HOPS_MAX - part);
	assert_int_equal(greedy->n_objects, 65536);
	assert_int_equal(feed_many(other, &b, 0, part - mine), 0);
	assert_int_equal(other->n_hops, part);
	assert_int_equal(feed_many(other, &b, part, 1), 1);
	assert_int_equal(send_to(h, "20.0.1.2"), 1);
	for (unsigned int i = 0; i < 70000; i++) {
		uint8_t prefix[4] = {20, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};

		feed_route(&a, RTM_DELROUTE, prefix, 32, RTN_UNICAST, 0);
		netlink_idle(&a);
	}
	assert_int_equal(greedy->n_users, 0);
	assert_int_equal(r->vnfs[0].routes[0], 0);
	harness_free(h);
}

/* A gateway and an interface whose rte_jhash is the same for each `x` that has one. */
static bool colliding(uint64_t x, struct path *path)
{
	uint32_t k[7] = {0}, a, b, c;

	memcpy(k, (const uint8_t[]){1, 128, 0x20, 1}, 4);
	k[1] = (uint32_t)x;
	a = b = c = RTE_JHASH_GOLDEN_RATIO + sizeof(k);
	a += k[0];
	b += k[1];
	__rte_jhash_mix(a, b, c);
	k[3] = 0x11111111 - a;
	k[4] = 0x22220000 - b; /* the address' end, and padding */
	k[5] = 0x33333333 - c;
	k[6] = 1;
	static_assert(sizeof(*path) == sizeof(k), "laid out as here");
	memcpy(path, k, sizeof(k));
	return !(k[4] >> 16);
}

/* A peer picks its next hops, and not how many of them have to be looked through. */
static void test_peer_picks_no_bucket(void **state)
{
	struct harness *h = make();
	struct vnf *v = vnf_of(h, 0);
	struct spec spec = {.kind = SPEC_PATHS, .n_paths = 1};
	unsigned int made = 0, longest = 0;
	uint32_t hash = 0;

	(void)state;
	for (uint64_t x = 0; made < 256; x++) {
		if (!colliding(x, &spec.paths[0]))
			continue;
		if (!made)
			hash = rte_jhash(spec.paths, sizeof(spec.paths[0]), SPEC_PATHS);
		assert_int_equal(rte_jhash(spec.paths, sizeof(spec.paths[0]), SPEC_PATHS), hash);
		assert_non_null(user_get(v, &spec));
		made++;
	}
	for (unsigned int i = 0; i < BUCKETS; i++) {
		unsigned int n = 0;

		for (const struct user *u = v->users[i]; u; u = u->next)
			n++;
		longest = RTE_MAX(longest, n);
	}
	assert_in_range(longest, 1, 16);
	harness_free(h);
}

static void test_quota_of_nodes(void **state)
{
	struct harness *h = make(); /* 4096 nodes */
	struct netlink a = {.vnf = vnf_of(h, 0), .routes = true};
	struct netlink b = {.vnf = vnf_of(h, 1), .routes = true};
	unsigned int had = 0;

	(void)state;
	feed_next_hop(&a, 1, 2, 2);
	feed_next_hop(&b, 1, 1, 1);
	/* Each /24 of another /16 takes a node. */
	for (unsigned int i = 0; i < 4096; i++) {
		uint8_t prefix[4] = {(uint8_t)(20 + (i >> 8)), (uint8_t)i, 1, 0};

		feed_route(&a, RTM_NEWROUTE, prefix, 24, RTN_UNICAST, 1);
	}
	assert_true(vnf_of(h, 0)->no_room > 0);
	for (unsigned int i = 0; i < 4096 && !vnf_of(h, 1)->no_room; i++, had++) {
		uint8_t prefix[4] = {(uint8_t)(20 + (i >> 8)), (uint8_t)i, 1, 0};

		feed_route(&b, RTM_NEWROUTE, prefix, 24, RTN_UNICAST, 1);
	}
	assert_in_range(had, 2048 - 32, 2048); /* a prefix may take 14: so few are left over */
	/* What is there already may change though no room is left. */
	feed_next_hop(&a, 2, 3, 2);
	feed_route(&a, RTM_NEWROUTE, (const uint8_t[]){20, 0, 1, 0}, 24, RTN_UNICAST, 2);
	assert_int_equal(send_to(h, "20.0.1.9"), 1);
	assert_int_equal(mac_out(h), 3);
	harness_free(h);
}

/* Packets for one VNF, as many as come, keep no other's away. */
static void test_punts_are_shared(void **state)
{
	static const uint8_t mac_b[] = {2, 0, 0, 0, 0x0b, 0};
	struct harness *h = make();
	unsigned int b = 0;

	(void)state;
	for (unsigned int i = 0; i < 20000; i++)
		send_to(h, "10.0.0.1");
	assert_true(harness_dropped(h, "punt-limit") > 1000);
	for (unsigned int i = 0; i < 1000; i++)
		b += send_with(h, mac_b, 1, "10.1.0.4", 64, 1) == PUNT;
	assert_int_equal(b, 1000);
	harness_free(h);
}

static void test_multipath(void **state)
{
	struct harness *h = make();
	struct netlink nl = {.vnf = vnf_of(h, 0), .routes = true};
	unsigned int by[4] = {0};

	(void)state;
	feed_next_hop(&nl, 1, 2, 2);
	feed_next_hop(&nl, 2, 3, 2);
	feed_group(&nl, 3, 1, 2, 3);
	feed_route(&nl, RTM_NEWROUTE, any, 0, RTN_UNICAST, 3);
	for (uint16_t sport = 1; sport <= 4000; sport++) {
		assert_int_equal(send_with(h, mac_a0, 0, "192.0.2.1", 64, sport), 1);
		by[mac_out(h)]++;
	}
	assert_true(by[2] > 800 && by[2] < 1200 && by[3] > 2800); /* 1 to 3 */
	feed_id(&nl, RTM_DELNEXTHOP, 1);
	assert_int_equal(send_to(h, "192.0.2.1"), 1);
	assert_int_equal(mac_out(h), 3);
	harness_free(h);
}

/* A prefix on the link wins over a route to it, which is there again when the address goes. */
static void test_own_over_route(void **state)
{
	struct harness *h = make();
	struct netlink nl = {.vnf = vnf_of(h, 0), .routes = true};
	static const uint8_t on_link[4] = {10, 0, 0, 0};
	struct address a = {.len = 24, .bytes = {10, 0, 0, 1}};

	(void)state;
	feed_next_hop(&nl, 1, 2, 2);
	feed_route(&nl, RTM_NEWROUTE, on_link, 24, RTN_UNICAST, 1);
	assert_int_equal(send_to(h, "10.0.0.77"), PUNT);
	vnf_address_del(nl.vnf, 1, &a);
	assert_int_equal(send_to(h, "10.0.0.77"), 1);
	vnf_address_put(nl.vnf, 1, &a);
	assert_int_equal(send_to(h, "10.0.0.77"), PUNT);
	harness_free(h);
}

static void sweep_when_due(struct vnf *v, uint64_t now_ns)
{
	assert_true(vnf_sweep_due(v, now_ns));
	vnf_sweep_some(v, now_ns, 0);
	assert_false(vnf_sweep_due(v, now_ns));
}

static void test_hold(void **state)
{
	struct harness *h = make();
	struct vnf *v = vnf_of(h, 0);
	struct netlink nl = {.vnf = v, .routes = true};
	const uint64_t s = 1000000000;

	(void)state;
	vnf_session_begin(v, s);
	feed_next_hop(&nl, 1, 2, 2);
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 1);
	feed_route(&nl, RTM_NEWROUTE, any, 0, RTN_UNICAST, 1);
	assert_false(vnf_sweep_due(v, 10 * s));
	vnf_session_end(v, 20 * s);
	assert_false(vnf_sweep_due(v, 29 * s));
	assert_int_equal(send_to(h, "10.2.3.4"), 1); /* held */
	vnf_session_begin(v, 29 * s);
	feed_next_hop(&nl, 1, 3, 2);
	feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 1);
	assert_int_equal(send_to(h, "192.0.2.1"), 1);
	sweep_when_due(v, 40 * s);
	assert_int_equal(v->swept, 1);
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	assert_int_equal(send_to(h, "192.0.2.1"), NOT_SENT); /* not announced again */
	vnf_session_end(v, 41 * s);
	sweep_when_due(v, 52 * s);
	assert_int_equal(send_to(h, "10.2.3.4"), NOT_SENT);
	assert_int_equal(send_to(h, "10.1.0.2"), 1); /* the link's own stay */
	harness_free(h);
}

/* One that holds nothing, and whose peer announces and leaves: the next sweep is not at once. */
static void test_sweeps_are_apart(void **state)
{
	struct harness *h = make();
	struct vnf *v = vnf_of(h, 0);
	struct netlink nl = {.vnf = v, .routes = true};
	const uint64_t s = 1000000000;

	(void)state;
	v->hold_ns = 0;
	for (unsigned int turn = 1; turn <= 2; turn++) {
		vnf_session_begin(v, 100 * s);
		feed_next_hop(&nl, 1, 2, 2);
		feed_route(&nl, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 1);
		vnf_session_end(v, 100 * s);
		assert_int_equal(vnf_sweep_due(v, 100 * s), turn == 1);
		if (turn == 1)
			sweep_when_due(v, 100 * s);
		assert_int_equal(v->swept, 1);
	}
	sweep_when_due(v, 200 * s);
	assert_int_equal(v->swept, 2);
	harness_free(h);
}

/*
 * Others' routes and requests wait for a piece of it: a node's routes at most, though a table has so many;
 * and a session that comes in between has those that it announces.
 */
static void test_sweeps_are_in_pieces(void **state)
{
	struct harness *h = make();
	struct vnf *v = vnf_of(h, 0);
	struct netlink nl = {.vnf = v, .routes = true};
	uint64_t swept = 0, pieces = 0;

	(void)state;
	v->hold_ns = 0;
	vnf_session_begin(v, 1);
	feed_next_hop(&nl, 1, 2, 2);
	for (unsigned int i = 0; i < 2000; i++)
		feed_route(&nl, RTM_NEWROUTE, (const uint8_t[]){20, (uint8_t)(i >> 8), (uint8_t)i, 0}, 24,
			   RTN_UNICAST, 1);
	vnf_session_end(v, 1);
	for (; vnf_sweep_due(v, 1) && v->routes[0] > 1000; swept = v->swept, pieces++) {
		vnf_sweep_some(v, 1, 1); /* that was long ago */
		assert_in_range(v->swept - swept, 0, 256);
	}
	assert_in_range(pieces, 4, 4096);
	vnf_session_begin(v, 2);
	feed_next_hop(&nl, 1, 2, 2);
	feed_route(&nl, RTM_NEWROUTE, (const uint8_t[]){20, 0, 1, 0}, 24, RTN_UNICAST, 1);
	vnf_sweep_some(v, 2, 1); /* what went before counts, and it begins anew later */
	assert_false(vnf_sweep_due(v, 2));
	while (vnf_sweep_due(v, UINT64_MAX))
		vnf_sweep_some(v, 3, 1);
	assert_int_equal(v->routes[0], 1);
	assert_int_equal(send_to(h, "20.0.1.9"), 1);
	assert_int_equal(send_to(h, "20.7.1.9"), NOT_SENT);
	harness_free(h);
}

/* However many addresses a kernel has: they take no nodes of which another VNF is sure, nor all memory. */
static void test_quota_of_addresses(void **state)
{
	struct harness *h = make(); /* 4096 nodes */
	struct netlink b = {.vnf = vnf_of(h, 1), .routes = true};
	struct vnf *v = vnf_of(h, 0);
	struct address a = {.ipv6 = 1, .len = 64, .bytes = {0x20, 1}};
	uint32_t had = v->n_own;

	(void)state;
	for (unsigned int i = 0; i < 4096; i++) {
		memcpy(a.bytes + 2, &i, sizeof(i));
		vnf_address_put(v, 1, &a);
		vnf_neighbour_put(v, 1, &a, mac_b0);
	}
	assert_true(v->no_room > 0);
	feed_next_hop(&b, 1, 1, 1);
	for (unsigned int i = 0; i < 2000; i++)
		feed_route(&b, RTM_NEWROUTE, (const uint8_t[]){(uint8_t)(20 + (i >> 8)), (uint8_t)i, 1, 0},
			   24, RTN_UNICAST, 1);
	assert_int_equal(vnf_of(h, 1)->no_room, 0);
	for (unsigned int i = 0; i < 4096; i++) {
		memcpy(a.bytes + 2, &i, sizeof(i));
		vnf_neighbour_del(v, 1, &a);
		vnf_address_del(v, 1, &a);
	}
	assert_int_equal(v->n_own, had);
	harness_free(h);
	h = make();
	v = vnf_of(h, 0);
	v->router->objects = 100;
	for (unsigned int i = 0; i < 1000; i++) {
		memcpy(a.bytes + 12, &i, sizeof(i));
		vnf_address_put(v, 1, &a);
	}
	assert_int_equal(v->n_own, 200);
	harness_free(h);
}

/* Its prefix and itself are one (fuzz_fpm, with AddressSanitizer: what was freed was read). */
static void test_an_address_without_a_link(void **state)
{
	struct harness *h = make();
	struct vnf *v = vnf_of(h, 0);
	const struct address a = {.len = 32, .bytes = {10, 9, 9, 9}};
	uint32_t had = v->n_own;

	(void)state;
	vnf_address_put(v, 1, &a);
	assert_int_equal(send_to(h, "10.9.9.9"), PUNT);
	vnf_address_del(v, 1, &a);
	assert_int_equal(send_to(h, "10.9.9.9"), NOT_SENT);
	assert_int_equal(v->n_own, had);
	harness_free(h);
}

static void test_between_vnfs(void **state)
{
	struct harness *h = make();
	struct netlink a = {.vnf = vnf_of(h, 0), .routes = true}, b = {.vnf = vnf_of(h, 1), .routes = true};

	(void)state;
	feed_next_hop(&a, 1, 4, 2);
	feed_route(&a, RTM_NEWROUTE, any, 0, RTN_UNICAST, 1);
	feed_next_hop(&b, 1, 9, 1);
	feed_route(&b, RTM_NEWROUTE, net10_2, 16, RTN_UNICAST, 1);
	assert_int_equal(send_to(h, "10.2.3.4"), 1);
	assert_int_equal(mac_out(h), 9);
	assert_memory_equal(h->out[0].data + 6, mac_b0, 6);
	assert_int_equal(h->out[0].data[14 + 8], 62); /* two routers */
	assert_int_equal(send_with(h, mac_a0, 0, "10.2.3.4", 2, 1), PUNT); /* b's ICMP */
	/* And each points at the other. */
	feed_next_hop(&b, 2, 1, 1);
	feed_route(&b, RTM_NEWROUTE, any, 0, RTN_UNICAST, 2);
	assert_int_equal(send_to(h, "192.0.2.1"), NOT_SENT);
	assert_int_equal(harness_dropped(h, "loop"), 1);
	harness_free(h);
}

static void test_from_vnf(void **state)
{
	struct harness *h = make();
	uint8_t frame[60] = {2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 0x0a, 1, 0x08, 0x06};
	struct harness_packet p = {frame, sizeof(frame), 1};

	(void)state;
	harness_run(h, NF_REVERSE, 1, &p, 1);
	assert_int_equal(h->n_out, 1);
	assert_int_equal(h->out[0].edge, 1);
	memset(frame, 0xff, 6); /* to the wire, and to b */
	harness_forget(h);
	harness_run(h, NF_REVERSE, 1, &p, 1);
	assert_int_equal(h->n_out, 2);
	assert_int_equal(h->out[0].edge + h->out[1].edge, 1 + PUNT);
	memcpy(frame, mac_b0, 6);
	harness_forget(h);
	harness_run(h, NF_REVERSE, 1, &p, 1);
	assert_int_equal(h->out[0].edge, PUNT);
	harness_free(h);
}

/* Every cut of a frame, every lie in a length: refused or ignored, never read beyond. */
static void test_garbage(void **state)
{
	struct harness *h = make();
	struct netlink nl = {.vnf = vnf_of(h, 0), .routes = true};
	struct rtmsg rtm = {.rtm_family = AF_INET, .rtm_dst_len = 16, .rtm_type = RTN_UNICAST};
	struct frame f;
	bool done = false;

	(void)state;
	begin(&f, RTM_NEWROUTE);
	put(&f, &rtm, sizeof(rtm));
	attribute(&f, RTA_DST, net10_2, 4);
	attribute(&f, RTA_GATEWAY, net10_2, 4);
	finish(&f);
	for (size_t cut = 0; cut < f.len; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);

		memcpy(exact, f.buf, cut);
		assert_int_equal(fpm_parse(&nl, exact, cut), 0); /* more is awaited */
		if (cut > 4)
			netlink_parse(&nl, exact + 4, cut - 4, &done);
		free(exact);
	}
	assert_int_equal(nl.vnf->routes[0], 0);
	for (size_t at = 4; at < f.len; at++)
		for (unsigned int value = 0; value < 256; value += 5) {
			struct frame g = f;

			g.buf[at] = (uint8_t)value;
			fpm_parse(&nl, g.buf, g.len);
			netlink_idle(&nl);
		}
	f.buf[0] = 2;
	assert_int_equal(fpm_parse(&nl, f.buf, f.len), -EPROTO);
	harness_free(h);
}

static void test_zoo(void **state)
{
	struct craft_list list = {0};
	struct err err = {0};
	struct harness *h;

	(void)state;
	craft_zoo(&list);
	h = harness_run_all("router", PARAMS, NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	harness_free(h);
	h = harness_run_all("router", PARAMS, NULL, NF_REVERSE, list.packets, list.n, &err);
	assert_non_null(h);
	harness_free(h);
	craft_list_free(&list);
}

static void refused(const char *params, const char *place)
{
	struct err err = {0};

	assert_null(harness_new("router", params, NULL, &err));
	assert_string_equal(err.path, place);
}

static void test_bad_params(void **state)
{
	(void)state;
	refused("{\"vnfs\": []}", "params.vnfs");
	refused("{\"vnfs\": [{\"name\": \"a\", \"learn\": \"kernel\", \"interfaces\": []}]}",
		"params.vnfs[0]");
	refused("{\"vnfs\": [{\"name\": \"a\", \"learn\": \"none\", \"interfaces\": ["
		"{\"name\": \"e\", \"mac\": \"02:00:00:00:00:01\"},"
		"{\"name\": \"f\", \"mac\": \"02:00:00:00:00:01\"}]}]}",
		"params.vnfs[0].interfaces[1]");
	refused("{\"vnfs\": [{\"name\": \"a\", \"learn\": \"none\", \"interfaces\": []},"
		"{\"name\": \"a\", \"learn\": \"none\", \"interfaces\": []}]}",
		"params.vnfs[1]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),         cmocka_unit_test(test_objects),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_peer_picks_no_bucket),
		cmocka_unit_test(test_quota_of_nodes),
		cmocka_unit_test(test_punts_are_shared),     cmocka_unit_test(test_multipath),
		cmocka_unit_test(test_own_over_route), cmocka_unit_test(test_hold),
		cmocka_unit_test(test_sweeps_are_apart), cmocka_unit_test(test_sweeps_are_in_pieces),
		cmocka_unit_test(test_quota_of_addresses),
		cmocka_unit_test(test_an_address_without_a_link),
		cmocka_unit_test(test_between_vnfs), cmocka_unit_test(test_from_vnf),
		cmocka_unit_test(test_garbage),     cmocka_unit_test(test_zoo),
		cmocka_unit_test(test_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
