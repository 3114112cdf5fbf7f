/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <rte_cycles.h>
#include <rte_mbuf_dyn.h>

#include "shm.h"

static const char *const roles[] = {"server", "client", NULL};

static const struct param shm_params[] = {
	{.name = "socket", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct shm_conf, socket),
	 .doc = "Unix socket at which the two engines meet, at most 107 characters"},
	{.name = "role", .type = PARAM_ENUM, .choices = roles, .def = "\"server\"",
	 .offset = offsetof(struct shm_conf, role),
	 .doc = "server: owns the memory and outlives its clients, one after the other; client: comes, and "
		"comes again when the server was gone"},
	{.name = "slots", .type = PARAM_UINT, .min = 64, .max = 1 << 20, .def = "1024",
	 .unit = "packets", .offset = offsetof(struct shm_conf, slots),
	 .doc = "server's: capacity of each direction, a power of two"},
	{.name = "slot_bytes", .type = PARAM_UINT, .min = 256, .max = 65536, .def = "2048",
	 .unit = "bytes", .offset = offsetof(struct shm_conf, slot_bytes),
	 .doc = "server's: room for one packet; longer ones are dropped"},
	{.name = "wait_link_ms", .type = PARAM_UINT, .max = 60000, .def = "0", .unit = "ms",
	 .offset = offsetof(struct shm_conf, wait_link_ms),
	 .doc = "how long to wait for the peer before going on"},
	{.name = "offload", .type = PARAM_UINT, .max = OFFLOAD_FLOWS_MAX, .def = "0", .unit = "flows",
	 .offset = offsetof(struct shm_conf, offload),
	 .doc = "offload of state: the client tells what its segment does to a flow, and the server does "
		"that to the flow's next packets. A power of two, at both ends the same, and the client's "
		"segment's `fastpath`; 0: none"},
	{.name = "checkpoint_mb", .type = PARAM_UINT, .max = SHM_KEPT_MB_MAX, .def = "0", .unit = "MiB",
	 .offset = offsetof(struct shm_conf, checkpoint_mb),
	 .doc = "server's: memory that it keeps from client to client, for their checkpoints; 0: none"},
	{.name = "checkpoint_ms", .type = PARAM_UINT, .max = 60000, .def = "0", .unit = "ms",
	 .offset = offsetof(struct shm_conf, checkpoint_ms),
	 .doc = "client's: how often each flow of its segment's functions is written into the memory that "
		"the server keeps, with which the next client goes on; 0: never"},
	{.name = "times", .type = PARAM_BOOL, .def = "false", .offset = offsetof(struct shm_conf, times),
	 .doc = "take each packet's times: waiting here, of that with the reader off its CPU, and from "
		"a link of this kind to this one"},
	{0},
};

static int check(const struct link *l, struct err *err)
{
	const struct shm_conf *c = l->conf;

	if (strlen(c->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path) || !*c->socket)
		return err_set(err, EINVAL, "params.socket", "%zu characters; allowed: 1 to 107",
			       strlen(c->socket));
	if (c->slots & (c->slots - 1))
		return err_set(err, EINVAL, "params.slots", "%lu; allowed: a power of two",
			       (unsigned long)c->slots);
	if (c->offload & (c->offload - 1) || (c->offload && c->offload < 4))
		return err_set(err, EINVAL, "params.offload",
			       "%lu; allowed: 0, or a power of two from 4",
			       (unsigned long)c->offload);
	if (c->role ? c->checkpoint_mb : c->checkpoint_ms)
		return err_set(err, EINVAL, c->role ? "params.checkpoint_mb" : "params.checkpoint_ms",
			       "is the %s's; this end is the %s; allowed: 0",
			       c->role ? "server" : "client", roles[c->role]);
	if (l->n_rxq > 1 || l->n_txq > 1)
		return err_set(err, EINVAL, "", "%u replicas read and %u write it; allowed: one of each, "
			       "steer through a ring", l->n_rxq, l->n_txq);
	return 0;
}

static int wait_link(const struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;

	for (uint64_t ms = 0; ms < c->wait_link_ms && !atomic_load(&s->up); ms += 5)
		rte_delay_us_sleep(5000);
	if (!c->wait_link_ms || atomic_load(&s->up))
		return 0;
	return err_set(err, ENETDOWN, "params.wait_link_ms", "no peer at \"%.100s\" after %lu ms",
		       c->socket, (unsigned long)c->wait_link_ms);
}

static void shm_fini(struct link *l)
{
	struct shm_state *s = l->state;

	if (!s)
		return;
	shm_peer_stop(s);
	shm_queue_close(&s->rx);
	shm_queue_close(&s->tx);
	shm_kept_close(s);
	shm_map_close(s->own);
	shm_map_close(s->control);
	shm_offload_close(s->offload);
	shm_hold_close(s);
	free(s->times.wait_ns);
	free(s->times.off_cpu_ns);
	free(s->stay_ns);
	free(s);
	l->state = NULL;
}

static int register_stamp(struct err *err)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "headrace_shm_tsc", .size = sizeof(uint64_t), .align = sizeof(uint64_t)};

	if (shm_stamp_offset < 0)
		shm_stamp_offset = rte_mbuf_dynfield_register(&field);
	return shm_stamp_offset < 0 ? err_set(err, ENOMEM, "", "no room in mbufs for a stamp") : 0;
}

static struct hist *new_hist(void)
{
	struct hist *h = malloc(sizeof(*h));

	if (h)
		hist_reset(h);
	return h;
}

