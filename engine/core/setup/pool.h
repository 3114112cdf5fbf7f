/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_mempool.h>

#include "core/err.h"
#include "core/plan/plan.h"

/*
 * Packet buffers for an engine. Returns NULL and an error without memory for them.
 *
 * Where one lcore takes buffers and another gives them back, DPDK's default pool, a FIFO ring, hands
 * out the one that has lain longest: all pass through the caches in turn, however few packets are
 * under way. With buffers for a long queue that is main memory for every packet. A LIFO stack hands
 * out the one that came back last, whose lines are still modified in the other core's cache: three
 * times as far away as the last-level cache. So the pool has two tiers, both FIFO: `mbufs_hot`
 * buffers go round, few enough for the last-level cache and more than fit the other core's, and the
 * rest is touched only while queues hold more than those.
 */
struct rte_mempool *pool_make(const struct plan_engine *conf, struct err *err);

/*
 * Has the kernel move the buffers to conf->packets_node, where they are not on it, and asks it of each
 * where it is. An error where one is elsewhere: a figure of remote packets must be of remote packets.
 */
int pool_settle(struct rte_mempool *pool, const struct plan_engine *conf, struct err *err);
