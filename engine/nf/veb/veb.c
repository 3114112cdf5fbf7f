/* SPDX-License-Identifier: Apache-2.0 */
#include "veb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/flow.h"

static const char *const modes[] = {"veb", "vepa", NULL};
static const char *const unknowns[] = {"flood", "uplink", "drop", NULL};

static const struct param port_params[] = {
	{.name = "uplink", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct veb_port_params, uplink),
	 .doc = "the port is the way out of the server; frames never go from one uplink to another"},
	{.name = "macs", .type = PARAM_MAC, .list = true, .offset = offsetof(struct veb_port_params, macs),
	 .doc = "static addresses of the port; they neither age nor move"},
	{.name = "spoof_check", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct veb_port_params, spoof_check),
	 .doc = "frames that come in here must have one of the port's static addresses as their source"},
	{.name = "reflect", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct veb_port_params, reflect),
	 .doc = "reflective relay (IEEE 802.1Qbg): frames may leave by the port that they came in by, as "
		"the bridge outside of a VEPA has it"},
	{.name = "rate_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",
	 .offset = offsetof(struct veb_port_params, rate_bps),
	 .doc = "limit of what goes out by this port; frames wait in its queue until there is time for them. "
		"0: none"},
	{.name = "in_rate_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",
	 .offset = offsetof(struct veb_port_params, in_rate_bps),
	 .doc = "limit of what comes in by this port (an SR-IOV VF's max_tx_rate), with a queue likewise; 0: "
		"none"},
	{0},
};

static const struct param veb_params[] = {
	{.name = "ports", .type = PARAM_OBJECT, .list = true, .required = true, .fields = port_params,
	 .fields_size = sizeof(struct veb_port_params), .offset = offsetof(struct veb_params, ports),
	 .doc = "2 to 64. The first is reached by edge p0, and its input in the plan has port 0; and so "
		"on."},
	{.name = "mode", .type = PARAM_ENUM, .choices = modes, .def = "\"veb\"",
	 .offset = offsetof(struct veb_params, mode),
	 .doc = "veb: frames between ports of the server stay inside; vepa: all go to the uplink, where a "
		"bridge outside reflects them"},
	{.name = "unknown", .type = PARAM_ENUM, .choices = unknowns, .def = "\"flood\"",
	 .offset = offsetof(struct veb_params, unknown),
	 .doc = "unicast to an address that is not in the table. uplink: to the uplink, and dropped when it "
		"came from there, as NICs without learning do"},
	{.name = "learning", .type = PARAM_BOOL, .def = "true",
	 .offset = offsetof(struct veb_params, learning), .doc = "learn source addresses"},
	{.name = "addresses", .type = PARAM_UINT, .min = 1, .max = 16777216, .def = "4096",
	 .unit = "addresses", .offset = offsetof(struct veb_params, addresses),
	 .doc = "size of the table, 24 to 48 B each; an address that finds no room is not learnt"},
	{.name = "ageing_s", .type = PARAM_DOUBLE, .min = 0.1, .max = 1000000, .def = "300", .unit = "s",
	 .offset = offsetof(struct veb_params, ageing_s),
	 .doc = "a learnt address that sends nothing so long is forgotten; IEEE 802.1Q table 8-6"},
	{.name = "flood_pps", .type = PARAM_UINT, .min = 1, .max = 1e9, .def = "100000",
	 .unit = "frames/s", .offset = offsetof(struct veb_params, flood_pps),
	 .doc = "bound on broadcast, multicast and unknown unicast frames; others are dropped"},
	{.name = "flood_burst", .type = PARAM_UINT, .min = 1, .max = 1e9, .def = "1000",
	 .unit = "frames", .offset = offsetof(struct veb_params, flood_burst),
	 .doc = "how many of them may come at once"},
	{.name = "burst_bytes", .type = PARAM_UINT, .max = 1e9, .def = "1048576",
	 .unit = "bytes", .offset = offsetof(struct veb_params, burst_bytes),
	 .doc = "the most that a limit lets through at once when this lcore was away: a device would have "
		"worked meanwhile"},
	{.name = "capacity_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",
	 .offset = offsetof(struct veb_params, capacity_bps),
	 .doc = "limit of the way between the device and its host (PCIe), each way: what comes from ports "
		"that are no uplinks, and what goes to them. Such ports take turns, by bytes (deficit round "
		"robin). A frame between two of them takes of both; 0: none"},
	{.name = "queue_packets", .type = PARAM_UINT, .min = 1, .max = 65536, .def = "512",
	 .unit = "frames", .offset = offsetof(struct veb_params, queue_packets),
	 .doc = "depth of each port's two queues, where there are limits: frames wait in front of a limit, "
		"and are lost when its queue is full"},
	{.name = "overhead_bytes", .type = PARAM_UINT, .max = 64, .def = "24", .unit = "bytes",
	 .offset = offsetof(struct veb_params, overhead_bytes),
	 .doc = "added to each frame's length by the limits; 24: as on the wire, 4: with its FCS"},
	{0},
};

