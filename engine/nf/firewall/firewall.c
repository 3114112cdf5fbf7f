/* SPDX-License-Identifier: Apache-2.0 */
#include "firewall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define POLICY(prefix, base, def_doc)                                                              \
	{.name = prefix "rules", .type = PARAM_OBJECT, .list = true,                               \
	 .offset = (base) + offsetof(struct fw_policy_params, rules), .fields = acl_rule_params,   \
	 .fields_size = sizeof(struct acl_rule_conf),                                              \
	 .doc = "What may begin a flow in this direction; the first rule that matches wins. They " \
		"come before those of the file."},                                                 \
	{.name = prefix "rules_file", .type = PARAM_FILE,                                          \
	 .offset = (base) + offsetof(struct fw_policy_params, rules_file),                         \
	 .doc = "Filters in ClassBench format, that all permit."},                                 \
	{.name = prefix "default", .type = PARAM_ENUM, .choices = acl_actions, .def = "\"deny\"",  \
	 .offset = (base) + offsetof(struct fw_policy_params, default_action), .doc = def_doc}

#define POLICIES(base)                                                                             \
	POLICY("", (base) + NF_FORWARD * sizeof(struct fw_policy_params),                          \
	       "Flows that begin in the forward direction and that no rule matches."),             \
	POLICY("reverse_", (base) + NF_REVERSE * sizeof(struct fw_policy_params),                  \
	       "Flows that begin in the reverse direction and that no rule matches.")

#define TIMEOUT(field, seconds, text)                                                              \
	{.name = #field "_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 864000, .unit = "s", \
	 .def = seconds, .offset = offsetof(struct fw_params, timeout_s.field), .doc = text}

static const struct param fw_params[] = {
	POLICIES(0),
	{.name = "flows", .type = PARAM_UINT, .min = 1, .max = FLOW_CAPACITY_MAX, .def = "262144",
	 .unit = "flows", .offset = offsetof(struct fw_params, flows),
	 .doc = "Capacity of each worker's flow table, for IPv4 and IPv6 each; when full, new flows are "
		"dropped (table-full)."},
	{.name = "half_open", .type = PARAM_UINT, .max = FLOW_CAPACITY_MAX, .def = "65536",
	 .unit = "flows", .offset = offsetof(struct fw_params, half_open),
	 .doc = "Bound, per worker, on TCP connections whose handshake is not complete; beyond it new "
		"ones are dropped (syn-flood) and others go on."},
	TIMEOUT(syn, "30", "TCP, handshake not complete."),
	TIMEOUT(established, "7440", "TCP, established; RFC 5382 REQ-5 asks for 2 h 4 min."),
	TIMEOUT(closing, "240", "TCP, after FIN or RST; RFC 5382 REQ-5."),
	TIMEOUT(udp, "30", "UDP, no answer seen."),
	TIMEOUT(udp_replied, "300", "UDP in both directions; RFC 4787 REQ-5."),
	TIMEOUT(icmp, "60", "ICMP queries; RFC 5508 REQ-2."),
	TIMEOUT(other, "600", "Other protocols, by addresses only."),
	TIMEOUT(fragment, "30", "A datagram whose fragments have not all come; what is held is dropped."),
	{.name = "datagrams", .type = PARAM_UINT, .min = 1, .max = 1048576, .def = "1024",
	 .unit = "datagrams", .offset = offsetof(struct fw_params, datagrams),
	 .doc = "Bound, per worker and family, on fragmented datagrams at a time."},
	{.name = "held_fragments", .type = PARAM_UINT, .max = 1048576, .def = "1024",
	 .unit = "packets", .offset = offsetof(struct fw_params, held_fragments),
	 .doc = "Bound, per worker, on fragments held because they came before their first one."},
	{.name = "tcp_loose", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct fw_params, tcp_loose),
	 .doc = "Permit TCP connections to be taken up in the middle, by an ACK."},
	{.name = "non_ip", .type = PARAM_ENUM, .choices = acl_actions, .def = "\"permit\"",
	 .offset = offsetof(struct fw_params, non_ip), .doc = "Frames that are not IP, as ARP."},
	{0},
};

