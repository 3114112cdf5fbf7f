/* SPDX-License-Identifier: Apache-2.0 */
#include "craft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/dpdk.h"

#define FRAME_MIN 64
#define L4_LEN_OTHER 0

static const uint8_t l4_len[FLOW_KINDS] = {sizeof(struct rte_udp_hdr), sizeof(struct rte_tcp_hdr),
					   L4_LEN_OTHER};
static const uint8_t l4_csum_off[FLOW_KINDS] = {6, 16, 0};
static const char *const kind_names[FLOW_KINDS] = {"UDP", "TCP", "raw IP"};

static uint64_t sum_words(const uint8_t *p, size_t n)
{
	uint64_t sum = 0;
	uint16_t w;

	for (size_t i = 0; i + 1 < n; i += 2) {
		memcpy(&w, p + i, 2);
		sum += w;
	}
	if (n & 1)
		sum += rte_cpu_to_le_16(p[n - 1]);
	return sum;
}

static void put_eth(uint8_t *p, const struct craft_conf *conf, const struct craft *c)
{
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)p;
	uint16_t type = rte_cpu_to_be_16(c->ipv6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4);
	struct rte_vlan_hdr *vlan;

	rte_ether_addr_copy(&c->macs[0], &eth->dst_addr);
	memcpy(&eth->src_addr, conf->src_mac.bytes, 6);
	eth->ether_type = type;
	if (!conf->vlan)
		return;
	eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
	vlan = (struct rte_vlan_hdr *)(eth + 1);
	vlan->vlan_tci = rte_cpu_to_be_16(conf->vlan);
	vlan->eth_proto = type;
}

static void put_ip(uint8_t *p, const struct craft_conf *conf, const struct craft *c, uint16_t len,
		   uint8_t proto)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(p + c->l3_off);
	struct rte_ipv6_hdr *ip6 = (struct rte_ipv6_hdr *)(p + c->l3_off);

	if (c->ipv6) {
		ip6->vtc_flow = rte_cpu_to_be_32(6u << 28 | (uint32_t)conf->dscp << 22);
		ip6->payload_len = rte_cpu_to_be_16(len - c->l4_off);
		ip6->proto = proto;
		ip6->hop_limits = conf->ttl;
		memcpy(ipv6_src(ip6), conf->src_ip.addr, 16);
		if (!c->dst6)
			memcpy(ipv6_dst(ip6), conf->dst_ip.addr, 16);
		/* The low words are the flow's. */
		memset(ipv6_src(ip6) + 12, 0, 4);
		memset(ipv6_dst(ip6) + 12, 0, 4);
		return;
	}
	ip->version_ihl = 0x45;
	ip->type_of_service = conf->dscp << 2;
	ip->total_length = rte_cpu_to_be_16(len - c->l3_off);
	ip->fragment_offset = rte_cpu_to_be_16(0x4000); /* DF */
	ip->time_to_live = conf->ttl;
	ip->next_proto_id = proto;
}

static void put_l4(uint8_t *l4, enum flow_kind kind, uint16_t l4_total)
{
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)l4;
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)l4;

	if (kind == FLOW_UDP)
		udp->dgram_len = rte_cpu_to_be_16(l4_total);
	if (kind == FLOW_TCP) {
		tcp->data_off = 5 << 4;
		tcp->tcp_flags = RTE_TCP_ACK_FLAG;
		tcp->rx_win = rte_cpu_to_be_16(65535);
	}
}

/* Sums over a template whose varying words are still zero. */
static void put_sums(struct template *t, const struct craft *c, enum flow_kind kind, uint8_t proto)
{
	uint16_t l4_total = t->len - c->l4_off;
	uint64_t sum;

	t->ip_sum = c->ipv6 ? 0 : sum_fold(sum_words(t->bytes + c->l3_off, 20));
	t->l4_csum = l4_csum_off[kind];
	t->swap_stamp = (l4_total - STAMP_BYTES) & 1;
	sum = sum_words(t->bytes + c->l4_off, l4_total);
	/* Pseudo-header; the addresses' varying words come from the flow. */
	sum += rte_cpu_to_be_16(l4_total) + rte_cpu_to_be_16(proto);
	if (c->ipv6)
		sum += sum_words(t->bytes + c->l3_off + 8, 32);
	t->l4_sum = sum_fold(sum);
}

