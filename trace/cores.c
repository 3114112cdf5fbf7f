/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-cores: for each line on its standard input, one on its standard output: CPU, idle time
 * and softirq time of each core since it began, in ns (CPU:IDLE:SOFTIRQ, separated by spaces), then
 * of each network namespace the CPU time of its processes and of the kernel's work on its packets
 * (@INODE:PROCESSES:STACK; inode 0: of none). Idle and process time are without the softirqs in
 * them. Ends with its input. Exit status 0, or 1 with one line on stderr.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <linux/types.h>

#include "cores.h"
#include "cores.skel.h"

struct reader {
	struct cores_bpf *skel;
	const struct core_times *cores;
	const struct core_charge *charges;
	struct share *total; /* of all cores, as many as there may be */
	int cpus;
};

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t); /* bpf_ktime_get_ns()'s */
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static size_t bytes_of(const struct reader *r, size_t each)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (r->cpus * each + page - 1) / page * page;
}

/* An array's values where they lie; NULL: errno says why not. */
static const void *map_values(const struct reader *r, const struct bpf_map *map, size_t each)
{
	void *at = mmap(NULL, bytes_of(r, each), PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);

	return at == MAP_FAILED ? NULL : at;
}

static int load(struct reader *r)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	int rc;

	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* kernels before 5.11 count maps there */
	r->cpus = libbpf_num_possible_cpus();
	if (r->cpus < 0)
		return r->cpus;
	r->skel = cores_bpf__open();
	if (!r->skel)
		return -errno;
	r->total = calloc((size_t)r->cpus * SHARES, sizeof(*r->total));
	if (!r->total)
		return -ENOMEM;
	bpf_map__set_max_entries(r->skel->maps.cores, r->cpus);
	bpf_map__set_max_entries(r->skel->maps.charges, r->cpus);
	rc = cores_bpf__load(r->skel);
	if (rc)
		return rc;
	r->cores = map_values(r, r->skel->maps.cores, sizeof(*r->cores));
	if (!r->cores)
		return -errno;
	r->charges = map_values(r, r->skel->maps.charges, sizeof(*r->charges));
	if (!r->charges)
		return -errno;
	return cores_bpf__attach(r->skel);
}

/* Cores that are not there are refused, and have no time. */
static void begin(struct reader *r)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .flags = BPF_F_TEST_RUN_ON_CPU);
	int fd = bpf_program__fd(r->skel->progs.begin);

	for (int cpu = 0; cpu < r->cpus; cpu++) {
		opts.cpu = cpu;
		bpf_prog_test_run_opts(fd, &opts);
	}
}

static struct core_times whole(const struct core_times *shared)
{
	const volatile struct core_times *c = shared;
	struct core_times seen;

	do {
		seen.version = __atomic_load_n(&c->version, __ATOMIC_ACQUIRE);
		seen.idle_since_ns = c->idle_since_ns;
		seen.softirq_since_ns = c->softirq_since_ns;
		seen.idle_ns = c->idle_ns;
		seen.softirq_ns = c->softirq_ns;
		seen.softirq_in_idle_ns = c->softirq_in_idle_ns;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (seen.version & 1 || seen.version != c->version);
	return seen;
}

static __u64 since(__u64 began_ns, __u64 now)
{
	return began_ns && now > began_ns ? now - began_ns : 0;
}

static void say_cores(const struct reader *r)
{
	for (int cpu = 0; cpu < r->cpus; cpu++) {
		struct core_times c = whole(&r->cores[cpu]);
		__u64 now = now_ns(), softirq = since(c.softirq_since_ns, now), idle;

		if (!c.version)
			continue; /* offline */
		idle = c.idle_ns + since(c.idle_since_ns, now) - c.softirq_in_idle_ns;
		if (c.idle_since_ns)
			idle -= softirq;
		printf("%d:%llu:%llu ", cpu, idle, c.softirq_ns + softirq);
	}
}

/* One core's shares as they are now, with what is not charged yet. */
static void whole_charge(const struct core_charge *shared, struct core_charge *seen)
{
	const volatile struct core_charge *c = shared;
	__u64 version, ns;

	do {
		version = __atomic_load_n(&c->version, __ATOMIC_ACQUIRE);
		memcpy(seen, shared, sizeof(*seen));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (version & 1 || version != c->version);
	ns = since(seen->since_ns, now_ns());
	if (seen->in_softirq || seen->kind == TASK_NAPI)
		seen->share[seen->owner == NOBODY ? 0 : seen->owner].stack_ns += ns;
	else if (seen->kind == TASK_PROCESS)
		seen->share[seen->task].process_ns += ns;
}

static int total_add(struct share *total, int n, const struct share *s)
{
	int i = 0;

	while (i < n && total[i].netns != s->netns)
		i++;
	if (i == n)
		total[n++] = (struct share){.netns = s->netns};
	total[i].process_ns += s->process_ns;
	total[i].stack_ns += s->stack_ns;
	return n;
}

static void say_namespaces(const struct reader *r)
{
	struct core_charge c;
	int n = 0;

	for (int cpu = 0; cpu < r->cpus; cpu++) {
		whole_charge(&r->charges[cpu], &c);
		for (int i = 0; i < SHARES; i++)
			if (!i || c.share[i].netns)
				n = total_add(r->total, n, &c.share[i]);
	}
	for (int i = 0; i < n; i++)
		printf("@%u:%llu:%llu ", r->total[i].netns, r->total[i].process_ns,
		       r->total[i].stack_ns);
}

static void say(const struct reader *r)
{
	say_cores(r);
	say_namespaces(r);
	putchar('\n');
}

int main(void)
{
	struct reader r = {};
	char line[16];
	int rc;

	libbpf_set_print(quiet);
	rc = load(&r);
	if (!rc) {
		begin(&r);
		while (fgets(line, sizeof(line), stdin) && !ferror(stdout)) {
			say(&r);
			fflush(stdout);
		}
	}
	if (r.cores)
		munmap((void *)r.cores, bytes_of(&r, sizeof(*r.cores)));
	if (r.charges)
		munmap((void *)r.charges, bytes_of(&r, sizeof(*r.charges)));
	free(r.total);
	cores_bpf__destroy(r.skel);
	if (!rc)
		return 0;
	fprintf(stderr, "headrace-cores: the kernel takes no BPF programs: %s\n", strerror(-rc));
	return 1;
}
