/* SPDX-License-Identifier: Apache-2.0 */
#include "qos.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "nf/lib/shared_flows.h"

static const char *const meters[] = {"none", "srtcm", "trtcm", "trtcm-4115", NULL};

#define MARK(color, text)                                                                          \
	{.name = text "_dscp", .type = PARAM_UINT, .max = QOS_KEEP, .def = "64",                    \
	 .offset = offsetof(struct qos_class_params, mark[color]),                                 \
	 .doc = "DSCP written into " text " packets, 0 to 63; 64: left as it is"}
#define DROP(color, text, def_)                                                                    \
	{.name = "drop_" text, .type = PARAM_BOOL, .def = def_,                                    \
	 .offset = offsetof(struct qos_class_params, drop[color]), .doc = "drop " text " packets"}

static const struct param class_params[] = {
	{.name = "dscp", .type = PARAM_UINT, .list = true, .max = QOS_DSCPS - 1,
	 .offset = offsetof(struct qos_class_params, dscp),
	 .doc = "code points whose packets are in this class"},
	{.name = "rules", .type = PARAM_OBJECT, .list = true, .fields = acl_rule_params,
	 .fields_size = sizeof(struct acl_rule_conf),
	 .offset = offsetof(struct qos_class_params, rules),
	 .doc = "5-tuple rules as acl has them: packets that they permit are in this class too"},
	{.name = "meter", .type = PARAM_ENUM, .choices = meters, .def = "\"none\"",
	 .offset = offsetof(struct qos_class_params, meter),
	 .doc = "srtcm: RFC 2697; trtcm: RFC 2698; trtcm-4115: RFC 4115; none: all packets are green"},
	{.name = "cir_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",
	 .offset = offsetof(struct qos_class_params, cir_bps), .doc = "committed information rate"},
	{.name = "pir_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",
	 .offset = offsetof(struct qos_class_params, pir_bps),
	 .doc = "trtcm: peak information rate; trtcm-4115: excess information rate"},
	{.name = "cbs_bytes", .type = PARAM_UINT, .max = 1e10, .def = "16384", .unit = "bytes",
	 .offset = offsetof(struct qos_class_params, cbs_bytes), .doc = "committed burst size"},
	{.name = "pbs_bytes", .type = PARAM_UINT, .max = 1e10, .def = "16384", .unit = "bytes",
	 .offset = offsetof(struct qos_class_params, pbs_bytes),
	 .doc = "trtcm: peak burst size; the others: excess burst size"},
	MARK(RTE_COLOR_GREEN, "green"),
	MARK(RTE_COLOR_YELLOW, "yellow"),
	MARK(RTE_COLOR_RED, "red"),
	DROP(RTE_COLOR_YELLOW, "yellow", "false"),
	DROP(RTE_COLOR_RED, "red", "true"),
	{.name = "subport", .type = PARAM_UINT, .max = 255,
	 .offset = offsetof(struct qos_class_params, subport), .doc = "of the shaper, by position"},
	{.name = "tc", .type = PARAM_UINT, .max = SHAPE_BEST_EFFORT, .def = "12",
	 .offset = offsetof(struct qos_class_params, tc),
	 .doc = "traffic class in the shaper: 0 to 11 by strict priority, 12 is best effort"},
	{.name = "queue", .type = PARAM_UINT, .max = RTE_SCHED_BE_QUEUES_PER_PIPE - 1,
	 .offset = offsetof(struct qos_class_params, queue),
	 .doc = "of traffic class 12, which has four that share it by weight"},
	{0},
};

