/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nf/lib/shared_flows.h"

static const char *const exports[] = {"none", "socket", "edge", NULL};

static const struct param mon_params[] = {
	{.name = "flows", .type = PARAM_UINT, .min = 1, .max = FLOW_CAPACITY_MAX, .def = "262144",
	 .unit = "flows", .offset = offsetof(struct mon_params, flows),
	 .doc = "capacity of each worker's cache, for IPv4 and IPv6 each; packets of flows beyond it are "
		"counted (not-recorded), and pass"},
	{.name = "idle_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "15",
	 .unit = "s", .offset = offsetof(struct mon_params, idle_s),
	 .doc = "a flow without packets for this long is exported and forgotten"},
	{.name = "active_timeout_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "60",
	 .unit = "s", .offset = offsetof(struct mon_params, active_s),
	 .doc = "a longer flow is exported this often, in parts"},
	{.name = "export", .type = PARAM_ENUM, .choices = exports, .def = "\"none\"",
	 .offset = offsetof(struct mon_params, export),
	 .doc = "how IPFIX messages leave: none (flows are only counted); socket: a UDP socket of this "
		"machine; edge: as packets on the edge \"export\""},
	{.name = "collector", .type = PARAM_IP, .offset = offsetof(struct mon_params, collector),
	 .doc = "address of the collector"},
	{.name = "port", .type = PARAM_UINT, .min = 1, .max = 65535, .def = "4739",
	 .offset = offsetof(struct mon_params, port), .doc = "UDP port of the collector"},
	{.name = "exporter", .type = PARAM_IP, .offset = offsetof(struct mon_params, exporter),
	 .doc = "export edge: IPv4 address that messages come from"},
	{.name = "dst_mac", .type = PARAM_MAC, .def = "\"02:00:00:00:00:02\"",
	 .offset = offsetof(struct mon_params, dst_mac), .doc = "export edge: towards the collector"},
	{.name = "src_mac", .type = PARAM_MAC, .def = "\"02:00:00:00:00:01\"",
	 .offset = offsetof(struct mon_params, src_mac), .doc = "export edge: ours"},
	{.name = "template_interval_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 86400, .def = "30",
	 .unit = "s", .offset = offsetof(struct mon_params, template_s),
	 .doc = "templates are repeated this often (RFC 7011 section 8.1)"},
	{0},
};

struct ageing {
	struct mon_worker *mw;
	enum flow_family family;
};

static const struct mon_state *state_of(const struct flow *f, enum flow_family family)
{
	return (const void *)(f->key + (family == FLOW_IPV4 ? 2 : 5));
}

static bool gone(void *arg, struct flow *f)
{
	const struct ageing *a = arg;
	const struct mon_state *s = state_of(f, a->family);
	bool idle = a->mw->now - s->last >= a->mw->idle;

	mon_export(a->mw, a->family, f, idle ? IPFIX_IDLE : IPFIX_ACTIVE);
	return true;
}

static void mon_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct mon_worker *mw = w->state;
	uint32_t flows = 0;

	mon_clock(mw, now_tsc);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		struct ageing a = {mw, i};

		flow_age(mw->flows[i], mw->now, gone, &a);
		flows += flow_count(mw->flows[i]);
	}
	mon_flush(mw, false);
	w->counters[C_FLOWS] = flows;
}

static void mon_rest(struct nf_worker *w, bool rests)
{
	if (rests)
		w->counters[C_FLOWS] = 0;
}

/* Connecting a UDP socket sends nothing: it asks the kernel for a route. */
static int check_way(const struct mon_params *p, struct err *err)
{
	int fd = mon_socket_open(p, err);

	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd;
}

static int mon_init(struct nf *nf, struct err *err)
{
	const struct mon_params *p = nf->conf;
	const struct param_ip *c = &p->collector, *x = &p->exporter;

	if (p->export == EXPORT_NONE)
		return 0;
	if (!c->family || c->len != (c->family == 4 ? 32 : 128))
		return err_set(err, EINVAL, "params.collector", "export needs the collector's address");
	if (p->export == EXPORT_SOCKET)
		return check_way(p, err);
	if (c->family != 4)
		return err_set(err, EINVAL, "params.collector",
			       "IPv6; export edge sends to IPv4 collectors only");
	if (x->family != 4 || x->len != 32)
		return err_set(err, EINVAL, "params.exporter",
			       "export edge needs the IPv4 address that messages come from");
	return 0;
}

