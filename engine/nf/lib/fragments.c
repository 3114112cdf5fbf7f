/* SPDX-License-Identifier: Apache-2.0 */
#include "fragments.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/pkt.h"

#define PARTS_MAX 48 /* 64 KB in fragments of 1480 bytes, and some */

static_assert(FLOW_IPV4 == 0 && FLOW_IPV6 == 1, "tables are found by `v6`");

struct part {
	uint16_t start, end; /* bytes of the datagram's payload */
};

struct datagram {
	struct rte_mbuf *held[PARTS_MAX];
	struct part parts[PARTS_MAX];
	uint8_t n_held, n_parts;
	bool judged;
	bool blocked; /* on its bucket's list: the held ones go on, when there is room */
	uint32_t next_blocked;
	uint8_t verdict;
	uint16_t total, seen; /* bytes; total 0: the last fragment has not come */
	uint64_t note[FRAGMENTS_NOTE_BYTES / sizeof(uint64_t)];
};

/* What a fragment says of itself. */
struct fragment {
	struct part part;
	uint32_t id;
	uint8_t proto;
	bool more, v6;
};

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

union key {
	struct flow_key4 v4;
	struct flow_key6 v6;
};

static void make_key(union key *key, const struct fragment *f, const struct rte_mbuf *m,
		     enum nf_direction dir)
{
	const uint8_t *l3 = pkt_l3_hdr(m);