static const struct param fw_update_params[] = {POLICIES(0), {0}};

static void rules_free(void *object)
{
	struct fw_rules *r = object;

	if (!r)
		return;
	for (unsigned int d = 0; d < NF_DIRECTIONS; d++)
		if (r->sets[d])
			acl_set_free(r->sets[d]);
	free(r);
}

static struct acl_set *make_set(const struct nf *nf, const struct fw_policy_params *p,
				const char *path, struct err *err)
{
	const struct acl_set_options options = {.socket_id = nf->socket_id};
	struct acl_rules rules = {0};
	struct acl_set *set = NULL;

	if (!acl_rules_add_conf(&rules, &p->rules, path, err) &&
	    (!p->rules_file || !classbench_load(p->rules_file, &rules, err)))
		set = acl_set_build(&rules, &options, err);
	acl_rules_free(&rules);
	return set;
}

static struct fw_rules *rules_make(const struct nf *nf, const struct fw_policy_params *policies,
				   const char *root, struct err *err)
{
	static const char *const names[] = {[NF_FORWARD] = "rules", [NF_REVERSE] = "reverse_rules"};
	struct fw_rules *r = calloc(1, sizeof(*r));
	char path[64];

	if (!r) {
		err_set(err, ENOMEM, root, "out of memory");
		return NULL;
	}
	for (unsigned int d = 0; d < NF_DIRECTIONS; d++) {
		snprintf(path, sizeof(path), "%s.%s", root, names[d]);
		r->default_deny[d] = policies[d].default_action == ACL_DENY;
		r->sets[d] = make_set(nf, &policies[d], path, err);
		if (!r->sets[d]) {
			rules_free(r);
			return NULL;
		}
	}
	return r;
}

static void fw_fini(struct nf *nf)
{
	struct fw *fw = nf->state;

	if (!fw)
		return;
	snapshot_fini(&fw->rules);
	free(fw);
	nf->state = NULL;
}

static int fw_init(struct nf *nf, struct err *err)
{
	const struct fw_params *p = nf->conf;
	struct fw *fw = nf->state = calloc(1, sizeof(*fw));
	struct fw_rules *rules;
	int rc = -EINVAL;

	if (!fw)
		return err_set(err, ENOMEM, "params", "out of memory");
	rules = rules_make(nf, p->policy, "params", err);
	if (rules)
		rc = snapshot_init(&fw->rules, nf->workers, rules, rules_free, err);
	if (rc)
		fw_fini(nf);
	return rc;
}

static void fw_worker_fini(struct nf_worker *w)
{
	struct fw_worker *fw = w->state;

	if (!fw)
		return;
	snapshot_offline(&fw->fw->rules, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++)
		flow_destroy(fw->flows[i]);
	fragments_fini(&fw->fragments);
	if (!shared_first(w))
		free(fw->half_open);
	free(fw);
	w->state = NULL;
}

static void set_timeouts(struct fw_worker *fw, const struct fw_timeouts *t)
{
	const double seconds[TRACK_STATES] = {
		[TRACK_SYN_SENT] = t->syn,
		[TRACK_SYN_RECEIVED] = t->syn,
		[TRACK_ESTABLISHED] = t->established,
		[TRACK_FIN_ORIGIN] = t->closing,
		[TRACK_FIN_REPLY] = t->closing,
		[TRACK_TIME_WAIT] = t->closing,
		[TRACK_RESET] = t->closing,
		[TRACK_UDP] = t->udp,
		[TRACK_UDP_REPLIED] = t->udp_replied,
		[TRACK_ICMP] = t->icmp,
		[TRACK_OTHER] = t->other,
	};

	for (unsigned int s = 0; s < TRACK_STATES; s++)
		fw->timeouts[s] = flow_ticks((uint64_t)(seconds[s] * 1000));
}

