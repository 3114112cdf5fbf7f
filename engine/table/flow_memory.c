/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of flow tables: zeroed, there before the first packet, in huge pages from first byte to last. */
#include "flow_priv.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)1 << 21)

/* Linux 5.14 on; older kernels refuse it, and the pages are touched by hand. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

size_t flow_whole_pages(size_t bytes)
{
	return bytes < HUGE_PAGE / 2 ? bytes : RTE_ALIGN_CEIL(bytes, HUGE_PAGE);
}

/*
 * At a huge page's beginning, if it has any: what is mapped around it is given back. Of a part that
 * began or ended within one the kernel made small pages, up to a third of a table of 100,000 flows.
 */
static void *map_pages(size_t bytes, int flags)
{
	size_t spare = bytes < HUGE_PAGE ? 0 : HUGE_PAGE, before = 0;
	uint8_t *p = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (spare)
		before = RTE_ALIGN_CEIL((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p;
	if (before)
		munmap(p, before);
	if (spare > before)
		munmap(p + before + bytes, spare - before);
	return p + before;
}

void *flow_reserve(size_t bytes, bool tried)
{
	void *p = map_pages(bytes, tried ? MAP_NORESERVE : 0);

	if (!p)
		return NULL;
	if (tried) {
		madvise(p, bytes, MADV_NOHUGEPAGE);
		return p;
	}
	madvise(p, bytes, MADV_HUGEPAGE); /* only advice: not every kernel has it */
	if (!madvise(p, bytes, MADV_POPULATE_WRITE))
		return p;
	if (errno == EINVAL)
		return memset(p, 0, bytes);
	munmap(p, bytes);
	return NULL;
}
