/* SPDX-License-Identifier: Apache-2.0 */
/* The consolidated fast path: how flows become known. */
#include "fastpath_packet.h"

#include "core/loop/segment.h"

/*
 * What a run does to a flow is not told by its functions but seen: the headers of one packet as it
 * came and as it leaves. A function only says that it will do the same again.
 */

/* Sum of ~old + new over what differs; never 0 when something does (RFC 1624). */
static uint32_t differ(uint32_t sum, const uint8_t *old, const uint8_t *now, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i += 2) {
		uint16_t o, n;

		memcpy(&o, old + i, 2);
		memcpy(&n, now + i, 2);
		if (o != n)
			sum += (uint16_t)~o + (uint32_t)n;
	}
	return sum;
}

static uint16_t folded(uint32_t sum, bool changed)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return changed && !sum ? 0xffff : (uint16_t)sum;
}

/* Where things lie in frames of a family; addresses are in front of the ports. */
struct layout {
	unsigned int same_from, same_bytes; /* must be as before, but for the TTL */
	unsigned int ttl, proto, length, addrs, addr_bytes, ports;
	unsigned int length_adds; /* to the length field, for the frame's length */
};

static const struct layout layouts[FAST_FAMILIES] = {
	[FAST_IPV4] = {.same_from = 12, .same_bytes = 10, .ttl = 22, .proto = 23, .length = 16,
		       .addrs = 26, .addr_bytes = 8, .ports = 34, .length_adds = FAST_L2_BYTES},
	[FAST_IPV6] = {.same_from = 12, .same_bytes = 8, .ttl = 21, .proto = 20, .length = 18,
		       .addrs = 22, .addr_bytes = 32, .ports = 54,
		       .length_adds = FAST_L2_BYTES + FAST_L3_BYTES6},
};

/* Headers may differ in MACs, TTL, addresses, ports and checksums only. */
static bool only_known_fields(const struct fast_record *rec, const struct layout *l, const uint8_t *now)
{
	const uint8_t *old = rec->before;
	bool dst = memcmp(old, now, 6), src = memcmp(old + 6, now + 6, 6);

	return (!dst || rec->sets & NF_SETS_DST_MAC) && (!src || rec->sets & NF_SETS_SRC_MAC) &&
	       !memcmp(old + l->same_from, now + l->same_from, l->same_bytes) &&
	       old[l->proto] == now[l->proto] && now[l->ttl] <= old[l->ttl];
}

static bool same_length(const struct fast_record *rec, const struct layout *l, const struct rte_mbuf *m)
{
	uint32_t l3_bytes = rec->family == FAST_IPV4 ? FAST_L3_BYTES : FAST_L3_BYTES6;
	uint16_t length;

	memcpy(&length, rec->before + l->length, sizeof(length));
	return pkt_lens_are(m, FAST_L2_BYTES, l3_bytes) &&
	       m->pkt_len >= l->length_adds + rte_be_to_cpu_16(length);
}

static int path_number(struct fastpath *fp, const struct fast_path *p)
{
	const size_t from = sizeof(p->packets);

	for (unsigned int i = 1; i < fp->n_paths; i++)
		if (!memcmp((const uint8_t *)&fp->paths[i] + from, (const uint8_t *)p + from,
			    sizeof(*p) - from))
			return (int)i;
	if (fp->n_paths == FAST_PATHS_MAX)
		return -1;
	memcpy(&fp->paths[fp->n_paths], p, sizeof(*p)); /* with what is between its members: all zero */
	return (int)fp->n_paths++;
}

/* A place for the key: its own, a free one, or that of another flow; SIZE_MAX: the host has them
 * all. */
static size_t place(struct fastpath *fp, const struct fast_record *rec)
{
	size_t free_one = SIZE_MAX;

	for (unsigned int i = 0; i < FAST_WAYS; i++) {
		size_t at = fast_index(fp, rec->hash, fast_home(rec->hash) + i);
		const struct fast_entry *e = fast_at(fp, rec->family, at);

		if (fast_same_key(e, rec->key, rec->family))
			return fast_is_told(fp, rec->family, at) ? SIZE_MAX : at;
		if (free_one == SIZE_MAX && e->flow.version < fp->valid_from &&
		    !fast_is_told(fp, rec->family, at))
			free_one = at;
	}
	if (free_one != SIZE_MAX)
		return free_one;
	for (unsigned int i = 0; fp->offer && i < FAST_WAYS; i++) {
		size_t at = fast_index(fp, rec->hash, fp->victim + i);

		if (!fast_is_told(fp, rec->family, at))
			return at;
	}
	if (fp->offer)
		return SIZE_MAX;
	fp->stats.evicted++;
	fp->lost++;
	return fast_index(fp, rec->hash, fp->victim++);
}

