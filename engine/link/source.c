/* SPDX-License-Identifier: Apache-2.0 */
/* A source makes packets: an open-loop generator as a link that can be read. */
#include "source.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "core/nf.h"

#define FRAME_MIN 64
#define FRAME_MAX 9618

static const char *const vary_names[] = {"src_ip", "dst_ip", "src_port", "dst_port", NULL};
static const char *const order_names[] = {"round-robin", "random", "zipf", NULL};
static const char *const timing_names[] = {"load", "capture", NULL};
static const char *const protocol_names[] = {"udp", "tcp", NULL};

#define CRAFT(field) offsetof(struct source_conf, craft.field)
#define FLOWS(field) offsetof(struct source_conf, flows.field)

static const struct param source_params[] = {
	{.name = "frame_bytes", .type = PARAM_UINT, .list = true, .offset = CRAFT(frame_bytes),
	 .min = FRAME_MIN, .max = FRAME_MAX, .def = "[64]", .unit = "bytes",
	 .doc = "frame sizes with FCS, sent in this order over and over (an IMIX genome, RFC 6985)"},
	{.name = "flows", .type = PARAM_UINT, .offset = FLOWS(flows), .min = 1, .max = 1u << 31,
	 .def = "1", .doc = "number of flows; above 4194304 they share one sequence number"},
	{.name = "vary", .type = PARAM_ENUM, .list = true, .choices = vary_names,
	 .offset = FLOWS(vary), .def = "[\"src_port\"]",
	 .doc = "header fields that differ between flows: flow i has each plus i; a port that varies "
		"stays in 1024..65535, and begins at 1024 where a lower one is given"},
	{.name = "order", .type = PARAM_ENUM, .choices = order_names, .offset = FLOWS(order),
	 .def = "\"round-robin\"", .doc = "which flow the next packet belongs to"},
	{.name = "zipf_s", .type = PARAM_DOUBLE, .offset = FLOWS(zipf_s), .min = 0.01, .max = 10,
	 .def = "1.0", .doc = "exponent of order zipf"},
	{.name = "protocol", .type = PARAM_ENUM, .choices = protocol_names,
	 .offset = FLOWS(protocol), .def = "\"udp\"", .doc = "L4 protocol"},
	{.name = "src_ip", .type = PARAM_IP, .offset = FLOWS(src_ip), .def = "\"198.18.0.1\"",
	 .doc = "first source address (RFC 2544 appendix C range by default); IPv4 or IPv6"},
	{.name = "dst_ip", .type = PARAM_IP, .offset = FLOWS(dst_ip), .def = "\"198.19.0.1\"",
	 .doc = "first destination address"},
	{.name = "src_port", .type = PARAM_UINT, .offset = FLOWS(src_port), .max = 65535,
	 .def = "1024", .doc = "first source port"},
	{.name = "dst_port", .type = PARAM_UINT, .offset = FLOWS(dst_port), .max = 65535,
	 .def = "80", .doc = "first destination port"},
	{.name = "src_mac", .type = PARAM_MAC, .offset = CRAFT(src_mac),
	 .def = "\"02:00:00:00:01:01\"", .doc = "source MAC address"},
	{.name = "dst_macs", .type = PARAM_MAC, .list = true, .offset = CRAFT(dst_macs),
	 .def = "[\"02:00:00:00:02:01\"]",
	 .doc = "destination MAC addresses, used in turn packet by packet: a way to reach N VNFs"},
	{.name = "dst_ips_file", .type = PARAM_FILE, .offset = FLOWS(dst_ips_file),
	 .doc = "destination addresses: flow i goes to line i (mod lines); prefixes stand for a host "
		"inside; plain or gz"},
	{.name = "headers_file", .type = PARAM_FILE, .offset = FLOWS(headers_file),
	 .doc = "flows from a ClassBench header trace (src dst sport dport proto, decimal); all of "
		"them, or the first `flows` when that is over 1"},
	{.name = "vlan", .type = PARAM_UINT, .offset = CRAFT(vlan), .max = 4094, .def = "0",
	 .doc = "802.1Q VLAN id; 0: untagged"},
	{.name = "dscp", .type = PARAM_UINT, .offset = CRAFT(dscp), .max = 63, .def = "0",
	 .doc = "differentiated services code point"},
	{.name = "ttl", .type = PARAM_UINT, .offset = CRAFT(ttl), .min = 1, .max = 255, .def = "64",
	 .doc = "TTL or hop limit"},
	{.name = "stamp", .type = PARAM_BOOL, .offset = CRAFT(stamp), .def = "true",
	 .doc = "put a 16-byte stamp (flow, sequence, intended time) at the end of the payload; "
		"without it only counts are measured"},
	{.name = "seed", .type = PARAM_UINT, .offset = FLOWS(seed), .max = 1ull << 53, .def = "1",
	 .doc = "of orders random and zipf"},
	{.name = "flow_base", .type = PARAM_UINT, .offset = offsetof(struct source_conf, flow_base),
	 .max = 1u << 22, .def = "0",
	 .doc = "number of the first flow in stamps; apart for sources whose packets meet in one sink"},
	{.name = "pcap_file", .type = PARAM_FILE, .offset = offsetof(struct source_conf, pcap_file),
	 .doc = "replay this capture's packets unchanged, over and over, instead of making any"},
	{.name = "pcap_timing", .type = PARAM_ENUM, .choices = timing_names,
	 .offset = offsetof(struct source_conf, timing), .def = "\"load\"",
	 .doc = "when a capture's packets are due: load: in equal distances; capture: in its own, all of "
		"them stretched alike so that the mean is the trial's rate"},
	{0},
};

