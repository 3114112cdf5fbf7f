/* SPDX-License-Identifier: Apache-2.0 */
#include "nat.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_icmp.h>

/*
 * ICMP errors (RFC 5508 section 4): they carry the head of a packet of a session, as it was where
 * the error arose. That head is translated as its packet was, the other way round, and so is
 * the error's own address on our side; both checksums follow what was changed.
 */

#define HEAD_MAX 68 /* an IPv4 header with options and eight bytes behind it */

/* The head's place and length, or NULL when it is cut short or is itself an error. */
static uint8_t *find_head(const struct rte_mbuf *m, uint32_t *bytes)
{
	uint32_t before = pkt_l2_len(m) + pkt_l3_len(m) + sizeof(struct rte_icmp_hdr);
	uint32_t have = m->data_len > before ? m->data_len - before : 0, ihl;
	uint8_t *head = (uint8_t *)pkt_l4_hdr(m) + sizeof(struct rte_icmp_hdr);

	if (have < 28 || head[0] >> 4 != 4)
		return NULL;
	ihl = (head[0] & 15) * 4;
	if (ihl < 20 || have < ihl + 8 || (head[6] & 0x1f) || head[7])
		return NULL;
	if (head[9] == IPPROTO_ICMP && head[ihl] != 0 && head[ihl] != 8)
		return NULL;
	*bytes = ihl + 8;
	return head;
}

/*
 * The key of the way that answers to the head's packet take. The head went outward when the error
 * comes inward, so its answers go inward too, and the other way round.
 */
static bool head_key(struct flow_key4 *key, const uint8_t *head, uint32_t ihl, bool inward,
		     uint8_t bucket)
{
	const uint8_t *l4 = head + ihl;

	*key = (struct flow_key4){.proto = head[9], .shard = bucket, .zone = inward ? NAT_INWARD : 0};
	memcpy(&key->src, head + 16, 4);
	memcpy(&key->dst, head + 12, 4);
	switch (key->proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		memcpy(&key->sport, l4 + 2, 2);
		memcpy(&key->dport, l4, 2);
		return true;
	case IPPROTO_ICMP:
		memcpy(inward ? &key->dport : &key->sport, l4 + 4, 2);
		return true;
	}
	return false;
}

bool nat_error_key(struct flow_key4 *key, const struct rte_mbuf *m)
{
	const struct rte_icmp_hdr *icmp = pkt_l4_hdr(m);
	const uint8_t *head;
	uint32_t bytes = 0;

	head = nat_is_icmp_error(icmp->icmp_type) ? find_head(m, &bytes) : NULL;
	return head && head_key(key, head, bytes - 8, true, 0);
}

/* RFC 5508 REQ-4 and REQ-5: addresses, ports and checksums of the head. */
static void translate_head(uint8_t *head, uint32_t ihl, const struct nat_way *way, bool inward)
{
	uint8_t proto = head[9], *l4 = head + ihl;
	uint8_t *addr = head + (inward ? 12 : 16);
	uint8_t *port = proto == IPPROTO_ICMP ? l4 + 4 : inward ? l4 : l4 + 2;
	uint8_t *csum = proto == IPPROTO_UDP ? l4 + 6 : proto == IPPROTO_ICMP ? l4 + 2 : NULL;
	uint16_t sum;

	memcpy(&sum, head + 10, 2);
	sum = csum_add(sum, way->l3_delta);
	memcpy(head + 10, &sum, 2);
	memcpy(addr, &way->addr, 4);
	memcpy(port, &way->port, 2);
	if (!csum)
		return; /* TCP's lies behind the eight bytes that are sure to be there */
	memcpy(&sum, csum, 2);
	if (proto == IPPROTO_UDP && !sum)
		return;
	sum = csum_add(sum, way->l4_delta);
	memcpy(csum, &sum, 2);
}

uint8_t nat_icmp_error(struct nf_worker *w, struct rte_mbuf *m, enum nf_direction dir)
{
	bool inward = dir == NF_REVERSE;
	struct nat_worker *nat = w->state;
	struct rte_icmp_hdr *icmp = pkt_l4_hdr(m);
	struct rte_ipv4_hdr *ip = pkt_l3_hdr(m);
	uint8_t was[HEAD_MAX], *head;
	struct flow_key4 key;
	struct flow *f;
	uint32_t bytes, *addr;

	head = find_head(m, &bytes);
	if (!head || !head_key(&key, head, bytes - 8, inward, pkt_bucket(m)))
		return NF_DROP(DROP_ICMP_UNRELATED);
	f = flow_find(nat->sessions, &key);
	if (!f)
		return NF_DROP(DROP_ICMP_UNRELATED);
	memcpy(was, head, bytes);
	translate_head(head, bytes - 8, nat_way(f), inward);
	icmp->icmp_cksum = csum_add(icmp->icmp_cksum, csum_delta(was, head, bytes));
	addr = inward ? &ip->dst_addr : &ip->src_addr;
	ip->hdr_checksum = csum_add(ip->hdr_checksum,
				    csum_delta(addr, &nat_way(f)->addr, sizeof(*addr)));
	*addr = nat_way(f)->addr;
	w->counters[C_RELATED]++;
	return 0;
}
