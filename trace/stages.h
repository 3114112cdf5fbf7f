/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * The stages of a packet's way through the kernel, in the order in which a packet
 * sent by one local socket to another meets them. Both backends and the user-space
 * part share this table; STAGE(identifier, name, backend, what it marks).
 *
 * backend: T a BTF tracepoint, F a function's entry (fentry), E no hook of its own:
 * an end that another hook concludes.
 */
/* clang-format off */
#define STAGES(STAGE)                                                                              \
	STAGE(IP_OUT, "ip_local_out", F, "the socket's packet enters IP output")                   \
	STAGE(IP_OUTPUT, "ip_output", F, "routed, before POSTROUTING")                             \
	STAGE(IP_FRAGMENT, "ip_do_fragment", F, "larger than the MTU, to be cut")                  \
	STAGE(DEV_QUEUE, "net_dev_queue", T, "handed to a device's queueing discipline")           \
	STAGE(DEV_XMIT, "net_dev_start_xmit", T, "handed to the device driver")                    \
	STAGE(NETIF_RX, "netif_rx", T, "put on a CPU's backlog queue")                             \
	STAGE(GRO, "napi_gro_receive_entry", T, "taken from a driver's ring by NAPI")              \
	STAGE(RECEIVE, "netif_receive_skb", T, "enters the protocol layers")                       \
	STAGE(BR_FRAME, "br_handle_frame_finish", F, "the bridge looks up its port")               \
	STAGE(BR_FORWARD, "br_forward_finish", F, "the bridge sends to the port")                  \
	STAGE(IP_RCV, "ip_rcv_core", F, "IP input")                                                \
	STAGE(CONNTRACK, "nf_conntrack_in", F, "connection tracking")                              \
	STAGE(IP_DEFRAG, "ip_defrag", F, "a fragment waits for the others")                        \
	STAGE(IP_FORWARD, "ip_forward", F, "routed to another device")                             \
	STAGE(IP_DELIVER, "ip_local_deliver", F, "for this host")                                  \
	STAGE(UDP_RCV, "udp_queue_rcv_skb", F, "UDP found the socket")                             \
	STAGE(TCP_RCV, "tcp_v4_rcv", F, "TCP input")                                               \
	STAGE(TCP_PROBE, "tcp_probe", T, "the segment meets its established connection")           \
	STAGE(COPY, "skb_copy_datagram_iovec", T, "copied to the application")                     \
	STAGE(CONSUME, "consume_skb", T, "freed after use, e.g. transmitted by a NIC")             \
	STAGE(DROP, "kfree_skb", T, "dropped")                                                     \
	STAGE(GRO_MERGED, "gro_merged", E, "became part of another packet in GRO")                 \
	STAGE(REASSEMBLED, "reassembled", E, "fragment, became part of its datagram")              \
	STAGE(ACKED, "tcp_ack", E, "segment without data, used up by TCP")                         \
	STAGE(SEGMENTED, "segmented", E, "GSO packet, replaced by its segments")
/* clang-format on */

#define STAGE_ENUM(id, name, backend, doc) STAGE_##id,
enum stage {
	STAGES(STAGE_ENUM) STAGES_N,
};
#undef STAGE_ENUM

/* A histogram's `to` for the whole way: END_OF + the stage at which it ended. */
#define END_OF 32
