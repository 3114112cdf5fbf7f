/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const behaviours[] = {"endpoint-dependent", "endpoint-independent", NULL};

#define SECONDS(field, name_, def_, text)                                                          \
	{.name = name_, .type = PARAM_DOUBLE, .min = 0.1, .max = 864000, .unit = "s", .def = def_,  \
	 .offset = offsetof(struct nat_params, field), .doc = text}

static const struct param nat_params[] = {
	{.name = "pool", .type = PARAM_IP, .list = true, .required = true,
	 .offset = offsetof(struct nat_params, pool), .doc = "outside IPv4 addresses"},
	{.name = "inside", .type = PARAM_IP, .list = true, .offset = offsetof(struct nat_params, inside),
	 .doc = "IPv4 prefixes whose packets are translated on their way out; absent: all. Others pass "
		"unchanged."},
	{.name = "static", .type = PARAM_OBJECT, .list = true, .fields = nat_static_params,
	 .fields_size = sizeof(struct nat_static_params),
	 .offset = offsetof(struct nat_params, statics),
	 .doc = "Servers inside that can be reached from outside (destination NAT)."},
	{.name = "mapping", .type = PARAM_ENUM, .choices = behaviours,
	 .def = "\"endpoint-dependent\"", .offset = offsetof(struct nat_params, mapping),
	 .doc = "RFC 4787 section 4.1. endpoint-independent: an inside endpoint has one outside "
		"endpoint towards everybody; only with one replica, as the worker that a packet comes back "
		"to depends on the remote endpoint."},
	{.name = "filtering", .type = PARAM_ENUM, .choices = behaviours,
	 .def = "\"endpoint-dependent\"", .offset = offsetof(struct nat_params, filtering),
	 .doc = "RFC 4787 section 5. endpoint-independent: anybody may send to a mapped outside "
		"endpoint; needs endpoint-independent mapping."},
	{.name = "port_min", .type = PARAM_UINT, .min = 1, .max = 65535, .def = "1024",
	 .offset = offsetof(struct nat_params, port_min), .doc = "lowest outside port or identifier"},
	{.name = "port_max", .type = PARAM_UINT, .min = 1, .max = 65535, .def = "65535",
	 .offset = offsetof(struct nat_params, port_max), .doc = "highest outside port or identifier"},
	{.name = "seed", .type = PARAM_UINT, .max = UINT32_MAX, .def = "0",
	 .offset = offsetof(struct nat_params, seed),
	 .doc = "of the choice of ports, to have the same each time; 0: the kernel's, so that nobody can "
		"guess them"},
	{.name = "sessions", .type = PARAM_UINT, .min = 1, .max = FLOW_CAPACITY_MAX / 2,
	 .def = "131072", .unit = "sessions", .offset = offsetof(struct nat_params, sessions),
	 .doc = "capacity of each worker, 128 B and an index of 21 to 43 B per session; when full, new "
		"sessions are dropped"},
	SECONDS(established_s, "established_timeout_s", "7440", "TCP, established; RFC 5382 REQ-5"),
	SECONDS(transitory_s, "transitory_timeout_s", "240",
		"TCP, opening, closing or begun in the middle; RFC 5382 REQ-5"),
	SECONDS(udp_s, "udp_timeout_s", "300", "UDP; RFC 4787 REQ-5"),
	SECONDS(icmp_s, "icmp_timeout_s", "60", "ICMP queries; RFC 5508 REQ-2"),
	SECONDS(fragment_s, "fragment_timeout_s", "30",
		"a datagram whose fragments have not all come; what is held is dropped"),
	{.name = "datagrams", .type = PARAM_UINT, .min = 1, .max = 1048576, .def = "1024",
	 .unit = "datagrams", .offset = offsetof(struct nat_params, datagrams),
	 .doc = "bound, per worker, on fragmented datagrams at a time"},
	{.name = "held_fragments", .type = PARAM_UINT, .max = 1048576, .def = "1024",
	 .unit = "packets", .offset = offsetof(struct nat_params, held_fragments),
	 .doc = "bound, per worker, on fragments held because they came before their first one"},
	{0},
};

