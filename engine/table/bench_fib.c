/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-bench-fib: one JSON object per number of entries. Every rate is the median of runs
 * that are interleaved with those of the others, so that what disturbs the machine meanwhile
 * disturbs them alike; compare by ratios.
 */
#include "bench_fib.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_version.h>

enum series { HITS, MISSES, MIXED, UPDATING, UPDATES, LIMIT, PEER, SERIES };

static const char *const series_names[SERIES] = {
	[HITS] = "hits_mlps",   [MISSES] = "misses_mlps",          [MIXED] = "mixed_mlps",
	[LIMIT] = "limit_mlps", [UPDATING] = "hits_mlps_updating", [UPDATES] = "updates_per_s",
	[PEER] = "peer_mlps",
};

struct samples {
	double v[SERIES][BENCH_RUNS_MAX];
	unsigned int n[SERIES];
};

struct row {
	const struct bench_options *o;
	struct bench_input in;
	struct fib *f;
	struct bench_peer peer;
	struct samples samples;
	double load_s;
	uint64_t checked, check_wrong;
	bool eal_hugepages, eal;
	int beside_rc;
};

static void sample(struct row *r, enum series s, double value)
{
	r->samples.v[s][r->samples.n[s]++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* NAME: median, NAME_spread: [least, most]; null when it was not measured. */
static void put_series(json_t *row, const struct samples *s, enum series which)
{
	char spread[64];
	double v[BENCH_RUNS_MAX];
	unsigned int n = s->n[which];

	snprintf(spread, sizeof(spread), "%s_spread", series_names[which]);
	if (!n) {
		json_object_set_new(row, series_names[which], json_null());
		json_object_set_new(row, spread, json_null());
		return;
	}
	memcpy(v, s->v[which], n * sizeof(*v));
	qsort(v, n, sizeof(*v), compare);
	json_object_set_new(row, series_names[which],
			    json_real(n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2));
	json_object_set_new(row, spread, json_pack("[ff]", v[0], v[n - 1]));
}

static json_t *row_json(const struct row *r)
{
	struct fib_stats st;
	json_t *j;

	fib_stats(r->f, &st);
	j = json_pack("{ss ss sI sf sf sI sI sf sb si si}", "table",
		      r->o->kind == FIB_LPM ? st.lookup : "cuckoo", "key", fib_key_name(r->o->key),
		      "entries", (json_int_t)st.entries, "occupancy",
		      r->o->kind == FIB_EXACT
			      ? (double)st.entries /
					((double)((struct cuckoo *)r->f)->n * slots_of(r->o->key))
			      : (double)st.entries / st.capacity,
		      "bytes_per_entry", (double)st.memory_bytes / st.entries, "memory_bytes",
		      (json_int_t)st.memory_bytes, "page_bytes", (json_int_t)st.page_bytes,
		      "load_s", r->load_s, "eal_hugepages", r->eal_hugepages, "burst",
		      (int)r->o->burst, "runs", (int)r->o->runs);
	json_object_set_new(j, "isa", json_string(st.lookup));
	json_object_set_new(j, "moved",
			    r->o->kind == FIB_EXACT ? json_real((double)st.moved / st.entries)
						    : json_null());
	json_object_set_new(j, "checked", json_integer((json_int_t)r->checked));
	json_object_set_new(j, "check_wrong", json_integer((json_int_t)r->check_wrong));
	json_object_set_new(j, "updates_rate", json_integer((json_int_t)r->o->updates));
	json_object_set_new(j, "peer", r->peer.name ? json_string(r->peer.name) : json_null());
	json_object_set_new(j, "dpdk", json_string(rte_version()));
	for (enum series s = 0; s < SERIES; s++)
		put_series(j, &r->samples, s);
	return j;
}

/* Every key that was loaded, in order, must be found with its next hop. Exact tables only. */
static void check_all(struct row *r)
{
	enum { CHECK = 256 };
	uint16_t nhs[CHECK];

	for (uint64_t i = 0; i < r->in.n; i += CHECK) {
		unsigned int n = r->in.n - i < CHECK ? r->in.n - i : CHECK;

		fib_lookup(r->f, r->in.keys + i * r->in.stride, nhs, n);
		for (unsigned int j = 0; j < n; j++)
			r->check_wrong += nhs[j] != r->in.nhs[i + j];
	}
	r->checked = r->in.n;
}

static int sample_beside(struct row *r, uint64_t rate)
{
	struct bench_beside b;
	int rc = bench_updating(r->f, &r->in, rate, r->o, &b);

	if (!rc && rate)
		sample(r, UPDATING, b.lookups_mps);
	else if (!rc)
		sample(r, UPDATES, b.updates_ps);
	return rc;
}

static void measure(struct row *r)
{
	struct bench_target t = bench_fib_target(r->f);
	const struct cuckoo *c = (const struct cuckoo *)r->f;

	for (unsigned int run = 0; run < r->o->runs; run++) {
		sample(r, HITS, bench_lookups(&r->in, &t, BENCH_HITS, r->o));
		if (!r->beside_rc)
			r->beside_rc = sample_beside(r, r->o->updates);
		if (r->peer.name)
			sample(r, PEER, bench_lookups(&r->in, &r->peer.target, BENCH_HITS, r->o));
		if (r->o->kind == FIB_EXACT)
			sample(r, LIMIT, bench_gather(c->buckets, c->n, r->o));
		sample(r, MISSES, bench_lookups(&r->in, &t, BENCH_MISSES, r->o));
		sample(r, MIXED, bench_lookups(&r->in, &t, BENCH_MIXED, r->o));
	}
	/* Last: so many changes leave more entries away from home than the load does. */
	for (unsigned int run = 0; run < r->o->runs && !r->beside_rc; run++)
		r->beside_rc = sample_beside(r, 0);
}

static int load(struct row *r, struct err *err)
{
	struct fib_conf conf = {.kind = r->o->kind,
				.key = r->o->key,
				.capacity = r->in.n,
				.max_next_hop = 1009,
				.socket = r->o->socket,
				.memory = r->o->memory};
	uint64_t bad = 0;
	double start;
	int rc;

	rc = fib_create(&r->f, &conf, "--entries", err);
	if (rc)
		return rc;
	start = bench_now();
	rc = fib_load(r->f, r->in.keys, r->in.lens, r->in.nhs, r->in.n, &bad);
	r->load_s = bench_now() - start;
	return rc ? err_set(err, -rc, "--entries", "entry %llu: %s", (unsigned long long)bad,
			    fib_strerror(rc))
		  : 0;
}

static int run_row(struct row *r, struct err *err)
{
	int rc = load(r, err);

	if (!rc && r->o->peer)
		rc = bench_peer_make(&r->peer, &r->in, err);
	if (rc)
		return rc;
	if (r->o->check && r->o->kind == FIB_EXACT)
		check_all(r);
	measure(r);
	return r->beside_rc && r->beside_rc != -ENODEV
		       ? err_set(err, -r->beside_rc, "--updates", "a change failed")
		       : 0;
}

static int bench_one(const struct bench_options *o, uint64_t n, bool eal_hugepages, json_t *rows,
		     struct err *err)
{
	struct row *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return err_set(err, ENOMEM, "--entries", "not enough memory");
	r->o = o;
	r->eal_hugepages = eal_hugepages;
	rc = bench_input_make(&r->in, o, n, err);
	if (!rc)
		rc = run_row(r, err);
	if (!rc)
		json_array_append_new(rows, row_json(r));
	if (!rc && r->check_wrong)
		rc = err_set(err, EIO, "check", "%llu of %llu keys were not found as loaded",
			     (unsigned long long)r->check_wrong, (unsigned long long)r->checked);
	if (r->peer.name)
		r->peer.destroy(r->peer.target.ctx);
	fib_destroy(r->f);
	bench_input_free(&r->in);
	free(r);
	return rc;
}

static int need_eal(const struct bench_options *o, bool *hugepages, struct err *err)
{
	uint64_t bytes = 0;
	bool needed = o->kind == FIB_LPM || o->peer;

	for (unsigned int i = 0; i < o->n_entries; i++) {
		uint64_t b = bench_eal_bytes(o, o->routes ? 1200000 : o->entries[i]);

		bytes = b > bytes ? b : bytes;
	}
	return needed ? bench_eal_start(bytes, hugepages, err) : 0;
}

/* Options. */

static int parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
			uint64_t *out, struct err *err)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || *out < min || *out > max)
		return err_set(err, EINVAL, option, "\"%s\", must be %llu..%llu", text,
			       (unsigned long long)min, (unsigned long long)max);
	return 0;
}

