/* SPDX-License-Identifier: Apache-2.0 */
#include "acl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>

/*
 * The control thread's side: parameters, building rule sets, replacing them.
 *
 * A set is never changed once workers can see it. An update builds another, swaps the
 * pointer, and the old one goes when no worker can have it any more (table/snapshot.h).
 */

/* clang-format off */
#define RULES_PARAMS(base)                                                                         \
	{.name = "rules", .type = PARAM_OBJECT, .list = true,                                      \
	 .offset = (base) + offsetof(struct acl_rules_conf, rules),                                \
	 .fields = acl_rule_params, .fields_size = sizeof(struct acl_rule_conf),                   \
	 .doc = "Rules, the first that matches wins; they come before those of rules_file."},      \
	{.name = "rules_file", .type = PARAM_FILE,                                                 \
	 .offset = (base) + offsetof(struct acl_rules_conf, rules_file),                           \
	 .doc = "Filters in ClassBench format, IPv4 or IPv6, one per line: @src/len dst/len "      \
		"sport : sport dport : dport proto/mask [flags/mask]."},                           \
	{.name = "file_action", .type = PARAM_ENUM, .choices = acl_actions,                        \
	 .offset = (base) + offsetof(struct acl_rules_conf, file_action), .def = "\"permit\"",     \
	 .doc = "The action of rules_file's filters, which name none."},                           \
	{.name = "file_alternate", .type = PARAM_UINT,                                             \
	 .offset = (base) + offsetof(struct acl_rules_conf, file_alternate), .def = "0",           \
	 .doc = "Every n-th filter of rules_file has the other action; 0: none."},                 \
	{.name = "default", .type = PARAM_ENUM, .choices = acl_actions,                            \
	 .offset = (base) + offsetof(struct acl_rules_conf, default_action), .def = "\"deny\"",    \
	 .doc = "What happens to an IP packet that no rule matches."}
/* clang-format on */

static const char *const fragment_choices[] = {"match", "deny", NULL};
static const char *const reverse_choices[] = {"match", "swap", "permit", NULL};

static const struct param acl_params[] = {
	RULES_PARAMS(offsetof(struct acl_conf, rules)),
	{.name = "non_ip", .type = PARAM_ENUM, .choices = acl_actions,
	 .offset = offsetof(struct acl_conf, non_ip), .def = "\"permit\"",
	 .doc = "What happens to frames that are not IP, ARP among them."},
	{.name = "fragments", .type = PARAM_ENUM, .choices = fragment_choices,
	 .offset = offsetof(struct acl_conf, fragments), .def = "\"match\"",
	 .doc = "match: IP fragments, the first ones too, are matched by addresses and protocol "
		"only, against the rules that name no ports; deny: all are dropped (RFC 1858)."},
	{.name = "reverse", .type = PARAM_ENUM, .choices = reverse_choices,
	 .offset = offsetof(struct acl_conf, reverse), .def = "\"match\"",
	 .doc = "Packets of the reverse direction: match them as they are, with source and "
		"destination swapped, or permit all."},
	{.name = "match_flags", .type = PARAM_BOOL,
	 .offset = offsetof(struct acl_conf, match_flags), .def = "false",
	 .doc = "Honour the flags column of ClassBench filters: TCP flags, or ICMP type and code. "
		"Otherwise filters are 5-tuples, as most users of ClassBench read them."},
	{.name = "table_mb", .type = PARAM_UINT, .max = 65536, .unit = "MiB",
	 .offset = offsetof(struct acl_conf, table_mb), .def = "128",
	 .doc = "Bound for the run-time tables of each of the up to four rte_acl contexts. rte_acl "
		"uses the fewest tries that fit: more memory can be faster. 0: no bound, and more, "
		"smaller tries."},
	{.name = "cache_flows", .type = PARAM_UINT, .max = 1 << 24, .unit = "flows",
	 .offset = offsetof(struct acl_conf, cache_flows), .def = "16384",
	 .doc = "Size of each worker's cache of IPv4 flows in front of rte_acl, 16 bytes a flow, made a "
		"power of two; left aside while it hits less than a third of the time. 0: none."},
	{0},
};