static int check_params(const struct veb_params *p, struct err *err)
{
	unsigned int uplinks = 0;

	if (p->ports.count < 2 || p->ports.count > VEB_PORTS_MAX)
		return err_set(err, EINVAL, "params.ports", "%zu ports; allowed: 2 to %d",
			       p->ports.count, VEB_PORTS_MAX);
	for (unsigned int i = 0; i < p->ports.count; i++)
		uplinks += veb_port_at(p, i)->uplink;
	if (!uplinks && (p->mode == VEB_MODE_VEPA || p->unknown == UNKNOWN_UPLINK))
		return err_set(err, EINVAL, "params.ports", "none is an uplink; %s needs one",
			       p->mode == VEB_MODE_VEPA ? "mode vepa" : "unknown: uplink");
	if (uplinks == p->ports.count)
		return err_set(err, EINVAL, "params.ports", "all are uplinks; nothing would go anywhere");
	return 0;
}

/*
 * With several uplinks, each inner port has one that it sends to and takes floods from: were there
 * more, a LAN outside that joins them would see each broadcast twice, and return it.
 */
static void wire_ports(struct veb *veb, const struct veb_params *p)
{
	uint8_t uplinks[VEB_PORTS_MAX];
	unsigned int n_uplinks = 0, inner = 0;

	veb->n_ports = (unsigned int)p->ports.count;
	for (unsigned int i = 0; i < veb->n_ports; i++) {
		veb->ports[i].uplink = veb_port_at(p, i)->uplink;
		veb->ports[i].spoof_check = veb_port_at(p, i)->spoof_check;
		veb->ports[i].reflect = veb_port_at(p, i)->reflect;
		if (veb->ports[i].reflect)
			veb->ports[i].flood = 1ull << i;
		veb->ports[i].to_uplink = (uint8_t)i;
		if (veb->ports[i].uplink)
			uplinks[n_uplinks++] = (uint8_t)i;
	}
	for (unsigned int i = 0; i < veb->n_ports; i++) {
		struct veb_port *port = &veb->ports[i];

		if (port->uplink)
			continue;
		for (unsigned int j = 0; j < veb->n_ports; j++)
			if (j != i && !veb->ports[j].uplink)
				port->flood |= 1ull << j;
		if (!n_uplinks)
			continue;
		port->to_uplink = uplinks[inner++ % n_uplinks];
		port->flood |= 1ull << port->to_uplink;
		veb->ports[port->to_uplink].flood |= 1ull << i;
	}
}

static int add_static(struct veb *veb, const struct param_mac *mac, unsigned int port,
		      const char *path, struct err *err)
{
	bool is_static;
	uint64_t key = macs_key(mac->bytes);
	int at = macs_find(&veb->macs, key, 0, &is_static);

	if ((mac->bytes[0] & 1) || !key)
		return err_set(err, EINVAL, path, "is %s; an address of one station is wanted",
			       key ? "a group address" : "all zeros");
	if (at >= 0 && is_static && at != (int)port)
		return err_set(err, EINVAL, path, "is a static address of port %d already", at);
	if (macs_add_static(&veb->macs, key, (uint16_t)port))
		return err_set(err, ENOSPC, path, "finds no room in the table: make \"addresses\" larger");
	return 0;
}

static int add_statics(struct veb *veb, const struct veb_params *p, struct err *err)
{
	char path[64];
	int rc = 0;

	for (unsigned int i = 0; i < veb->n_ports; i++) {
		const struct param_list *macs = &veb_port_at(p, i)->macs;

		for (size_t j = 0; j < macs->count && !rc; j++) {
			snprintf(path, sizeof(path), "params.ports[%u].macs[%zu]", i, j);
			rc = add_static(veb, (const struct param_mac *)macs->items + j, i, path, err);
		}
	}
	return rc;
}

static void veb_fini(struct nf *nf)
{
	struct veb *veb = nf->state;

	if (!veb)
		return;
	macs_fini(&veb->macs);
	free(veb);
	nf->state = NULL;
}

