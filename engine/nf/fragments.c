/* SPDX-License-Identifier: Apache-2.0 */
#include "firewall.h"

#include <netinet/in.h>
#include <string.h>

#include "nf/tuple.h"

/*
 * Virtual reassembly: a datagram's fragments are judged by its first one, which has the ports, and
 * go on as they are. Those that come before it are held. Bounded in datagrams and in held
 * packets, so that fragments that never complete cost no more than that; overlaps poison the
 * whole datagram (RFC 1858, RFC 3128, RFC 5722).
 */

#define PARTS_MAX 48 /* 64 KB in fragments of 1480 bytes, and some */

struct part {
	uint16_t start, end; /* bytes of the datagram's payload */
};

struct datagram {
	struct rte_mbuf *held[PARTS_MAX];
	struct part parts[PARTS_MAX];
	uint8_t n_held, n_parts;
	bool judged;
	bool blocked; /* on the worker's list: the held ones go on, when there is room */
	uint32_t next_blocked;
	uint8_t verdict;
	uint16_t total, seen; /* bytes; total 0: the last fragment has not come */
};

/* What a fragment says of itself. */
struct fragment {
	struct part part;
	uint32_t id;
	uint8_t proto;
	bool more, v6;
};

size_t fw_datagram_bytes(void)
{
	return sizeof(struct datagram);
}

static struct datagram *datagram_of(struct flow *f, bool v6)
{
	return v6 ? flow_state6(f) : flow_state4(f);
}

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* False: no datagram has such a fragment. */
static bool parse(struct fragment *f, const struct rte_mbuf *m)
{
	const uint8_t *l3 = pkt_l3_hdr(m);
	uint32_t start, bytes;

	f->v6 = !pkt_is_ipv4(m);
	if (f->v6) {
		const uint8_t *header = l3 + pkt_l3_len(m) - 8; /* what pkt_classify stopped behind */

		f->proto = header[0];
		start = be16(header + 2) & 0xfff8u;
		f->more = header[3] & 1;
		memcpy(&f->id, header + 4, sizeof(f->id));
		bytes = be16(l3 + 4) + 40u - pkt_l3_len(m);
	} else {
		f->proto = l3[9];
		start = (be16(l3 + 6) & 0x1fffu) * 8;
		f->more = l3[6] & 0x20;
		f->id = be16(l3 + 4);
		bytes = be16(l3 + 2) - pkt_l3_len(m);
	}
	if (!bytes || (f->more && bytes % 8) || start + bytes > UINT16_MAX)
		return false;
	f->part = (struct part){(uint16_t)start, (uint16_t)(start + bytes)};
	return true;
}

/*
 * RFC 1858: the first fragment must have the whole header, and no other may reach into it. What
 * reads the header wants it in the first mbuf, too.
 */
static bool is_tiny(const struct fragment *f, const struct rte_mbuf *m)
{
	uint32_t header = f->proto == IPPROTO_TCP ? sizeof(struct rte_tcp_hdr) : 8;

	if (f->proto != IPPROTO_TCP && f->proto != IPPROTO_UDP && f->proto != IPPROTO_ICMP &&
	    f->proto != IPPROTO_ICMPV6)
		return false;
	if (f->part.start)
		return f->part.start < header;
	return f->part.end < header || m->data_len < pkt_l2_len(m) + pkt_l3_len(m) + header;
}

static void make_key(union fw_key *key, const struct fragment *f, const struct rte_mbuf *m,
		     enum nf_direction dir)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	memset(key, 0, sizeof(*key));
	if (f->v6) {
		memcpy(key->v6.src, l3 + 8, 32);
		memcpy(&key->v6.sport, &f->id, sizeof(f->id));
		key->v6.zone = (uint16_t)dir;
	} else {
		memcpy(&key->v4.src, l3 + 12, 8);
		key->v4.sport = (uint16_t)f->id;
		key->v4.proto = f->proto;
		key->v4.zone = (uint16_t)dir;
	}
}

static bool overlaps(const struct datagram *d, struct part p, bool *again)
{
	*again = false;
	for (unsigned int i = 0; i < d->n_parts; i++) {
		if (p.start >= d->parts[i].end || p.end <= d->parts[i].start)
			continue;
		*again = p.start == d->parts[i].start && p.end == d->parts[i].end;
		return true;
	}
	return false;
}

