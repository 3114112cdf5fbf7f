/* SPDX-License-Identifier: Apache-2.0 */
/* A port is any DPDK device, named by its devargs. */
#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "core/claim.h"
#include "core/link.h"
#include "core/log.h"
#include "core/rights/helper.h"
#include "port.h"

static const char *const rss_names[] = {"ip", "tcp", "udp", NULL};

static const struct param port_params[] = {
	{.name = "devargs", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct port_conf, devargs),
	 .doc = "the device as DPDK names it: a PCI address (list it in engine.pci too) or "
		"net_ring0, net_memif0,role=server,socket=/run/x.sock, net_vhost0,iface=..., "
		"net_virtio_user0,path=..., net_tap0,iface=..., net_af_packet0,iface=..., "
		"net_af_xdp0,iface=..., net_pcap0,rx_pcap=...,tx_pcap=..., net_null0"},
	{.name = "rx_descriptors", .type = PARAM_UINT,
	 .offset = offsetof(struct port_conf, rx_descriptors), .min = 32, .max = 32768,
	 .def = "1024", .unit = "packets", .doc = "receive queue length, adjusted to the device"},
	{.name = "tx_descriptors", .type = PARAM_UINT,
	 .offset = offsetof(struct port_conf, tx_descriptors), .min = 32, .max = 32768,
	 .def = "1024", .unit = "packets", .doc = "transmit queue length, adjusted to the device"},
	{.name = "mtu", .type = PARAM_UINT, .offset = offsetof(struct port_conf, mtu), .max = 9600,
	 .def = "0", .unit = "bytes", .doc = "largest packet without Ethernet header; 0: the device's own"},
	{.name = "rss_fields", .type = PARAM_ENUM, .list = true,
	 .offset = offsetof(struct port_conf, rss_fields), .choices = rss_names,
	 .def = "[\"ip\", \"tcp\", \"udp\"]",
	 .doc = "headers by which flows are spread over receive queues, as far as the device can"},
	{.name = "rss_key", .type = PARAM_STRING, .offset = offsetof(struct port_conf, rss_key),
	 .doc = "of the hash over them, 40 to 52 bytes in hexadecimal digits; by itself one that "
		"makes both directions of a flow meet"},
	{.name = "promiscuous", .type = PARAM_BOOL,
	 .offset = offsetof(struct port_conf, promiscuous), .def = "true",
	 .doc = "take packets for any MAC address"},
	{.name = "wait_link_ms", .type = PARAM_UINT,
	 .offset = offsetof(struct port_conf, wait_link_ms), .max = 60000, .def = "0", .unit = "ms",
	 .doc = "how long to wait for the link to come up before going on"},
	{.name = "times", .type = PARAM_BOOL, .def = "false",
	 .offset = offsetof(struct port_conf, times),
	 .doc = "take packets' times: from a port that does so, too, to this one, and their age when they "
		"come and leave, by the source's stamp"},
	{0},
};

static uint64_t taken; /* ports that are a link's, one bit each */

static uint64_t ports_present(void)
{
	uint64_t set = 0;
	uint16_t port;

	static_assert(RTE_MAX_ETHPORTS <= 64, "one bit per port");
	RTE_ETH_FOREACH_DEV(port)
		set |= 1ull << port;
	return set;
}

static void take(struct link *l, uint16_t port)
{
	struct port_state *s = l->state;

	s->probed = true;
	l->port_id = port;
	taken |= 1ull << port;
}

/* Devices of engine.pci were plugged in when EAL started; ports bear their names. */
static bool there_already(const char *devargs, uint16_t *port)
{
	char name[RTE_ETH_NAME_MAX_LEN];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(devargs, ","), devargs);
	return !rte_eth_dev_get_port_by_name(name, port) && !(taken & 1ull << *port);
}

/* Plug the device in; the port that appears is the link's, whatever the driver calls it. */
static int probe(struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	struct port_state *s = l->state;
	uint64_t before = ports_present(), new;
	uint16_t port;
	int rc;

	if (there_already(c->devargs, &port)) {
		take(l, port);
		return 0;
	}
	s->claim = claim_device(c->devargs);
	if (s->claim == -EADDRINUSE)
		return err_set(err, EEXIST, "params.devargs",
			       "the interface of \"%.80s\" is in use by another engine; allowed: one "
			       "engine per interface",
			       c->devargs);
	rc = rte_dev_probe(c->devargs);
	new = ports_present() & ~before;
	if (rc == -EEXIST || (!rc && !new))
		return err_set(err, EEXIST, "params.devargs",
			       "device \"%.80s\" is in use already, by another link or program",
			       c->devargs);
	if (rc)
		return err_set(err, ENODEV, "params.devargs", "no device \"%.120s\": %s", c->devargs,
			       rte_strerror(-rc));
	take(l, __builtin_ctzll(new));
	return 0;
}

