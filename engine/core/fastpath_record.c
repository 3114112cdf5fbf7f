/* SPDX-License-Identifier: Apache-2.0 */
/* The consolidated fast path: how flows become known. */
#include "fastpath_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <rte_malloc.h>

#include "pkt.h"
#include "segment.h"

/*
 * What a run does to a flow is not told by its functions but seen: the headers of one packet as it
 * came and as it leaves. A function only says that it will do the same again.
 */

static const uint32_t no_epochs[1];

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

/* Headers may differ in MACs, TTL, addresses, ports and checksums only. */
static bool only_known_fields(const struct fast_record *rec, const uint8_t *now)
{
	const uint8_t *old = rec->before;
	bool dst = memcmp(old, now, 6), src = memcmp(old + 6, now + 6, 6);

	return (!dst || rec->sets & NF_SETS_DST_MAC) && (!src || rec->sets & NF_SETS_SRC_MAC) &&
	       !memcmp(old + 12, now + 12, 10) && old[23] == now[23] && now[22] <= old[22];
}

static bool same_length(const struct fast_record *rec, const struct rte_mbuf *m)
{
	uint16_t total;

	memcpy(&total, rec->before + FAST_L2_BYTES + 2, sizeof(total));
	return m->vlan_tci_outer == (FAST_L2_BYTES | FAST_L3_BYTES << 7) &&
	       m->pkt_len >= FAST_L2_BYTES + rte_be_to_cpu_16(total);
}

static int path_number(struct fastpath *fp, const struct fast_path *p)
{
	for (unsigned int i = 1; i < fp->n_paths; i++)
		if (!memcmp(&fp->paths[i], p, offsetof(struct fast_path, packets)))
			return (int)i;
	if (fp->n_paths == FAST_PATHS_MAX)
		return -1;
	fp->paths[fp->n_paths] = *p;
	return (int)fp->n_paths++;
}

/* A place for the key: its own, a free one, or that of another flow. */
static struct fast_entry *place(struct fastpath *fp, const struct fast_record *rec)
{
	struct fast_entry *set = fast_set(fp, rec->hash), *e, *free_one = NULL;

	for (unsigned int i = 0; i < FAST_WAYS; i++) {
		e = &set[(fast_home(rec->hash) + i) % FAST_WAYS];
		if (e->key[0] == rec->key[0] && e->key[1] == rec->key[1])
			return e;
		if (!free_one && e->generation != fp->generation)
			free_one = e;
	}
	if (free_one)
		return free_one;
	fp->stats.evicted++;
	fp->lost++;
	return &set[fp->victim++ % FAST_WAYS];
}

static struct fast_entry *put(struct fastpath *fp, const struct fast_record *rec, uint16_t path,
			      uint32_t now)
{
	struct fast_entry *e = place(fp, rec);

	*e = (struct fast_entry){.key = {rec->key[0], rec->key[1]}, .generation = fp->generation,
				 .refresh_at = now, .epochs = rec->epoch_sum, .path = path};
	memcpy(e->flow, rec->flow, rec->n_flows * sizeof(e->flow[0]));
	fp->timers[e - fp->entries] = rec->timers;
	return e;
}

static void decline(struct fastpath *fp, struct fast_record *rec, uint32_t now)
{
	rec->open = false;
	rec->n_flows = 0;
	fp->stats.declined++;
	fp->lost++;
	put(fp, rec, FAST_DECLINED, now + FAST_REFRESH);
}

static void fill_path(struct fast_path *p, const struct fast_record *rec, const uint8_t *now)
{
	memset(p, 0, sizeof(*p));
	for (unsigned int i = 0; i < FAST_FLOWS_MAX; i++)
		p->epochs[i] = i < rec->n_flows ? rec->epochs[i] : no_epochs;
	p->sets = rec->sets;
	if (rec->sets & NF_SETS_DST_MAC)
		memcpy(p->macs, now, 6);
	if (rec->sets & NF_SETS_SRC_MAC)
		memcpy(p->macs + 6, now + 6, 6);
	p->ttl = (uint8_t)(rec->before[22] - now[22]);
	p->n_steps = rec->n_steps;
	p->direction = rec->at.direction;
	memset(p->steps, 0, sizeof(p->steps));
	for (unsigned int i = 0; i < rec->n_steps; i++) {
		p->steps[i].node = rec->steps[i].node;
		p->steps[i].verdict = rec->steps[i].verdict;
		p->steps[i].counters = rec->steps[i].counters;
	}
}

/* The packet leaves the run: what happened to it is what happens to its flow. */
static void finish(struct fastpath *fp, struct fast_record *rec, const struct target *to,
		   uint32_t now32)
{
	const uint8_t *now = rte_pktmbuf_mtod(rec->m, const uint8_t *), *old = rec->before;
	uint32_t addresses, ports;
	bool moved, aged;
	struct fast_path p;
	struct fast_entry *e;
	int number;

	rec->open = false;
	if (!same_length(rec, rec->m) || !only_known_fields(rec, now)) {
		decline(fp, rec, now32);
		return;
	}
	fill_path(&p, rec, now);
	p.to.kind = to ? to->kind : TO_DROP;
	p.to.index = to ? to->index : 0;
	p.ends = !to;
	p.ttl_needed = (uint8_t)(p.ttl + p.ends);
	number = path_number(fp, &p);
	if (number < 0) {
		decline(fp, rec, now32);
		return;
	}
	moved = memcmp(old + 26, now + 26, 12);
	aged = old[22] != now[22];
	addresses = differ(0, old + 26, now + 26, 8);
	ports = differ(addresses, old + 34, now + 34, 4);
	e = put(fp, rec, (uint16_t)number, now32);
	memcpy(&e->src, now + 26, 4);
	memcpy(&e->dst, now + 30, 4);
	memcpy(&e->ports, now + 34, 4);
	e->l4_delta = folded(ports, moved);
	e->l3_delta = folded(differ(addresses, old + 22, now + 22, 2), aged || memcmp(old + 26, now + 26, 8));
	fp->stats.recorded++;
}

