/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/*
 * The few kernel structures read here, with only the members read. CO-RE relocates each
 * access against the running kernel's BTF, so that the build needs no kernel headers
 * and no BTF of the build machine.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef struct {
	int counter;
} atomic_t; /* the kernel's own typedef: CO-RE matches types by name */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	int pid;
	unsigned int flags;
	char comm[16];
	struct nsproxy *nsproxy;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct device {
	struct device *parent;
};

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct net_device_ops;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	const struct net_device_ops *netdev_ops;
	struct device dev;
};

struct napi_struct {
	struct net_device *dev;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len, data_len;
	__u8 cloned : 1;
	__u8 encapsulation : 1;
	int skb_iif;
	__be16 protocol;
	__u16 network_header, inner_network_header;
	unsigned int end; /* 64-bit kernels: an offset */
	unsigned char *head, *data;
	struct sk_buff *next;
};

struct skb_shared_info {
	unsigned short gso_size, gso_segs;
	struct sk_buff *frag_list;
	atomic_t dataref;
};

enum gro_result {
	GRO_MERGED = 0,
	GRO_MERGED_FREE = 1,
};

#pragma clang attribute pop

/*
 * An address as a plain number. Linux 6.17 and later type a char pointer read from a
 * kernel structure as untrusted memory and refuse 32-bit arithmetic on it; the verifier
 * forgets a pointer's type at a negation.
 */
static __always_inline __u64 address(const void *p)
{
	__u64 v = (__u64)p;

	asm volatile("%0 = -%0\n\t%0 = -%0" : "+r"(v));
	return v;
}
