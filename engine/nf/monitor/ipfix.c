/* SPDX-License-Identifier: Apache-2.0 */
#include "ipfix.h"

#include <string.h>

#define HEADER_BYTES 16
#define TEMPLATE_SET 2
#define FIRST_TEMPLATE 256

/* IANA's numbers of information elements, in the order that add_record writes them. */
struct element {
	uint16_t id, bytes;
};

static const struct element elements[FLOW_FAMILIES][14] = {
	[FLOW_IPV4] = {{8, 4},	 /* sourceIPv4Address */
		       {12, 4},	 /* destinationIPv4Address */
		       {7, 2},	 /* sourceTransportPort */
		       {11, 2},	 /* destinationTransportPort */
		       {4, 1},	 /* protocolIdentifier */
		       {5, 1},	 /* ipClassOfService */
		       {6, 2},	 /* tcpControlBits */
		       {32, 2},	 /* icmpTypeCodeIPv4 */
		       {136, 1}, /* flowEndReason */
		       {1, 8},	 /* octetDeltaCount */
		       {2, 8},	 /* packetDeltaCount */
		       {152, 8}, /* flowStartMilliseconds */
		       {153, 8}, /* flowEndMilliseconds */
		       {0, 0}},
	[FLOW_IPV6] = {{27, 16}, /* sourceIPv6Address */
		       {28, 16}, /* destinationIPv6Address */
		       {7, 2},	 {11, 2}, {4, 1}, {5, 1}, {6, 2},
		       {139, 2}, /* icmpTypeCodeIPv6 */
		       {136, 1}, {1, 8},  {2, 8}, {152, 8}, {153, 8}, {0, 0}},
};

static uint16_t record_bytes(enum flow_family family)
{
	uint16_t bytes = 0;

	for (const struct element *e = elements[family]; e->id; e++)
		bytes += e->bytes;
	return bytes;
}

static void put(struct ipfix *x, uint64_t value, unsigned int bytes)
{
	while (bytes--)
		x->buf[x->len++] = (uint8_t)(value >> 8 * bytes);
}

static void put_bytes(struct ipfix *x, const void *data, uint16_t bytes)
{
	memcpy(x->buf + x->len, data, bytes);
	x->len += bytes;
}

static void set_u16(struct ipfix *x, uint16_t at, uint16_t value)
{
	x->buf[at] = (uint8_t)(value >> 8);
	x->buf[at + 1] = (uint8_t)value;
}

static void put_template(struct ipfix *x, enum flow_family family)
{
	uint16_t n = 0;

	while (elements[family][n].id)
		n++;
	put(x, FIRST_TEMPLATE + family, 2);
	put(x, n, 2);
	for (uint16_t i = 0; i < n; i++) {
		put(x, elements[family][i].id, 2);
		put(x, elements[family][i].bytes, 2);
	}
}

void ipfix_begin(struct ipfix *x, bool templates)
{
	uint16_t start = HEADER_BYTES;

	x->len = HEADER_BYTES;
	x->records = 0;
	x->set = 0;
	if (!templates)
		return;
	put(x, TEMPLATE_SET, 2);
	put(x, 0, 2);
	for (unsigned int f = 0; f < FLOW_FAMILIES; f++)
		put_template(x, f);
	set_u16(x, start + 2, x->len - start);
}

static void close_set(struct ipfix *x)
{
	if (x->set)
		set_u16(x, x->set + 2, x->len - x->set);
	x->set = 0;
}

static void open_set(struct ipfix *x, uint16_t template)
{
	close_set(x);
	x->set = x->len;
	x->set_template = template;
	put(x, template, 2);
	put(x, 0, 2);
}

static void put_key(struct ipfix *x, enum flow_family family, const void *key)
{
	const struct flow_key4 *k4 = key;
	const struct flow_key6 *k6 = key;

	if (family == FLOW_IPV4) {
		put_bytes(x, &k4->src, 12); /* addresses and ports lie in this order */
		put(x, k4->proto, 1);
	} else {
		put_bytes(x, k6->src, 36);
		put(x, k6->proto, 1);
	}
}

bool ipfix_add(struct ipfix *x, enum flow_family family, const void *key,
	       const struct ipfix_record *r)
{
	uint16_t template = (uint16_t)(FIRST_TEMPLATE + family);

	if (x->len + 4 + record_bytes(family) > IPFIX_MESSAGE_MAX)
		return false;
	if (!x->set || x->set_template != template)
		open_set(x, template);
	put_key(x, family, key);
	put(x, r->tos, 1);
	put(x, r->tcp_flags, 2);
	put(x, r->icmp_type_code, 2);
	put(x, r->end_reason, 1);
	put(x, r->octets, 8);
	put(x, r->packets, 8);
	put(x, r->start_ms, 8);
	put(x, r->end_ms, 8);
	x->records++;
	return true;
}

void ipfix_end(struct ipfix *x, uint32_t unix_s)
{
	uint16_t len;

	close_set(x);
	len = x->len;
	x->len = 0;
	put(x, 10, 2); /* version */
	put(x, len, 2);
	put(x, unix_s, 4);
	put(x, x->sequence, 4);
	put(x, x->domain, 4);
	x->len = len;
	x->sequence += x->records;
}