static int parse_choice(const char *option, const char *text, const char *const *choices,
			unsigned int *out, struct err *err)
{
	char all[128] = "";

	for (*out = 0; choices[*out]; ++*out) {
		if (!strcmp(text, choices[*out]))
			return 0;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? ", " : "",
			 choices[*out]);
	}
	return err_set(err, EINVAL, option, "\"%s\", must be one of %s", text, all);
}

static int parse_entries(struct bench_options *o, const char *text, struct err *err)
{
	const unsigned int most = sizeof(o->entries) / sizeof(*o->entries);

	if (o->n_entries == most)
		return err_set(err, EINVAL, "--entries", "at most %u numbers", most);
	return parse_number("--entries", text, 1, FIB_CAPACITY_MAX, &o->entries[o->n_entries++],
			    err);
}

static const struct option options[] = {
	{"kind", required_argument, NULL, 'k'},
	{"key", required_argument, NULL, 'y'},
	{"entries", required_argument, NULL, 'e'},
	{"routes", required_argument, NULL, 'r'},
	{"updates", required_argument, NULL, 'u'},
	{"runs", required_argument, NULL, 'n'},
	{"burst", required_argument, NULL, 'b'},
	{"seconds", required_argument, NULL, 's'},
	{"memory", required_argument, NULL, 'm'},
	{"numa-node", required_argument, NULL, 'N'},
	{"no-peer", no_argument, NULL, 'P'},
	{"no-check", no_argument, NULL, 'C'},
	{NULL, 0, NULL, 0},
};