static int veb_init(struct nf *nf, struct err *err)
{
	const struct veb_params *p = nf->conf;
	struct veb *veb;
	int rc = check_params(p, err);

	if (rc)
		return rc;
	veb = nf->state = calloc(1, sizeof(*veb));
	if (!veb)
		return err_set(err, ENOMEM, "params", "out of memory");
	wire_ports(veb, p);
	rc = macs_init(&veb->macs, (uint32_t)p->addresses,
		       flow_ticks((uint64_t)(p->ageing_s * 1000)), err);
	if (!rc)
		rc = add_statics(veb, p, err);
	if (rc)
		veb_fini(nf);
	return rc;
}

static int start_meter(struct veb_meter *m, uint64_t rate, uint64_t burst, const struct nf_worker *w,
		       const char *path, struct err *err)
{
	struct rte_meter_srtcm_params params = {rate / (w->count ? w->count : 1), burst, 0};

	if (rte_meter_srtcm_profile_config(&m->profile, &params) ||
	    rte_meter_srtcm_config(&m->state, &m->profile))
		return err_set(err, EINVAL, path, "%llu per second, shared by %u replicas, is too low",
			       (unsigned long long)rate, w->count);
	return 0;
}

static void veb_worker_fini(struct nf_worker *w)
{
	struct veb_worker *vw = w->state;

	if (vw)
		veb_limits_stop(vw);
	free(vw);
	w->state = NULL;
}

static int veb_worker_init(struct nf_worker *w, struct err *err)
{
	const struct veb_params *p = w->nf->conf;
	struct veb_worker *vw = w->state = calloc(1, sizeof(*vw));
	int rc;

	if (!vw)
		return err_set(err, ENOMEM, "params", "out of memory");
	vw->veb = w->nf->state;
	vw->overhead = (uint32_t)p->overhead_bytes;
	vw->limited = veb_has_limits(p);
	rc = start_meter(&vw->flood, p->flood_pps, p->flood_burst, w, "params.flood_pps", err);
	if (!rc && vw->limited)
		rc = veb_limits_start(vw, p, w, err);
	if (rc)
		veb_worker_fini(w);
	return rc;
}

static void veb_tick(struct nf_worker *w, uint64_t now_tsc)
{
	struct veb *veb = ((struct veb_worker *)w->state)->veb;

	if (!w->index)
		w->counters[C_EXPIRED] += macs_age(&veb->macs, flow_now(now_tsc));
	/* Also when nothing is held: copies that wait are not. */
	veb_serve(w, now_tsc);
}

enum op { OP_ADD, OP_REMOVE, OP_FLUSH };

struct update {
	uint32_t op;
	struct param_mac mac;
	uint64_t port;
};

static const char *const op_names[] = {"add", "remove", "flush", NULL};
static const struct param update_params[] = {
	{.name = "op", .type = PARAM_ENUM, .required = true, .choices = op_names,
	 .offset = offsetof(struct update, op),
	 .doc = "add or remove a static address, or flush what was learnt"},
	{.name = "mac", .type = PARAM_MAC, .offset = offsetof(struct update, mac), .doc = "of add, remove"},
	{.name = "port", .type = PARAM_UINT, .max = VEB_PORTS_MAX - 1,
	 .offset = offsetof(struct update, port), .doc = "of add"},
	{0},
};

static int apply(struct veb *veb, const struct update *u, struct err *err)
{
	switch (u->op) {
	case OP_ADD:
		if (u->port >= veb->n_ports)
			return err_set(err, EINVAL, "op.port", "%u; allowed: 0 to %u",
				       (unsigned int)u->port, veb->n_ports - 1);
		return add_static(veb, &u->mac, (unsigned int)u->port, "op.mac", err);
	case OP_REMOVE:
		if (macs_remove_static(&veb->macs, macs_key(u->mac.bytes)))
			return err_set(err, ENOENT, "op.mac", "is no static address");
		return 0;
	}
	macs_flush(&veb->macs);
	return 0;
}

static int veb_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	struct veb *veb = nf->state;
	struct update u = {0};
	int rc = param_parse(update_params, op, "op", &u, err);

	if (!rc)
		rc = apply(veb, &u, err);
	if (!rc && reply)
		*reply = json_pack("{s:I}", "addresses", (json_int_t)macs_count(&veb->macs));
	return rc;
}