static const struct param acl_update_params[] = {RULES_PARAMS(0), {0}};

static int load_file(struct acl_rules *rules, const struct acl_rules_conf *conf, struct err *err)
{
	size_t first = rules->count;
	int rc = classbench_load(conf->rules_file, rules, err);

	for (size_t i = first; !rc && i < rules->count; i++) {
		bool other = conf->file_alternate && (i - first + 1) % conf->file_alternate == 0;

		rules->items[i].deny = (conf->file_action == ACL_DENY) != other;
	}
	return rc;
}

static struct acl_set *set_make(const struct nf *nf, const struct acl_rules_conf *conf,
				const char *path, struct err *err)
{
	const struct acl_conf *fixed = nf->conf;
	const struct acl_set_options options = {
		.match_flags = fixed->match_flags,
		.max_bytes = fixed->table_mb << 20,
		.socket_id = nf->socket_id,
	};
	struct acl_rules rules = {0};
	struct acl_set *set = NULL;

	if (acl_rules_add_conf(&rules, &conf->rules, path, err))
		goto out;
	if (conf->rules_file && load_file(&rules, conf, err))
		goto out;
	set = acl_set_build(&rules, &options, err);
	if (set)
		set->default_verdict = conf->default_action == ACL_DENY ? NF_DROP(ACL_DROP_DEFAULT)
									: 0;
out:
	acl_rules_free(&rules);
	return set;
}

static void set_free(void *set)
{
	acl_set_free(set);
}

static void acl_fini(struct nf *nf)
{
	struct acl *acl = nf->state;

	if (!acl)
		return;
	snapshot_fini(&acl->set);
	free(acl->workers);
	free(acl);
	nf->state = NULL;
}

static int acl_init(struct nf *nf, struct err *err)
{
	const struct acl_conf *conf = nf->conf;
	struct acl *acl = calloc(1, sizeof(*acl));
	struct acl_set *set;
	int rc;

	if (!acl)
		return err_set(err, ENOMEM, "", "out of memory");
	nf->state = acl;
	acl->n_workers = nf->workers;
	acl->workers = aligned_alloc(_Alignof(struct acl_worker),
				     (nf->workers + 1) * sizeof(struct acl_worker));
	set = acl->workers ? set_make(nf, &conf->rules, "params.rules", err)
			   : (err_set(err, ENOMEM, "", "out of memory"), NULL);
	if (!set) {
		acl_fini(nf);
		return -EINVAL;
	}
	memset(acl->workers, 0, acl->n_workers * sizeof(*acl->workers));
	rc = snapshot_init(&acl->set, nf->workers, set, set_free, err);
	if (rc)
		acl_fini(nf);
	return rc;
}

static int cache_make(struct acl_worker *worker, const struct nf_worker *w, struct err *err)
{
	const struct acl_conf *conf = w->nf->conf;
	uint32_t buckets = rte_align32pow2((conf->cache_flows + ACL_CACHE_WAYS - 1) /
					   ACL_CACHE_WAYS);

	if (!conf->cache_flows)
		return 0;
	worker->cache = rte_zmalloc_socket("acl-cache", buckets * sizeof(*worker->cache),
					   RTE_CACHE_LINE_SIZE, w->socket_id);
	if (!worker->cache)
		return err_set(err, ENOMEM, "params.cache_flows",
			       "no memory for a cache of %lu flows: give the engine more memory_mb",
			       conf->cache_flows);
	worker->cache_mask = buckets - 1;
	return 0;
}

static int acl_worker_init(struct nf_worker *w, struct err *err)
{
	struct acl *acl = w->nf->state;

	if (w->index >= acl->n_workers)
		return err_set(err, EINVAL, "", "worker %u of %u", w->index, acl->n_workers);
	if (cache_make(&acl->workers[w->index], w, err))
		return -ENOMEM;
	w->state = &acl->workers[w->index];
	snapshot_online(&acl->set, w->index);
	return 0;
}

static void acl_worker_fini(struct nf_worker *w)
{
	struct acl_worker *worker = w->state;
	struct acl *acl = w->nf->state;

	if (!worker)
		return;
	snapshot_offline(&acl->set, w->index);
	rte_free(worker->cache);
	worker->cache = NULL;
}