/* The first fragment through the rules, as the whole packet that its header says it is. */
static uint8_t judge(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		     const struct fragment *f, enum nf_direction dir, uint32_t now)
{
	uint32_t ptype = m->packet_type, l4 = 0;
	uint8_t verdict;

	if (f->proto == IPPROTO_TCP)
		l4 = RTE_PTYPE_L4_TCP;
	else if (f->proto == IPPROTO_UDP)
		l4 = RTE_PTYPE_L4_UDP;
	else if (f->proto == (f->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		l4 = RTE_PTYPE_L4_ICMP;
	m->packet_type = (ptype & ~RTE_PTYPE_L4_MASK) | l4;
	verdict = l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP
			  ? fw_with_ports(w, rules, m, dir, now)
			  : fw_other(w, rules, m, dir, now);
	m->packet_type = ptype;
	return verdict;
}

/* Those held go the way of the first; what finds no room to leave stays: see block. */
static void let_go(struct nf_worker *w, struct datagram *d, enum nf_direction dir)
{
	struct fw_worker *fw = w->state;

	while (d->n_held) {
		struct rte_mbuf *m = d->held[d->n_held - 1];

		if (d->verdict >= NF_DROP(0) && d->verdict < NF_DROP(NF_DROPS_MAX))
			nf_drop_held(w, m, d->verdict - NF_DROP(0));
		else if (d->verdict)
			nf_drop_held(w, m, DROP_FRAGMENT);
		else if (nf_release(w, m, 0, dir))
			return;
		d->n_held--;
		fw->held--;
	}
}

static uint8_t poison(struct nf_worker *w, struct datagram *d, enum nf_direction dir)
{
	d->judged = true;
	d->verdict = NF_DROP(DROP_FRAGMENT_OVERLAP);
	let_go(w, d, dir);
	return d->verdict;
}

static uint8_t hold(struct nf_worker *w, struct datagram *d, struct rte_mbuf *m)
{
	const struct fw_params *p = w->nf->conf;
	struct fw_worker *fw = w->state;

	if (fw->held >= p->held_fragments)
		return NF_DROP(DROP_FRAGMENT_LIMIT);
	d->held[d->n_held++] = m;
	fw->held++;
	return NF_HOLD;
}

static uint8_t add_part(struct nf_worker *w, const struct fw_rules *rules, struct datagram *d,
			struct rte_mbuf *m, const struct fragment *f, enum nf_direction dir,
			uint32_t now)
{
	bool again;
	uint8_t verdict;

	if (d->judged && d->verdict == NF_DROP(DROP_FRAGMENT_OVERLAP))
		return d->verdict;
	if (overlaps(d, f->part, &again))
		return again ? NF_DROP(DROP_FRAGMENT_OVERLAP) : poison(w, d, dir);
	if (d->n_parts == PARTS_MAX)
		return NF_DROP(DROP_FRAGMENT_LIMIT);
	if (!f->part.start) {
		d->verdict = judge(w, rules, m, f, dir, now);
		d->judged = true;
	}
	verdict = d->judged ? d->verdict : hold(w, d, m);
	if (verdict == NF_DROP(DROP_FRAGMENT_LIMIT))
		return verdict;
	d->parts[d->n_parts++] = f->part;
	d->seen += f->part.end - f->part.start;
	if (!f->more)
		d->total = f->part.end;
	if (d->judged)
		let_go(w, d, dir);
	return verdict;
}

/* A burst's releases are bounded: the rest of a judged datagram leaves from the tick. */
static void block(struct fw_worker *fw, struct flow *f, bool v6)
{
	struct datagram *d = datagram_of(f, v6);

	if (d->blocked)
		return;
	d->blocked = true;
	d->next_blocked = fw->blocked[v6];
	fw->blocked[v6] = flow_index(fw->datagrams[v6 ? FLOW_IPV6 : FLOW_IPV4], f) + 1;
}

static bool is_complete(const struct datagram *d)
{
	return d->judged && !d->n_held && !d->blocked && d->total && d->seen == d->total;
}

static void unblock(struct nf_worker *w, bool v6)
{
	struct fw_worker *fw = w->state;
	struct flow_table *table = fw->datagrams[v6 ? FLOW_IPV6 : FLOW_IPV4];

	while (fw->blocked[v6]) {
		struct flow *f = flow_at(table, fw->blocked[v6] - 1);
		struct datagram *d = datagram_of(f, v6);

		let_go(w, d, (enum nf_direction)f->user);
		if (d->n_held)
			return;
		fw->blocked[v6] = d->next_blocked;
		d->blocked = false;
		if (is_complete(d))
			flow_delete(table, f);
	}
}

uint8_t fw_fragment(struct nf_worker *w, const struct fw_rules *rules, struct rte_mbuf *m,
		    enum nf_direction dir, uint32_t now)
{
	struct fw_worker *fw = w->state;
	struct flow_table *table;
	struct fragment f;
	struct datagram *d;
	struct flow *record;
	union fw_key key;
	uint8_t verdict;

	if (!parse(&f, m) || is_tiny(&f, m))
		return NF_DROP(DROP_FRAGMENT);
	table = fw->datagrams[f.v6 ? FLOW_IPV6 : FLOW_IPV4];
	make_key(&key, &f, m, dir);
	record = flow_find(table, &key);
	if (!record) {
		record = flow_insert(table, &key);
		if (!record)
			return NF_DROP(DROP_FRAGMENT_LIMIT);
		/* From the first to come, not from the last: nobody can keep it alive. */
		flow_touch(record, now, fw->fragment_timeout);
		record->user = (uint16_t)dir;
	}
	d = datagram_of(record, f.v6);
	verdict = add_part(w, rules, d, m, &f, dir, now);
	if (d->judged && d->n_held)
		block(fw, record, f.v6);
	else if (is_complete(d))
		flow_delete(table, record);
	return verdict;
}

struct ageing {
	struct nf_worker *w;
	bool v6;
};

static bool gone(void *arg, struct flow *f)
{
	const struct ageing *a = arg;
	struct datagram *d = datagram_of(f, a->v6);

	if (!d->judged)
		d->verdict = NF_DROP(DROP_FRAGMENT_TIMEOUT);
	let_go(a->w, d, (enum nf_direction)f->user);
	return !d->n_held && !d->blocked;
}

void fw_fragments_tick(struct nf_worker *w, uint32_t now)
{
	struct fw_worker *fw = w->state;

	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		struct ageing a = {w, i == FLOW_IPV6};

		unblock(w, a.v6);
		flow_age(fw->datagrams[i], now, gone, &a);
	}
}

void fw_fragments_free(struct fw_worker *fw)
{
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		for (uint32_t n = 0; fw->datagrams[i] && n < flow_capacity(fw->datagrams[i]); n++) {
			struct flow *f = flow_at(fw->datagrams[i], n);
			struct datagram *d = f ? datagram_of(f, i == FLOW_IPV6) : NULL;

			for (unsigned int h = 0; d && h < d->n_held; h++)
				rte_pktmbuf_free(d->held[h]);
		}
		flow_destroy(fw->datagrams[i]);
	}
}
