/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_traffic.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packets.h"

#define WIDTH 400 /* flows that have packets at a time */
#define PACE 4    /* of which so many go and come with each step */
#define L3 14
#define SYN 2
#define ACK 16

void traffic_open(struct traffic *t, unsigned int seed)
{
	*t = (struct traffic){.seed = seed, .packets = calloc(TRAFFIC_MAX, sizeof(*t->packets))};
	if (!t->packets)
		abort();
}

void traffic_close(struct traffic *t)
{
	free(t->packets);
}

unsigned int traffic_pick(unsigned int *seed, unsigned int n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % n;
}

uint32_t traffic_number(const uint8_t *data, uint16_t len)
{
	uint32_t number;

	memcpy(&number, data + len - sizeof(number), sizeof(number));
	return number;
}

static void add(struct traffic *t, unsigned int step, enum traffic_link link, uint32_t flow,
		const uint8_t *data, uint32_t len)
{
	struct traffic_packet *p = &t->packets[t->n];
	uint32_t number = t->n++;

	if (t->n == TRAFFIC_MAX || len > TRAFFIC_FRAME_MAX)
		abort();
	*p = (struct traffic_packet){.step = step, .link = (uint8_t)link, .flow = flow, .len = (uint16_t)len};
	memcpy(p->data, data, len);
	memcpy(p->data + len - sizeof(number), &number, sizeof(number));
}

static uint8_t tcp_flags(struct traffic *t, bool first)
{
	static const uint8_t later[] = {ACK | 1, ACK | 4, SYN, ACK | 8};
	unsigned int drawn = traffic_pick(&t->seed, 40);

	return first ? SYN : drawn < 4 ? later[drawn] : ACK;
}

/* Two of three flows are of TCP; of the others some are ICMP's, IPv6's, or come in fragments. */
static struct craft flow_packet(struct traffic *t, uint32_t flow, bool first)
{
	struct craft c = {.family = flow % 11 == 3 ? 6 : 4, .proto = flow % 3 ? IPPROTO_TCP : IPPROTO_UDP,
			  .payload = (uint16_t)(8 + traffic_pick(&t->seed, 64))};
	char src[40], dst[40];

	if (c.family == 6) {
		snprintf(src, sizeof(src), "2001:db8:a::%x", flow);
		snprintf(dst, sizeof(dst), "2001:db8:%s::1", flow % 2 ? "b" : "d");
	} else {
		snprintf(src, sizeof(src), "10.0.%u.%u", flow / 200 % 200, flow % 200);
		snprintf(dst, sizeof(dst), flow % 2 ? "203.0.113.1" : "198.18.0.%u", flow % 50);
		if (flow % 13 == 5)
			c.proto = IPPROTO_ICMP;
	}
	craft_addrs(&c, src, dst);
	c.sport = (uint16_t)(1024 + flow % 50000);
	c.dport = flow % 17 == 1 ? 6 : 80;
	c.tcp_flags = tcp_flags(t, first);
	c.icmp_type = 8;
	return c;
}

/* A datagram in two fragments, in either order; the second may be missing. */
static void add_fragments(struct traffic *t, unsigned int step, struct craft *c)
{
	uint16_t id = (uint16_t)t->n;
	unsigned int order = traffic_pick(&t->seed, 3);

	c->fragment = true;
	c->payload = 24;
	for (unsigned int i = 0; i < 2; i++) {
		uint8_t data[CRAFT_MAX];
		uint32_t len;

		c->more_fragments = (order == 0) == (i == 0);
		c->fragment_offset = c->more_fragments ? 0 : 4;
		len = craft_build(c, data);
		memcpy(data + L3 + 4, &id, sizeof(id));
		if (order < 2 || !i)
			add(t, step, TRAFFIC_OUTWARD, 0, data, len);
	}
}

static bool in_fragments(const struct craft *c, uint32_t flow)
{
	return c->family == 4 && c->proto == IPPROTO_UDP && flow % 19 < 5;
}

/*
 * Functions take a burst's packets without ports before its others. So these have steps of their own: when a
 * flow's record is looked at for its age depends on the order in which records were made, and that must
 * not depend on which packets happen to share a burst.
 */
static bool is_of_step(const struct craft *c, uint32_t flow, unsigned int step)
{
	bool portless = c->proto == IPPROTO_ICMP || in_fragments(c, flow);

	return portless == (step % 4 == 3);
}

void traffic_make(struct traffic *t, unsigned int step, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int within = traffic_pick(&t->seed, WIDTH);
		uint32_t flow = 1 + step * PACE + within;
		struct craft c = flow_packet(t, flow, within >= WIDTH - WIDTH / 5);
		uint8_t data[CRAFT_MAX];
		uint32_t len;

		if (!is_of_step(&c, flow, step))
			continue;
		if (in_fragments(&c, flow)) {
			add_fragments(t, step, &c);
			continue;
		}
		len = craft_build(&c, data);
		if (c.proto == IPPROTO_ICMP)
			memcpy(data + L3 + 24, &c.sport, sizeof(c.sport));
		add(t, step, TRAFFIC_OUTWARD, flow, data, len);
	}
}

static void swap(uint8_t *a, uint8_t *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uint8_t was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

void traffic_answer(struct traffic *t, unsigned int step, const uint8_t *left, uint16_t len)
{
	uint32_t of = traffic_number(left, len);
	bool v6 = left[12] == 0x86;
	uint8_t data[TRAFFIC_FRAME_MAX], *ip = data + L3, *l4 = ip + (v6 ? 40 : 20);
	uint8_t proto;

	memcpy(data, left, len);
	proto = v6 ? ip[6] : ip[9];
	if (!t->packets[of].flow)
		return; /* fragments have no answers here */
	swap(v6 ? ip + 8 : ip + 12, v6 ? ip + 24 : ip + 16, v6 ? 16 : 4);
	if (proto == IPPROTO_ICMP)
		l4[0] = 0;
	else
		swap(l4, l4 + 2, 2);
	if (proto == IPPROTO_TCP)
		l4[13] = l4[13] == SYN ? SYN | ACK : ACK;
	add(t, step, TRAFFIC_ANSWERS, t->packets[of].flow | 1u << 31, data, len);
}

void traffic_stray(struct traffic *t, unsigned int step)
{
	struct craft c = {.family = 4, .proto = IPPROTO_UDP, .payload = 16};
	uint8_t data[CRAFT_MAX];

	craft_addrs(&c, "198.18.0.7", "192.0.2.1");
	c.sport = 80;
	c.dport = (uint16_t)(1024 + traffic_pick(&t->seed, 60000));
	add(t, step, TRAFFIC_ANSWERS, 0, data, craft_build(&c, data));
}
