// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The hooks on functions' entries (fentry): NfvInsight table 4's list, as the functions are
 * called in Linux 6. They refine the stages of the tracepoints and are loaded beside them,
 * each by itself: user space leaves out what this kernel has inlined, renamed or refuses.
 */
#include "tracer.bpf.c"

#define FENTRY(stage_id, function, on_device, ...)                                                 \
	SEC("fentry/" #function)                                                                   \
	int BPF_PROG(f_##function, __VA_ARGS__)                                                    \
	{                                                                                          \
		return hook(skb, STAGE_##stage_id, on_device);                                     \
	}

FENTRY(IP_OUT, __ip_local_out, false, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(IP_OUT, __ip6_local_out, false, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(IP_OUTPUT, ip_output, false, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(IP_OUTPUT, ip6_output, false, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(IP_FRAGMENT, ip_do_fragment, false, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(BR_FRAME, br_handle_frame_finish, true, struct net *net, struct sock *sk,
       struct sk_buff *skb)
FENTRY(BR_FORWARD, br_forward_finish, true, struct net *net, struct sock *sk, struct sk_buff *skb)
FENTRY(IP_RCV, ip_rcv_core, true, struct sk_buff *skb)
FENTRY(IP_RCV, ip6_rcv_core, true, struct sk_buff *skb)
FENTRY(CONNTRACK, nf_conntrack_in, false, struct sk_buff *skb)
FENTRY(IP_DEFRAG, ip_defrag, false, struct net *net, struct sk_buff *skb)
FENTRY(IP_FORWARD, ip_forward, true, struct sk_buff *skb)
FENTRY(IP_FORWARD, ip6_forward, true, struct sk_buff *skb)
FENTRY(IP_DELIVER, ip_local_deliver, false, struct sk_buff *skb)
FENTRY(IP_DELIVER, ip6_input, false, struct sk_buff *skb)
FENTRY(UDP_RCV, udp_queue_rcv_skb, false, struct sock *sk, struct sk_buff *skb)
FENTRY(UDP_RCV, udpv6_queue_rcv_skb, false, struct sock *sk, struct sk_buff *skb)
FENTRY(TCP_RCV, tcp_v4_rcv, false, struct sk_buff *skb)
FENTRY(TCP_RCV, tcp_v6_rcv, false, struct sk_buff *skb)