/* What is still in the cache is exported too, where that needs no packets. */
static void export_rest(struct nf_worker *w, struct mon_worker *mw)
{
	const struct mon_params *p = w->nf->conf;

	if (p->export != EXPORT_SOCKET || mw->socket < 0)
		return;
	/* Shared flows are the first worker's to tell of. */
	for (unsigned int i = 0; i < FLOW_FAMILIES && !shared_first(w); i++)
		for (uint32_t n = 0; mw->flows[i] && n < flow_capacity(mw->flows[i]); n++) {
			const struct flow *f = flow_at(mw->flows[i], n);

			if (f)
				mon_export(mw, i, f, IPFIX_FORCED);
		}
	mon_flush(mw, true);
	close(mw->socket);
}

static void mon_worker_fini(struct nf_worker *w)
{
	struct mon_worker *mw = w->state;

	if (!mw)
		return;
	export_rest(w, mw);
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++)
		flow_destroy(mw->flows[i]);
	free(mw);
	w->state = NULL;
}

static int mon_worker_init(struct nf_worker *w, struct err *err)
{
	const struct mon_params *p = w->nf->conf;
	const struct mon_worker *first = shared_first(w);
	struct mon_worker *mw = w->state = calloc(1, sizeof(*mw));
	int rc = 0;

	if (!mw)
		return err_set(err, ENOMEM, "params", "out of memory");
	mw->w = w;
	mw->message.domain = w->index + 1;
	mw->idle = flow_ticks((uint64_t)(p->idle_s * 1000));
	mw->active = flow_ticks((uint64_t)(p->active_s * 1000));
	mw->template_every = flow_ticks((uint64_t)(p->template_s * 1000));
	mw->socket = p->export == EXPORT_SOCKET ? mon_socket_open(p, err) : -1;
	if (p->export == EXPORT_SOCKET && mw->socket < 0)
		rc = -EINVAL;
	for (unsigned int i = 0; i < FLOW_FAMILIES && !rc; i++) {
		struct flow_conf conf = {.family = i, .capacity = (uint32_t)p->flows,
					 .state_bytes = sizeof(struct mon_state),
					 .socket_id = w->socket_id};

		rc = shared_flows(w, &conf, first ? first->flows[i] : NULL, &mw->flows[i], err);
	}
	if (rc)
		mon_worker_fini(w);
	return rc;
}

static const char *const edges[] = {[EDGE_OUT] = "out", [EDGE_EXPORT] = "export", NULL};
static const char *const counters[] = {
	[C_NEW] = "new-flows",
	[C_NOT_RECORDED] = "not-recorded",
	[C_RECORDS] = "records",
	[C_MESSAGES] = "messages",
	[C_LOST] = "messages-lost",
	[C_FLOWS] = "flows",
	NULL,
};

static const struct nf_ops monitor_ops = {
	.name = "monitor",
	.doc = "Flow monitor: counts packets of each flow, exports IPFIX. A flow is unidirectional (5-tuple; "
	       "ICMP by type and code), and has its packets and octets counted; a record is exported when "
	       "the flow is idle, at intervals while it is active, and, by socket, at the end. Packets pass "
	       "unchanged, also when the cache is full (counted as not-recorded).",
	.standards = "IPFIX: RFC 7011 over UDP, one observation domain per worker, templates repeated; "
		     "elements of IANA's registry (RFC 7012): addresses, ports, protocol, class of "
		     "service, TCP control bits, ICMP type and code, end reason, delta counts, start and "
		     "end in milliseconds. Left out: sampling, options templates, SCTP and TCP "
		     "transport, end of TCP connections (a flow ends by time only).",
	.params = mon_params,
	.conf_size = sizeof(struct mon_params),
	.edges = edges,
	.counters = counters,
	.reads = NF_F_5TUPLE | NF_F_DSCP | NF_F_L4_FLAGS | NF_F_LENGTH,
	.changes_volume = true,
	.category = NF_GENERAL,
	.state_key = NF_STATE_FLOW,
	.wants_headers = true,
	.elastic = true,
	.trails = true,
	.keeps = &mon_keeps,
	.rest = mon_rest,
	.init = mon_init,
	.worker_init = mon_worker_init,
	.worker_fini = mon_worker_fini,
	.process = mon_process,
	.tick = mon_tick,
	.flow_action = mon_flow_action,
	.flow_account = mon_flow_account,
};
NF_REGISTER(monitor_ops)