static const struct param qos_params[] = {
	{.name = "classes", .type = PARAM_OBJECT, .list = true, .required = true,
	 .fields = class_params, .fields_size = sizeof(struct qos_class_params),
	 .offset = offsetof(struct qos_params, classes),
	 .doc = "a packet belongs to the first class that wants it; others pass unmetered, or are shaped as "
		"best effort of subport 0; may be empty with a shaper"},
	{.name = "overhead_bytes", .type = PARAM_UINT, .max = 64, .def = "4", .unit = "bytes",
	 .offset = offsetof(struct qos_params, overhead_bytes),
	 .doc = "added to each frame's length when metering and shaping; 4: with its FCS, 24: as on the "
		"wire"},
	{.name = "shaper", .type = PARAM_OBJECT, .fields = shape_params,
	 .fields_size = sizeof(struct shape_params), .offset = offsetof(struct qos_params, shaper),
	 .doc = "queues and a hierarchical scheduler behind the meters"},
	{0},
};

/* Bytes per second of one worker's share; of all of them where they have one meter. */
static uint64_t share(uint64_t bps, const struct nf *nf)
{
	return bps / 8 / (nf->workers && !nf->owners ? nf->workers : 1);
}

static int set_profile(struct qos_class *c, const struct qos_class_params *p, const struct nf *nf)
{
	struct rte_meter_srtcm_params sr = {share(p->cir_bps, nf), p->cbs_bytes, p->pbs_bytes};
	struct rte_meter_trtcm_params tr = {share(p->cir_bps, nf), share(p->pir_bps, nf),
					    p->cbs_bytes, p->pbs_bytes};
	struct rte_meter_trtcm_rfc4115_params tr4 = {share(p->cir_bps, nf), share(p->pir_bps, nf),
						     p->cbs_bytes, p->pbs_bytes};

	switch (p->meter) {
	case METER_SRTCM:
		return rte_meter_srtcm_profile_config(&c->profile.srtcm, &sr);
	case METER_TRTCM:
		return rte_meter_trtcm_profile_config(&c->profile.trtcm, &tr);
	case METER_TRTCM_4115:
		return rte_meter_trtcm_rfc4115_profile_config(&c->profile.trtcm_4115, &tr4);
	}
	return 0;
}

static int set_rules(struct qos_class *c, const struct qos_class_params *p, const struct nf *nf,
		     const char *path, struct err *err)
{
	const struct acl_set_options options = {.socket_id = nf->socket_id};
	struct acl_rules rules = {0};
	char place[96];

	if (!p->rules.count)
		return 0;
	snprintf(place, sizeof(place), "%s.rules", path);
	if (!acl_rules_add_conf(&rules, &p->rules, place, err))
		c->set = acl_set_build(&rules, &options, err);
	acl_rules_free(&rules);
	return c->set ? 0 : -EINVAL;
}

static void set_dscps(struct qos *qos, unsigned int class, const struct qos_class_params *p)
{
	const uint64_t *dscps = p->dscp.items;

	for (size_t i = 0; i < p->dscp.count; i++)
		if (qos->by_dscp[dscps[i]] == QOS_NO_CLASS)
			qos->by_dscp[dscps[i]] = (uint8_t)class;
}

static int set_class(struct qos *qos, unsigned int i, const struct qos_class_params *p,
		     const struct nf *nf, struct err *err)
{
	struct qos_class *c = &qos->classes[i];
	char path[64];

	snprintf(path, sizeof(path), "params.classes[%u]", i);
	if (!p->dscp.count && !p->rules.count)
		return err_set(err, EINVAL, path, "nothing is in it: give \"dscp\" or \"rules\"");
	if (p->queue && p->tc != SHAPE_BEST_EFFORT)
		return err_set(err, EINVAL, path, "queue %u of tc %u: only tc %d has several",
			       (unsigned int)p->queue, (unsigned int)p->tc, SHAPE_BEST_EFFORT);
	if (p->subport >= shape_subports(&((const struct qos_params *)nf->conf)->shaper))
		return err_set(err, EINVAL, path, "\"subport\" is %u; the shaper has %u",
			       (unsigned int)p->subport,
			       shape_subports(&((const struct qos_params *)nf->conf)->shaper));
	if (set_profile(c, p, nf))
		return err_set(err, EINVAL, path,
			       "meter %s cannot have cir_bps %llu, pir_bps %llu, cbs_bytes %llu, "
			       "pbs_bytes %llu: a rate and a burst size must not be 0, and trtcm's peak "
			       "not below the committed rate", meters[p->meter],
			       (unsigned long long)p->cir_bps, (unsigned long long)p->pir_bps,
			       (unsigned long long)p->cbs_bytes, (unsigned long long)p->pbs_bytes);
	c->meter = (uint8_t)p->meter;
	c->subport = (uint8_t)p->subport;
	c->tc = (uint8_t)p->tc;
	c->queue = (uint8_t)p->queue;
	for (unsigned int color = 0; color < RTE_COLORS; color++)
		c->mark[color] = (uint8_t)p->mark[color];
	c->verdict[RTE_COLOR_YELLOW] = p->drop[RTE_COLOR_YELLOW] ? NF_DROP(DROP_YELLOW) : 0;
	c->verdict[RTE_COLOR_RED] = p->drop[RTE_COLOR_RED] ? NF_DROP(DROP_RED) : 0;
	set_dscps(qos, i, p);
	qos->rules |= p->rules.count > 0;
	return set_rules(c, p, nf, path, err);
}

