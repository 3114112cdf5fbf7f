/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* EAL for a test or a fuzzer: ordinary memory, one lcore, no devices, quiet. As rte_eal_init. */
int test_eal_start(const char *megabytes);