static bool add_flow(struct fast_record *rec, const struct nf_flow_action *a)
{
	if (!a->epochs)
		return true;
	if (rec->n_flows == FAST_FLOWS_MAX)
		return false;
	rec->epochs[rec->n_flows] = a->epochs;
	rec->flow[rec->n_flows] = a->flow;
	rec->epoch_sum += a->epochs[a->flow];
	rec->timers.expires[rec->n_flows] = a->expires;
	rec->timers.timeout[rec->n_flows++] = a->timeout;
	return true;
}

/* One function's word on one packet; false: it cannot be spared. */
static bool add_step(struct fast_record *rec, struct node *node, unsigned int index, uint8_t verdict)
{
	const struct nf_ops *ops = node->worker->nf->ops;
	struct nf_flow_action a = {0};

	if (verdict >= node->n_edges && !(verdict >= NF_DROP(0) && verdict < NF_DROP(NF_DROPS_MAX)))
		return false;
	if (rec->n_steps == FAST_STEPS_MAX || !ops->flow_action(node->worker, &rec->at, verdict, &a) ||
	    !add_flow(rec, &a))
		return false;
	rec->sets |= a.sets;
	rec->steps[rec->n_steps++] =
		(struct fast_step){.node = (uint16_t)index, .verdict = verdict, .counters = a.counters};
	return true;
}

/* The tuple that the next function finds. */
static void see_tuple(struct fast_record *rec)
{
	const uint8_t *frame = rte_pktmbuf_mtod(rec->m, const uint8_t *);

	memcpy(&rec->at.src, frame + 26, 8);
	memcpy(&rec->at.sport, frame + 34, 4);
}

static void step(struct replica *r, struct fast_record *rec, struct node *node, unsigned int index,
		 uint8_t verdict, uint32_t now)
{
	struct fastpath *fp = r->fast;
	const struct target *to;

	if (!add_step(rec, node, index, verdict)) {
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
		see_tuple(rec);
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

static void mark_nodes(struct replica *r, const struct plan_segment *s, int d)
{
	bool from_able[256] = {0}, goes_on[256] = {0};

	for (unsigned int i = 0; i < s->n_nodes; i++) {
		for (unsigned int e = 0; e < s->nodes[i].n_edges; e++) {
			const struct target *t = &s->nodes[i].next[d][e];

			if (t->kind != TO_NODE || !r->nodes[i].fast_able || !r->nodes[t->index].fast_able)
				continue;
			goes_on[i] = true;
			from_able[t->index] = true;
		}
	}
	/* One function alone would only be replaced by a lookup of ours. */
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (goes_on[i] && !from_able[i])
			r->nodes[i].fast_head |= (uint8_t)(1 << d);
}

static bool mark(struct replica *r, const struct plan_segment *s)
{
	bool any = false;

	for (unsigned int i = 0; i < s->n_nodes; i++)
		r->nodes[i].fast_able = r->nodes[i].worker->nf->ops->flow_action != NULL;
	for (int d = 0; d < NF_DIRECTIONS; d++)
		mark_nodes(r, s, d);
	for (unsigned int i = 0; i < s->n_nodes; i++)
		any |= r->nodes[i].fast_head != 0;
	return any;
}

static int allocate(struct fastpath *fp, uint32_t entries, unsigned int nodes)
{
	fp->entries = rte_zmalloc("fastpath", entries * sizeof(*fp->entries), RTE_CACHE_LINE_SIZE);
	fp->timers = rte_zmalloc("fastpath", entries * sizeof(*fp->timers), RTE_CACHE_LINE_SIZE);
	fp->paths = rte_zmalloc("fastpath", FAST_PATHS_MAX * sizeof(*fp->paths), RTE_CACHE_LINE_SIZE);
	fp->tables = rte_zmalloc("fastpath", nodes * sizeof(*fp->tables), RTE_CACHE_LINE_SIZE);
	return fp->entries && fp->timers && fp->paths && fp->tables ? 0 : -ENOMEM;
}

int fastpath_open(struct replica *r, const struct plan_segment *s, struct err *err)
{
	uint32_t entries = rte_align32pow2(RTE_MAX(s->fastpath, (unsigned int)FAST_WAYS));
	struct fastpath *fp;

	if (!s->fastpath || !mark(r, s))
		return 0;
	fp = r->fast = rte_zmalloc("fastpath", sizeof(*fp), RTE_CACHE_LINE_SIZE);
	if (!fp || allocate(fp, entries, s->n_nodes))
		return err_set(err, ENOMEM, s->name,
			       "no memory for a fast path of %u flows: give the engine more memory_mb",
			       entries);
	fp->set_mask = entries / FAST_WAYS - 1;
	fp->generation = 1;
	fp->n_paths = 1; /* FAST_DECLINED */
	if (getrandom(&fp->seed, sizeof(fp->seed), 0) != sizeof(fp->seed))
		return err_set(err, EIO, s->name, "no random numbers");
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (r->nodes[i].fast_able)
			fp->tables[fp->n_tables++] = &r->nodes[i].worker->nf->changes;
	return 0;
}

void fastpath_close(struct fastpath *fp)
{
	if (!fp)
		return;
	rte_free(fp->entries);
	rte_free(fp->timers);
	rte_free(fp->paths);
	rte_free(fp->tables);
	rte_free(fp);
}