static void source_fini(struct link *l)
{
	struct source *s = l->state;

	if (!s)
		return;
	craft_destroy(&s->craft);
	flows_destroy(&s->flows);
	replay_free(s->replay);
	rte_free(s->queues);
	free(s);
	l->state = NULL;
}

static int source_load(struct link *l, struct source *s, struct err *err)
{
	const struct source_conf *c = l->conf;
	struct craft_conf craft = c->craft;
	uint16_t room = rte_pktmbuf_data_room_size(l->pool) - RTE_PKTMBUF_HEADROOM;
	int rc;

	if (c->pcap_file)
		return replay_load(c->pcap_file, room, &s->replay, err);
	for (size_t i = 0; i < c->craft.frame_bytes.count; i++) {
		uint64_t frame = ((uint64_t *)c->craft.frame_bytes.items)[i];

		if (frame - RTE_ETHER_CRC_LEN > room)
			return err_set(err, EINVAL, "params.frame_bytes",
				       "%lu B frames do not fit packet buffers of %u B; raise "
				       "engine.mbuf_data_bytes",
				       (unsigned long)frame, room);
	}
	rc = flows_create(&s->flows, &c->flows, s->n_queues, err);
	if (rc)
		return rc;
	craft.src_ip = c->flows.src_ip;
	craft.dst_ip = c->flows.dst_ip;
	return craft_create(&s->craft, &craft, &s->flows, err);
}

static int source_init(struct link *l, struct err *err)
{
	const struct source_conf *c = l->conf;
	struct source *s;
	int rc;

	if (!l->n_rxq)
		return err_set(err, EINVAL, "", "a source needs a reader: no segment names it");
	if (!c->craft.frame_bytes.count || !c->craft.dst_macs.count)
		return err_set(err, EINVAL, "params", "frame_bytes and dst_macs must not be empty");
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	l->state = s;
	s->link = l;
	s->conf = c;
	s->n_queues = l->n_rxq;
	s->queues = rte_zmalloc("source", l->n_rxq * sizeof(*s->queues), RTE_CACHE_LINE_SIZE);
	rc = s->queues ? source_load(l, s, err) : err_set(err, ENOMEM, "", "out of memory");
	if (!rc && s->replay && l->n_rxq > 1)
		rc = err_set(err, EINVAL, "params.pcap_file", "a capture has one replica to replay it");
	if (!rc && c->timing == TIMING_CAPTURE && !(s->replay && s->replay->period_ns))
		rc = err_set(err, EINVAL, "params.pcap_timing",
			     "capture, but there is no capture whose packets have different times");
	if (!rc && !s->replay && s->flows.table && s->flows.n < l->n_rxq)
		rc = err_set(err, EINVAL, "params.flows", "%lu flows for %u replicas of the source",
			     (unsigned long)s->flows.n, l->n_rxq);
	if (rc)
		source_fini(l);
	return rc;
}

static int source_rx_open(struct link_rxq *rxq, struct err *err)
{
	struct source *s = rxq->link->state;
	struct source_queue *q = &s->queues[rxq->index];

	(void)err;
	q->source = s;
	q->index = rxq->index;
	q->first_flow = s->flows.n * q->index / s->n_queues;
	q->n_flows = s->flows.n * (q->index + 1) / s->n_queues - q->first_flow;
	rxq->state = q;
	return 0;
}

