/* SPDX-License-Identifier: Apache-2.0 */
#include "lb.h"

#include <errno.h>
#include <stdlib.h>

#include "nf/lib/shared_flows.h"

static void lb_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct lb_worker *lw = w->state;
	uint32_t flows = 0;

	snapshot_read(&lw->lb->config, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		w->counters[C_EXPIRED] += flow_age(lw->flows[i], flow_now(now_tsc), NULL, NULL);
		flows += flow_count(lw->flows[i]);
	}
	w->counters[C_FLOWS] = flows;
}

static void lb_rest(struct nf_worker *w, bool rests)
{
	struct lb_worker *lw = w->state;

	snapshot_rest(&lw->lb->config, w->index, rests);
	if (rests)
		w->counters[C_FLOWS] = 0;
}

static void lb_fini(struct nf *nf)
{
	struct lb *lb = nf->state;

	if (!lb)
		return;
	snapshot_fini(&lb->config);
	free(lb->members.list);
	free(lb);
	nf->state = NULL;
}

static int check_params(const struct lb_params *p, struct err *err)
{
	if (!p->vips.count)
		return err_set(err, EINVAL, "params.vips", "is empty; at least one VIP is wanted");
	if (p->vips.count > UINT16_MAX)
		return err_set(err, EINVAL, "params.vips", "%zu VIPs; at most %u are allowed",
			       p->vips.count, UINT16_MAX);
	if (!maglev_is_prime((uint32_t)p->table_size))
		return err_set(err, EINVAL, "params.table_size",
			       "%u is not prime, as Maglev's table must be; 251, 65537 and 655373 are",
			       (unsigned int)p->table_size);
	return 0;
}

static int lb_init(struct nf *nf, struct err *err)
{
	const struct lb_params *p = nf->conf;
	struct lb_config *c = NULL;
	struct lb *lb;
	int rc = check_params(p, err);

	if (rc)
		return rc;
	lb = nf->state = calloc(1, sizeof(*lb));
	if (!lb)
		return err_set(err, ENOMEM, "params", "out of memory");
	rc = lb_members_init(&lb->members, p, err);
	if (!rc)
		rc = lb_config_build(p, &lb->members, &c, err);
	if (!rc)
		rc = snapshot_init(&lb->config, nf->workers, c, lb_config_free, err);
	if (rc)
		lb_fini(nf);
	return rc;
}

static void lb_worker_fini(struct nf_worker *w)
{
	struct lb_worker *lw = w->state;

	if (!lw)
		return;
	snapshot_offline(&lw->lb->config, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++)
		flow_destroy(lw->flows[i]);
	free(lw);
	w->state = NULL;
}

static int lb_worker_init(struct nf_worker *w, struct err *err)
{
	const struct lb_params *p = w->nf->conf;
	const struct lb_worker *first = shared_first(w);
	struct lb_worker *lw = w->state = calloc(1, sizeof(*lw));
	int rc = 0;

	if (!lw)
		return err_set(err, ENOMEM, "params", "out of memory");
	lw->lb = w->nf->state;
	lw->timeout = flow_ticks((uint64_t)(p->idle_timeout_s * 1000));
	snapshot_online(&lw->lb->config, w->index);
	for (unsigned int i = 0; i < FLOW_FAMILIES && !rc; i++) {
		struct flow_conf fc = {.family = i, .capacity = (uint32_t)p->flows,
				       .socket_id = w->socket_id};

		rc = shared_flows(w, &fc, first ? first->flows[i] : NULL, &lw->flows[i], err);
	}
	if (rc)
		lb_worker_fini(w);
	return rc;
}

static const char *const drops[] = {"no-backend", "not-for-vip", "fragment", NULL};
static const char *const counters[] = {"hits",       "new-flows", "table-full",
				       "reassigned", "expired",   "flows", NULL};

/* No nat translates them. */
static const char *lb_untold(const void *conf)
{
	const struct lb_params *p = conf;
	const struct lb_vip_params *vips = p->vips.items;

	for (size_t i = 0; i < p->vips.count && p->mode == LB_NAT; i++)
		if (vips[i].address.family == 6)
			return "IPv6 addresses";
	return NULL;
}

static const struct nf_ops lb_ops = {
	.name = "lb",
	.doc = "Stateful layer-4 load balancer, by a Maglev table. TCP and UDP packets for a VIP (address, "
	       "protocol, port) get the address of one of its backends, and the port where backend and VIP "
	       "differ; the flow keeps its backend as long as it lives and the backend serves. New flows are "
	       "spread by a Maglev table, by weight. On the way back (direction reverse) the backend's "
	       "source becomes the VIP again, on any worker, without state. When the flow table is full, new "
	       "flows are sent statelessly by the Maglev table and counted (table-full); known flows are not "
	       "disturbed. update: {op: add | drain | remove | weight | health, vip, address, port, ...}: "
	       "drain keeps a backend's flows and gives it no new ones; remove and health up=false move its "
	       "flows to other backends at their next packet (reassigned). In mode dsr only the destination "
	       "MAC changes.",
	.standards = "Maglev hashing: Eisenbud et al., NSDI 2016, section 3.4, with weights. Checksums: RFC "
		     "1624. Left out: fragments (dropped by reason), ICMP errors about balanced "
		     "flows (passed unchanged), SCTP, source affinity, TCP state: a flow ends by idle "
		     "time only, counted from its last packet towards the backend.",
	.params = lb_params,
	.conf_size = sizeof(struct lb_params),
	.drops = drops,
	.counters = counters,
	.reads = NF_F_5TUPLE,
	.writes = NF_F_DST_IP | NF_F_DST_PORT | NF_F_SRC_IP | NF_F_SRC_PORT | NF_F_MAC,
	.may_drop = true,
	.category = NF_HOST_ORIENTED,
	.state_key = NF_STATE_FLOW,
	.wants_headers = true,
	.elastic = true,
	.trails = true,
	.keeps = &lb_keeps,
	.rest = lb_rest,
	.untold = lb_untold,
	.init = lb_init,
	.fini = lb_fini,
	.worker_init = lb_worker_init,
	.worker_fini = lb_worker_fini,
	.process = lb_process,
	.flow_action = lb_flow_action,
	.tick = lb_tick,
	.update = lb_update,
};
NF_REGISTER(lb_ops)