static const struct fragments_ops fragments = {
	.first = fw_first_fragment,
	.drop_bad = DROP_FRAGMENT,
	.drop_overlap = DROP_FRAGMENT_OVERLAP,
	.drop_limit = DROP_FRAGMENT_LIMIT,
	.drop_timeout = DROP_FRAGMENT_TIMEOUT,
};

static int fw_worker_init(struct nf_worker *w, struct err *err)
{
	const struct fw_params *p = w->nf->conf;
	const struct fw_worker *first = shared_first(w);
	struct fw_worker *fw = w->state = calloc(1, sizeof(*fw));
	struct fragments_conf fragments_conf = {.datagrams = p->datagrams,
						.held_max = p->held_fragments,
						.timeout_s = p->timeout_s.fragment,
						.socket_id = w->socket_id};
	int rc = 0;

	if (!fw)
		return err_set(err, ENOMEM, "params", "out of memory");
	fw->fw = w->nf->state;
	fw->half_open = first ? first->half_open : calloc(shared_buckets(w), sizeof(*fw->half_open));
	if (!fw->half_open) {
		fw_worker_fini(w);
		return err_set(err, ENOMEM, "params", "out of memory");
	}
	fw->half_open_max = w->owners ? RTE_MIN((uint32_t)p->half_open,
						flow_shard_capacity((uint32_t)p->half_open, PKT_BUCKETS))
				      : (uint32_t)p->half_open;
	set_timeouts(fw, &p->timeout_s);
	snapshot_online(&fw->fw->rules, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES && !rc; i++) {
		struct flow_conf conf = {.family = i, .capacity = (uint32_t)p->flows,
					 .socket_id = w->socket_id};

		rc = shared_flows(w, &conf, first ? first->flows[i] : NULL, &fw->flows[i], err);
	}
	if (!rc)
		rc = fragments_init(&fw->fragments, w, first ? &first->fragments : NULL, &fragments,
				    &fragments_conf, err);
	if (rc)
		fw_worker_fini(w);
	return rc;
}

static void count_half_open(struct nf_worker *w, const struct fw_worker *fw)
{
	w->counters[C_HALF_OPEN] = 0;
	for (unsigned int b = 0; b < shared_buckets(w); b++)
		if (shared_is_own(w, b))
			w->counters[C_HALF_OPEN] += fw->half_open[b];
}

static void fw_rest(struct nf_worker *w, bool rests)
{
	struct fw_worker *fw = w->state;

	snapshot_rest(&fw->fw->rules, w->index, rests);
	if (rests)
		w->counters[C_FLOWS] = w->counters[C_HALF_OPEN] = w->counters[C_HELD] = 0;
}

void fw_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct fw_worker *fw = w->state;
	uint32_t flows = 0;

	snapshot_read(&fw->fw->rules, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		struct fw_end end = {fw, fw->flows[i]};

		w->counters[C_EXPIRED] += flow_age(fw->flows[i], flow_now(now_tsc), fw_gone, &end);
		flows += flow_count(fw->flows[i]);
	}
	fragments_tick(&fw->fragments, w, flow_now(now_tsc));
	w->counters[C_HELD] = shared_first(w) ? 0 : fragments_held(&fw->fragments);
	w->counters[C_FLOWS] = flows;
	count_half_open(w, fw);
}

/* The rules of both directions anew; what is absent has its default. Flows that are known go on. */
static int fw_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct fw *fw = nf->state;
	struct fw_policy_params policies[NF_DIRECTIONS] = {0};
	struct fw_rules *rules;
	int rc = param_parse(fw_update_params, op, "op", policies, err);

	if (rc)
		return rc;
	rules = rules_make(nf, policies, "op", err);
	param_free(fw_update_params, policies);
	if (!rules)
		return -EINVAL;
	if (reply)
		*reply = json_pack("{s:I, s:I}", "rules", (json_int_t)rules->sets[NF_FORWARD]->rules,
				   "reverse_rules", (json_int_t)rules->sets[NF_REVERSE]->rules);
	return snapshot_publish(&fw->rules, rules, err);
}

