/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to Hyperscan, and what it finds to rules, events and the packet's fate. */
#include "dpi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "nf/lib/shared_flows.h"

int pool_init(struct pool *p, uint64_t size, unsigned int buckets)
{
	p->size = buckets > 1 && size ? flow_shard_capacity((uint32_t)size, buckets) : (uint32_t)size;
	p->free = calloc((size_t)p->size * buckets + 1, sizeof(*p->free));
	p->n = calloc(buckets, sizeof(*p->n));
	if (!p->free || !p->n)
		return -ENOMEM;
	for (unsigned int b = 0; b < buckets; b++) {
		p->n[b] = p->size;
		for (uint32_t i = 0; i < p->size; i++) /* low numbers first */
			p->free[b * p->size + i] = b * p->size + p->size - 1 - i;
	}
	return 0;
}

void pool_free(struct pool *p)
{
	free(p->free);
	free(p->n);
}

uint32_t pool_numbers(const struct pool *p, unsigned int buckets)
{
	return p->size * buckets;
}

uint32_t pool_used(const struct pool *p, const struct nf_worker *w)
{
	uint32_t used = 0;

	for (unsigned int b = 0; b < shared_buckets(w); b++)
		if (shared_is_own(w, b))
			used += p->size - p->n[b];
	return used;
}

/* All streams are opened now, as hs_open_stream allocates; later they are only reset. */
static int streams_open(struct dpi_worker *dw, struct err *err)
{
	const struct patterns *p = &dw->dpi->patterns;
	const struct dpi_params *params = dw->dpi->params;
	hs_database_t *db = p->db[PATTERNS_STREAM];
	unsigned int buckets = shared_buckets(dw->w);
	uint32_t n;

	if (pool_init(&dw->stream_pool, db ? params->streams : 0, buckets))
		return err_set(err, ENOMEM, "params.streams", "out of memory for %lu streams",
			       params->streams);
	n = pool_numbers(&dw->stream_pool, buckets);
	dw->streams = calloc(n + 1, sizeof(*dw->streams));
	dw->stream_parts = calloc(n * p->part_words + 1, sizeof(*dw->stream_parts));
	if (!dw->streams || !dw->stream_parts)
		return err_set(err, ENOMEM, "params.streams",
			       "out of memory for %lu streams of %zu parts of rules",
			       params->streams, p->n_parts);
	for (uint32_t i = 0; i < n; i++)
		if (hs_open_stream(db, 0, &dw->streams[i]) != HS_SUCCESS)
			return err_set(err, ENOMEM, "params.streams",
				       "out of memory for %lu streams of %zu bytes",
				       params->streams, p->stream_bytes);
	return 0;
}

int scan_init(struct dpi_worker *dw, const struct dpi_worker *first, struct err *err)
{
	const struct patterns *p = &dw->dpi->patterns;

	if (p->scratch && hs_clone_scratch(p->scratch, &dw->scratch) != HS_SUCCESS)
		return err_set(err, ENOMEM, "params", "Hyperscan: no scratch memory");
	dw->packet_parts = calloc(p->part_words + 1, sizeof(*dw->packet_parts));
	if (!dw->packet_parts)
		return err_set(err, ENOMEM, "params", "out of memory for %zu parts of rules", p->n_parts);
	if (!first)
		return streams_open(dw, err);
	dw->streams = first->streams;
	dw->stream_pool = first->stream_pool;
	dw->stream_parts = first->stream_parts;
	return 0;
}

static void streams_close(struct dpi_worker *dw)
{
	uint32_t n = pool_numbers(&dw->stream_pool, shared_buckets(dw->w));

	for (uint32_t i = 0; i < n && dw->streams; i++)
		if (dw->streams[i])
			hs_close_stream(dw->streams[i], NULL, NULL, NULL);
	free(dw->streams);
	pool_free(&dw->stream_pool);
	free(dw->stream_parts);
}

void scan_fini(struct dpi_worker *dw, bool shares)
{
	if (!shares)
		streams_close(dw);
	free(dw->packet_parts);
	hs_free_scratch(dw->scratch);
}

void scan_event(struct dpi_worker *dw, const struct inspection *in, enum eve_kind kind,
		uint32_t rule)
{
	const struct rule_packet *p = &in->packet;
	const struct dpi_flow *f = in->flow;
	size_t addr = p->family == 4 ? 4 : 16;
	struct eve_event v = {
		.tsc = dw->now_tsc,
		.start_tsc = dw->now_tsc,
		.kind = kind,
		.family = p->family,
		.proto = p->proto,
		.to_server = p->to_server,
		.sport = p->sport,
		.dport = p->dport,
		.rule = rule,
	};

	memcpy(v.src, p->src, addr);
	memcpy(v.dst, p->dst, addr);
	if (kind == EVE_ALERT)
		v.action = dw->dpi->rules.items[rule].action;
	if (f) {
		enum flow_family family = p->family == 4 ? FLOW_IPV4 : FLOW_IPV6;
		const struct dpi_birth *birth =
			&dw->births[family][flow_index(dw->flows[family], in->record)];

		v.flow_id = birth->id;
		v.start_tsc = birth->tsc;
		for (unsigned int i = 0; i < 2; i++) {
			v.packets[i] = f->packets[i];
			v.bytes[i] = f->bytes[i];
			v.label[i] = f->app[i];
		}
	}
	if (!eve_put(dw->ring, &v))
		dw->w->counters[C_ALERTS_LOST]++;
}