static int parse_option(struct bench_options *o, int c, struct err *err)
{
	static const char *const kinds[] = {"exact", "lpm", NULL};
	static const char *const keys[] = {"ipv4", "ipv6", "mac", "vrf-ipv4", NULL};
	static const char *const memories[] = {"auto", "1g", "2m", "ordinary", NULL};
	unsigned int choice;
	uint64_t n;
	char *end;
	int rc = 0;

	switch (c) {
	case 'k':
		rc = parse_choice("--kind", optarg, kinds, &choice, err);
		o->kind = choice ? FIB_LPM : FIB_EXACT;
		return rc;
	case 'y':
		rc = parse_choice("--key", optarg, keys, &choice, err);
		o->key = (enum fib_key)choice; /* the names' order is the enum's */
		return rc;
	case 'm':
		rc = parse_choice("--memory", optarg, memories, &choice, err);
		o->memory = (enum fib_memory)choice;
		return rc;
	case 'e':
		return parse_entries(o, optarg, err);
	case 'r':
		o->routes = optarg;
		return 0;
	case 'u':
		return parse_number("--updates", optarg, 1, 1000000000, &o->updates, err);
	case 'n':
		rc = parse_number("--runs", optarg, 1, BENCH_RUNS_MAX, &n, err);
		o->runs = n;
		return rc;
	case 'b':
		rc = parse_number("--burst", optarg, 1, 4096, &n, err);
		o->burst = n;
		return rc;
	case 'N':
		rc = parse_number("--numa-node", optarg, 0, 1023, &n, err);
		o->socket = n;
		return rc;
	case 's':
		o->seconds = strtod(optarg, &end);
		if (*end || !(o->seconds >= 0.001 && o->seconds <= 60))
			return err_set(err, EINVAL, "--seconds", "\"%s\", must be 0.001..60",
				       optarg);
		return 0;
	case 'P':
		o->peer = false;
		return 0;
	case 'C':
		o->check = false;
		return 0;
	}
	return err_set(err, EINVAL, "options",
		       "allowed: --kind --key --entries --routes --updates --runs --burst "
		       "--seconds --memory --numa-node --no-peer --no-check");
}

static int parse_options(struct bench_options *o, int argc, char **argv, struct err *err)
{
	int c, rc = 0;

	*o = (struct bench_options){.updates = 64000,
				    .runs = 5,
				    .burst = 1024,
				    .seconds = 0.2,
				    .peer = true,
				    .check = true,
				    .socket = -1};
	opterr = 0;
	while (!rc && (c = getopt_long(argc, argv, "", options, NULL)) != -1)
		rc = parse_option(o, c, err);
	if (rc)
		return rc;
	if (optind < argc)
		return err_set(err, EINVAL, argv[optind], "not an option");
	if (o->kind == FIB_LPM && o->key > FIB_KEY_IPV6)
		return err_set(err, EINVAL, "--key", "\"%s\", lpm takes ipv4 or ipv6",
			       fib_key_name(o->key));
	if (o->routes && o->kind != FIB_LPM)
		return err_set(err, EINVAL, "--routes", "prefixes are for --kind lpm");
	if (!o->n_entries)
		o->entries[o->n_entries++] = 1000000;
	for (unsigned int i = 0; i < o->n_entries; i++)
		if (o->kind == FIB_LPM && o->entries[i] > 10000000)
			return err_set(err, EINVAL, "--entries", "%llu, lpm takes 1..10000000",
				       (unsigned long long)o->entries[i]);
	if (o->routes)
		o->n_entries = 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct bench_options o;
	struct err err;
	json_t *rows = json_array();
	bool hugepages = false;
	int rc = parse_options(&o, argc, argv, &err);

	if (!rc)
		rc = need_eal(&o, &hugepages, &err);
	for (unsigned int i = 0; i < o.n_entries && !rc; i++)
		rc = bench_one(&o, o.entries[i], hugepages, rows, &err);
	if (rc)
		fprintf(stderr, "headrace-bench-fib: %s: %s\n", err.path, err.msg);
	else
		json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	json_decref(rows);
	return rc == -EIO ? 1 : rc ? 2 : 0;
}
