/* SPDX-License-Identifier: Apache-2.0 */
#include "router.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rte_cycles.h>

#include "vnf.h"

static void router_fini(struct nf *nf)
{
	struct router *r = nf->state;

	if (!r)
		return;
	learner_stop(r);
	for (unsigned int i = 0; i < r->n_vnfs; i++)
		vnf_fini(&r->vnfs[i]);
	rcu_fini(&r->rcu); /* gives numbers back to free_hops */
	mtrie_destroy(r->trie);
	pthread_mutex_destroy(&r->lock);
	free(r->vnfs);
	free((void *)r->hops);
	free(r->users);
	free(r->free_hops);
	free(r);
	nf->state = NULL;
}

static struct router_hop no_route = {.kind = HOP_NO_ROUTE}; /* never changed */

static int alloc_tables(struct router *r, const struct router_params *p, unsigned int workers,
			struct err *err)
{
	r->vnfs = calloc(p->vnfs.count + 1, sizeof(*r->vnfs));
	r->hops = calloc(ROUTER_HOPS_MAX + 1, sizeof(*r->hops));
	r->users = calloc(ROUTER_HOPS_MAX + 1, sizeof(struct user *));
	r->free_hops = calloc(ROUTER_HOPS_MAX + 1, sizeof(*r->free_hops));
	if (!r->vnfs || !r->hops || !r->users || !r->free_hops || rcu_init(&r->rcu, workers, err))
		return err_set(err, ENOMEM, "params", "out of memory");
	atomic_store(&r->hops[NO_HOP], &no_route);
	return mtrie_create(&r->trie,
			    &(struct mtrie_conf){.roots = 2 * ROUTER_VNFS_MAX,
						 .nodes = (uint32_t)p->nodes,
						 .readers = &r->rcu},
			    "params.nodes", err);
}

static int router_init(struct nf *nf, struct err *err)
{
	const struct router_params *p = nf->conf;
	struct router *r = nf->state = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*r), 64));
	int rc;

	if (!r)
		return err_set(err, ENOMEM, "params", "out of memory");
	memset(r, 0, sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	r->verify_checksum = p->verify_checksum;
	r->n_all = (unsigned int)p->vnfs.count;
	r->nodes = p->nodes;
	r->objects = p->objects;
	if (getrandom(&r->secret, sizeof(r->secret), 0) != (ssize_t)sizeof(r->secret))
		r->secret = rte_rdtsc();
	r->secret |= 1;
	if (getrandom(r->key, sizeof(r->key), 0) != (ssize_t)sizeof(r->key))
		r->key[0] = rte_rdtsc();
	rc = alloc_tables(r, p, nf->workers, err);
	if (!rc)
		rc = router_configure(r, p, err);
	if (!rc && !nf->checking)
		rc = learner_start(r, p, err);
	if (rc)
		router_fini(nf);
	return rc;
}

static void router_worker_fini(struct nf_worker *w)
{
	const struct router *r = w->nf->state;

	rcu_offline(&r->rcu, w->index);
	free(w->state);
	w->state = NULL;
}

#define TICKS_PER_S 1000 /* about */
#define PUNT_BURST_MIN 64

static struct punt_tokens tokens_of(double pps)
{
	int64_t most = RTE_MAX((int64_t)(pps / 10 * PUNT_PARTS), PUNT_BURST_MIN * PUNT_PARTS);

	return (struct punt_tokens){.have = most, .most = most,
				    .per_tick = RTE_MAX((int64_t)(pps * PUNT_PARTS / TICKS_PER_S), 1)};
}

static void refill(struct punt_tokens *t)
{
	t->have = RTE_MIN(t->have + t->per_tick, t->most);
}