static void qos_fini(struct nf *nf)
{
	struct qos *qos = nf->state;

	if (!qos)
		return;
	for (unsigned int i = 0; i < qos->n_classes; i++)
		if (qos->classes[i].set)
			acl_set_free(qos->classes[i].set);
	free(qos);
	nf->state = NULL;
}

static int qos_init(struct nf *nf, struct err *err)
{
	const struct qos_params *p = nf->conf;
	const struct qos_class_params *list = p->classes.items;
	struct qos *qos;
	int rc = 0;

	if (nf->owners && p->shaper.rate_bps)
		return err_set(err, EINVAL, "params.shaper",
			       "in an elastic segment, whose flows go from worker to worker, and packets in "
			       "a worker's queues do not; allowed: meters");
	if ((!p->classes.count && !p->shaper.rate_bps) || p->classes.count > QOS_CLASSES_MAX)
		return err_set(err, EINVAL, "params.classes", "%zu classes; allowed: 1 to %u",
			       p->classes.count, QOS_CLASSES_MAX);
	rc = shape_check(&p->shaper, (uint32_t)p->overhead_bytes, RTE_MAX(nf->workers, 1u),
			 "params.shaper", err);
	if (rc)
		return rc;
	qos = nf->state = calloc(1, sizeof(*qos));
	if (!qos)
		return err_set(err, ENOMEM, "params", "out of memory");
	memset(qos->by_dscp, QOS_NO_CLASS, sizeof(qos->by_dscp));
	for (unsigned int i = 0; i < p->classes.count && !rc; i++) {
		qos->n_classes++;
		rc = set_class(qos, i, &list[i], nf, err);
	}
	if (rc)
		qos_fini(nf);
	return rc;
}

static void qos_worker_fini(struct nf_worker *w)
{
	struct qos_worker *qw = w->state;

	for (unsigned int d = 0; qw && d < NF_DIRECTIONS; d++)
		shape_free(qw->shapers[d]);
	if (qw)
		flow_destroy(qw->kept);
	if (qw && !shared_first(w))
		rte_free(qw->meters);
	free(qw);
	w->state = NULL;
}

static void start_meter(struct qos_meter_state *m, struct qos_class *c)
{
	union qos_state *s = &m->state;

	if (c->meter == METER_SRTCM)
		rte_meter_srtcm_config(&s->srtcm, &c->profile.srtcm);
	else if (c->meter == METER_TRTCM)
		rte_meter_trtcm_config(&s->trtcm, &c->profile.trtcm);
	else if (c->meter == METER_TRTCM_4115)
		rte_meter_trtcm_rfc4115_config(&s->trtcm_4115, &c->profile.trtcm_4115);
	m->newest = rte_get_tsc_cycles();
}

