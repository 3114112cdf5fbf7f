/* SPDX-License-Identifier: Apache-2.0 */
/* Packet buffers on a chosen NUMA node; and a look at where the kernel really has them. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_common.h>

#include "pool.h"

struct look {
	unsigned int node;
	unsigned int elsewhere, at; /* buffers on other nodes, and the node of the last of them */
	int error;
};

/*
 * Ordinary memory belongs to whoever touched it first, which was the thread that made the pool. Its
 * pages are moved; those at the ends, which other things share, with them.
 */
static void move_chunk(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk,
		       unsigned int i)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = RTE_ALIGN_FLOOR((uintptr_t)chunk->addr, page);
	uintptr_t end = RTE_ALIGN_CEIL((uintptr_t)chunk->addr + chunk->len, page);
	struct look *look = opaque;
	unsigned long mask[POOL_ANY_NODE / 64] = {0};

	(void)pool;
	(void)i;
	mask[look->node / 64] = 1ul << look->node % 64;
	if (!look->error && syscall(SYS_mbind, from, end - from, MPOL_BIND, mask, POOL_ANY_NODE + 1,
				    MPOL_MF_MOVE))
		look->error = errno;
}

static void look_at(struct rte_mempool *pool, void *opaque, void *buffer, unsigned int i)
{
	struct look *look = opaque;
	int node = 0;

	(void)pool;
	(void)i;
	if (look->error)
		return;
	if (syscall(SYS_get_mempolicy, &node, NULL, 0, buffer, MPOL_F_NODE | MPOL_F_ADDR)) {
		look->error = errno;
	} else if ((unsigned int)node != look->node) {
		look->elsewhere++;
		look->at = (unsigned int)node;
	}
}

int pool_settle(struct rte_mempool *pool, const struct plan_engine *conf, struct err *err)
{
	struct look look = {.node = (unsigned int)conf->packets_node};

	/* Hugepages were taken from the node. */
	if (!conf->hugepages)
		rte_mempool_mem_iter(pool, move_chunk, &look);
	rte_mempool_obj_iter(pool, look_at, &look);
	if (look.error)
		return err_set(err, look.error, "engine.packets_node",
			       "NUMA node %u cannot have the packet buffers: %s", look.node,
			       strerror(look.error));
	if (look.elsewhere)
		return err_set(err, ENOMEM, "engine.packets_node",
			       "%u of %u packet buffers are on NUMA node %u, not %u: has it enough free "
			       "memory?",
			       look.elsewhere, pool->size, look.at, look.node);
	return 0;
}
