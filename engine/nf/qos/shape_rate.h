/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Rates, in bytes per second, as rte_sched has to be told them.
 *
 * The port's: twice what it sends or more, as its clock runs ahead with what is sent and fills the
 * buckets that were emptied, wholly so if a bucket had all of the rate; and such a rate as its
 * whole number of 1/256 cycles per byte says exactly.
 */
uint64_t shape_clock_rate(uint64_t rate);

/*
 * A token bucket's. rte_sched fills one with p bytes in every q bytes of its clock, p/q being the simplest
 * fraction within 2^-24 of the bucket's share of the port's rate. Close beside a simple fraction there
 * is none but of a huge q: 0.499996 gives 62499/124999, so that the bucket is filled every 25 ms, more
 * than it holds or its queues can wait for, and whether that happens depends on the TSC's
 * frequency. So it is told a share that is a simple fraction, at most 0.05 % away.
 */
uint64_t shape_bucket_rate(uint64_t rate, uint64_t clock);