static int router_worker_init(struct nf_worker *w, struct err *err)
{
	const struct router_params *p = w->nf->conf;
	const struct router *r = w->nf->state;
	struct router_worker *rw = w->state = calloc(1, sizeof(*rw));
	double share;

	if (!rw)
		return err_set(err, ENOMEM, "params", "out of memory");
	share = (double)p->punt_pps / (w->count ? w->count : 1) / 2;
	rw->punt_common = tokens_of(share);
	for (unsigned int i = 0; i < r->n_all; i++)
		rw->punt_own[i] = tokens_of(share / r->n_all);
	rcu_online(&r->rcu, w->index);
	return 0;
}

/* Also when no packets come: what the writer has replaced is not kept waiting. */
static void router_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct router_worker *rw = w->state;
	const struct router *r = w->nf->state;

	(void)now_tsc;
	rcu_quiescent(&r->rcu, w->index);
	refill(&rw->punt_common);
	for (unsigned int i = 0; i < r->n_all; i++)
		refill(&rw->punt_own[i]);
}

static const char *const edges[] = {"out0",  "out1",  "out2",  "out3",  "out4",  "out5",
				    "out6",  "out7",  "out8",  "out9",  "out10", "out11",
				    "out12", "out13", "out14", "punt",  NULL};
static const char *const drops[] = {
	[DROP_NO_VNF] = "no-vnf",
	[DROP_NO_ROUTE] = "no-route",
	[DROP_BLACKHOLE] = "blackhole",
	[DROP_BAD_CHECKSUM] = "bad-checksum",
	[DROP_LOOP] = "loop",
	[DROP_PUNT_LIMIT] = "punt-limit",
	[DROP_NO_PORT] = "no-port",
	NULL,
};
static const char *const counters[] = {[C_FORWARDED] = "forwarded",
				       [C_SWITCHED] = "switched",
				       [C_PUNTED] = "punted",
				       [C_COPIES_LOST] = "copies-lost",
				       NULL};

static const struct nf_ops router_ops = {
	.name = "router",
	.doc = "Data path of routers whose control planes run in VNFs (offload). Each VNF has a table (VRF) "
	       "for IPv4 and IPv6 and interfaces, told apart by MAC and port. Routes are learnt over FRR's "
	       "FPM (netlink; next-hop objects are resolved, multipath by flow) or from the VNF's kernel, "
	       "MACs of next hops from its neighbour table. What is for a VNF (its addresses, broadcasts and "
	       "multicasts of its links, expired TTLs, neighbours not known yet) leaves on edge punt, "
	       "nf_port telling the interface: a `taps` link takes it there, and what the VNF sends comes "
	       "back in direction reverse. VNFs on one port are switched between at once. update: {op: "
	       "show}, {op: lookup, vnf, address}, {op: down | up, vnf}.",
	.standards = "RFC 1812 section 5.2 (header checks, longest match), RFC 1624 (checksum), RFC 4291 "
		     "scopes, RFC 8950 (IPv4 routes by IPv6 next hops), RFC 4724 section 4.1 (routes of a "
		     "lost session are kept for a while). Left out: ICMP errors other than the VNF's own, "
		     "fragmentation, multicast forwarding, VLANs, several routing tables in one VNF, route "
		     "metrics (the last one announced for a prefix counts).",
	.params = router_param_table,
	.conf_size = sizeof(struct router_params),
	.edges = edges,
	.drops = drops,
	.policy_drops = 1u << DROP_BLACKHOLE,
	.counters = counters,
	.reads = NF_F_MAC | NF_F_SRC_IP | NF_F_DST_IP | NF_F_TTL,
	.writes = NF_F_MAC | NF_F_TTL,
	.may_drop = true,
	.changes_volume = true,
	.category = NF_NETWORK_ORIENTED,
	.state_key = NF_STATELESS,
	.wants_headers = true,
	.wants_port = true,
	.init = router_init,
	.fini = router_fini,
	.worker_init = router_worker_init,
	.worker_fini = router_worker_fini,
	.process = router_process,
	.tick = router_tick,
	.update = router_update,
};
NF_REGISTER(router_ops)