static int prepare(struct shm_state *s, struct err *err)
{
	const struct shm_conf *c = s->link->conf;

	s->ns_per_cycle = 1e9 / (double)rte_get_tsc_hz();
	if (c->times) {
		s->times.wait_ns = new_hist();
		s->times.off_cpu_ns = new_hist();
		s->stay_ns = new_hist();
		if (!s->times.wait_ns || !s->times.off_cpu_ns || !s->stay_ns)
			return err_set(err, ENOMEM, "params.times", "out of memory");
	}
	if (c->role)
		return 0;
	if (c->offload && shm_offload_open(s, err))
		return -ENOMEM;
	return shm_kept_make(s, err) ? -ENOMEM : shm_renew(s, err);
}

static uint32_t shm_tells(const struct link *l)
{
	const struct shm_conf *c = l->conf;

	return c->role ? (uint32_t)c->offload : 0;
}

static int shm_init(struct link *l, struct err *err)
{
	struct shm_state *s;
	int rc = check(l, err);

	if (rc)
		return rc;
	s = l->state = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	s->link = l;
	s->peer = s->listening = s->wake = s->kept_fd = -1;
	shm_looks_begin(&s->looks);
	rc = register_stamp(err);
	if (!rc)
		rc = prepare(s, err);
	if (!rc)
		rc = shm_peer_start(s, err);
	if (!rc)
		rc = wait_link(s, err);
	if (rc)
		shm_fini(l);
	return rc;
}

static json_t *time_json(const struct hist *h, uint64_t count, uint64_t cycles, double ns_per_cycle)
{
	struct hist *copy = malloc(sizeof(*copy));
	json_t *o;

	if (!copy)
		return json_object();
	/* The lcore goes on recording: percentiles are those of one copy. */
	*copy = *h;
	copy->count = 0;
	for (unsigned int i = 0; i < HIST_SLOTS; i++)
		copy->count += copy->slots[i];
	o = json_pack("{s:I, s:I, s:I, s:I}", "count", (json_int_t)count, "sum_ns",
		      (json_int_t)((double)cycles * ns_per_cycle), "p50_ns",
		      (json_int_t)hist_percentile(copy, 0.5), "p99_ns",
		      (json_int_t)hist_percentile(copy, 0.99));
	free(copy);
	return o;
}

/* Of a client: its server says that it lets packets wait. */
int shm_drained(const struct link *l)
{
	const struct shm_state *s = l->state;
	const struct shm_conf *c = l->conf;

	if (!c->role)
		return -ENOTSUP;
	return !shm_queue_used(&s->tx, SHM_TO_SERVER) && !shm_queue_unread(&s->rx, SHM_TO_CLIENT);
}

static json_t *hold_json(const struct shm_state *s)
{
	struct link_held held;
	bool holds = shm_holds(s->link, &held);

	return json_pack("{s:b, s:I, s:I, s:I}", "holds", holds, "waited", (json_int_t)held.waited, "most",
			 (json_int_t)held.most, "now", (json_int_t)held.now);
}

static json_t *shm_stats(struct link *l)
{
	const struct shm_state *s = l->state;
	const struct shm_conf *c = l->conf;
	json_t *ended = json_object();
	json_t *o = json_pack(
		"{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "up",
		atomic_load(&s->up), "connects", (json_int_t)atomic_load(&s->connects), "refused",
		(json_int_t)atomic_load(&s->refused), "robbed", (json_int_t)atomic_load(&s->robbed),
		"rx_packets", (json_int_t)s->received, "tx_packets", (json_int_t)s->sent, "corrupt",
		(json_int_t)s->corrupt, "rx_no_mbuf", (json_int_t)s->no_mbuf, "too_long",
		(json_int_t)s->too_long, "wakes_held", (json_int_t)s->wakes_held, "wakes_paused",
		(json_int_t)s->wakes_paused, "turns_passed", (json_int_t)s->looks.passed, "used",
		(json_int_t)shm_queue_used(&s->tx, c->role ? SHM_TO_SERVER : SHM_TO_CLIENT) +
			shm_offload_used(s->offload) + shm_hold_used(s));

	ends_put(ended, "too-long", &s->too_long_ends);
	json_object_set_new(o, "ended", ended);
	if (s->hold)
		json_object_set_new(o, "hold", hold_json(s));
	if (s->offload)
		json_object_set_new(o, "offload", shm_offload_json(s->offload, ended));
	if (!s->times.wait_ns)
		return o;
	json_object_set_new(o, "wait", time_json(s->times.wait_ns, s->times.count, s->times.wait,
						 s->ns_per_cycle));
	json_object_set_new(o, "off_cpu", time_json(s->times.off_cpu_ns, s->times.count,
						    s->times.off_cpu, s->ns_per_cycle));
	json_object_set_new(o, "stay", time_json(s->stay_ns, s->stays, s->stay_cycles,
						 s->ns_per_cycle));
	return o;
}

static const struct link_ops shm_ops = {
	.name = "shm",
	.doc = "A pair of rings in memory shared with another engine. It joins a host's switch and a VNF in "
	       "a process or container. Packets are copied in and out, so that a peer may die at any time: "
	       "nothing is left of it, and it can come again.",
	.params = shm_params,
	.conf_size = sizeof(struct shm_conf),
	.reads = true,
	.writes = true,
	.unclassified = true,
	.init = shm_init,
	.fini = shm_fini,
	.rx = shm_rx,
	.tx = shm_tx,
	.stats = shm_stats,
	.wait_fd = shm_wait_fd,
	.wait_arm = shm_wait_arm,
	.wait_disarm = shm_wait_disarm,
	.checkpoint_ms = shm_checkpoint_ms,
	.kept = shm_kept_at,
	.tells = shm_tells,
	.told = shm_told,
	.tables_changed = shm_tables_changed,
	.hold = shm_hold,
	.release = shm_release,
	.holds = shm_holds,
	.drained = shm_drained,
};
LINK_REGISTER(shm_ops)
