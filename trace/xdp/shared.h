/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include <linux/types.h>

/* What the programs of a chain and headrace-xdp, which loads them, both know. */

#define COUNTS_MAX 8
#define LPM_BLOCK                                                                                  \
	0x80000000u       /* an entry that is the number of another block; others are values       \
			   */
#define ACL_WORDS_MAX 128 /* of 64 rules each */
#define HOPS_MAX 65536

struct lpm_block {
	__u32 entry[256]; /* by the next byte of the address; 0: nothing matches */
};

struct macs {
	__u8 dst[6], src[6];
};

enum end_count { END_PACKETS, END_COUNTS };

enum acl_count {
	ACL_DENIED,
	ACL_BY_DEFAULT,
	ACL_NON_IP,
	ACL_FRAGMENT,
	ACL_MALFORMED,
	ACL_COUNTS,
};

enum l3fwd_count {
	L3_NO_ROUTE,
	L3_TTL_EXPIRED,
	L3_BAD_CHECKSUM,
	L3_MARTIAN,
	L3_MULTICAST,
	L3_LINK_MULTICAST,
	L3_NOT_IP,
	L3_MALFORMED,
	L3_COUNTS,
};

#define NAT_POOL_MAX 64
#define NAT_INSIDE_MAX 16

/* Addresses, ports and masks are in network order. */

struct nat_prefix {
	__u32 addr, mask;
};

/* A session's end on one side, towards an endpoint outside; for ICMP the port is the identifier. */
struct nat_key {
	__u32 addr, remote;
	__u16 port, remote_port;
	__u8 proto, inward;
	__u16 pad;
};

struct nat_static {
	__u32 addr;
	__u16 port;
	__u8 proto, inside; /* which side this end is on */
};

struct nat_end {
	__u32 addr;
	__u16 port, pad;
};

enum nat_count {
	NAT_PORTS_EXHAUSTED,
	NAT_NO_MAPPING,
	NAT_FRAGMENT,
	NAT_UNSUPPORTED,
	NAT_MALFORMED,
	NAT_NEW,
	NAT_COUNTS,
};

#define LB_ADDRESS 0 /* no VIP: an address that has some */

struct lb_key {
	__u32 addr;
	__u16 port;
	__u8 proto, pad;
};

/* Ports of 0 are kept. */
struct lb_backend {
	__u32 addr, vip_addr;
	__u16 port, vip_port;
};

enum lb_count { LB_NO_BACKEND, LB_NOT_FOR_VIP, LB_FRAGMENT, LB_MALFORMED, LB_BALANCED, LB_COUNTS };
