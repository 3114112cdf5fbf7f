/* SPDX-License-Identifier: Apache-2.0 */
/* Starting DPDK's environment layer for a plan. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "core/ends.h"
#include "core/log.h"
#include "core/rights/helper.h"
#include "engine.h"

#define ARGS_MAX 96
#define CPUS_MAX (RTE_MAX_LCORE - 1)

struct args {
	char *v[ARGS_MAX];
	int n;
};

__attribute__((format(printf, 2, 3))) static void add(struct args *a, const char *fmt, ...)
{
	char buf[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (a->n < ARGS_MAX - 1)
		a->v[a->n++] = strdup(buf);
}

static unsigned int add_cpu(unsigned int *cpus, unsigned int n, unsigned int cpu)
{
	for (unsigned int i = 0; i < n; i++)
		if (cpus[i] == cpu)
			return n;
	if (n < CPUS_MAX)
		cpus[n++] = cpu;
	return n;
}

/* The distinct CPUs of a plan, in order of appearance, spare ones last: lcore i + 1 runs on the i-th. */
static unsigned int plan_cpus(const struct plan *p, unsigned int *cpus)
{
	const uint64_t *spare = p->engine.spare_cpus.items;
	unsigned int n = 0;

	for (unsigned int s = 0; s < p->n_segments; s++)
		for (unsigned int i = 0; i < p->segments[s].n_all_cpus; i++)
			n = add_cpu(cpus, n, p->segments[s].cpus[i]);
	for (size_t i = 0; i < p->engine.spare_cpus.count; i++)
		n = add_cpu(cpus, n, (unsigned int)spare[i]);
	return n;
}

int cpu_to_lcore(const struct plan *plan, unsigned int cpu)
{
	unsigned int cpus[CPUS_MAX];
	unsigned int n = plan_cpus(plan, cpus);

	for (unsigned int i = 0; i < n; i++)
		if (cpus[i] == cpu)
			return i + 1;
	return -1;
}

static void describe_set(const cpu_set_t *set, char *buf, size_t size)
{
	*buf = '\0';
	for (int c = 0, first; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, set))
			continue;
		for (first = c; c + 1 < CPU_SETSIZE && CPU_ISSET(c + 1, set);)
			c++;
		snprintf(buf + strlen(buf), size - strlen(buf), first == c ? "%s%d" : "%s%d-%d",
			 *buf ? "," : "", first, c);
	}
}

static int check_cpus(const struct plan *p, cpu_set_t *set, struct err *err)
{
	char have[128], path[64];

	if (sched_getaffinity(0, sizeof(*set), set))
		return err_set(err, errno, "engine", "cannot read the CPU affinity: %s",
			       strerror(errno));
	describe_set(set, have, sizeof(have));
	for (unsigned int s = 0; s < p->n_segments; s++)
		for (unsigned int i = 0; i < p->segments[s].n_all_cpus; i++) {
			unsigned int cpu = p->segments[s].cpus[i];

			if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, set))
				continue;
			snprintf(path, sizeof(path), "segments[%u].%scpus[%u]", s,
				 i < p->segments[s].n_cpus ? "" : "parallel.",
				 i < p->segments[s].n_cpus ? i : i - p->segments[s].n_cpus);
			return err_set(err, EINVAL, path,
				       "CPU %u is not available; this process may use %s", cpu, have);
		}
	for (size_t i = 0; i < p->engine.spare_cpus.count; i++) {
		uint64_t cpu = ((const uint64_t *)p->engine.spare_cpus.items)[i];

		if (!CPU_ISSET(cpu, set))
			return err_set(err, EINVAL, "engine.spare_cpus",
				       "CPU %lu is not available; this process may use %s",
				       (unsigned long)cpu, have);
	}
	return 0;
}

static void add_lcores(struct args *a, const struct plan *p, const cpu_set_t *set)
{
	unsigned int cpus[CPUS_MAX], n = plan_cpus(p, cpus);
	char list[2048], all[512] = "";

	/* The control thread floats over all CPUs; workers are pinned one to one. */
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET(c, set))
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%d",
				 *all ? "," : "", c);
	snprintf(list, sizeof(list), "0@(%s)", all);
	for (unsigned int i = 0; i < n; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), ",%u@%u", i + 1, cpus[i]);
	add(a, "--lcores");
	add(a, "%s", list);
	add(a, "--main-lcore");
	add(a, "0");
}

