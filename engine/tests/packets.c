/* SPDX-License-Identifier: Apache-2.0 */
#include "packets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_sctp.h>
#include <rte_tcp.h>
#include <rte_udp.h>

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	*p++ = v >> 8;
	*p++ = v;
	return p;
}

static uint8_t *put_ether(uint8_t *p, const struct craft *c)
{
	static const uint8_t macs[12] = {2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0xbb};

	memcpy(p, macs, sizeof(macs));
	p += sizeof(macs);
	for (unsigned int i = c->vlans; i > 0; i--) {
		p = put16(p, i == 2 ? RTE_ETHER_TYPE_QINQ : RTE_ETHER_TYPE_VLAN);
		p = put16(p, 100 + i);
	}
	return put16(p, c->family == 4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
}

static uint32_t l4_bytes(const struct craft *c)
{
	if (c->fragment && c->fragment_offset)
		return 0;
	switch (c->proto) {
	case IPPROTO_TCP:
		return sizeof(struct rte_tcp_hdr);
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return 8;
	case IPPROTO_SCTP:
		return sizeof(struct rte_sctp_hdr);
	}
	return 0;
}

static uint8_t *put_ip4(uint8_t *p, const struct craft *c, uint32_t behind)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)p;
	uint32_t len = sizeof(*ip) + c->options * 4;
	uint16_t fragment = c->fragment_offset | (c->more_fragments ? RTE_IPV4_HDR_MF_FLAG : 0);

	memset(p, 1, len); /* options: NOP is 1 (RFC 791) */
	*ip = (struct rte_ipv4_hdr){
		.version_ihl = 0x40 | len / 4,
		.type_of_service = c->tos,
		.total_length = htons(len + behind),
		.packet_id = htons(0x1234),
		.fragment_offset = c->fragment ? htons(fragment) : 0,
		.time_to_live = c->ttl ? c->ttl : 64,
		.next_proto_id = c->proto,
	};
	memcpy(&ip->src_addr, c->src, 4);
	memcpy(&ip->dst_addr, c->dst, 4);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	return p + len;
}

/* Extension headers: destination options of PadN, then the fragment header. */
static uint8_t *put_ip6(uint8_t *p, const struct craft *c, uint32_t behind)
{
	uint32_t fragment = c->fragment ? 8 : 0, ext = c->options * 8 + fragment;
	uint8_t *next = p + 6;

	memset(p, 0, sizeof(struct rte_ipv6_hdr) + ext);
	p[0] = 0x60 | c->tos >> 4;
	p[1] = c->tos << 4;
	put16(p + 4, ext + behind);
	p[7] = c->ttl ? c->ttl : 64;
	memcpy(p + 8, c->src, 16);
	memcpy(p + 24, c->dst, 16);
	p += sizeof(struct rte_ipv6_hdr);
	for (unsigned int i = 0; i < c->options; i++, p += 8) {
		*next = IPPROTO_DSTOPTS;
		next = p;
		p[2] = 1; /* PadN of four bytes (RFC 8200 4.2) */
		p[3] = 4;
	}
	if (fragment) {
		*next = IPPROTO_FRAGMENT;
		next = p;
		put16(p + 2, c->fragment_offset << 3 | c->more_fragments);
		put16(p + 6, 0x1234);
		p += fragment;
	}
	*next = c->proto;
	return p;
}

static void put_l4(uint8_t *p, const struct craft *c, uint32_t len)
{
	memset(p, 0, len);
	if (!len)
		return;
	put16(p, c->sport);
	put16(p + 2, c->dport);
	if (c->proto == IPPROTO_TCP) {
		p[12] = 5 << 4;
		p[13] = c->tcp_flags;
		put16(p + 14, 8192);
	} else if (c->proto == IPPROTO_UDP) {
		put16(p + 4, len + c->payload);
	} else if (c->proto == IPPROTO_ICMP || c->proto == IPPROTO_ICMPV6) {
		p[0] = c->icmp_type;
		p[1] = c->icmp_code;
		put16(p + 2, 0);
	}
}

