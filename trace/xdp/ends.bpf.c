// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Where a direction's packets come into the kernel, and where they leave it. */
#include "common.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps"); /* -> ifindex */

SEC("xdp")
int enter(struct xdp_md *ctx)
{
	count(END_PACKETS);
	return go_on(ctx);
}

SEC("xdp")
int leave(struct xdp_md *ctx)
{
	return bpf_redirect_map(&out, 0, XDP_DROP);
}