static bool source_busy(const struct link *l)
{
	const struct source *s = l->state;

	for (uint16_t i = 0; i < s->n_queues; i++)
		if (atomic_load(&s->queues[i].done_epoch) != s->run.epoch)
			return true;
	return false;
}

static void source_prepare(struct link *l)
{
	struct source *s = l->state;

	flows_reset_sequences(&s->flows);
	if (s->replay)
		replay_reset(s->replay);
}

/* For a copy at most; the lcore that makes it may have lost its CPU meanwhile. */
static void hold(struct source *s)
{
	while (atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire))
		sched_yield();
}

static void release(struct source *s)
{
	atomic_fetch_add_explicit(&s->version, 1, memory_order_release);
	atomic_flag_clear_explicit(&s->held, memory_order_release);
}

static void source_start(struct link *l, const struct send_run *run)
{
	struct source *s = l->state;

	hold(s);
	s->run = *run;
	if (source_timed(s, run) && !run->counted)
		s->run.packets = source_timed_packets(s, run);
	s->stopped = false;
	release(s);
}

static void source_stop(struct link *l)
{
	struct source *s = l->state;

	hold(s);
	s->stopped = true;
	release(s);
}

static void source_set_rate(struct link *l, double rate_pps)
{
	struct source *s = l->state;

	hold(s);
	s->run.rate_pps = rate_pps;
	release(s);
}

static void source_announce(const struct link *l, struct trial *t)
{
	const struct source *s = l->state;

	if (s->replay) {
		if (t->n_replays < TRIAL_REPLAYS_MAX)
			t->replays[t->n_replays++] = (struct trial_replay){l->name, s->replay};
		t->blind = false;
		return;
	}
	t->n_flows = RTE_MAX(t->n_flows,
			     s->conf->flow_base + (s->flows.table ? s->flows.n : s->n_queues));
	if (s->conf->craft.stamp)
		t->blind = false;
}

static const struct link_sender source_sends = {
	.busy = source_busy,
	.announce = source_announce,
	.prepare = source_prepare,
	.start = source_start,
	.stop = source_stop,
	.set_rate = source_set_rate,
};

static json_t *source_stats(struct link *l)
{
	const struct source *s = l->state;
	uint64_t sent = 0, bytes = 0, behind = 0, last = 0, no_mbuf = 0, intended;
	uint64_t sizes[SIZE_CLASSES] = {0};
	double per_ns = 1e9 / (double)rte_get_tsc_hz();
	bool started = s->run.epoch != 0, busy = source_busy(l);

	for (uint16_t i = 0; i < s->n_queues; i++) {
		const struct source_queue *q = &s->queues[i];

		if (!started || q->epoch != s->run.epoch)
			continue;
		sent += q->sent;
		bytes += q->sent_bytes;
		for (unsigned int c = 0; c < SIZE_CLASSES; c++)
			sizes[c] += q->sizes[c];
		no_mbuf += q->no_mbuf;
		behind = RTE_MAX(behind, q->pace.behind_max);
		last = RTE_MAX(last, q->last_tsc);
	}
	intended = s->run.packets == UINT64_MAX || s->stopped ? sent : s->run.packets;
	return json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "state",
			 !started ? "idle" : busy ? "running" : "done", "intended",
			 (json_int_t)(started ? intended : 0), "sent", (json_int_t)sent, "sent_bytes",
			 (json_int_t)bytes, "sizes", sizes_json(sizes), "unsent",
			 (json_int_t)(started && !busy && intended > sent ? intended - sent : 0),
			 "no_mbuf", (json_int_t)no_mbuf, "behind_max_ns",
			 (json_int_t)(behind * per_ns), "duration_ns",
			 (json_int_t)(last > s->run.start_tsc ? (last - s->run.start_tsc) * per_ns
							      : 0),
			 "intended_duration_ns", (json_int_t)(s->run.duration * per_ns), "flows",
			 (json_int_t)(s->replay ? s->replay->n_slots : s->flows.n), "rate_pps",
			 s->run.rate_pps);
}

static const struct link_ops source_ops = {
	.name = "source",
	.doc = "Makes packets at a set rate (open loop) or as fast as possible. They are synthetic flows "
	       "with correct checksums and stamps, flows from a header trace, or a capture replayed.",
	.params = source_params,
	.conf_size = sizeof(struct source_conf),
	.reads = true,
	.init = source_init,
	.fini = source_fini,
	.rx_open = source_rx_open,
	.rx = source_rx,
	.stats = source_stats,
	.sends = &source_sends,
};
LINK_REGISTER(source_ops)