static int make_template(struct craft *c, const struct craft_conf *conf, uint64_t frame,
			 enum flow_kind kind, struct template *t, struct err *err)
{
	static const uint8_t protos[FLOW_KINDS] = {IPPROTO_UDP, IPPROTO_TCP, 0};
	uint64_t need = c->l4_off + l4_len[kind] + (conf->stamp ? STAMP_BYTES : 0) +
			RTE_ETHER_CRC_LEN;

	if (frame < need)
		return err_set(err, EINVAL, "params.frame_bytes",
			       "%s/IPv%d frames of %lu B cannot hold %s; at least %lu B are needed%s",
			       kind_names[kind], c->ipv6 ? 6 : 4, (unsigned long)frame,
			       conf->stamp ? "a 16 B stamp" : "the headers", (unsigned long)need,
			       conf->stamp ? ", or stamp: false" : "");
	t->len = frame - RTE_ETHER_CRC_LEN;
	t->bytes = calloc(1, RTE_ALIGN_CEIL(t->len, 64));
	if (!t->bytes)
		return err_set(err, ENOMEM, "params.frame_bytes", "out of memory");
	put_eth(t->bytes, conf, c);
	put_ip(t->bytes, conf, c, t->len, protos[kind]);
	put_l4(t->bytes + c->l4_off, kind, t->len - c->l4_off);
	put_sums(t, c, kind, protos[kind]);
	return 0;
}

static uint16_t size_index(struct craft *c, const uint64_t *frames, uint16_t i)
{
	for (uint16_t j = 0; j < i; j++)
		if (frames[j] == frames[i])
			return c->frames[j];
	return c->n_sizes++;
}

static bool kind_used(const struct flows *f, enum flow_kind kind)
{
	for (uint64_t i = 0; f->table && i < f->n; i++)
		if (f->flow[i].kind == kind)
			return true;
	return !f->table && f->base.kind == kind;
}

static int make_templates(struct craft *c, const struct craft_conf *conf, const struct flows *flows,
			  struct err *err)
{
	const uint64_t *frames = conf->frame_bytes.items;
	int rc;

	for (uint16_t i = 0; i < c->n_frames; i++) {
		uint16_t known = c->n_sizes;

		c->frames[i] = size_index(c, frames, i);
		for (int k = 0; k < FLOW_KINDS && c->n_sizes > known; k++) {
			if (!kind_used(flows, k))
				continue;
			rc = make_template(c, conf, frames[i], k,
					   &c->sizes[c->frames[i] * FLOW_KINDS + k], err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int craft_create(struct craft *c, const struct craft_conf *conf, const struct flows *flows,
		 struct err *err)
{
	int rc;

	memset(c, 0, sizeof(*c));
	c->ipv6 = flows->ipv6;
	c->stamp = conf->stamp;
	c->dst6 = flows->ipv6 ? (const uint8_t(*)[16])flows->dst6 : NULL;
	c->l3_off = sizeof(struct rte_ether_hdr) + (conf->vlan ? sizeof(struct rte_vlan_hdr) : 0);
	c->l4_off = c->l3_off +
		    (c->ipv6 ? sizeof(struct rte_ipv6_hdr) : sizeof(struct rte_ipv4_hdr));
	c->n_frames = conf->frame_bytes.count;
	c->frames = calloc(c->n_frames, sizeof(*c->frames));
	c->sizes = calloc(c->n_frames * FLOW_KINDS, sizeof(*c->sizes));
	c->n_macs = conf->dst_macs.count;
	c->macs = calloc(c->n_macs, sizeof(*c->macs));
	if (!c->frames || !c->sizes || !c->macs) {
		rc = err_set(err, ENOMEM, "params.frame_bytes", "out of memory");
	} else {
		memcpy(c->macs, conf->dst_macs.items, c->n_macs * sizeof(*c->macs));
		rc = make_templates(c, conf, flows, err);
	}
	if (rc)
		craft_destroy(c);
	return rc;
}

void craft_destroy(struct craft *c)
{
	for (unsigned int i = 0; c->sizes && i < c->n_sizes * FLOW_KINDS; i++)
		free(c->sizes[i].bytes);
	free(c->sizes);
	free(c->frames);
	free(c->macs);
	memset(c, 0, sizeof(*c));
}