int nat_check_host4(const struct param_ip *ip, const char *path, struct err *err)
{
	if (ip->family == 4 && ip->len == 32)
		return 0;
	return err_set(err, EINVAL, path, "an IPv%u %s; an IPv4 host address is wanted", ip->family,
		       ip->len < 32 ? "prefix" : "address");
}

static int check_lists(const struct nat_params *p, struct err *err)
{
	const struct nat_static_params *statics = p->statics.items;
	const struct param_ip *ips = p->pool.items;
	char path[64];
	int rc = 0;

	for (size_t i = 0; i < p->pool.count && !rc; i++) {
		snprintf(path, sizeof(path), "params.pool[%zu]", i);
		rc = nat_check_host4(&ips[i], path, err);
	}
	for (size_t i = 0; i < p->statics.count && !rc; i++) {
		snprintf(path, sizeof(path), "params.static[%zu].inside", i);
		rc = nat_check_host4(&statics[i].inside, path, err);
		snprintf(path, sizeof(path), "params.static[%zu].outside", i);
		if (!rc)
			rc = nat_check_host4(&statics[i].outside, path, err);
	}
	ips = p->inside.items;
	for (size_t i = 0; i < p->inside.count && !rc; i++) {
		snprintf(path, sizeof(path), "params.inside[%zu]", i);
		if (ips[i].family != 4)
			rc = err_set(err, EINVAL, path, "IPv6; IPv4 prefixes are translated only");
	}
	return rc ? rc : nat_statics_check(p, err);
}

static int check_elastic(const struct nat_params *p, struct err *err)
{
	unsigned int ports = (unsigned int)(p->port_max - p->port_min + 1);

	if (p->mapping == NAT_ENDPOINT_INDEPENDENT)
		return err_set(err, EINVAL, "params.mapping",
			       "endpoint-independent in an elastic segment, where no bucket has all "
			       "sessions of a mapping; allowed: endpoint-dependent");
	if (p->statics.count)
		return err_set(err, EINVAL, "params.static",
			       "in an elastic segment, where what begins outside is in another bucket than "
			       "its answers; allowed: none");
	if (ports < PKT_BUCKETS)
		return err_set(err, EINVAL, "params.port_min",
			       "%u ports in an elastic segment, each of whose %u buckets has some; "
			       "allowed: as many or more", ports, PKT_BUCKETS);
	return 0;
}

static int check_params(const struct nf *nf, struct err *err)
{
	const struct nat_params *p = nf->conf;

	if (!p->pool.count)
		return err_set(err, EINVAL, "params.pool", "is empty; at least one address is wanted");
	if (p->port_min > p->port_max)
		return err_set(err, EINVAL, "params.port_min", "%u is above port_max, %u",
			       (unsigned int)p->port_min, (unsigned int)p->port_max);
	if (p->filtering == NAT_ENDPOINT_INDEPENDENT && p->mapping != NAT_ENDPOINT_INDEPENDENT)
		return err_set(err, EINVAL, "params.filtering",
			       "endpoint-independent needs mapping: endpoint-independent too");
	if (nf->owners && check_elastic(p, err))
		return -EINVAL;
	if (p->mapping == NAT_ENDPOINT_INDEPENDENT && nf->workers > 1)
		return err_set(err, EINVAL, "params.mapping",
			       "endpoint-independent with %u replicas, of which one knows a mapping, and "
			       "packets of new remote endpoints go to any; allowed: 1 replica, or "
			       "endpoint-dependent", nf->workers);
	return check_lists(p, err);
}

static void nat_fini(struct nf *nf)
{
	struct nat *nat = nf->state;

	if (!nat)
		return;
	snapshot_fini(&nat->statics);
	free(nat);
	nf->state = NULL;
}

static int nat_init(struct nf *nf, struct err *err)
{
	struct nat_statics *statics;
	struct nat *nat;
	int rc = check_params(nf, err);

	if (rc)
		return rc;
	nat = nf->state = calloc(1, sizeof(*nat));
	statics = nat ? nat_statics_make(nf->conf, err) : NULL;
	if (statics)
		rc = snapshot_init(&nat->statics, nf->workers, statics, nat_statics_free, err);
	else
		rc = err_set(err, ENOMEM, "params", "out of memory");
	if (rc)
		nat_fini(nf);
	return rc;
}