static bool fired_already(struct inspection *in, uint32_t rule)
{
	for (unsigned int i = 0; i < in->n_fired; i++)
		if (in->fired[i] == rule)
			return true;
	if (in->n_fired < FIRED_MAX)
		in->fired[in->n_fired++] = rule;
	return false;
}

static void fire(struct inspection *in, uint32_t rule)
{
	struct dpi_worker *dw = in->dw;
	const struct rule *r = &dw->dpi->rules.items[rule];

	if (!rule_applies(r, &in->packet) || fired_already(in, rule))
		return;
	dw->hits[rule]++;
	dw->w->counters[C_ALERTS]++;
	in->action = RTE_MAX(in->action, r->action);
	if (dw->ring)
		scan_event(dw, in, EVE_ALERT, rule);
}

/* True when it was the last that was missing of its rule. */
static bool part_found(struct inspection *in, uint32_t part, const struct rule *r)
{
	in->dw->parts_dirty = true;
	in->parts[part / 64] |= 1ull << part % 64;
	for (uint32_t i = r->first_part; i < r->first_part + r->n_exprs; i++)
		if (!(in->parts[i / 64] >> i % 64 & 1))
			return false;
	return true;
}

static int on_match(unsigned int id, unsigned long long from, unsigned long long to,
		    unsigned int flags, void *context)
{
	struct inspection *in = context;
	const struct dpi *d = in->dw->dpi;
	uint32_t part;

	if (id < d->rules.count) {
		fire(in, id);
		return 0;
	}
	part = id - (uint32_t)d->rules.count;
	if (part_found(in, part, &d->rules.items[d->patterns.part_rule[part]]))
		fire(in, d->patterns.part_rule[part]);
	return 0;
}

void scan_packet(struct inspection *in, enum patterns_db db, const void *data, uint32_t len)
{
	struct dpi_worker *dw = in->dw;
	const struct patterns *p = &dw->dpi->patterns;

	if (!p->db[db] || !len)
		return;
	if (db != PATTERNS_SEGMENT)
		dw->w->counters[C_SCANNED] += len;
	in->parts = dw->packet_parts;
	dw->parts_dirty = false;
	hs_scan(p->db[db], data, len, 0, dw->scratch, on_match, in);
	if (dw->parts_dirty)
		memset(dw->packet_parts, 0, p->part_words * sizeof(*dw->packet_parts));
}

static uint64_t *parts_of(const struct dpi_worker *dw, const struct dpi_dir *d)
{
	return dw->stream_parts + (d->stream - 1) * dw->dpi->patterns.part_words;
}

static void parts_clear(struct dpi_worker *dw, const struct dpi_dir *d)
{
	memset(parts_of(dw, d), 0, dw->dpi->patterns.part_words * sizeof(uint64_t));
}

static bool stream_take(struct inspection *in, struct dpi_dir *d)
{
	struct dpi_worker *dw = in->dw;
	uint32_t number;

	if (d->stream)
		return true;
	if (unlikely(!pool_take(&dw->stream_pool, in->bucket, &number))) {
		dw->w->counters[C_STREAMS_EXHAUSTED]++;
		return false;
	}
	d->stream = number + 1;
	return true;
}

void scan_stream(struct inspection *in, struct dpi_dir *d, const void *data, uint32_t len)
{
	struct dpi_worker *dw = in->dw;
	uint32_t left = (uint32_t)dw->dpi->params->stream_bytes - d->inspected;

	if (!dw->dpi->patterns.db[PATTERNS_STREAM] || d->flags & DIR_END || !len)
		return;
	if (!stream_take(in, d)) {
		scan_packet(in, PATTERNS_PACKET, data, len);
		return;
	}
	dw->w->counters[C_SCANNED] += RTE_MIN(len, left);
	in->parts = parts_of(dw, d);
	hs_scan_stream(dw->streams[d->stream - 1], data, RTE_MIN(len, left), 0, dw->scratch,
		       on_match, in);
	d->inspected += RTE_MIN(len, left);
	if (len >= left) {
		dw->w->counters[C_STREAMS_CUT]++;
		scan_end(dw, NULL, d);
	}
}

void scan_gap(struct dpi_worker *dw, struct dpi_dir *d)
{
	dw->w->counters[C_GAPS]++;
	if (!d->stream)
		return;
	hs_reset_stream(dw->streams[d->stream - 1], 0, NULL, NULL, NULL);
	parts_clear(dw, d);
}

void scan_end(struct dpi_worker *dw, struct inspection *in, struct dpi_dir *d)
{
	d->flags |= DIR_END;
	if (!d->stream)
		return;
	if (in)
		in->parts = parts_of(dw, d);
	hs_reset_stream(dw->streams[d->stream - 1], 0, in ? dw->scratch : NULL,
			in ? on_match : NULL, in);
	parts_clear(dw, d);
	pool_give(&dw->stream_pool, d->stream - 1);
	d->stream = 0;
}
