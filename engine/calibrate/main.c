/* SPDX-License-Identifier: Apache-2.0 */
/* headrace-calibrate: options in, one JSON object out. No EAL: any user may run it. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_common.h>

#include "calibrate.h"

#define MEGABYTE ((size_t)1 << 20)
#define MEMORY_MIN (4 * MEGABYTE)

static const struct part {
	const char *name;
	json_t *(*measure)(const struct options *o, struct err *err);
	unsigned int cpus; /* needed */
} parts[] = {
	{"clock", measure_clock, 1},       {"chase", measure_chase, 1}, {"gather", measure_gather, 1},
	{"transfer", measure_transfer, 2}, {"ring", measure_ring, 2},   {"share", measure_share, 2},
	{"placed", measure_placed, 1},
};

static int usage(void)
{
	fprintf(stderr, "usage: headrace-calibrate [--cpus 0,1,...] [--nodes 0,1,...] [--l1 BYTES] "
			"[--l2 BYTES] [--llc BYTES] [--memory BYTES] "
			"[--rounds 1..%d] [--only PART] [--thrash BYTES]\n",
		ROUNDS_MAX);
	return 2;
}

/* All that this process may run on, in order. */
static void default_cpus(struct options *o)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE && o->n_cpus < CPUS_MAX; cpu++)
		if (CPU_ISSET(cpu, &set))
			o->cpus[o->n_cpus++] = cpu;
}

/* As the kernel says: C libraries disagree on caches that several dies have one of each. */
static size_t cache_size(unsigned int index, size_t otherwise)
{
	char name[96];
	size_t kb = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
	f = fopen(name, "re");
	if (f) {
		if (fscanf(f, "%zuK", &kb) != 1)
			kb = 0;
		fclose(f);
	}
	return kb ? kb << 10 : otherwise;
}

static void defaults(struct options *o)
{
	if (!o->n_cpus)
		default_cpus(o);
	if (!o->l1_bytes)
		o->l1_bytes = cache_size(0, 32 << 10);
	if (!o->l2_bytes)
		o->l2_bytes = cache_size(2, 1 << 20);
	if (!o->llc_bytes)
		o->llc_bytes = cache_size(3, o->l2_bytes);
	/* Eight times the last level: what a walk round it finds there by chance is an eighth at most. */
	if (!o->memory_bytes)
		o->memory_bytes = 8 * RTE_MAX(o->llc_bytes, o->l2_bytes);
}

static int parse_list(const char *text, unsigned int *list, unsigned int *n, unsigned int max)
{
	char *end;

	for (*n = 0; *n < max; text = end + 1) {
		list[(*n)++] = (unsigned int)strtoul(text, &end, 10);
		if (end == text || (*end && *end != ','))
			return -EINVAL;
		if (!*end)
			return 0;
	}
	return -EINVAL;
}

static int parse_size(const char *text, size_t *value)
{
	char *end;

	*value = strtoull(text, &end, 10);
	return end == text || *end ? -EINVAL : 0;
}

static int parse_one(int c, struct options *o)
{
	size_t rounds;

	switch (c) {
	case 'c':
		return parse_list(optarg, o->cpus, &o->n_cpus, CPUS_MAX);
	case 'n':
		return parse_list(optarg, o->nodes, &o->n_nodes, NODES_MAX);
	case '1':
		return parse_size(optarg, &o->l1_bytes);
	case '2':
		return parse_size(optarg, &o->l2_bytes);
	case '3':
		return parse_size(optarg, &o->llc_bytes);
	case 'm':
		return parse_size(optarg, &o->memory_bytes) || o->memory_bytes < MEMORY_MIN ? -EINVAL : 0;
	case 't':
		return parse_size(optarg, &o->thrash_bytes) || o->thrash_bytes < LINE ? -EINVAL : 0;
	case 'r':
		if (parse_size(optarg, &rounds) || !rounds || rounds > ROUNDS_MAX)
			return -EINVAL;
		o->rounds = (unsigned int)rounds;
		return 0;
	case 'o':
		o->only = optarg;
		return 0;
	default:
		return -EINVAL;
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"cpus", 1, NULL, 'c'},   {"nodes", 1, NULL, 'n'},  {"l1", 1, NULL, '1'},
		{"l2", 1, NULL, '2'},     {"llc", 1, NULL, '3'},    {"memory", 1, NULL, 'm'},
		{"rounds", 1, NULL, 'r'}, {"only", 1, NULL, 'o'},   {"thrash", 1, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (parse_one(c, o))
			return -EINVAL;
	for (unsigned int i = 0; o->only && i < RTE_DIM(parts); i++)
		if (!strcmp(o->only, parts[i].name))
			return optind == argc ? 0 : -EINVAL;
	return optind == argc && !o->only ? 0 : -EINVAL;
}

static json_t *about(const struct options *o)
{
	json_t *cpus = json_array();

	for (unsigned int i = 0; i < o->n_cpus; i++)
		json_array_append_new(cpus, json_integer(o->cpus[i]));
	return json_pack("{s:o, s:I, s:I, s:I, s:i, s:f}", "cpus", cpus, "l1_bytes",
			 (json_int_t)o->l1_bytes, "l2_bytes", (json_int_t)o->l2_bytes, "llc_bytes",
			 (json_int_t)o->llc_bytes, "rounds", (int)o->rounds, "tsc_hz", tsc_hz());
}

static int measure(const struct options *o, struct err *err)
{
	json_t *all = about(o), *found;

	for (unsigned int i = 0; i < RTE_DIM(parts); i++) {
		if (o->only && strcmp(o->only, parts[i].name))
			continue;
		/* With one CPU there is nothing to say about two: null, not zero. */
		found = parts[i].cpus > o->n_cpus ? json_null() : parts[i].measure(o, err);
		if (!found) {
			json_decref(all);
			return -EIO;
		}
		json_object_set_new(all, parts[i].name, found);
	}
	json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(all);
	return 0;
}

/* A neighbour that nobody needs any more would spoil the next measurement. */
static int run_thrash(const struct options *o, struct err *err)
{
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	return getppid() == parent ? thrash(o, err) : 0;
}

int main(int argc, char **argv)
{
	static struct options o = {.rounds = 5};
	struct err err = {0};
	int rc;

	if (parse(argc, argv, &o))
		return usage();
	defaults(&o);
	rc = o.thrash_bytes ? run_thrash(&o, &err) : measure(&o, &err);
	if (rc)
		fprintf(stderr, "headrace-calibrate: %s%s%s\n", err.path, *err.path ? ": " : "", err.msg);
	return !rc ? 0 : *err.path ? 2 : 1;
}
