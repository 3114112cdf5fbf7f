/* SPDX-License-Identifier: Apache-2.0 */
/* A port's device is configured and started. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

#include "port.h"

#define RSS_KEY_MIN 40
#define RSS_KEY_MAX 52

static int check_queues(const struct link *l, const struct rte_eth_dev_info *info, struct err *err)
{
	if (l->n_rxq > info->max_rx_queues)
		return err_set(err, EINVAL, "params.devargs",
			       "%u replicas read this port, its device has %u receive queue(s); read "
			       "it with one replica and steer through a ring",
			       l->n_rxq, info->max_rx_queues);
	if (l->n_txq > info->max_tx_queues)
		return err_set(err, EINVAL, "params.devargs",
			       "%u replicas write this port, its device has %u transmit queue(s); "
			       "gather them in a ring first",
			       l->n_txq, info->max_tx_queues);
	return 0;
}

static uint64_t rss_types(const struct port_conf *c)
{
	static const uint64_t types[] = {[PORT_RSS_IP] = RTE_ETH_RSS_IP,
					 [PORT_RSS_TCP] = RTE_ETH_RSS_TCP,
					 [PORT_RSS_UDP] = RTE_ETH_RSS_UDP};
	const uint32_t *chosen = c->rss_fields.items;
	uint64_t all = 0;

	for (size_t i = 0; i < c->rss_fields.count; i++)
		all |= types[chosen[i]];
	return all;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* The key as it was given, whose length has to be the device's. */
static int given_key(const struct port_conf *c, uint8_t *key, uint8_t len, struct err *err)
{
	size_t digits = strlen(c->rss_key);

	if (digits % 2 || digits < 2 * RSS_KEY_MIN || digits > 2 * RSS_KEY_MAX ||
	    strspn(c->rss_key, "0123456789abcdefABCDEF") != digits)
		return err_set(err, EINVAL, "params.rss_key",
			       "allowed: %d to %d bytes as hexadecimal digits", RSS_KEY_MIN,
			       RSS_KEY_MAX);
	if (digits / 2 != len)
		return err_set(err, EINVAL, "params.rss_key",
			       "%zu bytes; allowed with this device: %u", digits / 2, len);
	for (uint8_t i = 0; i < len; i++)
		key[i] = digit(c->rss_key[2 * i]) << 4 | digit(c->rss_key[2 * i + 1]);
	return 0;
}

/*
 * By itself the key is the one that makes Toeplitz symmetric: one 16-bit pattern repeated (Woo and
 * Park, 2012).
 */
static int set_rss(const struct port_conf *c, struct rte_eth_conf *conf,
		   const struct rte_eth_dev_info *info, uint8_t *key, uint16_t n_rxq,
		   struct err *err)
{
	uint8_t len = info->hash_key_size ? info->hash_key_size : RSS_KEY_MIN;
	uint64_t hf = info->flow_type_rss_offloads & rss_types(c);

	if (n_rxq < 2 || !hf)
		return 0;
	for (uint8_t i = 0; i < len; i++)
		key[i] = i & 1 ? 0x5a : 0x6d;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_key = key;
	conf->rx_adv_conf.rss_conf.rss_key_len = len;
	conf->rx_adv_conf.rss_conf.rss_hf = hf;
	return c->rss_key ? given_key(c, key, len, err) : 0;
}

static int setup_queues(struct link *l, uint16_t n_rx, uint16_t n_tx, struct err *err)
{
	const struct port_conf *c = l->conf;
	uint16_t rx = c->rx_descriptors, tx = c->tx_descriptors;
	int rc = rte_eth_dev_adjust_nb_rx_tx_desc(l->port_id, &rx, &tx);

	for (uint16_t i = 0; i < n_rx && !rc; i++)
		rc = rte_eth_rx_queue_setup(l->port_id, i, rx, SOCKET_ID_ANY, NULL, l->pool);
	for (uint16_t i = 0; i < n_tx && !rc; i++)
		rc = rte_eth_tx_queue_setup(l->port_id, i, tx, SOCKET_ID_ANY, NULL);
	if (rc)
		return err_set(err, -rc, "params.devargs", "queues of \"%.80s\" cannot be set up: %s",
			       c->devargs, rte_strerror(-rc));
	return 0;
}

static int set_mtu(const struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	int rc = c->mtu ? rte_eth_dev_set_mtu(l->port_id, c->mtu) : 0;

	if (!rc)
		return 0;
	return err_set(err, -rc, "params.mtu", "\"%.80s\" does not take an MTU of %lu: %s", c->devargs,
		       (unsigned long)c->mtu, rte_strerror(-rc));
}

/* A pause frame would hold the sender back, and hide what the receiver loses. */
static void no_flow_control(uint16_t port)
{
	struct rte_eth_fc_conf fc = {0};

	if (rte_eth_dev_flow_ctrl_get(port, &fc) || fc.mode == RTE_ETH_FC_NONE)
		return;
	fc.mode = RTE_ETH_FC_NONE;
	rte_eth_dev_flow_ctrl_set(port, &fc); /* port_flow_control says what came of it */
}

const char *port_flow_control(uint16_t port)
{
	static const char *const names[] = {[RTE_ETH_FC_NONE] = "off", [RTE_ETH_FC_RX_PAUSE] = "rx",
					    [RTE_ETH_FC_TX_PAUSE] = "tx", [RTE_ETH_FC_FULL] = "full"};
	struct rte_eth_fc_conf fc = {0};

	if (rte_eth_dev_flow_ctrl_get(port, &fc) || fc.mode >= RTE_DIM(names))
		return "none";
	return names[fc.mode];
}

static int start(struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	struct port_state *s = l->state;
	int rc = rte_eth_dev_start(l->port_id);

	if (rc)
		return err_set(err, -rc, "params.devargs", "\"%.80s\" does not start: %s",
			       c->devargs, rte_strerror(-rc));
	s->started = true;
	no_flow_control(l->port_id);
	if (c->promiscuous)
		rte_eth_promiscuous_enable(l->port_id); /* not every device can; then it takes all */
	return 0;
}

int port_configure(struct link *l, struct err *err)
{
	const struct port_conf *c = l->conf;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {0};
	uint16_t n_rx = RTE_MAX(l->n_rxq, 1), n_tx = RTE_MAX(l->n_txq, 1);
	uint8_t key[UINT8_MAX];
	int rc = rte_eth_dev_info_get(l->port_id, &info);

	if (!rc) {
		rc = check_queues(l, &info, err);
		if (rc)
			return rc;
		n_rx = RTE_MIN(n_rx, info.max_rx_queues);
		n_tx = RTE_MIN(n_tx, info.max_tx_queues);
		rc = set_rss(c, &conf, &info, key, n_rx, err);
		if (rc)
			return rc;
		rc = rte_eth_dev_configure(l->port_id, n_rx, n_tx, &conf);
	}
	if (rc)
		return err_set(err, -rc, "params.devargs", "\"%.80s\" cannot be configured: %s",
			       c->devargs, rte_strerror(-rc));
	rc = set_mtu(l, err);
	if (!rc)
		rc = setup_queues(l, n_rx, n_tx, err);
	return rc ? rc : start(l, err);
}