static void nat_worker_fini(struct nf_worker *w)
{
	struct nat_worker *nat = w->state;

	if (!nat)
		return;
	snapshot_offline(&nat->shared->statics, w->index);
	fragments_fini(&nat->fragments);
	flow_destroy(nat->sessions);
	flow_destroy(nat->mappings);
	if (!shared_first(w))
		nat_ports_fini(&nat->progress);
	free(nat);
	w->state = NULL;
}

static void set_timeouts(struct nat_worker *nat, const struct nat_params *p)
{
	for (unsigned int s = 0; s < TRACK_STATES; s++)
		nat->timeouts[s] = flow_ticks((uint64_t)(p->transitory_s * 1000));
	nat->timeouts[TRACK_ESTABLISHED] = flow_ticks((uint64_t)(p->established_s * 1000));
	nat->timeouts[TRACK_UDP] = flow_ticks((uint64_t)(p->udp_s * 1000));
	nat->timeouts[TRACK_UDP_REPLIED] = nat->timeouts[TRACK_UDP];
	nat->timeouts[TRACK_ICMP] = flow_ticks((uint64_t)(p->icmp_s * 1000));
}

static const struct fragments_ops fragments = {
	.first = nat_first_fragment,
	.later = nat_later_fragment,
	.drop_bad = DROP_FRAGMENT,
	.drop_overlap = DROP_FRAGMENT_OVERLAP,
	.drop_limit = DROP_FRAGMENT_LIMIT,
	.drop_timeout = DROP_FRAGMENT_TIMEOUT,
};

static int nat_worker_init(struct nf_worker *w, struct err *err)
{
	const struct nat_params *p = w->nf->conf;
	const struct nat_worker *first = shared_first(w);
	struct nat_worker *nat = w->state = calloc(1, sizeof(*nat));
	struct flow_conf conf = {.family = FLOW_IPV4, .capacity = (uint32_t)p->sessions * 2,
				 .state_bytes = sizeof(struct nat_way), .socket_id = w->socket_id};
	struct fragments_conf fragments_conf = {.datagrams = p->datagrams,
						.held_max = p->held_fragments,
						.timeout_s = p->fragment_s,
						.socket_id = w->socket_id};
	int rc;

	if (!nat)
		return err_set(err, ENOMEM, "params", "out of memory");
	nat->params = p;
	nat->shared = w->nf->state;
	snapshot_online(&nat->shared->statics, w->index);
	nat->statics = snapshot_read(&nat->shared->statics, w->index);
	set_timeouts(nat, p);
	if (first)
		nat->progress = first->progress;
	rc = first ? 0 : nat_ports_init(&nat->progress, w, err);
	if (!rc)
		rc = shared_flows(w, &conf, first ? first->sessions : NULL, &nat->sessions, err);
	conf.state_bytes = sizeof(struct nat_map);
	if (!rc)
		rc = shared_flows(w, &conf, first ? first->mappings : NULL, &nat->mappings, err);
	if (!rc)
		rc = fragments_init(&nat->fragments, w, first ? &first->fragments : NULL, &fragments,
				    &fragments_conf, err);
	if (rc)
		nat_worker_fini(w);
	return rc;
}

static void nat_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct nat_worker *nat = w->state;
	uint32_t now = flow_now(now_tsc);

	nat->statics = snapshot_read(&nat->shared->statics, w->index);
	fragments_tick(&nat->fragments, w, now);
	w->counters[C_EXPIRED] += flow_age(nat->sessions, now, nat_session_gone, nat);
	flow_age(nat->mappings, now, nat_mapping_gone, nat);
	w->counters[C_SESSIONS] = flow_count(nat->sessions) / 2;
	w->counters[C_MAPPINGS] = flow_count(nat->mappings) / 2;
}

static void nat_rest(struct nf_worker *w, bool rests)
{
	struct nat_worker *nat = w->state;

	snapshot_rest(&nat->shared->statics, w->index, rests);
	if (rests)
		w->counters[C_SESSIONS] = w->counters[C_MAPPINGS] = 0;
}