static int wait_link(const struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	struct rte_eth_link link = {0};

	for (uint64_t ms = 0; ms < c->wait_link_ms; ms += 10) {
		if (!rte_eth_link_get_nowait(l->port_id, &link) && link.link_status)
			return 0;
		rte_delay_us_sleep(10000);
	}
	if (!c->wait_link_ms)
		return 0;
	return err_set(err, ENETDOWN, "params.wait_link_ms",
		       "the link of \"%.80s\" is not up after %lu ms", c->devargs,
		       (unsigned long)c->wait_link_ms);
}

/* The path at which the driver listens, which it cannot remove itself in the end (rights.h). */
static bool listens_at(const char *devargs, char *path, size_t size)
{
	static const struct {
		const char *driver, *listens, *not, *key;
	} drivers[] = {
		{"net_memif", "role=server", NULL, ",socket="},
		{"net_vhost", "iface=", "client=1", ",iface="},
		{"net_virtio_user", "server=1", NULL, ",path="},
	};

	for (unsigned int i = 0; i < RTE_DIM(drivers); i++) {
		const char *value = strstr(devargs, drivers[i].key);

		if (strncmp(devargs, drivers[i].driver, strlen(drivers[i].driver)) ||
		    !strstr(devargs, drivers[i].listens) || !value ||
		    (drivers[i].not && strstr(devargs, drivers[i].not)))
			continue;
		value += strlen(drivers[i].key);
		snprintf(path, size, "%.*s", (int)strcspn(value, ","), value);
		return true;
	}
	return false;
}

static void port_fini(struct link *l)
{
	const struct port_conf *c = l->conf;
	char path[128];
	struct port_state *s = l->state;
	struct rte_eth_dev_info info;

	if (!s)
		return;
	if (s->started)
		rte_eth_dev_stop(l->port_id);
	if (s->probed && !rte_eth_dev_info_get(l->port_id, &info)) {
		rte_eth_dev_close(l->port_id);
		rte_dev_remove(info.device);
		taken &= ~(1ull << l->port_id);
		if (listens_at(c->devargs, path, sizeof(path)))
			helper_remove(path);
	}
	if (s->claim >= 0)
		close(s->claim);
	rte_free(s->rx);
	rte_free(s->tx);
	free(s);
	l->state = NULL;
}

static int prepare_times(const struct port_conf *c, struct err *err)
{
	if (!c->times || !port_times_init())
		return 0;
	return err_set(err, ENOMEM, "params.times", "no room in mbufs for a time");
}

static int port_init(struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	struct port_state *s = calloc(1, sizeof(*s));
	char path[128];
	int rc;

	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	l->state = s;
	s->claim = -1;
	log_forget();
	if (listens_at(c->devargs, path, sizeof(path)))
		helper_note(path);
	s->rx = rte_zmalloc("port", (l->n_rxq + 1) * sizeof(*s->rx), RTE_CACHE_LINE_SIZE);
	s->tx = rte_zmalloc("port", (l->n_txq + 1) * sizeof(*s->tx), RTE_CACHE_LINE_SIZE);
	rc = s->rx && s->tx ? prepare_times(c, err)
			    : err_set(err, ENOMEM, "", "out of memory");
	if (!rc)
		rc = probe(l, err);
	if (!rc)
		rc = port_configure(l, err);
	if (!rc)
		rc = wait_link(l, err);
	if (rc) {
		log_explain(err);
		port_fini(l);
	}
	return rc;
}

static void open_queue(struct port_queue *p, const struct link *l, uint16_t index)
{
	const struct port_conf *c = l->conf;

	*p = (struct port_queue){.port = l->port_id, .queue = index, .timed = c->times};
}

static int port_rx_open(struct link_rxq *q, struct err *err)
{
	struct port_state *s = q->link->state;

	(void)err;
	open_queue(&s->rx[q->index], q->link, q->index);
	q->state = &s->rx[q->index];
	return 0;
}

static int port_tx_open(struct link_txq *q, struct err *err)
{
	struct port_state *s = q->link->state;

	(void)err;
	open_queue(&s->tx[q->index], q->link, q->index);
	q->state = &s->tx[q->index];
	return 0;
}