static struct fast_entry *put(struct fastpath *fp, const struct fast_record *rec, uint16_t path,
			      uint32_t now, size_t *index)
{
	size_t at = place(fp, rec);
	struct fast_entry *e;

	*index = at;
	if (at == SIZE_MAX)
		return NULL;
	e = fast_at(fp, rec->family, at);
	memset(e, 0, fast_entry_bytes(rec->family));
	e->flow = (struct fast_flow){.version = fp->version, .refresh_at = now,
				     .epochs = rec->epoch_sum, .path = path};
	memcpy(e->flow.flow, rec->flow, rec->n_flows * sizeof(rec->flow[0]));
	memcpy(e->key, rec->key, fast_words(rec->family) * sizeof(rec->key[0]));
	fp->tables[rec->family].timers[at] = rec->timers;
	return e;
}

/* Where flows' changes are counted; few, as functions have one table per family. */
static bool watch(struct fastpath *fp, const struct flow_epochs *epochs)
{
	for (unsigned int i = 0; i < fp->n_watched; i++)
		if (fp->watched[i] == epochs)
			return true;
	if (fp->n_watched == FAST_WATCHED_MAX)
		return false;
	fp->watched[fp->n_watched++] = epochs;
	return true;
}

static void decline(struct fastpath *fp, struct fast_record *rec, uint32_t now)
{
	size_t at;

	rec->open = false;
	rec->n_flows = rec->epoch_sum = 0;
	memset(&rec->timers, 0, sizeof(rec->timers));
	fp->stats.declined++;
	fp->lost++;
	put(fp, rec, FAST_DECLINED, now + FAST_REFRESH, &at);
}

static void fill_path(struct fast_path *p, const struct fast_record *rec, const struct target *to,
		      const uint8_t *now)
{
	unsigned int ttl = layouts[rec->family].ttl;

	memset(p, 0, sizeof(*p));
	p->to.kind = to ? to->kind : TO_DROP;
	p->to.index = to ? to->index : 0;
	p->ends = !to;
	p->sets = rec->sets;
	if (rec->sets & NF_SETS_DST_MAC)
		memcpy(p->macs, now, 6);
	if (rec->sets & NF_SETS_SRC_MAC)
		memcpy(p->macs + 6, now + 6, 6);
	p->ttl = (uint8_t)(rec->before[ttl] - now[ttl]);
	p->ttl_needed = (uint8_t)(p->ttl + p->ends);
	p->direction = rec->at.direction;
	p->n_accounts = rec->n_accounts;
	p->n_steps = rec->n_steps;
	for (unsigned int i = 0; i < rec->n_flows; i++)
		p->epochs[i] = rec->epochs[i];
	for (unsigned int i = 0; i < rec->n_accounts; i++) {
		p->accounts[i].node = rec->accounts[i].node;
		p->accounts[i].flow = rec->accounts[i].flow;
	}
	for (unsigned int i = 0; i < rec->n_steps; i++) {
		p->steps[i].node = rec->steps[i].node;
		p->steps[i].verdict = rec->steps[i].verdict;
		p->steps[i].counters = rec->steps[i].counters;
	}
}

/* The sums are what all the functions' checksum updates come to (RFC 1624). */
static void fill_rewrite(struct fast_entry *e, const struct fast_record *rec, const struct layout *l,
			 const uint8_t *now)
{
	const uint8_t *old = rec->before;
	bool moved = memcmp(old + l->addrs, now + l->addrs, l->addr_bytes + 4);
	uint32_t addrs = differ(0, old + l->addrs, now + l->addrs, l->addr_bytes);

	e->flow.l4_delta = folded(differ(addrs, old + l->ports, now + l->ports, 4), moved);
	if (rec->family == FAST_IPV4) {
		struct fast_rewrite4 *to = fast_rewrite4(e);
		bool changed = old[l->ttl] != now[l->ttl] ||
			       memcmp(old + l->addrs, now + l->addrs, l->addr_bytes);

		memcpy(&to->src, now + l->addrs, 12);
		to->l3_delta = folded(differ(addrs, old + l->ttl, now + l->ttl, 2), changed);
	} else {
		struct fast_rewrite6 *to = fast_rewrite6(e);

		memcpy(to->addrs, now + l->addrs, sizeof(to->addrs));
		memcpy(&to->ports, now + l->ports, sizeof(to->ports));
	}
}

