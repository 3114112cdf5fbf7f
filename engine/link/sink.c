/* SPDX-License-Identifier: Apache-2.0 */
/* A sink measures and ends packets: loss, order, duplication, delay and its variation. */
#include "sink.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "stamp.h"

#define FLOWS_TOP_MAX 1000u

struct sink_conf {
	uint64_t missing_mb;
	struct param_list sources;
};

static const struct param sink_params[] = {
	{.name = "missing_mb", .type = PARAM_UINT, .min = 1, .max = 1 << 14, .def = "128", .unit = "MB",
	 .offset = offsetof(struct sink_conf, missing_mb),
	 .doc = "memory, used as it is needed, for the numbers of packets that have not come: 448 numbers of "
		"a flow take 64 bytes. With it late packets are told from duplicates; when it is full, "
		"`undecided` counts those that cannot be"},
	{.name = "sources", .type = PARAM_STRING, .list = true, .offset = offsetof(struct sink_conf, sources),
	 .doc = "sources whose captures' packets come here; none: all. Two that replay the same packets are "
		"told apart by it, as nothing in a packet says whose it is"},
	{0},
};

static void trial_free(struct sink_trial *t)
{
	if (!t)
		return;
	holes_close(&t->holes);
	rte_free(t->seen);
	rte_free(t);
}

static void sink_fini(struct link *l)
{
	struct sink *s = l->state;

	if (!s)
		return;
	for (uint16_t i = 0; i < s->n; i++) {
		trial_free(atomic_load(&s->queues[i].trial));
		trial_free(s->queues[i].spare);
	}
	rte_free(s->queues);
	free(s);
	l->state = NULL;
}

static int sink_init(struct link *l, struct err *err)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, ENOMEM, "", "out of memory");
	l->state = s;
	s->n = l->n_txq;
	s->queues = rte_zmalloc("sink", RTE_MAX(s->n, 1) * sizeof(*s->queues), RTE_CACHE_LINE_SIZE);
	if (!s->queues) {
		sink_fini(l);
		return err_set(err, ENOMEM, "", "out of memory");
	}
	for (uint16_t i = 0; i < s->n; i++) {
		s->queues[i].link = l;
		s->queues[i].ns_mult = (1e9 / (double)rte_get_tsc_hz()) * (1ull << NS_SHIFT) + 0.5;
	}
	return 0;
}

static int sink_tx_open(struct link_txq *q, struct err *err)
{
	struct sink *s = q->link->state;

	(void)err;
	q->state = &s->queues[q->index];
	return 0;
}

static struct sink_trial *trial_ready(struct sink_trial *t, uint64_t n_flows, uint64_t missing_mb)
{
	struct flow_seen *seen;

	if (!t)
		t = rte_zmalloc("sink_trial", sizeof(*t), RTE_CACHE_LINE_SIZE);
	if (!t)
		return NULL;
	seen = t->seen;
	if (n_flows > t->n_flows || !seen) {
		rte_free(seen);
		seen = rte_zmalloc("sink_flows", RTE_MAX(n_flows, 1u) * sizeof(*seen),
				   RTE_CACHE_LINE_SIZE);
		if (!seen) {
			t->seen = NULL;
			trial_free(t);
			return NULL;
		}
	} else {
		memset(seen, 0, n_flows * sizeof(*seen));
	}
	holes_close(&t->holes);
	memset(t, 0, sizeof(*t));
	hist_reset(&t->latency);
	hist_reset(&t->slice);
	t->seen = seen;
	t->n_flows = n_flows;
	if (holes_open(&t->holes, missing_mb)) {
		trial_free(t);
		return NULL;
	}
	return t;
}

static int sink_start(struct link *l, const struct trial *trial, struct err *err)
{
	const struct sink_conf *c = l->conf;
	struct sink *s = l->state;
	int rc = sink_check_sources(l, trial, &c->sources, err);

	if (rc)
		return rc;
	for (uint16_t i = 0; i < s->n; i++) {
		struct sink_queue *q = &s->queues[i];
		struct sink_trial *t = trial_ready(q->spare, trial->n_flows, c->missing_mb);

		if (!t) {
			q->spare = NULL;
			return err_set(err, ENOMEM, l->name, "no memory to measure %llu flows",
				       (unsigned long long)trial->n_flows);
		}
		t->epoch = trial->epoch;
		t->magic = stamp_magic(trial->epoch);
		t->window = trial->duration;
		t->blind = trial->blind;
		sink_take_replays(t, trial, &c->sources);
		/* The worker is past the old one by the next trial: sources were idle. */
		q->spare = atomic_exchange_explicit(&q->trial, t, memory_order_acq_rel);
	}
	return 0;
}

static void add_tally(struct tally *sum, const struct tally *t)
{
	sum->packets += t->packets;
	sum->bytes += t->bytes;
	for (unsigned int c = 0; c < SIZE_CLASSES; c++)
		sum->sizes[c] += t->sizes[c];
}

static void add_trial(struct sink_trial *sum, const struct sink_trial *t)
{
	const struct sink_counts within = t->over ? t->within : sink_counts_now(t);

	sum->within.received += within.received;
	sum->within.stamped += within.stamped;
	sum->within.matched += within.matched;
	sum->within.duplicated += within.duplicated;
	sum->within.own_packets += within.own_packets;
	sum->within.own_bytes += within.own_bytes;
	add_tally(&sum->all, &t->all);
	add_tally(&sum->other, &t->other);
	sum->created += t->created;
	sum->undecided += t->undecided;
	sum->stamped += t->stamped;
	sum->unknown += t->unknown;
	sum->matched += t->matched;
	sum->ambiguous += t->ambiguous;
	sum->late += t->late;
	sum->foreign += t->foreign;
	sum->lost += t->lost;
	sum->reordered += t->reordered;
	sum->duplicated += t->duplicated;
	sum->flows += t->flows;
	sum->ipdv_sum += t->ipdv_sum;
	sum->ipdv_count += t->ipdv_count;
	if (t->all.packets && (!sum->first_tsc || t->first_tsc < sum->first_tsc))
		sum->first_tsc = t->first_tsc;
	sum->last_tsc = RTE_MAX(sum->last_tsc, t->last_tsc);
	hist_add(&sum->latency, &t->latency);
	hist_add(&sum->latency, &t->slice);
}