static uint16_t l4_checksum(const struct craft *c, const void *ip, const void *l4, uint32_t len)
{
	uint32_t sum;

	if (c->proto == IPPROTO_ICMP)
		return ~rte_raw_cksum(l4, len);
	if (c->family == 4) {
		sum = rte_ipv4_phdr_cksum(ip, 0);
	} else {
		struct rte_ipv6_hdr pseudo = *(const struct rte_ipv6_hdr *)ip;

		pseudo.proto = c->proto;
		pseudo.payload_len = htons(len);
		sum = rte_ipv6_phdr_cksum(&pseudo, 0);
	}
	sum += rte_raw_cksum(l4, len);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

static void checksum(const struct craft *c, const void *ip, uint8_t *l4, uint32_t len)
{
	unsigned int at;
	uint16_t sum;

	if (c->proto == IPPROTO_TCP)
		at = offsetof(struct rte_tcp_hdr, cksum);
	else if (c->proto == IPPROTO_UDP)
		at = offsetof(struct rte_udp_hdr, dgram_cksum);
	else if (c->proto == IPPROTO_ICMP || c->proto == IPPROTO_ICMPV6)
		at = 2;
	else
		return;
	sum = l4_checksum(c, ip, l4, len);
	memcpy(l4 + at, &sum, sizeof(sum));
}

uint32_t craft_build(const struct craft *c, uint8_t *buf)
{
	uint32_t l4 = l4_bytes(c), len;
	uint8_t *ip, *p;

	ip = put_ether(buf, c);
	p = c->family == 4 ? put_ip4(ip, c, l4 + c->payload) : put_ip6(ip, c, l4 + c->payload);
	put_l4(p, c, l4);
	for (unsigned int i = 0; i < c->payload; i++)
		p[l4 + i] = i;
	if (l4 && !c->fragment)
		checksum(c, ip, p, l4 + c->payload);
	len = p + l4 + c->payload - buf;
	if (len < c->frame) {
		memset(buf + len, 0, c->frame - len);
		len = c->frame;
	}
	return len;
}

void craft_addrs(struct craft *c, const char *src, const char *dst)
{
	int family = strchr(src, ':') ? AF_INET6 : AF_INET;

	c->family = family == AF_INET6 ? 6 : 4;
	if (inet_pton(family, src, c->src) != 1 || inet_pton(family, dst, c->dst) != 1) {
		fprintf(stderr, "craft: not two addresses of one family: %s %s\n", src, dst);
		abort();
	}
}

void craft_add_bytes(struct craft_list *list, const void *data, uint32_t len)
{
	void *copy = malloc(len ? len : 1);

	if (list->n == list->room) {
		list->room = list->room ? list->room * 2 : 64;
		list->packets = realloc(list->packets, list->room * sizeof(*list->packets));
	}
	if (!copy || !list->packets)
		abort();
	memcpy(copy, data, len);
	list->packets[list->n++] = (struct harness_packet){copy, len};
}

void craft_add(struct craft_list *list, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];

	craft_add_bytes(list, buf, craft_build(c, buf));
}

void craft_list_free(struct craft_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free((void *)list->packets[i].data);
	free(list->packets);
	*list = (struct craft_list){0};
}

static void zoo_shapes(struct craft_list *list, struct craft base)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP,  IPPROTO_ICMP, IPPROTO_ICMPV6,
					 IPPROTO_GRE, IPPROTO_SCTP, IPPROTO_ESP,  255};
	struct craft c;

	for (unsigned int i = 0; i < sizeof(protos); i++) {
		for (unsigned int options = 0; options <= 3; options++) {
			c = base;
			c.proto = protos[i];
			c.options = options;
			c.vlans = options % 3;
			c.payload = 6;
			craft_add(list, &c);
		}
		c = base;
		c.proto = protos[i];
		c.fragment = c.more_fragments = true;
		c.payload = 16;
		craft_add(list, &c);
		c.fragment_offset = 3;
		c.more_fragments = false;
		craft_add(list, &c);
	}
}

/* Every byte of the headers in turn has values that lengths and versions may not have. */
static void zoo_lies(struct craft_list *list, const struct harness_packet *p)
{
	static const uint8_t values[] = {0x00, 0x3f, 0x4f, 0xff};
	uint8_t buf[CRAFT_MAX];

	for (uint32_t at = 12; at < p->len && at < 62; at++) {
		for (unsigned int i = 0; i < sizeof(values); i++) {
			memcpy(buf, p->data, p->len);
			buf[at] = values[i];
			craft_add_bytes(list, buf, p->len);
		}
	}
}

static void zoo_cuts(struct craft_list *list, const struct harness_packet *p)
{
	for (uint32_t len = 0; len < p->len; len++)
		craft_add_bytes(list, p->data, len);
}

void craft_zoo(struct craft_list *list)
{
	static const uint8_t arp[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,
					1,    0x08, 0x06, 0,    1,    0x08, 0, 6, 4, 0, 1};
	static const uint8_t llc[60] = {1, 0x80, 0xc2, 0, 0,  0,    2,    0, 0,
					0, 0,    1,    0, 38, 0x42, 0x42, 3};
	struct craft base = {.sport = 1234, .dport = 80, .tcp_flags = 2, .icmp_type = 8};
	size_t whole;

	craft_addrs(&base, "10.0.0.1", "192.0.2.1");
	zoo_shapes(list, base);
	craft_addrs(&base, "2001:db8::1", "2001:db8:1::2");
	zoo_shapes(list, base);
	craft_add_bytes(list, arp, sizeof(arp));
	craft_add_bytes(list, llc, sizeof(llc));
	whole = list->n;
	for (size_t i = 0; i < whole; i++) {
		struct harness_packet p = list->packets[i]; /* the list moves as it grows */

		zoo_cuts(list, &p);
		zoo_lies(list, &p);
	}
}
