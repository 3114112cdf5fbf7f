/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "core/nf.h"
#include "table/mtrie.h"
#include "table/rcu.h"

/*
 * What the files of this NF share; nobody else includes it.
 *
 * The data path (process.c) reads the trie, the hops and the interfaces. All that is learnt is
 * written by one thread at a time, under `lock`: the learning thread (learn.c), or the control
 * thread in an update. Readers report quiescence once per burst; what they may still look at is kept
 * until then (table/rcu.h).
 */

#define ROUTER_PORTS 15 /* edges out0 to out14 */
#define EDGE_PUNT 15
#define ROUTER_INTERFACES_MAX 512
#define ROUTER_VNFS_MAX 256
#define ROUTER_MEMBERS_MAX 16 /* buckets of a multipath next hop */
#define ROUTER_HOPS_MAX 65535
#define NO_HOP MTRIE_MISS

enum router_drop {
	DROP_NO_VNF,
	DROP_NO_ROUTE,
	DROP_BLACKHOLE,
	DROP_BAD_CHECKSUM,
	DROP_LOOP,
	DROP_PUNT_LIMIT,
	DROP_NO_PORT,
};

enum router_counter { C_FORWARDED, C_SWITCHED, C_PUNTED, C_COPIES_LOST };

enum router_learn { LEARN_FPM, LEARN_KERNEL, LEARN_NONE };

/* As in the plan. */
struct router_neighbour_params {
	struct param_ip address;
	struct param_mac mac;
};

struct router_interface_params {
	char *name; /* in the VNF's namespace */
	uint64_t port;
	struct param_mac mac;
	struct param_list addresses, neighbours;
};

struct router_vnf_params {
	char *name, *netns;
	uint32_t learn; /* enum router_learn */
	uint64_t fpm_port;
	double hold_s;
	struct param_list interfaces;
};

struct router_params {
	struct param_list vnfs;
	uint64_t nodes, objects, punt_pps;
	bool verify_checksum;
};

enum hop_kind {
	HOP_PUNT, /* to the VNF: its own address, or a next hop that its kernel has to resolve */
	HOP_FORWARD,
	HOP_LOCAL, /* to another VNF's interface on the same port: looked up again, in its table */
	HOP_BLACKHOLE,
	HOP_GROUP,
	HOP_NO_ROUTE, /* of NO_HOP */
};

/* What a next hop number means to the data path. Never changed: replaced. */
struct router_hop {
	uint64_t macs_low; /* the first 12 bytes of the frame as it leaves */
	uint32_t macs_high;
	uint16_t interface; /* HOP_LOCAL: where it comes in */
	uint8_t kind, edge;
	uint16_t members[ROUTER_MEMBERS_MAX]; /* HOP_GROUP: by flow hash */
	uint8_t pad[16];
};
static_assert(sizeof(struct router_hop) == 64, "one line");

struct router_interface {
	uint8_t mac[6];
	uint8_t edge;
	uint16_t vnf;
	char name[16];
	int ifindex; /* in the VNF; 0 while it is not there */
};

/* By MAC and port; open addressing, filled once. */
#define MAC_SLOTS (4 * ROUTER_INTERFACES_MAX)
struct mac_slot {
	uint64_t key; /* of router_mac_key(), which is never 0; 0: free */
	uint16_t interface, vnf;
};

struct user;
struct vnf;

struct router {
	struct mtrie *trie;
	_Atomic(struct router_hop *) *hops; /* [ROUTER_HOPS_MAX + 1] */
	struct mac_slot macs[MAC_SLOTS];
	struct router_interface interfaces[ROUTER_INTERFACES_MAX];
	unsigned int n_interfaces;
	struct rcu rcu;
	bool verify_checksum;

	pthread_mutex_t lock; /* what follows, and all writing */
	atomic_uint asked;    /* control threads that wait for it: the learning thread lets them go first */
	struct vnf *vnfs;
	unsigned int n_vnfs, n_all; /* of those that the plan has */
	uint64_t nodes, objects;    /* bounds: of all together, of each */
	uint64_t secret;            /* odd: who picks keys cannot pick the buckets */
	uint64_t key[2];            /* nor where keys are long, by SipHash */
	struct user **users; /* by next hop number; NULL: not a route's */
	uint16_t *free_hops;
	unsigned int n_free_hops, hops_made;
	struct learner *learner; /* NULL when there is nothing to listen to */
};

/* For a control thread, which is not to wait until there is nothing more to learn. */
static inline void router_lock(struct router *r)
{
	atomic_fetch_add(&r->asked, 1);
	pthread_mutex_lock(&r->lock);
	atomic_fetch_sub(&r->asked, 1);
}

/* For the learning thread. */
static inline void router_lock_later(struct router *r)
{
	while (atomic_load(&r->asked))
		sched_yield();
	pthread_mutex_lock(&r->lock);
}

/* Trie tables: two per VNF. */
static inline uint32_t router_root(unsigned int vnf, bool ipv6)
{
	return vnf * 2 + ipv6;
}

/* The six bytes as they are in memory, with the port + 1 below them. */
static inline uint64_t router_mac_key(const uint8_t *mac, unsigned int edge)
{
	uint32_t low;
	uint16_t high;

	memcpy(&low, mac, sizeof(low));
	memcpy(&high, mac + sizeof(low), sizeof(high));
	return ((uint64_t)high << 32 | low) << 16 | (edge + 1);
}

/* Of a frame's destination: there are more bytes behind it. */
static inline uint64_t router_frame_key(const void *frame, unsigned int edge)
{
	uint64_t bytes;

	memcpy(&bytes, frame, sizeof(bytes));
	return bytes << 16 | (edge + 1);
}

/* MACs that differ in their last byte only, as those of one NIC's functions do, are neighbours. */
static inline unsigned int router_mac_slot(uint64_t key)
{
	return (unsigned int)(((key << 8) * 0x9e3779b97f4a7c15 >> 53) + (key >> 56)) % MAC_SLOTS;
}

/* Whose MAC this is on this port; NULL: nobody's. */
static inline const struct mac_slot *router_find_mac(const struct router *r, uint64_t key)
{
	unsigned int at = router_mac_slot(key);

	if (likely(r->macs[at].key == key))
		return &r->macs[at];
	for (; r->macs[at].key; at = (at + 1) % MAC_SLOTS)
		if (r->macs[at].key == key)
			return &r->macs[at];
	return NULL;
}

/* process.c */
#define PUNT_PARTS 1000 /* of a packet: a VNF's share of a tick may be less than one */
struct router_worker {
	struct punt_tokens {
		int64_t have, per_tick, most;
	} punt_common, punt_own[ROUTER_VNFS_MAX];
};
void router_process(struct nf_worker *w, struct burst *b);

/* params.c */
extern const struct param router_param_table[];
int router_configure(struct router *r, const struct router_params *p, struct err *err);

/* update.c */
int router_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err);

/* learn.c */
int learner_start(struct router *r, const struct router_params *p, struct err *err);
void learner_stop(struct router *r);
