/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <bpf/btf.h>
#include <stdint.h>

/*
 * Names for what the BPF programs know by number: devices and network namespaces
 * (collected at the beginning and the end of a run, as they come and go), drop reasons.
 */
struct device_name {
	uint32_t netns, ifindex;
	char name[16];
};

struct netns_name {
	uint32_t inum;
	char name[64];
};

struct names {
	struct device_name *devices;
	unsigned int n_devices;
	struct netns_name *netns;
	unsigned int n_netns;
	struct btf *btf;
};

/* Look at every network namespace that has a name or a process; adds to what is known. */
int names_collect(struct names *n);
void names_free(struct names *n);
const char *names_device(const struct names *n, uint32_t netns, uint32_t ifindex);
const char *names_netns(const struct names *n, uint32_t inum);
const char *names_drop_reason(struct names *n, uint32_t reason);
/* Address of a kernel symbol, 0 when unknown. */
uint64_t names_symbol(const char *symbol);
