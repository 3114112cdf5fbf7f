/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a VNF's kernel: rtnetlink. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <rte_cycles.h>

#include "learn.h"

#define RECEIVE_BYTES (32 << 20) /* a full table comes faster than it is taken in */
#define DUMP_RETRY_NS 100000000

static const struct {
	uint16_t type;
	uint8_t family;
	bool routes; /* only where routes are learnt from the kernel */
} dumps[] = {
	{RTM_GETLINK, AF_UNSPEC, false},   {RTM_GETADDR, AF_UNSPEC, false},
	{RTM_GETNEIGH, AF_UNSPEC, false},  {RTM_GETNEXTHOP, AF_UNSPEC, true},
	{RTM_GETROUTE, AF_INET, true},     {RTM_GETROUTE, AF_INET6, true},
};
#define DUMP_IDLE RTE_DIM(dumps)

static int join(int fd, unsigned int group)
{
	return setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
}

int kernel_open(void)
{
	static const unsigned int groups[] = {RTNLGRP_LINK,        RTNLGRP_NEIGH,
					      RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
					      RTNLGRP_IPV4_ROUTE,  RTNLGRP_IPV6_ROUTE,
					      RTNLGRP_NEXTHOP};
	struct sockaddr_nl at = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	int bytes = RECEIVE_BYTES, rc = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)))
		rc = -errno;
	for (unsigned int i = 0; i < RTE_DIM(groups) && !rc; i++)
		rc = join(fd, groups[i]) ? -errno : 0;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static void request(struct source *s)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg m; /* as large as any of the dumps' headers, and they begin with the family */
	} req = {.h = {.nlmsg_len = sizeof(req),
		       .nlmsg_type = dumps[s->dump].type,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};

	req.m.rtm_family = dumps[s->dump].family;
	if (dumps[s->dump].type == RTM_GETNEXTHOP) /* strict about its smaller header */
		req.h.nlmsg_len = NLMSG_LENGTH(8);
	if (send(s->kernel_socket.fd, &req, req.h.nlmsg_len, 0) < 0)
		s->dump_again_ns = 1;
}

static void next_dump(struct source *s)
{
	do
		s->dump++;
	while (s->dump < DUMP_IDLE && dumps[s->dump].routes && !s->kernel.routes);
	if (s->dump < DUMP_IDLE) {
		request(s);
		return;
	}
	netlink_idle(&s->kernel);
	vnf_kernel_end(s->vnf);
}

void kernel_dump(struct source *s)
{
	s->dump_again_ns = 0;
	s->kernel.deleting = false;
	s->dump = 0;
	vnf_kernel_begin(s->vnf);
	request(s);
}

void kernel_tick(struct source *s, uint64_t now_ns)
{
	if (s->vnf->read_again && s->dump >= DUMP_IDLE) {
		s->vnf->read_again = false;
		s->dump_again_ns = now_ns;
	}
	if (s->dump_again_ns && now_ns >= s->dump_again_ns + DUMP_RETRY_NS)
		kernel_dump(s);
}

void kernel_read(struct source *s, uint64_t until_tsc)
{
	static _Thread_local _Alignas(16) uint8_t buf[1 << 16];
	bool done = false;
	ssize_t n;

	do {
		n = recv(s->kernel_socket.fd, buf, sizeof(buf), 0);
		if (n < 0 && errno == ENOBUFS) /* some were lost: all is read anew */
			s->vnf->read_again = true;
		if (n <= 0)
			return;
		if (netlink_parse(&s->kernel, buf, (size_t)n, &done))
			s->vnf->read_again = true;
		if (done && s->dump < DUMP_IDLE)
			next_dump(s);
		done = false;
	} while (rte_rdtsc() < until_tsc);
}

/*
 * NTF_EXT_MANAGED (Linux 5.16): the kernel resolves the neighbour and keeps it so, though no packet
 * of its own goes there. NTF_USE for older ones: it resolves it once. What the kernel has already is
 * left to it: an entry that was set for good would lose its address to either flag (neigh_update), and
 * one that failed is tried again by packets that are punted.
 */
void kernel_resolve(struct vnf *v, int ifindex, const struct address *address)
{
	struct source *s = v->resolve_ctx;
	struct {
		struct nlmsghdr h;
		struct ndmsg m;
		struct rtattr flags_at;
		uint32_t flags;
		struct rtattr dst_at;
		uint8_t dst[16];
	} req = {.h = {.nlmsg_type = RTM_NEWNEIGH,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL},
		 .m = {.ndm_family = address->ipv6 ? AF_INET6 : AF_INET,
		       .ndm_ifindex = ifindex,
		       .ndm_flags = NTF_USE},
		 .flags_at = {RTA_LENGTH(4), NDA_FLAGS_EXT},
		 .flags = NTF_EXT_MANAGED,
		 .dst_at = {(uint16_t)RTA_LENGTH(address_bytes(address)), NDA_DST}};

	memcpy(req.dst, address->bytes, address_bytes(address));
	req.h.nlmsg_len = (uint32_t)(sizeof(req) - sizeof(req.dst) + address_bytes(address));
	/* Should the kernel refuse, packets are punted until it resolves the neighbour for them. */
	(void)!send(s->kernel_socket.fd, &req, req.h.nlmsg_len, 0);
}