/* The packet leaves the run: what happened to it is what happens to its flow. */
static void finish(struct fastpath *fp, struct fast_record *rec, const struct target *to,
		   uint32_t now32)
{
	const uint8_t *now = rte_pktmbuf_mtod(rec->m, const uint8_t *);
	const struct layout *l = &layouts[rec->family];
	struct fast_entry *e;
	struct fast_path p;
	int number = -1;
	size_t at;

	rec->open = false;
	if ((!fp->offer || fast_may_tell(fp, rec, to)) && same_length(rec, l, rec->m) &&
	    only_known_fields(rec, l, now)) {
		fill_path(&p, rec, to, now);
		number = path_number(fp, &p);
	}
	if (number < 0) {
		decline(fp, rec, now32);
		return;
	}
	e = put(fp, rec, (uint16_t)number, now32, &at);
	if (!e)
		return;
	fill_rewrite(e, rec, l, now);
	fp->stats.recorded++;
	if (fp->offer)
		fast_tell(fp, rec, e, at, now32);
}

static bool add_flow(struct fastpath *fp, struct fast_record *rec, unsigned int node,
		     const struct nf_flow_action *a)
{
	if (!a->epochs)
		return true;
	if (rec->n_flows == FAST_FLOWS_MAX || !watch(fp, a->epochs))
		return false;
	if (a->account)
		rec->accounts[rec->n_accounts++] =
			(struct fast_account){.node = (uint16_t)node, .flow = rec->n_flows};
	rec->epochs[rec->n_flows] = a->epochs;
	rec->flow[rec->n_flows] = a->flow;
	rec->epoch_sum += a->epochs->of[a->flow];
	rec->timers.expires[rec->n_flows] = a->expires;
	rec->timers.timeout[rec->n_flows++] = a->timeout;
	return true;
}

/* One function's word on one packet; false: it cannot be spared. */
static bool add_step(struct fastpath *fp, struct fast_record *rec, struct node *node, unsigned int index,
		     uint8_t verdict)
{
	const struct nf_ops *ops = node->worker->nf->ops;
	struct nf_flow_action a = {0};

	if (verdict >= node->n_edges && !(verdict >= NF_DROP(0) && verdict < NF_DROP(NF_DROPS_MAX)))
		return false;
	if (rec->n_steps == FAST_STEPS_MAX || !ops->flow_action(node->worker, &rec->at, verdict, &a) ||
	    !add_flow(fp, rec, index, &a))
		return false;
	rec->sets |= a.sets;
	rec->steps[rec->n_steps++] =
		(struct fast_step){.node = (uint16_t)index, .verdict = verdict, .counters = a.counters};
	return true;
}

static void step(struct replica *r, struct fast_record *rec, struct node *node, unsigned int index,
		 uint8_t verdict, uint32_t now)
{
	struct fastpath *fp = r->fast;
	const struct target *to;

	if (!add_step(fp, rec, node, index, verdict)) {
		decline(fp, rec, now);
		return;
	}
	if (verdict >= node->n_edges) {
		finish(fp, rec, NULL, now);
		return;
	}
	to = &node->next[rec->at.direction][verdict];
	if (to->kind == TO_NODE && r->nodes[to->index].fast_able &&
	    !(r->nodes[to->index].fast_head & 1 << rec->at.direction))
		fast_see_tuple(rec);
	else
		finish(fp, rec, to, now);
}

void fastpath_note(struct replica *r, unsigned int index, const struct burst *b)
{
	struct fastpath *fp = r->fast;
	struct node *node = &r->nodes[index];
	unsigned int at = 0;

	if (!node->fast_able)
		return;
	/* Both are in the order of arrival, so that one walk mostly finds all. */
	for (unsigned int i = 0; i < b->n; i++) {
		for (unsigned int tried = 0; tried < fp->n_records; tried++) {
			struct fast_record *rec = &fp->records[at];

			at = at + 1 == fp->n_records ? 0 : at + 1;
			if (rec->m != b->pkts[i])
				continue;
			if (rec->open)
				step(r, rec, node, index, b->verdict[i], (uint32_t)(b->now >> 20));
			break;
		}
	}
}