/*
 * What taking the device down needs. The interfaces of these drivers are the kernel's; what else there
 * is is memory and sockets, or a NIC of PCI, whose drivers map memory and set registers.
 */
static uint64_t port_keeps(const struct link *l)
{
	static const char *const of_the_kernel[] = {"net_tap", "net_af_xdp", "net_af_packet",
						    "net_virtio_user", "net_pcap"};
	const struct port_conf *c = l->conf;

	for (unsigned int i = 0; i < RTE_DIM(of_the_kernel); i++)
		if (!strncmp(c->devargs, of_the_kernel[i], strlen(of_the_kernel[i])))
			return 1ull << CAP_NET_ADMIN;
	if (!strncmp(c->devargs, "net_", 4))
		return 0;
	return 1ull << CAP_NET_ADMIN | 1ull << CAP_NET_RAW | 1ull << CAP_IPC_LOCK |
	       1ull << CAP_SYS_RAWIO |
	       /* Memory that the pool takes later has physical addresses to be asked for. */
	       (rte_eal_iova_mode() == RTE_IOVA_PA ? 1ull << CAP_SYS_ADMIN : 0);
}

static uint16_t port_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	struct port_queue *p = q->state;
	uint16_t got = rte_eth_rx_burst(p->port, p->queue, pkts, n);

	if (unlikely(p->timed) && got)
		port_times_in(&p->times, pkts, got);
	return got;
}

static uint16_t port_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct port_queue *p = q->state;

	(void)dest;
	if (unlikely(p->timed))
		return port_times_out(&p->times, p->port, p->queue, pkts, n);
	return rte_eth_tx_burst(p->port, p->queue, pkts, n);
}

static void add_times(json_t *o, const struct link *l)
{
	const struct port_state *s = l->state;
	struct port_times in = {0}, out = {0};

	for (uint16_t i = 0; i < l->n_rxq; i++)
		port_times_add(&in, &s->rx[i].times);
	for (uint16_t i = 0; i < l->n_txq; i++)
		port_times_add(&out, &s->tx[i].times);
	json_object_set_new(o, "age_in", port_times_json(in.aged, in.age_cycles));
	json_object_set_new(o, "age_out", port_times_json(out.aged, out.age_cycles));
	json_object_set_new(o, "stay", port_times_json(out.stays, out.stay_cycles));
}

static json_t *port_stats(struct link *l)
{
	struct rte_eth_stats st = {0};
	struct rte_eth_link link = {0};
	struct rte_eth_dev_info info;
	char mac[RTE_ETHER_ADDR_FMT_SIZE] = "";
	const struct port_conf *c = l->conf;
	struct rte_ether_addr addr;
	json_t *o;
	bool ok = !rte_eth_dev_info_get(l->port_id, &info);

	rte_eth_stats_get(l->port_id, &st);
	if (rte_eth_link_get_nowait(l->port_id, &link))
		link = (struct rte_eth_link){0}; /* what cannot be read is not up */
	if (!rte_eth_macaddr_get(l->port_id, &addr))
		rte_ether_format_addr(mac, sizeof(mac), &addr);
	o = json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "driver",
			 ok ? info.driver_name : "", "mac", mac, "flow_control",
			 port_flow_control(l->port_id), "up", link.link_status,
			 "speed_mbps", (json_int_t)link.link_speed, "rx_packets",
			 (json_int_t)st.ipackets, "rx_bytes", (json_int_t)st.ibytes, "tx_packets",
			 (json_int_t)st.opackets, "tx_bytes", (json_int_t)st.obytes, "rx_missed",
			 (json_int_t)st.imissed, "rx_errors", (json_int_t)st.ierrors, "tx_errors",
			 (json_int_t)st.oerrors, "rx_no_mbuf", (json_int_t)st.rx_nombuf);
	if (c->times)
		add_times(o, l);
	return o;
}

static const struct link_ops port_ops = {
	.name = "port",
	.doc = "Any DPDK device: a NIC or a virtual device by its devargs. Replicas that read it get a "
	       "receive queue each (RSS with a symmetric key where the device has it).",
	.params = port_params,
	.conf_size = sizeof(struct port_conf),
	.reads = true,
	.writes = true,
	.unclassified = true,
	.init = port_init,
	.fini = port_fini,
	.rx_open = port_rx_open,
	.tx_open = port_tx_open,
	.rx = port_rx,
	.tx = port_tx,
	.stats = port_stats,
	.keeps = port_keeps,
};
LINK_REGISTER(port_ops)
