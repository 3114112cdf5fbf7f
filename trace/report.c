/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define STAGE_NAME(id, name, backend, doc) name,
static const char *const stage_names[] = {STAGES(STAGE_NAME)};
#define COUNTER_NAME(name, doc) #name,
static const char *const counter_names[] = {COUNTERS(COUNTER_NAME)};
static const char *const softirq_names[SOFTIRQS] = {
	"HI",       "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
	"IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU",
};

static const char *stage_name(unsigned int stage)
{
	return stage < STAGES_N ? stage_names[stage] : "?";
}

/* Lower bound of a bucket: the inverse of hist_bucket. */
static uint64_t bucket_low(unsigned int b)
{
	return b < 8 ? b : (8ull + b % 8) << (b / 8 - 1);
}

/* What all CPUs have of one stage pair and place: each claims entries of its own. */
struct total {
	uint32_t from, to, ifindex, netns;
	uint64_t count, sum_ns, min_ns, max_ns;
	uint64_t bucket[HIST_BUCKETS];
};

static void total_add(struct total *t, const struct hist *h)
{
	if (~h->not_min_ns < t->min_ns)
		t->min_ns = ~h->not_min_ns;
	if (h->max_ns > t->max_ns)
		t->max_ns = h->max_ns;
	t->sum_ns += h->sum_ns;
	for (unsigned int b = 0; b < HIST_BUCKETS; b++) {
		uint64_t n = (uint64_t)h->carry[b] << 32 | h->bucket[b];

		t->bucket[b] += n;
		t->count += n;
	}
}

/* Middle of the bucket in which the percentile lies, never outside what was seen. */
static json_int_t percentile(const struct total *h, double share)
{
	uint64_t want = share * h->count, sum = 0, v;

	for (unsigned int b = 0; b < HIST_BUCKETS - 1; b++) {
		sum += h->bucket[b];
		if (sum <= want && sum != h->count)
			continue;
		v = (bucket_low(b) + bucket_low(b + 1)) / 2;
		return v < h->min_ns ? h->min_ns : v > h->max_ns ? h->max_ns : v;
	}
	return h->max_ns;
}

static json_t *buckets_json(const struct total *h)
{
	json_t *list = json_array();

	for (unsigned int b = 0; b < HIST_BUCKETS; b++)
		if (h->bucket[b])
			json_array_append_new(list, json_pack("[I,I]", (json_int_t)bucket_low(b),
							      (json_int_t)h->bucket[b]));
	return list;
}

static json_t *hist_json(const struct total *h, bool buckets)
{
	json_t *j = json_pack("{s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:I}", "count",
			      (json_int_t)h->count, "sum_ns", (json_int_t)h->sum_ns, "mean_ns",
			      (double)h->sum_ns / h->count, "min_ns", (json_int_t)h->min_ns,
			      "p50_ns", percentile(h, 0.5), "p90_ns", percentile(h, 0.9), "p99_ns",
			      percentile(h, 0.99), "p999_ns", percentile(h, 0.999), "max_ns",
			      (json_int_t)h->max_ns);

	if (buckets)
		json_object_set_new(j, "buckets", buckets_json(h));
	return j;
}

static json_t *hist_report(const struct total *h, const struct names *n, bool buckets)
{
	json_t *j = hist_json(h, buckets);

	json_object_set_new(j, "from", json_string(stage_name(h->from)));
	json_object_set_new(j, "to", json_string(stage_name(h->to % END_OF)));
	json_object_set_new(j, "device", json_string(names_device(n, h->netns, h->ifindex)));
	json_object_set_new(j, "ifindex", json_integer(h->ifindex));
	json_object_set_new(j, "netns", json_string(names_netns(n, h->netns)));
	json_object_set_new(j, "netns_inum", json_integer(h->netns));
	return j;
}

struct totals {
	struct total *total;
	unsigned int n, room;
};