static const char *const edges[VEB_PORTS_MAX + 1] = {
	"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",
	"p14", "p15", "p16", "p17", "p18", "p19", "p20", "p21", "p22", "p23", "p24", "p25",
	"p26", "p27", "p28", "p29", "p30", "p31", "p32", "p33", "p34", "p35", "p36", "p37",
	"p38", "p39", "p40", "p41", "p42", "p43", "p44", "p45", "p46", "p47", "p48", "p49",
	"p50", "p51", "p52", "p53", "p54", "p55", "p56", "p57", "p58", "p59", "p60", "p61",
	"p62", "p63", NULL
};
static const char *const drops[] = {
	[DROP_NO_PORT] = "no-port",
	[DROP_BAD_SOURCE] = "bad-source",
	[DROP_SPOOFED] = "spoofed",
	[DROP_RESERVED] = "reserved-address",
	[DROP_FILTERED] = "filtered",
	[DROP_UNKNOWN] = "unknown-destination",
	[DROP_FLOOD_LIMIT] = "flood-limit",
	[DROP_UPLINK_OUT] = "uplink-out",
	[DROP_UPLINK_IN] = "uplink-in",
	[DROP_RATE] = "rate-limit",
	[DROP_RATE_IN] = "in-rate-limit",
	[DROP_CAPACITY] = "capacity",
	[DROP_QUEUE_FULL] = "queue-full",
	NULL,
};
static const char *const counters[] = {
	[C_FORWARDED] = "forwarded", [C_FLOODED] = "flooded", [C_COPIES] = "copies",
	[C_COPIES_LOST] = "copies-lost", [C_LEARNT] = "learnt", [C_MOVED] = "moved",
	[C_TABLE_FULL] = "table-full", [C_EXPIRED] = "expired",
	[C_WAITED] = "waited", [C_WAITED_NS] = "waited-ns",
	[C_UPLINK_OUT_BYTES] = "uplink-out-bytes", [C_UPLINK_IN_BYTES] = "uplink-in-bytes",
	[C_TO_HOST_BYTES] = "to-host-bytes", [C_FROM_HOST_BYTES] = "from-host-bytes", NULL};

static const char *veb_apart(const void *conf)
{
	return veb_has_limits(conf) ? "it holds frames that wait for a limit" : NULL;
}

static const struct nf_ops veb_ops = {
	.name = "veb",
	.doc = "The switch inside an SR-IOV NIC, or any bridge of 2 to 64 ports. A port is an input of the "
	       "segment (its \"port\" in the plan) and an edge (p0, p1, ...). Frames go where their "
	       "destination address is, from a table of static and learnt addresses; broadcast, multicast "
	       "and unknown unicast flood, within a bound. Each port may have rate limits, as a VF and an "
	       "uplink have, and the way between NIC and host one that its ports share: each port has a "
	       "queue each way, in which frames wait for them, and are lost only when it is full, under the "
	       "name of the limit that it waits for (uplink-out, uplink-in, rate-limit, in-rate-limit, "
	       "capacity). What passed them is counted as *-bytes, with overhead_bytes. Uplinks: see ports; "
	       "in mode vepa the bridge outside does the switching. All replicas share the table, without "
	       "locks; each has queues of its own and an equal share of the rates. Copies that find no mbuf, "
	       "or no room, are lost and counted. update: {op: add | remove, mac, port}, {op: flush}.",
	.standards = "IEEE 802.1Q clauses 8.6 (frame filtering, reserved addresses) and 8.8 (filtering "
		     "database), shared VLAN learning; IEEE 802.1Qbg: VEB, and VEPA with the filter of "
		     "reflected frames. Left out: VLAN membership and tagging of ports, spanning tree, "
		     "multicast filtering (MLD and IGMP snooping), S-channels, priorities.",
	.params = veb_params,
	.conf_size = sizeof(struct veb_params),
	.edges = edges,
	.drops = drops,
	.policy_drops = 1u << DROP_SPOOFED | 1u << DROP_FILTERED,
	.counters = counters,
	.reads = NF_F_MAC | NF_F_LENGTH,
	.may_drop = true,
	.changes_volume = true,
	.category = NF_NETWORK_ORIENTED,
	.state_key = NF_STATE_GLOBAL,
	.wants_port = true,
	.apart = veb_apart,
	.init = veb_init,
	.fini = veb_fini,
	.worker_init = veb_worker_init,
	.worker_fini = veb_worker_fini,
	.process = veb_process,
	.poll = veb_poll,
	.tick = veb_tick,
	.update = veb_update,
};
NF_REGISTER(veb_ops)
