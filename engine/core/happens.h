/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What ThreadSanitizer cannot see: where one thread hands over to another by DPDK's libraries, which
 * are not built with it. What was done before happens_before(x) is seen after happens_after(x).
 * Nothing in other builds.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define happens_before(x) __tsan_release(x)
#define happens_after(x) __tsan_acquire(x)
#else
#define happens_before(x) ((void)(x))
#define happens_after(x) ((void)(x))
#endif