/* The one that a histogram belongs to, a new one if need be; NULL: no memory. */
static struct total *totals_find(struct totals *t, const struct hist *h)
{
	struct total like = {.from = HIST_FROM(h->key),
			     .to = HIST_TO(h->key),
			     .ifindex = h->ifindex,
			     .netns = h->netns,
			     .min_ns = UINT64_MAX};
	struct total *more;

	for (unsigned int i = 0; i < t->n; i++)
		if (!memcmp(&t->total[i], &like, offsetof(struct total, count)))
			return &t->total[i];
	if (t->n == t->room) {
		more = realloc(t->total, (t->room + 64) * sizeof(*more));
		if (!more)
			return NULL;
		t->total = more;
		t->room += 64;
	}
	t->total[t->n] = like;
	return &t->total[t->n++];
}

static int totals_read(struct totals *t, int fd, uint32_t entries)
{
	struct total *to;
	struct hist h;

	for (uint32_t i = 0; i < entries; i++) {
		if (bpf_map_lookup_elem(fd, &i, &h) || !h.key)
			continue;
		to = totals_find(t, &h);
		if (!to)
			return -ENOMEM;
		total_add(to, &h);
	}
	return 0;
}

/* Histograms of the way from stage to stage, and those of whole ways, apart. */
static int report_hists(struct tracer *t, const struct options *o, struct names *n, json_t *out)
{
	json_t *stages = json_array(), *whole = json_array();
	struct bpf_map *hists = t->skel->maps.hists;
	struct totals all = {};
	int rc = totals_read(&all, bpf_map__fd(hists), bpf_map__max_entries(hists));

	for (unsigned int i = 0; !rc && i < all.n; i++) {
		const struct total *h = &all.total[i];

		if (h->count) /* else claimed a moment before the end */
			json_array_append_new(h->to >= END_OF ? whole : stages,
					      hist_report(h, n, o->buckets));
	}
	json_object_set_new(out, "stages", stages);
	json_object_set_new(out, "end_to_end", whole);
	free(all.total);
	return rc;
}

static int report_counters(struct tracer *t, json_t *out, uint64_t beyond)
{
	json_t *packets = json_object(), *losses = json_object();
	struct bpf_map *counters = t->skel->maps.counters;
	uint64_t sum[COUNTERS_N] = {}, lost = beyond;
	struct counters v;

	for (uint32_t cpu = 0; cpu < bpf_map__max_entries(counters); cpu++) {
		if (bpf_map_lookup_elem(bpf_map__fd(counters), &cpu, &v))
			return -errno;
		for (unsigned int i = 0; i < COUNTERS_N; i++)
			sum[i] += v.n[i];
	}
	for (unsigned int i = 0; i < COUNTERS_N; i++) {
		bool is_loss = !strncmp(counter_names[i], "lost_", 5);

		json_object_set_new(is_loss ? losses : packets,
				    counter_names[i] + (is_loss ? 5 : 0), json_integer(sum[i]));
		lost += is_loss ? sum[i] : 0;
	}
	json_object_set_new(losses, "paths_beyond_max", json_integer(beyond));
	json_object_set_new(out, "packets", packets);
	json_object_set_new(out, "lost", losses);
	return lost > INT32_MAX ? INT32_MAX : (int)lost;
}

static json_int_t count_of(json_t *counts, const char *name)
{
	return json_integer_value(json_object_get(counts, name));
}

