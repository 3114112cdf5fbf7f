/* SPDX-License-Identifier: Apache-2.0 */
#include "napi.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMM_SHORT 15 /* what kernels before 5.17 say of a thread's name */

static FILE *threaded(const char *interface, const char *mode)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/threaded", interface);
	return fopen(path, mode);
}

/* A kernel without threads, or a driver without NAPI, has the work done where it comes up. */
static bool set(const char *interface, char value)
{
	FILE *f = threaded(interface, "we");
	bool ok = f && fputc(value, f) != EOF;

	if (f && fclose(f))
		ok = false;
	return ok;
}

static bool polls(const char *pid, const char *wanted)
{
	char path[64], comm[128] = "";
	size_t length = strlen(wanted);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	fclose(f);
	comm[strcspn(comm, "\n")] = '\0';
	if (strlen(comm) == COMM_SHORT && length > COMM_SHORT)
		length = COMM_SHORT;
	return !strncmp(comm, wanted, length);
}

/* The threads are called napi/INTERFACE-NUMBER. */
static int bind_threads(const char *interface, const int *cpus, unsigned int n, struct problem *p)
{
	DIR *d = opendir("/proc");
	unsigned int turn = 0;
	char wanted[64];
	struct dirent *e;

	if (!d)
		return problem_is(p, -errno, "/proc: %s", strerror(errno));
	snprintf(wanted, sizeof(wanted), "napi/%s-", interface);
	while ((e = readdir(d))) {
		cpu_set_t set;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !polls(e->d_name, wanted))
			continue;
		CPU_ZERO(&set);
		CPU_SET((unsigned int)cpus[turn++ % n], &set);
		if (sched_setaffinity(atoi(e->d_name), sizeof(set), &set) && errno != ESRCH) {
			int rc = -errno;

			closedir(d);
			return problem_is(p, rc, "%s%s: cannot be bound to a CPU: %s", wanted,
					  e->d_name, strerror(-rc));
		}
	}
	closedir(d);
	return 0;
}

int napi_thread(const char *interface, const int *cpus, unsigned int n, char *was,
		struct problem *p)
{
	FILE *f = threaded(interface, "re");
	int now = f ? fgetc(f) : EOF;

	if (f)
		fclose(f);
	*was = '\0';
	if (now == EOF || (now == '0' && !set(interface, '1')))
		return 0;
	*was = (char)now;
	return bind_threads(interface, cpus, n, p);
}

void napi_restore(const char *interface, char was)
{
	if (was == '0')
		set(interface, was);
}