	memset(key, 0, sizeof(*key));
	if (f->v6) {
		memcpy(key->v6.src, l3 + 8, 32);
		memcpy(&key->v6.sport, &f->id, sizeof(f->id));
		key->v6.shard = pkt_bucket(m);
		key->v6.zone = (uint16_t)dir;
	} else {
		memcpy(&key->v4.src, l3 + 12, 8);
		key->v4.sport = (uint16_t)f->id;
		key->v4.proto = f->proto;
		key->v4.shard = pkt_bucket(m);
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

/* The first fragment to the NF, as the whole packet that its header says it is. */
static uint8_t judge(const struct fragments *fs, struct nf_worker *w, struct datagram *d,
		     struct rte_mbuf *m, const struct fragment *f, enum nf_direction dir,
		     uint32_t now)
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
	verdict = fs->ops->first(w, m, dir, now, d->note);
	m->packet_type = ptype;
	return verdict;
}

static bool passes(const struct datagram *d)
{
	return d->verdict < NF_EDGES_MAX;
}

static void add_held(struct fragments *fs, int n)
{
	atomic_fetch_add_explicit(&fs->shared->held, (uint64_t)(int64_t)n, memory_order_relaxed);
}

/* Those held go the way of the first; what finds no room to leave stays: see block. */
static void let_go(struct fragments *fs, struct nf_worker *w, struct datagram *d, enum nf_direction dir)
{
	while (d->n_held) {
		struct rte_mbuf *m = d->held[d->n_held - 1];

		if (!passes(d)) {
			bool reason = d->verdict >= NF_DROP(0) && d->verdict < NF_DROP(NF_DROPS_MAX);

			nf_drop_held(w, m, reason ? d->verdict - NF_DROP(0) : fs->ops->drop_bad);
		} else if (nf_release(w, m, d->verdict, dir)) {
			return;
		}
		d->n_held--;
		add_held(fs, -1);
	}
}

/* Held fragments are changed once, as soon as their first one is judged. */
static void follow(const struct fragments *fs, struct nf_worker *w, struct datagram *d)
{
	for (unsigned int i = 0; passes(d) && fs->ops->later && i < d->n_held; i++)
		fs->ops->later(w, d->held[i], d->note);
}

static uint8_t poison(struct fragments *fs, struct nf_worker *w, struct datagram *d,
		      enum nf_direction dir)
{
	d->judged = true;
	d->verdict = NF_DROP(fs->ops->drop_overlap);
	let_go(fs, w, d, dir);
	return d->verdict;
}

static uint8_t hold(struct fragments *fs, struct datagram *d, struct rte_mbuf *m)
{
	if (fragments_held(fs) >= fs->held_max)
		return NF_DROP(fs->ops->drop_limit);
	d->held[d->n_held++] = m;
	add_held(fs, 1);
	return NF_HOLD;
}

/* A fragment that no earlier one overlaps. */
static uint8_t place(struct fragments *fs, struct nf_worker *w, struct datagram *d,
		     struct rte_mbuf *m, const struct fragment *f, enum nf_direction dir,
		     uint32_t now)
{
	if (!f->part.start) {
		d->verdict = judge(fs, w, d, m, f, dir, now);
		d->judged = true;
		follow(fs, w, d);
		return d->verdict;
	}
	if (!d->judged)
		return hold(fs, d, m);
	if (passes(d) && fs->ops->later)
		fs->ops->later(w, m, d->note);
	return d->verdict;
}

static uint8_t add_part(struct fragments *fs, struct nf_worker *w, struct datagram *d,
			struct rte_mbuf *m, const struct fragment *f, enum nf_direction dir,
			uint32_t now)
{
	const uint8_t overlap = NF_DROP(fs->ops->drop_overlap);
	bool again;
	uint8_t verdict;

	if (d->judged && d->verdict == overlap)
		return overlap;
	if (overlaps(d, f->part, &again))
		return again ? overlap : poison(fs, w, d, dir);
	if (d->n_parts == PARTS_MAX)
		return NF_DROP(fs->ops->drop_limit);
	verdict = place(fs, w, d, m, f, dir, now);
	if (!d->judged && verdict != NF_HOLD)
		return verdict;
	d->parts[d->n_parts++] = f->part;
	d->seen += f->part.end - f->part.start;
	if (!f->more)
		d->total = f->part.end;
	if (d->judged)
		let_go(fs, w, d, dir);
	return verdict;
}

/* A burst's releases are bounded: the rest of a judged datagram leaves from the tick. */
static void block(struct fragments *fs, struct flow *f, bool v6, unsigned int bucket)
{
	struct datagram *d = datagram_of(f, v6);
	uint32_t *list = &fs->shared->blocked[v6][bucket];

	if (d->blocked)
		return;
	d->blocked = true;
	d->next_blocked = *list;
	*list = flow_index(fs->datagrams[v6], f) + 1; /* 0: the list's end */
	atomic_fetch_add_explicit(&fs->shared->n_blocked, 1, memory_order_relaxed);
}

static bool is_complete(const struct datagram *d)
{
	return d->judged && !d->n_held && !d->blocked && d->total && d->seen == d->total;
}

static void unblock(struct fragments *fs, struct nf_worker *w, bool v6, unsigned int bucket)
{
	uint32_t *list = &fs->shared->blocked[v6][bucket];

	while (*list) {
		struct flow *f = flow_at(fs->datagrams[v6], *list - 1);
		struct datagram *d = datagram_of(f, v6);

		let_go(fs, w, d, (enum nf_direction)f->user);
		if (d->n_held)
			return;
		*list = d->next_blocked;
		d->blocked = false;
		atomic_fetch_sub_explicit(&fs->shared->n_blocked, 1, memory_order_relaxed);
		if (is_complete(d))
			flow_delete(fs->datagrams[v6], f);
	}
}

static void unblock_own(struct fragments *fs, struct nf_worker *w, bool v6)
{
	for (unsigned int b = 0; b < shared_buckets(w); b++)
		if (shared_is_own(w, b))
			unblock(fs, w, v6, b);
}

/* The record of a fragment's datagram, begun with it; NULL when there is no room. */
static struct flow *find(struct fragments *fs, const struct fragment *f, const struct rte_mbuf *m,
			 enum nf_direction dir, uint32_t now)
{
	struct flow_table *table = fs->datagrams[f->v6];
	struct flow *record;
	union key key;