/* Packets that were still followed when tracing ended, by the stage seen last. */
static void report_unfinished(struct tracer *t, const struct options *o, json_t *out)
{
	int slots = bpf_map__fd(t->skel->maps.slots);
	uint64_t n[STAGES_N] = {}, shared = 0;
	json_t *j = json_object();
	struct slot s;

	for (uint32_t i = 0; i < o->packets; i++) {
		if (bpf_map_lookup_elem(slots, &i, &s) || s.head <= HEAD_BUSY)
			continue;
		if (s.flags & SLOT_SHARED)
			shared++;
		else if (s.last_stage < STAGES_N)
			n[s.last_stage]++;
	}
	for (unsigned int i = 0; i < STAGES_N; i++)
		if (n[i])
			json_object_set_new(j, stage_names[i], json_integer(n[i]));
	json_object_set_new(out, "unfinished", j);
	j = json_object_get(json_object_get(out, "packets"), "ended_shared");
	json_integer_set(j, json_integer_value(j) + shared);
}

/* What became of every packet followed: the counts of both parts add up to those begun. */
static void report_whole_way(json_t *out)
{
	static const char *const seen[] = {"delivered", "consumed", "dropped", "acked",
					   "reassembled"};
	static const char *const not_seen[] = {"gro_merged", "queue_merged", "backlog_merged",
					       "ended_shared", "reuse_detected"};
	json_t *packets = json_object_get(out, "packets"), *of[2], *stage;
	json_int_t begun, waiting = 0;
	const char *name;

	of[0] = json_object();
	of[1] = json_object();
	for (unsigned int i = 0; i < 5; i++) {
		json_object_set(of[0], seen[i], json_object_get(packets, seen[i]));
		json_object_set(of[1], not_seen[i], json_object_get(packets, not_seen[i]));
	}
	json_object_set(of[1], "expired", json_object_get(json_object_get(out, "lost"), "expired"));
	json_object_foreach(json_object_get(out, "unfinished"), name, stage)
		waiting += json_integer_value(stage);
	json_object_set_new(of[1], "unfinished", json_integer(waiting));
	begun = count_of(packets, "sampled") + count_of(packets, "gso_segments") +
		count_of(packets, "fragmented") - count_of(packets, "gso_parents");
	json_object_set_new(out, "whole_way",
			    json_pack("{s:I,s:o,s:o}", "begun", begun, "seen", of[0], "left_out",
				      of[1]));
}

static void report_drops(struct tracer *t, struct names *n, json_t *out)
{
	int fd = bpf_map__fd(t->skel->maps.drops);
	struct drop_key key, *prev = NULL;
	json_t *list = json_array();
	uint64_t count;

	while (!bpf_map_get_next_key(fd, prev, &key)) {
		prev = &key;
		if (bpf_map_lookup_elem(fd, &key, &count))
			continue;
		json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:s,s:I,s:I}", "reason",
						      names_drop_reason(n, key.reason), "device",
						      names_device(n, key.netns, key.ifindex),
						      "ifindex", (int)key.ifindex, "netns",
						      names_netns(n, key.netns), "netns_inum",
						      (json_int_t)key.netns, "packets",
						      (json_int_t)count));
	}
	json_object_set_new(out, "drops", list);
}

static void report_softirq(struct tracer *t, json_t *out, double duration_s)
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(t->skel->maps.softirqs);
	struct softirq *s = calloc(cpus, sizeof(*s));
	json_t *list = json_array(), *v;
	uint32_t zero = 0;

	for (int c = 0; s && !bpf_map_lookup_elem(fd, &zero, s) && c < cpus; c++) {
		v = json_object();
		for (unsigned int i = 0; i < SOFTIRQS; i++)
			if (s[c].count[i])
				json_object_set_new(
					v, softirq_names[i],
					json_pack("{s:I,s:I,s:f}", "count",
						  (json_int_t)s[c].count[i], "time_ns",
						  (json_int_t)s[c].time_ns[i], "share",
						  s[c].time_ns[i] / (duration_s * 1e9)));
		json_array_append_new(list, json_pack("{s:i,s:o}", "cpu", c, "vectors", v));
	}
	json_object_set_new(out, "softirq", list);
	free(s);
}