static const char *const drops[] = {
	[DROP_PORTS_EXHAUSTED] = "ports-exhausted",
	[DROP_TABLE_FULL] = "table-full",
	[DROP_NO_MAPPING] = "no-mapping",
	[DROP_FRAGMENT] = "fragment",
	[DROP_ICMP_UNRELATED] = "icmp-unrelated",
	[DROP_UNSUPPORTED] = "unsupported-protocol",
	[DROP_FRAGMENT_OVERLAP] = "fragment-overlap",
	[DROP_FRAGMENT_LIMIT] = "fragment-limit",
	[DROP_FRAGMENT_TIMEOUT] = "fragment-timeout",
	[DROP_HAIRPIN_FULL] = "hairpin-full",
	NULL,
};
static const char *const counters[] = {
	[C_HITS] = "hits",	   [C_NEW] = "new-sessions",   [C_EXPIRED] = "expired",
	[C_RELATED] = "related",   [C_SESSIONS] = "sessions",  [C_MAPPINGS] = "mappings",
	[C_HAIRPINNED] = "hairpinned", [C_TRIES] = "ports-tried", NULL,
};

static const char *nat_apart(const void *conf)
{
	(void)conf;
	return "it holds fragments";
}

static const char *nat_untold(const void *conf)
{
	const struct nat_params *p = conf;

	return p->inside.count ? "`inside`, so that others pass as they are" : NULL;
}

static const struct nf_ops nat_ops = {
	.name = "nat",
	.doc = "IPv4 network address and port translation. In the forward direction sources inside get an "
	       "address and a port of the pool; in the reverse direction packets to the pool go back to whom "
	       "they belong, or to a static mapping's server. TCP, UDP, ICMP queries, and ICMP errors with "
	       "the packet that they carry. Workers share nothing: each takes such outside ports only that "
	       "answers are steered back to it. When ports or sessions run out, new sessions are dropped by "
	       "reason and known ones go on. Packets that are not IPv4, come from elsewhere than inside, or "
	       "go elsewhere than to the pool, pass unchanged. From inside to an outside endpoint of another "
	       "host inside: both addresses are translated, and the packet turns back (hairpinning): it "
	       "leaves in the reverse direction. Fragments are translated as their datagram's first one, and "
	       "held until it comes. update: {op: add | remove, protocol, inside, inside_port, outside, "
	       "outside_port}: static mappings; sessions that one began outlive it.",
	.standards = "RFC 3022 (NAPT), RFC 4787 (UDP: mapping and filtering by parameter, paired pooling, "
		     "timeouts), RFC 5382 (TCP timeouts by state), RFC 5508 (ICMP queries and errors), RFC "
		     "1624 (checksums), RFC 6056 (outside ports by a keyed hash, 3.3.4; at most 512 are "
		     "tried, so a pool counts as exhausted towards a remote endpoint when about one "
		     "port of 500 is left, and for 100 ms after that), endpoint-independent "
		     "mapping, hairpinning (RFC 4787 REQ-9: towards static mappings, and "
		     "endpoint-independent ones) and fragments in any order (REQ-14), all three with one "
		     "replica: packets are "
		     "steered by their whole tuple, so that others would have to know the session; "
		     "hairpinned fragments are dropped. Left out: address-dependent filtering as "
		     "such, application-level gateways, SCTP. ICMP queries have no ports to steer by: "
		     "with several replicas they need as many pool addresses.",
	.params = nat_params,
	.conf_size = sizeof(struct nat_params),
	.drops = drops,
	.policy_drops = 1u << DROP_NO_MAPPING | 1u << DROP_ICMP_UNRELATED,
	.counters = counters,
	.reads = NF_F_5TUPLE | NF_F_L4_FLAGS,
	.writes = NF_F_SRC_IP | NF_F_DST_IP | NF_F_SRC_PORT | NF_F_DST_PORT,
	.may_drop = true,
	.category = NF_NETWORK_ORIENTED,
	.state_key = NF_STATE_FLOW,
	.apart = nat_apart,
	.wants_headers = true,
	.elastic = true,
	.trails = true,
	.keeps = &nat_keeps,
	.rest = nat_rest,
	.bucket_of = nat_bucket_of,
	.untold = nat_untold,
	.init = nat_init,
	.fini = nat_fini,
	.worker_init = nat_worker_init,
	.worker_fini = nat_worker_fini,
	.process = nat_process,
	.flow_action = nat_flow_action,
	.tick = nat_tick,
	.update = nat_update,
};
NF_REGISTER(nat_ops)
