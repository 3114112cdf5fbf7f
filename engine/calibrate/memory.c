/* SPDX-License-Identifier: Apache-2.0 */
/* Memory to measure: on a given node, on huge pages if possible, all of it touched. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calibrate.h"

#define HUGE_BYTES ((size_t)2 << 20)

static size_t round_up(size_t bytes)
{
	return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

/* Bytes of the mapping at `addr` that are on transparent huge pages (proc(5), smaps). */
static size_t huge_part(const void *addr)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long begin, end, kb;
	bool inside = false;
	size_t found = 0;
	char text[512];

	while (f && fgets(text, sizeof(text), f)) {
		if (sscanf(text, "%lx-%lx ", &begin, &end) == 2)
			inside = (uintptr_t)addr >= begin && (uintptr_t)addr < end;
		else if (inside && sscanf(text, "AnonHugePages: %lu", &kb) == 1)
			found = kb * 1024;
	}
	if (f)
		fclose(f);
	return found;
}

static void *map(size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Aligned, so that transparent huge pages can take all of it; the slack costs address space only. */
static uint8_t *map_aligned(size_t bytes)
{
	uint8_t *p = map(bytes + HUGE_BYTES, 0), *aligned;

	if (!p)
		return NULL;
	aligned = (uint8_t *)round_up((uintptr_t)p);
	if (aligned > p)
		munmap(p, aligned - p);
	if (p + HUGE_BYTES > aligned)
		munmap(aligned + bytes, p + HUGE_BYTES - aligned);
	return aligned;
}

static int bind_to(void *addr, size_t bytes, int node, struct err *err)
{
	unsigned long mask = 1ul << node;

	if (node < 0 || !syscall(SYS_mbind, addr, bytes, MPOL_BIND, &mask, sizeof(mask) * 8, 0))
		return 0;
	return err_set(err, errno, "", "no memory from NUMA node %d: %s", node, strerror(errno));
}

int region_map(struct region *r, size_t bytes, int node, struct err *err)
{
	int rc;

	r->bytes = round_up(bytes);
	r->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	r->addr = map_aligned(r->bytes);
	if (!r->addr)
		return err_set(err, ENOMEM, "", "no memory: %zu bytes", r->bytes);
	madvise(r->addr, r->bytes, MADV_HUGEPAGE);
	rc = bind_to(r->addr, r->bytes, node, err);
	if (rc) {
		region_unmap(r);
		return rc;
	}
	memset(r->addr, 1, r->bytes);
	if (huge_part(r->addr) >= r->bytes / 10 * 9)
		r->page_bytes = HUGE_BYTES;
	return 0;
}

void region_unmap(struct region *r)
{
	if (r->addr)
		munmap(r->addr, r->bytes);
	r->addr = NULL;
}

uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* Sattolo's algorithm: a permutation that is a single cycle. */
int lines_shuffle(struct line *lines, size_t n, struct err *err)
{
	uint64_t random = 88172645463325252u + n;
	uint32_t *order = malloc(n * sizeof(*order));

	if (!order)
		return err_set(err, ENOMEM, "", "no memory for %zu lines", n);
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = random_next(&random) % i;
		uint32_t other = order[j];

		order[j] = order[i];
		order[i] = other;
	}
	for (size_t i = 0; i < n; i++)
		lines[order[i]].next = &lines[order[i + 1 < n ? i + 1 : 0]];
	free(order);
	return 0;
}

struct line *lines_walk(struct line *at, size_t steps)
{
	while (steps--)
		at = at->next;
	/* Nobody uses what was loaded; the loads must happen all the same. */
	__asm__ volatile("" : "+r"(at));
	return at;
}