static json_t *own_json(const struct sink_trial *t)
{
	struct sink_counts now = sink_counts_now(t);
	uint64_t sizes[SIZE_CLASSES];

	for (unsigned int c = 0; c < SIZE_CLASSES; c++)
		sizes[c] = t->all.sizes[c] - t->other.sizes[c];
	return json_pack("{s:I, s:I, s:o}", "packets", (json_int_t)now.own_packets, "bytes",
			 (json_int_t)now.own_bytes, "sizes", sizes_json(sizes));
}

static json_t *trial_json(const struct sink_trial *t)
{
	double per_ns = 1e9 / (double)rte_get_tsc_hz();
	uint64_t bytes = t->all.bytes + t->all.packets * RTE_ETHER_CRC_LEN;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:I, "
			 "s:I, s:I, s:I, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}}",
			 "received", (json_int_t)t->all.packets, "bytes", (json_int_t)bytes,
			 "stamped", (json_int_t)t->stamped, "matched", (json_int_t)t->matched,
			 "unknown", (json_int_t)t->unknown, "ambiguous", (json_int_t)t->ambiguous,
			 "late", (json_int_t)t->late, "foreign", (json_int_t)t->foreign, "lost",
			 (json_int_t)t->lost, "reordered", (json_int_t)t->reordered, "duplicated",
			 (json_int_t)t->duplicated, "flows", (json_int_t)t->flows, "latency",
			 hist_json(&t->latency), "ipdv_ns_mean",
			 t->ipdv_count ? (double)t->ipdv_sum / (double)t->ipdv_count : 0.0,
			 "ipdv_count", (json_int_t)t->ipdv_count, "duration_ns",
			 (json_int_t)((double)(t->last_tsc - t->first_tsc) * per_ns), "created",
			 (json_int_t)t->created, "undecided", (json_int_t)t->undecided, "own",
			 own_json(t), "within",
			 "received", (json_int_t)t->within.received, "stamped",
			 (json_int_t)t->within.stamped, "matched", (json_int_t)t->within.matched,
			 "duplicated", (json_int_t)t->within.duplicated, "own_packets",
			 (json_int_t)t->within.own_packets, "own_bytes",
			 (json_int_t)t->within.own_bytes);
}

static json_t *sink_stats(struct link *l)
{
	const struct sink *s = l->state;
	struct sink_trial *sum = calloc(1, sizeof(*sum));
	json_t *j;

	if (!sum)
		return json_object();
	hist_reset(&sum->latency);
	for (uint16_t i = 0; i < s->n; i++) {
		const struct sink_trial *t = atomic_load(&s->queues[i].trial);

		if (t)
			add_trial(sum, t);
	}
	j = trial_json(sum);
	free(sum);
	return j;
}

static uint64_t badness(const struct flow_seen *f)
{
	return (uint64_t)(f->next - (f->received - f->duplicated)) + f->reordered + f->duplicated;
}

/* Insert into a list kept worst first. */
static void rank(json_t *list, unsigned int top, uint64_t flow, const struct flow_seen *f)
{
	size_t at = json_array_size(list);

	while (at && (uint64_t)json_integer_value(json_object_get(
			     json_array_get(list, at - 1), "badness")) < badness(f))
		at--;
	if (at >= top)
		return;
	json_array_insert_new(list, at,
			      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "flow", (json_int_t)flow,
					"received", (json_int_t)f->received, "lost",
					(json_int_t)(f->next - (f->received - f->duplicated)),
					"reordered", (json_int_t)f->reordered, "duplicated",
					(json_int_t)f->duplicated, "badness",
					(json_int_t)badness(f)));
	if (json_array_size(list) > top)
		json_array_remove(list, top);
}

static json_t *sink_flows(struct link *l, unsigned int top)
{
	const struct sink *s = l->state;
	json_t *list = json_array();

	top = RTE_MIN(top, FLOWS_TOP_MAX);
	for (uint16_t i = 0; i < s->n; i++) {
		const struct sink_trial *t = atomic_load(&s->queues[i].trial);

		for (uint64_t f = 0; t && f < t->n_flows; f++)
			if (t->seen[f].received && badness(&t->seen[f]))
				rank(list, top, f, &t->seen[f]);
	}
	return list;
}

static const struct link_meter sink_measures = {
	.start = sink_start,
	.flows = sink_flows,
	.slices = sink_slices_json,
};

static const struct link_ops sink_ops = {
	.name = "sink",
	.doc = "Measures packets and frees them. It has what was received, lost, reordered and duplicated "
	       "per flow, delay histogram and IPDV from stamps; unstamped packets of a replayed capture are "
	       "matched by digest.",
	.params = sink_params,
	.conf_size = sizeof(struct sink_conf),
	.writes = true,
	.init = sink_init,
	.fini = sink_fini,
	.tx_open = sink_tx_open,
	.tx = sink_tx,
	.stats = sink_stats,
	.measures = &sink_measures,
};
LINK_REGISTER(sink_ops)