/* A program interrupted by itself on the same CPU is skipped by the kernel: lost events too. */
static uint64_t report_programs(struct tracer *t, json_t *out)
{
	json_t *list = json_array();
	struct bpf_program *p;
	uint64_t missed = 0;

	bpf_object__for_each_program(p, t->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (bpf_program__fd(p) < 0 ||
		    bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len))
			continue;
		missed += info.recursion_misses;
		json_array_append_new(
			list,
			json_pack("{s:s,s:I,s:I,s:f,s:I}", "program", bpf_program__section_name(p),
				  "runs", (json_int_t)info.run_cnt, "run_time_ns",
				  (json_int_t)info.run_time_ns, "ns_per_run",
				  info.run_cnt ? (double)info.run_time_ns / info.run_cnt : 0.0,
				  "recursion_misses", (json_int_t)info.recursion_misses));
	}
	json_object_set_new(out, "programs", list);
	return missed;
}

json_t *report_left_out(const struct tracer *t)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < t->n_left_out; i++)
		json_array_append_new(list, json_pack("{s:s,s:s}", "hook", t->left_out[i].program,
						      "why", t->left_out[i].why));
	return list;
}

json_t *report_path(const struct path *p, struct names *n)
{
	const struct slot *s = &p->slot;
	json_t *hops = json_array(), *j;

	for (unsigned int i = 0; i < p->trail.hops && i < HOPS_MAX; i++) {
		const struct hop *h = &p->trail.hop[i];

		json_array_append_new(hops,
				      json_pack("{s:s,s:I,s:s,s:s,s:i}", "stage",
						stage_name(h->stage), "at_ns", (json_int_t)h->at_ns,
						"device", names_device(n, h->netns, h->ifindex),
						"netns", names_netns(n, h->netns), "cpu", h->cpu));
	}
	j = json_pack("{s:I,s:I,s:s,s:i,s:I,s:I,s:I,s:b,s:b,s:b,s:o}", "begin_ns",
		      (json_int_t)s->first_ns, "latency_ns", (json_int_t)(p->end_ns - s->first_ns),
		      "end", stage_name(p->end_stage), "proto", s->id.proto, "source_port",
		      (json_int_t)(s->id.ports >> 16), "destination_port",
		      (json_int_t)(s->id.ports & 0xffff), "ip_id", (json_int_t)s->id.ip_id,
		      "segment", !!(s->flags & SLOT_SEGMENT), "fragment",
		      !!(s->flags & SLOT_FRAGMENT), "head_replaced", !!(s->flags & SLOT_COPY),
		      "hops", hops);
	if (p->end_stage == STAGE_DROP)
		json_object_set_new(j, "drop_reason", json_string(names_drop_reason(n, p->reason)));
	return j;
}

json_t *report(struct tracer *t, const struct options *o, struct names *n, double duration_s,
	       json_t *paths, uint64_t paths_beyond)
{
	json_t *out = json_object();
	struct utsname u = {};
	uint64_t missed;
	int lost;

	uname(&u);
	json_object_set_new(out, "version", json_integer(1));
	json_object_set_new(out, "kernel", json_string(u.release));
	json_object_set_new(out, "backend",
			    json_string(o->backend == BACKEND_FENTRY ? "fentry" : "tp_btf"));
	json_object_set_new(out, "sample", json_real(o->sample));
	json_object_set_new(out, "duration_s", json_real(duration_s));
	lost = report_counters(t, out, paths_beyond);
	if (lost < 0 || report_hists(t, o, n, out)) {
		json_decref(out);
		return NULL;
	}
	report_unfinished(t, o, out);
	report_whole_way(out);
	report_drops(t, n, out);
	if (o->softirq)
		report_softirq(t, out, duration_s);
	missed = report_programs(t, out);
	json_object_set_new(json_object_get(out, "lost"), "recursion", json_integer(missed));
	json_object_set_new(out, "lost_total", json_integer(lost + missed));
	json_object_set_new(out, "left_out", report_left_out(t));
	json_object_set(out, "paths", paths);
	return out;
}
