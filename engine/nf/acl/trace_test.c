/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NF against the linear-scan model on ClassBench traces: the project's own sample always,
 * and the traces of the shared data folder where there is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>

#include "model.h"
#include "tests/packets.h"

/* A trace as packets, as what the model sees of them, and as the filters that it names. */
struct trace {
	struct craft_list packets;
	struct model_packet *models;
	long *filters;
	size_t n;
};

static bool has_ports(uint8_t proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/*
 * The sixth column is a corner of the filter's flags: value << 16 | mask, or all zeros or
 * ones where the filter has none.
 */
static void header_make(const unsigned long f[7], struct craft *c, struct model_packet *m)
{
	uint32_t src = rte_cpu_to_be_32(f[0]), dst = rte_cpu_to_be_32(f[1]);
	uint16_t flags = f[5] >> 16;

	*c = (struct craft){
		.family = 4,
		.proto = f[4],
		.sport = f[2],
		.dport = f[3],
		.tcp_flags = flags >> 8,
		.icmp_type = flags >> 8,
		.icmp_code = flags,
		.frame = 60,
	};
	*m = (struct model_packet){
		.family = 4,
		.proto = f[4],
		.ports = has_ports(f[4]),
		.flags = f[4] == IPPROTO_TCP || f[4] == IPPROTO_ICMP,
		.sport = f[2],
		.dport = f[3],
		.flag_bits = f[4] == IPPROTO_TCP ? flags & 0xff00 : flags,
	};
	memcpy(c->src, &src, 4);
	memcpy(c->dst, &dst, 4);
	memcpy(m->src, &src, 4);
	memcpy(m->dst, &dst, 4);
}

static void trace_add(struct trace *t, const unsigned long f[7])
{
	struct craft c;

	if ((t->n & (t->n - 1)) == 0) {
		size_t room = t->n ? t->n * 2 : 1;

		t->models = realloc(t->models, room * sizeof(*t->models));
		t->filters = realloc(t->filters, room * sizeof(*t->filters));
		assert_true(t->models && t->filters);
	}
	header_make(f, &c, &t->models[t->n]);
	t->filters[t->n++] = f[6];
	craft_add(&t->packets, &c);
}

static void trace_load(struct trace *t, const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned long v[7];

	*t = (struct trace){0};
	assert_non_null(f);
	while (fscanf(f, "%lu %lu %lu %lu %lu %lu %lu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
		      &v[6]) == 7)
		trace_add(t, v);
	assert_true(feof(f));
	fclose(f);
	assert_true(t->n > 0);
}

static void trace_free(struct trace *t)
{
	craft_list_free(&t->packets);
	free(t->models);
	free(t->filters);
}

/* The filter that the trace names, counted from zero, matches: the columns are read rightly. */
static void check_named_filters(const struct trace *t, const struct acl_rules *rules)
{
	for (size_t i = 0; i < t->n; i++) {
		assert_in_range(t->filters[i], 0, rules->count - 1);
		if (!model_match(&rules->items[t->filters[i]], &t->models[i], true))
			fail_msg("header %zu does not match filter %ld", i + 1, t->filters[i]);
	}
}

/* `alternate` tells rules apart by their action, so that the wrong rule is seen. */
static uint8_t expected(const struct harness *h, long rule, unsigned int alternate)
{
	if (rule < 0)
		return harness_drop(h, "denied-by-default");
	return alternate && (rule + 1) % alternate == 0 ? harness_drop(h, "denied") : 0;
}

static void check_verdicts(const struct trace *t, const long *first, const char *rules_path,
			   unsigned int alternate, bool match_flags)
{
	char params[512];
	struct harness *h;
	struct err err;

	snprintf(params, sizeof(params),
		 "{\"rules_file\": \"%s\", \"file_alternate\": %u, \"match_flags\": %s}",
		 rules_path, alternate, match_flags ? "true" : "false");
	/* Large rule sets take long to build: all burst sizes, each on its own instance, once. */
	if (alternate == 2 && !match_flags) {
		h = harness_run_all("acl", params, NULL, NF_FORWARD, t->packets.packets, t->n,
				    &err);
	} else {
		h = harness_new("acl", params, NULL, &err);
		if (h)
			harness_run(h, NF_FORWARD, 32, t->packets.packets, t->n);
	}
	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	for (size_t i = 0; i < t->n; i++)
		if (h->verdicts[i] != expected(h, first[i], alternate))
			fail_msg("header %zu: verdict 0x%02x, but rule %ld is the first", i + 1,
				 h->verdicts[i], first[i]);
	harness_free(h);
}

static void check_trace(const char *rules_path, const char *trace_path)
{
	struct acl_rules rules = {0};
	struct trace t;
	struct err err;
	long *first;

	assert_int_equal(classbench_load(rules_path, &rules, &err), 0);
	trace_load(&t, trace_path);
	check_named_filters(&t, &rules);
	first = malloc(t.n * sizeof(*first));
	assert_non_null(first);
	for (int flags = 0; flags <= 1; flags++) {
		size_t none = 0;

		for (size_t i = 0; i < t.n; i++) {
			first[i] = model_first(&rules, &t.models[i], flags);
			none += first[i] < 0;
		}
		assert_int_equal(none, 0);
		/* 2 and 3 together tell six neighbouring rules apart. */
		for (unsigned int alternate = 2; alternate <= 3; alternate++)
			check_verdicts(&t, first, rules_path, alternate, flags);
	}
	print_message("%s: %zu headers, %zu rules\n", trace_path, t.n, rules.count);
	free(first);
	trace_free(&t);
	acl_rules_free(&rules);
}

/* The folder of this file: meson runs tests where relative source paths hold. */
static void here(char *out, size_t size, const char *below)
{
	const char *slash = strrchr(__FILE__, '/');

	snprintf(out, size, "%.*s/%s", (int)(slash - __FILE__), __FILE__, below);
}

static void own_sample(void **state)
{
	char rules[512], trace[512];

	here(rules, sizeof(rules), "testdata/sample.rules");
	here(trace, sizeof(trace), "testdata/sample.trace");
	check_trace(rules, trace);
}

static void shared_traces(void **state)
{
	const char *env = getenv("HEADRACE_SHARED");
	char dir[400], pattern[512], rules[512];
	glob_t found;

	if (env)
		snprintf(dir, sizeof(dir), "%s", env);
	else
		here(dir, sizeof(dir), "../../../../shared");
	snprintf(pattern, sizeof(pattern), "%s/data/acl/*.trace", dir);
	if (glob(pattern, 0, NULL, &found)) {
		print_message("SKIP: no %s (HEADRACE_SHARED names its folder)\n", pattern);
		skip();
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		snprintf(rules, sizeof(rules), "%s", found.gl_pathv[i]);
		strcpy(strrchr(rules, '.'), ".rules");
		check_trace(rules, found.gl_pathv[i]);
	}
	globfree(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_sample),
		cmocka_unit_test(shared_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