/* Also when no packets come: a set that was replaced is not kept waiting. */
static void acl_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct acl *acl = w->nf->state;

	(void)now_tsc;
	acl_cache_tick(w);
	snapshot_read(&acl->set, w->index);
}

static void acl_rest(struct nf_worker *w, bool rests)
{
	struct acl *acl = w->nf->state;

	snapshot_rest(&acl->set, w->index, rests);
}

/* {"rules": [...], "rules_file": ..., ...}: the whole set anew; what is absent has its default. An
 * update that names no rules would take all away: who wants that says "rules": []. */
static int acl_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct acl *acl = nf->state;
	struct acl_rules_conf conf = {0};
	struct acl_set *set;
	int rc;

	if (!json_object_get(op, "rules") && !json_object_get(op, "rules_file"))
		return err_set(err, EINVAL, "op", "names no rules; wanted: rules or rules_file");
	rc = param_parse(acl_update_params, op, "op", &conf, err);
	if (rc)
		return rc;
	snapshot_reclaim(&acl->set); /* before building: two sets at once are enough */
	set = set_make(nf, &conf, "op.rules", err);
	param_free(acl_update_params, &conf);
	if (!set)
		return -EINVAL;
	*reply = json_pack("{s:I}", "rules", (json_int_t)set->rules);
	return snapshot_publish(&acl->set, set, err);
}

static const char *const acl_edges[] = {"pass", NULL};
static const char *const acl_drops[] = {
	[ACL_DROP_DENIED] = "denied",
	[ACL_DROP_DEFAULT] = "denied-by-default",
	[ACL_DROP_NON_IP] = "denied-non-ip",
	[ACL_DROP_FRAGMENT] = "denied-fragment",
	NULL,
};
static const char *const acl_counters[] = {
	[ACL_COUNT_PERMITTED] = "permitted",
	[ACL_COUNT_DEFAULT] = "no-rule",
	[ACL_COUNT_NON_IP] = "non-ip",
	[ACL_COUNT_NO_PORTS] = "no-ports",
	[ACL_COUNT_CACHE_HITS] = "cache-hits",
	[ACL_COUNT_CACHE_MISSES] = "cache-misses",
	NULL,
};

const struct nf_ops nf_acl_ops = {
	.name = "acl",
	.doc = "Stateless packet filter by an ordered list of 5-tuple rules. The first that matches permits "
	       "or drops the packet. Rules come from the plan, from a ClassBench file, or both, for IPv4 and "
	       "IPv6, and can be replaced as a whole while packets flow. Packets without visible ports "
	       "(fragments, ICMP, other protocols, a cut L4 header) match only rules that name no ports.",
	.standards =
		"Lookup: DPDK's rte_acl, multi-bit tries, with the widest SIMD that the engine "
		"allows, behind a cache of exact flows. ClassBench filter format (Taylor and "
		"Turner, 2007). Fragments: RFC 1858 "
		"and RFC 3128 attacks are met by fragments: deny; there is no reassembly. IPv6 "
		"extension headers are skipped (RFC 8200). Checksums are not verified. "
		"Left out: per-rule counters, logging, connection state (see firewall).",
	.params = acl_params,
	.conf_size = sizeof(struct acl_conf),
	.edges = acl_edges,
	.drops = acl_drops,
	.policy_drops = 1u << ACL_DROP_DENIED | 1u << ACL_DROP_DEFAULT | 1u << ACL_DROP_NON_IP |
			1u << ACL_DROP_FRAGMENT,
	.counters = acl_counters,
	.reads = NF_F_5TUPLE | NF_F_L4_FLAGS,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATELESS,
	.wants_headers = true,
	.elastic = true,
	.rest = acl_rest,
	.init = acl_init,
	.fini = acl_fini,
	.worker_init = acl_worker_init,
	.worker_fini = acl_worker_fini,
	.process = acl_process,
	.flow_action = acl_flow_action,
	.tick = acl_tick,
	.update = acl_update,
};
NF_REGISTER(nf_acl_ops)
