/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for tables: zeroed, present from the start (no page fault under a lookup), in the
 * largest pages that can be had, on the NUMA node asked for. A table of random lines on small
 * pages spends its time in page walks.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuckoo.h"
#include "pages.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SIZE_2M (UINT64_C(1) << 21)
#define SIZE_1G (UINT64_C(1) << 30)
#define NODES_MAX 1024

static size_t round_up(size_t bytes, size_t page)
{
	return (bytes + page - 1) / page * page;
}

static int bind_node(void *p, size_t bytes, int socket)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
	const unsigned int bits = 8 * sizeof(unsigned long);

	if (socket < 0)
		return 0;
	if (socket >= NODES_MAX)
		return -EINVAL;
	mask[socket / bits] = 1ul << socket % bits;
	if (syscall(SYS_mbind, p, bytes, MPOL_BIND, mask, (unsigned long)NODES_MAX, 0))
		return -errno;
	return 0;
}

/* Reserved pages may all be on another node: touching them would be a SIGBUS, this is not. */
static int populate(void *p, size_t bytes)
{
	const long page = sysconf(_SC_PAGESIZE);

	if (!madvise(p, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	for (size_t i = 0; i < bytes; i += page) /* an older kernel */
		((volatile uint8_t *)p)[i] = 0;
	return 0;
}

static int map_one(void **out, size_t bytes, size_t page, int flags, int socket)
{
	size_t mapped = round_up(bytes, page);
	void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		       -1, 0);
	int rc;

	if (p == MAP_FAILED)
		return -errno;
	rc = bind_node(p, mapped, socket);
	if (!rc && page < SIZE_2M)
		madvise(p, mapped, MADV_HUGEPAGE); /* only advice: not every kernel has it */
	if (!rc)
		rc = populate(p, mapped);
	if (rc)
		munmap(p, mapped);
	else
		*out = p;
	return rc;
}

uint64_t pages_memory(const char *which)
{
	const size_t n = strlen(which);
	unsigned long long kb = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "r");

	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, which, n) && sscanf(line + n, ": %llu kB", &kb) == 1)
			break;
	fclose(f);
	return kb ? kb * 1024 : UINT64_MAX;
}

/* Large pages that would be mostly empty are left to others, unless they were asked for. */
static bool worth(size_t bytes, size_t page, enum fib_memory kind)
{
	return kind != FIB_MEMORY_AUTO || round_up(bytes, page) - bytes <= bytes / 16;
}

static int map_huge(void **out, size_t bytes, enum fib_memory kind, int socket, size_t *page)
{
	static const struct {
		enum fib_memory kind;
		size_t page;
		int log2;
	} sizes[] = {{FIB_MEMORY_1G, SIZE_1G, 30}, {FIB_MEMORY_2M, SIZE_2M, 21}};
	int rc = -ENOMEM;

	for (int i = 0; i < 2; i++) {
		if (kind != FIB_MEMORY_AUTO && kind != sizes[i].kind)
			continue;
		if (!worth(bytes, sizes[i].page, kind))
			continue;
		rc = map_one(out, bytes, sizes[i].page,
			     MAP_HUGETLB | sizes[i].log2 << MAP_HUGE_SHIFT, socket);
		*page = sizes[i].page;
		if (!rc)
			return 0;
	}
	return rc;
}

static int map_ordinary(void **out, size_t bytes, int socket, size_t *page)
{
	/* Populating more than there is would have the kernel end some process. */
	if (bytes > pages_memory("MemAvailable"))
		return -ENOMEM;
	*page = sysconf(_SC_PAGESIZE);
	return map_one(out, bytes, *page, 0, socket);
}

int pages_map(void **out, size_t bytes, enum fib_memory kind, int socket, size_t *mapped,
	      size_t *page, const char *path, struct err *err)
{
	int rc = -ENOMEM;

	if (kind != FIB_MEMORY_ORDINARY)
		rc = map_huge(out, bytes, kind, socket, page);
	if (rc && (kind == FIB_MEMORY_AUTO || kind == FIB_MEMORY_ORDINARY))
		rc = map_ordinary(out, bytes, socket, page);
	if (!rc) {
		*mapped = round_up(bytes, *page);
		return 0;
	}
	if (socket >= 0 && rc == -EINVAL)
		return err_set(err, EINVAL, path, "no NUMA node %d on this machine", socket);
	if (kind == FIB_MEMORY_1G || kind == FIB_MEMORY_2M)
		return err_set(err, ENOMEM, path, "the table needs %zu free hugepages of %s: %s",
			       round_up(bytes, *page) / *page,
			       kind == FIB_MEMORY_1G ? "1 GB" : "2 MB", strerror(-rc));
	return err_set(err, ENOMEM, path, "the table needs %zu MB of memory, %llu MB are available",
		       bytes >> 20, (unsigned long long)pages_memory("MemAvailable") >> 20);
}

void pages_unmap(void *p, size_t mapped)
{
	munmap(p, mapped);
}