static const char *const edges[] = {"pass", NULL};
static const char *const drops[] = {
	[DROP_DENIED] = "denied",
	[DROP_DEFAULT] = "denied-by-default",
	[DROP_INVALID_STATE] = "invalid-state",
	[DROP_NOT_SYN] = "not-syn",
	[DROP_ICMP_UNRELATED] = "icmp-unrelated",
	[DROP_SYN_FLOOD] = "syn-flood",
	[DROP_TABLE_FULL] = "table-full",
	[DROP_FRAGMENT] = "fragment",
	[DROP_FRAGMENT_OVERLAP] = "fragment-overlap",
	[DROP_FRAGMENT_LIMIT] = "fragment-limit",
	[DROP_FRAGMENT_TIMEOUT] = "fragment-timeout",
	[DROP_NON_IP] = "non-ip",
	NULL,
};
static const char *const counters[] = {
	[C_HITS] = "hits",
	[C_NEW] = "new-flows",
	[C_EXPIRED] = "expired",
	[C_RELATED] = "related",
	[C_FLOWS] = "flows",
	[C_HALF_OPEN] = "half-open",
	[C_HELD] = "held-fragments",
	NULL,
};

static const char *fw_apart(const void *conf)
{
	(void)conf;
	return "it holds fragments";
}

static const struct nf_ops firewall_ops = {
	.name = "firewall",
	.doc = "Stateful firewall for IPv4 and IPv6, with TCP state tracking. A flow's first packet is asked "
	       "of the rules of its direction (the format of acl; deny unless permitted); then the flow is "
	       "known and both its ways pass, as long as each packet fits its state. TCP must begin with a "
	       "SYN, and its handshake, close and reset are followed, with a timeout for each state. ICMP "
	       "and ICMPv6 errors pass when they are about a known flow; echo and other queries are flows of "
	       "their own. IPv6 neighbour discovery always passes. Fragments go the way of their datagram's "
	       "first one, and are held until it comes (virtual reassembly); tiny, overlapping and endless "
	       "ones are dropped by reason. Bounds on flows and on half-open connections drop new flows and "
	       "never disturb known ones. update: {rules, default, reverse_rules, reverse_default}: new "
	       "rules for new flows.",
	.standards = "TCP states: RFC 9293 section 3.3.2; timeouts: RFC 5382 REQ-5, RFC 4787 REQ-5, RFC "
		     "5508 REQ-2; ICMP: RFC 792, RFC 4443, RFC 4890. Rules: DPDK's rte_acl. Left "
		     "out: sequence numbers are not checked against windows (RFC 5961 attacks are the "
		     "endpoints' to meet), SCTP is followed by ports-less address pairs, no application-"
		     "level gateways. Fragments: RFC 1858, RFC 3128, RFC 5722; with several replicas they "
		     "are steered by addresses only, so that they may meet rules and not their flow.",
	.params = fw_params,
	.conf_size = sizeof(struct fw_params),
	.edges = edges,
	.drops = drops,
	.policy_drops = 1u << DROP_DENIED | 1u << DROP_DEFAULT | 1u << DROP_INVALID_STATE |
			1u << DROP_NOT_SYN | 1u << DROP_ICMP_UNRELATED | 1u << DROP_NON_IP,
	.counters = counters,
	.reads = NF_F_5TUPLE | NF_F_L4_FLAGS,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATE_FLOW,
	.apart = fw_apart,
	.wants_headers = true,
	.elastic = true,
	.trails = true,
	.keeps = &fw_keeps,
	.rest = fw_rest,
	.init = fw_init,
	.fini = fw_fini,
	.worker_init = fw_worker_init,
	.worker_fini = fw_worker_fini,
	.process = fw_process,
	.flow_action = fw_flow_action,
	.tick = fw_tick,
	.update = fw_update,
};
NF_REGISTER(firewall_ops)