static void add_memory(struct args *a, const struct plan_engine *c)
{
	add(a, "-m");
	add(a, "%lu", (unsigned long)c->memory_mb);
	if (c->hugepages) {
		/* Nothing is left in hugetlbfs, however the process ends; and in few files, so that a virtio
		 * device can hand them over. */
		add(a, "--in-memory");
		add(a, "--single-file-segments");
	} else {
		add(a, "--no-huge");
		add(a, "--no-shconf");
	}
	/* Without a PCI device no address is a bus's: by physical ones, a ring over two hugepages needs
	 * them to be neighbours in memory, which after some hours of a machine's use they seldom are. */
	if (!c->hugepages || !c->pci.count)
		add(a, "--iova-mode=va");
}

static void add_devices(struct args *a, const struct plan_engine *c)
{
	char *const *pci = c->pci.items;

	if (!c->pci.count)
		add(a, "--no-pci");
	for (size_t i = 0; i < c->pci.count; i++) {
		add(a, "-a");
		add(a, "%s", pci[i]);
	}
}

static char run_dir[200], telemetry_socket[256];

/*
 * DPDK leaves its run-time directory behind. It takes its telemetry socket out of there in a
 * handler of its own at exit, where it still may, and those run in reverse order: ours is registered
 * first.
 */
static void remove_run_dir(void)
{
	if (*telemetry_socket)
		helper_remove(telemetry_socket);
	if (*run_dir)
		helper_remove(run_dir);
}

static void note_run_dir(bool telemetry)
{
	snprintf(run_dir, sizeof(run_dir), "%s", rte_eal_get_runtime_dir());
	helper_note(run_dir);
	if (!telemetry)
		return;
	snprintf(telemetry_socket, sizeof(telemetry_socket), "%s/dpdk_telemetry.v2", run_dir);
	helper_note(telemetry_socket);
}

/* DPDK says of a path that is too long only that this is not supported. */
static int check_run_dir(const char *prefix, struct err *err)
{
	static const char rest[] = "/dpdk//dpdk_telemetry.v2:255";
	const size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof(rest);
	const char *given = getenv("RUNTIME_DIRECTORY"); /* the lab's choice */

	if (!given && getuid())
		given = getenv("XDG_RUNTIME_DIR");
	if (!given || strlen(given) + strlen(prefix) <= room)
		return 0;
	return err_set(err, EINVAL, "XDG_RUNTIME_DIR",
		       "\"%s\": too long for the sockets below it; allowed: %zu bytes", given,
		       room > strlen(prefix) ? room - strlen(prefix) : 0);
}

int eal_start(const struct plan *plan, bool telemetry, struct err *err)
{
	struct args a = {0};
	cpu_set_t set;
	int rc;

	rc = check_cpus(plan, &set, err);
	if (!rc && telemetry)
		rc = check_run_dir(plan->engine.file_prefix, err);
	if (rc)
		return rc;
	add(&a, "headrace-engine");
	add_lcores(&a, plan, &set);
	add_memory(&a, &plan->engine);
	add_devices(&a, &plan->engine);
	add(&a, "--file-prefix=%s", plan->engine.file_prefix);
	if (!telemetry)
		add(&a, "--no-telemetry");
	add(&a, "--force-max-simd-bitwidth=%lu", (unsigned long)plan->engine.simd_bits);
	add(&a, "--log-level=lib.*:error");
	add(&a, "--log-level=pmd.*:error");
	add(&a, "--log-level=bus.*:error");
	add(&a, "--log-level=user*:error");
	atexit(remove_run_dir);
	/* EAL keeps pointers into argv, so it is not freed. */
	rc = rte_eal_init(a.n, a.v);
	if (rc >= 0) {
		note_run_dir(telemetry);
		return pkt_marks_register(err);
	}
	rc = err_set(err, rte_errno ? rte_errno : EINVAL, "engine",
		       "DPDK does not start: %s%s", rte_strerror(rte_errno),
		       plan->engine.hugepages
			       ? "; are there enough free hugepages (or set hugepages: false)?"
			       : "");
	log_explain(err);
	return rc;
}

void eal_stop(void)
{
	rte_eal_cleanup();
}
