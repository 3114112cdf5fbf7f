/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_memcpy.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "flows.h"
#include "stamp.h"

/*
 * Making packets: a template per frame size and kind of flow holds everything that does not
 * vary, with the checksum sums of that part; a packet is the template, the flow's words, the
 * stamp and two folded sums.
 */
struct template {
	uint16_t len;     /* bytes without FCS */
	uint16_t ip_sum;  /* sums over the constant part, checksum fields as zero */
	uint16_t l4_sum;
	uint8_t l4_csum;  /* offset of the L4 checksum from the L4 header; 0: none */
	bool swap_stamp;  /* the stamp starts at an odd offset from the L4 header */
	uint8_t *bytes;   /* len rounded up to 64 */
};

struct craft_conf {
	struct param_list frame_bytes; /* uint64_t, with FCS, in the order to be sent */
	struct param_mac src_mac;
	struct param_list dst_macs; /* struct param_mac */
	struct param_ip src_ip, dst_ip;
	uint64_t vlan, dscp, ttl;
	bool stamp;
};

struct craft {
	bool ipv6, stamp;
	uint16_t l3_off, l4_off;
	uint16_t n_frames;      /* length of the sequence of sizes */
	uint16_t *frames;       /* position in sequence -> index of size */
	struct template *sizes; /* [size * FLOW_KINDS + kind] */
	uint16_t n_sizes;
	struct rte_ether_addr *macs;
	uint32_t n_macs;
	const uint8_t (*dst6)[16];
};

int craft_create(struct craft *c, const struct craft_conf *conf, const struct flows *flows,
		 struct err *err);
void craft_destroy(struct craft *c);

static inline void craft_addresses(const struct craft *c, const struct template *t,
				   const struct flow *f, uint8_t *l3)
{
	if (likely(!c->ipv6)) {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)l3;

		ip->src_addr = f->src;
		ip->dst_addr = f->dst;
		if (unlikely(f->kind == FLOW_OTHER))
			ip->next_proto_id = f->proto;
		ip->hdr_checksum = (uint16_t)~sum_fold((uint32_t)t->ip_sum + f->ip_sum);
		return;
	}
	memcpy(l3 + 20, &f->src, 4);
	if (c->dst6)
		memcpy(l3 + 24, c->dst6[f->dst], 16);
	else
		memcpy(l3 + 36, &f->dst, 4);
}

/* Write a packet of template t for flow f at p; a stamp if magic_time is not 0. */
static inline void craft_packet(const struct craft *c, const struct template *t,
				const struct flow *f, uint8_t *p, uint64_t magic_time,
				uint64_t flow_seq)
{
	uint8_t *l4 = p + c->l4_off;
	uint64_t sum = (uint64_t)t->l4_sum + f->l4_sum, stamp;
	uint16_t csum;

	if (likely(t->len <= 64))
		rte_mov64(p, t->bytes);
	else
		rte_memcpy(p, t->bytes, t->len);
	craft_addresses(c, t, f, p + c->l3_off);
	if (c->stamp) {
		stamp_write(p + t->len, magic_time, flow_seq);
		stamp = (magic_time & 0xffffffff) + (magic_time >> 32) + (flow_seq & 0xffffffff) +
			(flow_seq >> 32);
		sum += t->swap_stamp ? rte_bswap16(sum_fold(stamp)) : stamp;
	}
	if (unlikely(!t->l4_csum))
		return;
	memcpy(l4, &f->sport, 4);
	csum = (uint16_t)~sum_fold(sum);
	if (!csum)
		csum = 0xffff; /* RFC 768: zero means none; the same value in ones' complement */
	memcpy(l4 + t->l4_csum, &csum, 2);
}