static int set_meters(struct nf_worker *w, struct qos_worker *qw, struct err *err)
{
	const struct qos_worker *first = shared_first(w);
	struct qos *qos = qw->qos;

	if (first) {
		qw->meters = first->meters;
		return 0;
	}
	qw->meters = rte_zmalloc_socket("qos", (qos->n_classes + 1) * sizeof(*qw->meters),
					RTE_CACHE_LINE_SIZE, w->socket_id);
	if (!qw->meters)
		return err_set(err, ENOMEM, "params.classes", "out of memory");
	for (unsigned int i = 0; i < qos->n_classes; i++)
		start_meter(&qw->meters[i], &qos->classes[i]);
	return 0;
}

static int qos_worker_init(struct nf_worker *w, struct err *err)
{
	const struct qos_params *p = w->nf->conf;
	struct qos_worker *qw = w->state = calloc(1, sizeof(*qw));
	int rc;

	if (!qw)
		return err_set(err, ENOMEM, "params", "out of memory");
	qw->qos = w->nf->state;
	qw->shares = w->owners;
	qw->overhead = (uint32_t)p->overhead_bytes;
	rc = set_meters(w, qw, err);
	if (!rc)
		rc = qos_keep(w, qw, err);
	for (unsigned int d = 0; d < NF_DIRECTIONS && !rc; d++)
		if (shape_wanted(&p->shaper, (enum nf_direction)d))
			rc = shape_create(&qw->shapers[d], &p->shaper, w, qw->overhead, err);
	if (rc)
		qos_worker_fini(w);
	return rc;
}

static const char *const drops[] = {[DROP_YELLOW] = "policed-yellow", [DROP_RED] = "policed-red",
				    [DROP_QUEUE_FULL] = "queue-full", NULL};
static const char *const counters[] = {
	[C_GREEN] = "green",   [C_YELLOW] = "yellow", [C_RED] = "red", [C_UNCLASSIFIED] = "unclassified",
	[C_MARKED] = "marked", [C_SHAPED] = "shaped", NULL};

static const char *qos_apart(const void *conf)
{
	(void)conf;
	return "it holds packets that have to wait";
}

static const struct nf_ops qos_ops = {
	.name = "qos",
	.doc = "Traffic conditioner: classifies, meters, marks, shapes, drops. Packets are classified by "
	       "DSCP or 5-tuple rules, metered per class, and by their colour passed, re-marked (IPv4 and "
	       "IPv6, ECN untouched) or dropped. With several replicas each has an equal share of the rates, "
	       "in an elastic segment all together have them. "
	       "Packets of no class pass. With a shaper, what passes waits in queues by subport, pipe "
	       "(subscriber) and traffic class, and leaves at the configured rates; a full queue drops "
	       "(queue-full).",
	.standards = "RFC 2475 (classifier, meter, marker, dropper), RFC 2697 (srTCM), RFC 2698 (trTCM), RFC "
		     "4115 (trTCM), by DPDK's rte_meter, colour-blind; RFC 2474 and RFC 3168 (the DS "
		     "field). Shaping by DPDK's rte_sched: strict priority of 12 traffic classes, weighted "
		     "round robin in the 13th, token buckets of subports and pipes, whose rates are those "
		     "asked for to 0.05 %; a replica that cannot poll for 2^24 TSC cycles (7 ms at 2.3 "
		     "GHz) loses what its buckets would have got meanwhile. Meters see time once per "
		     "burst. Left out: colour-aware metering, active queue management (RED, PIE).",
	.params = qos_params,
	.conf_size = sizeof(struct qos_params),
	.drops = drops,
	.policy_drops = 1u << DROP_YELLOW | 1u << DROP_RED,
	.counters = counters,
	.reads = NF_F_DSCP | NF_F_5TUPLE | NF_F_LENGTH,
	.writes = NF_F_DSCP,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATE_GLOBAL,
	.elastic = true, /* its workers share the meters */
	.keeps = &qos_keeps,
	.apart = qos_apart,
	.wants_headers = true,
	.init = qos_init,
	.fini = qos_fini,
	.worker_init = qos_worker_init,
	.worker_fini = qos_worker_fini,
	.process = qos_process,
	.poll = qos_poll,
	.tick = qos_tick,
};
NF_REGISTER(qos_ops)
