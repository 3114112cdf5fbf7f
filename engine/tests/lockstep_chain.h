/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A chain of all functions that have a say in the fast path, both ways and for both families. Each
 * argument: parameters of that function, as JSON; with a comma behind, but for the monitor.
 */
#define LOCKSTEP_IN 0   /* link numbers */
#define LOCKSTEP_BACK 1
#define LOCKSTEP_OUT 2  /* from here on what leaves */

#define LOCKSTEP_CHAIN(acl, firewall, nat, lb, monitor)                                            \
	"{\"links\":{\"in\":{\"type\":\"mem\"},\"back\":{\"type\":\"mem\"},\"out0\":{\"type\":"     \
	"\"mem\"},\"out1\":{\"type\":\"mem\"},\"out2\":{\"type\":\"mem\"}},"                        \
	"\"nfs\":{\"acl\":{\"type\":\"acl\",\"params\":{" acl "\"rules\":[{\"action\":\"deny\","   \
	"\"dport\":[6]},{\"action\":\"permit\"}]}},"                                               \
	"\"mon\":{\"type\":\"monitor\",\"params\":{" monitor "}},"                                 \
	"\"fw\":{\"type\":\"firewall\",\"params\":{" firewall                                      \
	"\"rules\":[{\"action\":\"permit\"}],\"tcp_loose\":true}},"                                \
	"\"nat\":{\"type\":\"nat\",\"params\":{" nat "\"seed\":1,\"pool\":"       \
	"[\"198.51.100.7\"],\"inside\":[\"10.0.0.0/9\"]}},"                                       \
	"\"lb\":{\"type\":\"lb\",\"params\":{" lb "\"table_size\":251,\"vips\":["                  \
	"{\"address\":\"203.0.113.1\",\"backends\":[{\"address\":\"192.0.2.1\"},{\"address\":"     \
	"\"192.0.2.2\"},{\"address\":\"192.0.2.3\",\"port\":0}]},"                                 \
	"{\"address\":\"2001:db8:b::1\",\"backends\":[{\"address\":\"2001:db8:c::1\"},"            \
	"{\"address\":\"2001:db8:c::2\",\"mac\":\"02:00:00:00:02:02\"}]}]}},"                      \
	"\"l3\":{\"type\":\"l3fwd\",\"params\":{\"next_hops\":[{},{\"edge\":1,\"dst_mac\":"        \
	"\"02:00:00:00:01:01\"}],\"routes\":[{\"prefix\":\"192.0.2.0/24\",\"next_hop\":0},"        \
	"{\"prefix\":\"203.0.113.0/24\",\"next_hop\":1},{\"prefix\":\"10.0.0.0/8\",\"next_hop\":0}," \
	"{\"prefix\":\"198.51.100.0/24\",\"next_hop\":1},"                                         \
	"{\"prefix\":\"2001:db8:a::/48\",\"next_hop\":0},{\"prefix\":\"2001:db8:b::/48\","         \
	"\"next_hop\":1},{\"prefix\":\"2001:db8:c::/48\",\"next_hop\":0}"                          \
	"],\"ipv4_capacity\":100,\"ipv6_capacity\":100}}},"                                        \
	"\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"fastpath\":%u,\"inputs\":["                  \
	"{\"link\":\"in\",\"to\":\"acl\"},{\"link\":\"back\",\"to\":\"l3\",\"direction\":"         \
	"\"reverse\"}],\"nodes\":{"                                                                \
	"\"acl\":{\"forward\":{\"pass\":\"mon\"},\"reverse\":{\"pass\":\"link:out2\"}},"           \
	"\"mon\":{\"forward\":{\"out\":\"fw\"},\"reverse\":{\"out\":\"acl\"}},"                    \
	"\"fw\":{\"forward\":{\"pass\":\"nat\"},\"reverse\":{\"pass\":\"mon\"}},"                  \
	"\"nat\":{\"forward\":{\"out\":\"lb\"},\"reverse\":{\"out\":\"fw\"}},"                     \
	"\"lb\":{\"forward\":{\"out\":\"l3\"},\"reverse\":{\"out\":\"nat\"}},"                     \
	"\"l3\":{\"forward\":{\"out0\":\"link:out0\",\"out1\":\"link:out1\"},\"reverse\":"         \
	"{\"out0\":\"lb\"}}}}]}"
