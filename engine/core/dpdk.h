/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What DPDK's releases from 22.11 to 25.11 name differently, under one name each. Where an IPv6
 * address goes to DPDK, it goes as void *: it is uint8_t[16] before 24.11 and struct rte_ipv6_addr,
 * of those 16 bytes, since.
 */

#include <stddef.h>
#include <stdint.h>

#include <rte_ip.h>
/* rte_align64pow2 moved from the first to the second in 24.03. */
#include <rte_common.h>
#include <rte_bitops.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
#include <rte_thread.h>
#else
#include <pthread.h>
#include <rte_lcore.h>
#endif

#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#endif

/*
 * A thread beside the lcores, on the CPUs that EAL has for such. control_start returns 0 or -errno;
 * the function returns 0.
 */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
typedef rte_thread_t control_thread;
typedef uint32_t control_end;

static inline int control_start(control_thread *t, const char *name, control_end (*run)(void *),
				void *arg)
{
	return rte_thread_create_control(t, name, run, arg);
}

static inline void control_join(control_thread t)
{
	rte_thread_join(t, NULL);
}
#else
typedef pthread_t control_thread;
typedef void *control_end;

static inline int control_start(control_thread *t, const char *name, control_end (*run)(void *),
				void *arg)
{
	return rte_ctrl_thread_create(t, name, NULL, run, arg);
}

static inline void control_join(control_thread t)
{
	pthread_join(t, NULL);
}
#endif

/* The addresses of an IPv6 header; the destination's 16 bytes follow the source's. */
static inline uint8_t *ipv6_src(const struct rte_ipv6_hdr *ip)
{
	return (uint8_t *)(uintptr_t)ip + offsetof(struct rte_ipv6_hdr, src_addr);
}

static inline uint8_t *ipv6_dst(const struct rte_ipv6_hdr *ip)
{
	return (uint8_t *)(uintptr_t)ip + offsetof(struct rte_ipv6_hdr, dst_addr);
}
