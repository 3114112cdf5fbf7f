// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Every frame goes on with new MAC addresses. */
#include <linux/if_ether.h>

#include "common.bpf.h"

const volatile struct macs macs;

SEC("xdp")
int l2fwd(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	/* Each by itself: a cast for memcpy would take `volatile` away, and the compiler know 0. */
	for (int i = 0; i < ETH_ALEN; i++) {
		eth->h_dest[i] = macs.dst[i];
		eth->h_source[i] = macs.src[i];
	}
	return go_on(ctx);
}
