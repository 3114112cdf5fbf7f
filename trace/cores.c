/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-cores: for each line on its standard input, one on its standard output: CPU, idle time
 * and softirq time of each core since it began, in ns (CPU:IDLE:SOFTIRQ, separated by spaces).
 * Idle time is without the softirqs in it. Ends with its input. Exit status 0, or 1 with one line
 * on stderr.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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
	size_t bytes;
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

static int load(struct reader *r)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	size_t page = sysconf(_SC_PAGESIZE);
	void *at;
	int rc;

	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* kernels before 5.11 count maps there */
	r->cpus = libbpf_num_possible_cpus();
	if (r->cpus < 0)
		return r->cpus;
	r->skel = cores_bpf__open();
	if (!r->skel)
		return -errno;
	bpf_map__set_max_entries(r->skel->maps.cores, r->cpus);
	rc = cores_bpf__load(r->skel);
	if (rc)
		return rc;
	r->bytes = (r->cpus * sizeof(*r->cores) + page - 1) / page * page;
	at = mmap(NULL, r->bytes, PROT_READ, MAP_SHARED, bpf_map__fd(r->skel->maps.cores), 0);
	if (at == MAP_FAILED)
		return -errno;
	r->cores = at;
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

static void say(const struct reader *r)
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
		munmap((void *)r.cores, r.bytes);
	cores_bpf__destroy(r.skel);
	if (!rc)
		return 0;
	fprintf(stderr, "headrace-cores: the kernel takes no BPF programs: %s\n", strerror(-rc));
	return 1;
}