	make_key(&key, f, m, dir);
	record = flow_find(table, &key);
	if (record)
		return record;
	record = flow_insert(table, &key);
	if (record) {
		/* From the first to come, not from the last: nobody can keep it alive. */
		flow_touch(record, now, fs->timeout);
		record->user = (uint16_t)dir;
	}
	return record;
}

uint8_t fragments_take(struct fragments *fs, struct nf_worker *w, struct rte_mbuf *m,
		       enum nf_direction dir, uint32_t now)
{
	struct fragment f;
	struct datagram *d;
	struct flow *record;
	uint8_t verdict;

	if (!parse(&f, m) || is_tiny(&f, m))
		return NF_DROP(fs->ops->drop_bad);
	record = find(fs, &f, m, dir, now);
	if (!record)
		return NF_DROP(fs->ops->drop_limit);
	d = datagram_of(record, f.v6);
	verdict = add_part(fs, w, d, m, &f, dir, now);
	if (d->judged && d->n_held)
		block(fs, record, f.v6, shared_bucket(w, m));
	else if (is_complete(d))
		flow_delete(fs->datagrams[f.v6], record);
	return verdict;
}

struct ageing {
	struct fragments *fs;
	struct nf_worker *w;
	bool v6;
};

static bool gone(void *arg, struct flow *f)
{
	const struct ageing *a = arg;
	struct datagram *d = datagram_of(f, a->v6);

	if (!d->judged)
		d->verdict = NF_DROP(a->fs->ops->drop_timeout);
	let_go(a->fs, a->w, d, (enum nf_direction)f->user);
	return !d->n_held && !d->blocked;
}

void fragments_tick(struct fragments *fs, struct nf_worker *w, uint32_t now)
{
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		struct ageing a = {fs, w, i == FLOW_IPV6};

		if (!fs->datagrams[i])
			continue;
		if (atomic_load_explicit(&fs->shared->n_blocked, memory_order_relaxed))
			unblock_own(fs, w, a.v6);
		flow_age(fs->datagrams[i], now, gone, &a);
	}
}

int fragments_init(struct fragments *fs, const struct nf_worker *w, const struct fragments *first,
		   const struct fragments_ops *ops, const struct fragments_conf *conf, struct err *err)
{
	int rc = 0;

	*fs = (struct fragments){.ops = ops, .held_max = conf->held_max, .joined = first != NULL,
				 .timeout = flow_ticks((uint64_t)(conf->timeout_s * 1000))};
	fs->shared = first ? first->shared : calloc(1, sizeof(*fs->shared));
	if (!fs->shared)
		return err_set(err, ENOMEM, "params", "out of memory");
	for (unsigned int i = 0; i < FLOW_FAMILIES && !rc; i++) {
		struct flow_conf table = {.family = i, .capacity = (uint32_t)conf->datagrams,
					  .state_bytes = sizeof(struct datagram),
					  .socket_id = conf->socket_id};

		rc = shared_flows(w, &table, first ? first->datagrams[i] : NULL, &fs->datagrams[i], err);
	}
	if (rc)
		fragments_fini(fs);
	return rc;
}

static void free_held(struct flow_table *table, bool v6)
{
	for (uint32_t n = 0; n < flow_capacity(table); n++) {
		struct flow *f = flow_at(table, n);
		struct datagram *d = f ? datagram_of(f, v6) : NULL;

		for (unsigned int h = 0; d && h < d->n_held; h++)
			rte_pktmbuf_free(d->held[h]);
	}
}

void fragments_fini(struct fragments *fs)
{
	for (unsigned int i = 0; i < FLOW_FAMILIES; i++) {
		if (fs->datagrams[i] && !fs->joined)
			free_held(fs->datagrams[i], i == FLOW_IPV6);
		flow_destroy(fs->datagrams[i]);
		fs->datagrams[i] = NULL;
	}
	if (!fs->joined)
		free(fs->shared);
	fs->shared = NULL;
}
