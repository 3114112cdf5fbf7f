/* SPDX-License-Identifier: Apache-2.0 */
#include "test_eal.h"

#include <rte_common.h>
#include <rte_eal.h>

int test_eal_start(const char *megabytes)
{
	const char *const args[] = {
		"test",    "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
		megabytes, "--lcores",  "0",           "--log-level", "error",
	};
	char *argv[RTE_DIM(args) + 1] = {NULL};

	/* EAL reorders the array, but leaves the strings. */
	for (unsigned int i = 0; i < RTE_DIM(args); i++)
		argv[i] = (char *)args[i];
	return rte_eal_init(RTE_DIM(args), argv);
}
