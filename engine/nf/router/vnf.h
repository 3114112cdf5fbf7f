/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "router.h"

/*
 * What one VNF's control plane has said, and what follows from it for the tables. All functions
 * are called with the router's lock held.
 *
 * Two kinds of prefixes are kept apart. `own` ones come from the VNF's kernel (its addresses, the
 * prefixes on its links, its neighbours) and win: there is a record of each. Routes are many, and
 * there is none of them but the trie: each points to a next hop number, made for one `struct
 * spec` in one generation. When a session begins anew so does a generation, and what still
 * points to an older one when the hold time is over is swept.
 */

struct address {
	uint8_t ipv6; /* 1 or 0 */
	uint8_t len;
	uint8_t bytes[16];
};

/* One way to go, as netlink has it. */
struct path {
	struct address gateway; /* len 0: none, the destination is on the link */
	int ifindex;
	uint16_t weight; /* 1.. */
};

#define PATHS_MAX ROUTER_MEMBERS_MAX

enum spec_kind { SPEC_PATHS, SPEC_BLACKHOLE, SPEC_OBJECT };

/* Where a route leads. */
struct spec {
	uint8_t kind;
	uint8_t n_paths;
	uint32_t object; /* SPEC_OBJECT: RTA_NH_ID */
	struct path paths[PATHS_MAX];
};

/* A next hop number in use. */
struct user {
	struct user *next, *next_of_object;
	struct spec spec;
	uint32_t generation;
	uint16_t hop, members[PATHS_MAX]; /* members of a multipath one: numbers of their own */
	uint8_t n_members;
	uint64_t refs; /* prefixes that point to it */
	uint32_t round; /* of the VNF's, in which it was resolved */
};

struct object { /* a next-hop object: a spec or a group of other objects */
	struct object *next, *next_group;
	uint32_t id, generation;
	uint8_t n_group;
	uint32_t group[PATHS_MAX];
	uint16_t weights[PATHS_MAX];
	struct spec spec;
};

struct neighbour {
	struct neighbour *next;
	int ifindex;
	struct address address;
	uint8_t mac[6];
	uint32_t generation;
};

enum own_kind { OWN_ADDRESS, OWN_LINK, OWN_NEIGHBOUR };

struct own {
	struct own *next;
	struct address prefix;
	uint8_t kind;
	uint16_t hop;
	uint16_t under; /* the route that it hides, NO_HOP for none */
	uint32_t generation;
	int ifindex;
};

enum sweep_step { SWEEP_IPV4, SWEEP_IPV6, SWEEP_BUCKETS };

#define BUCKETS 1024
#define GROUPS_MAX 1024

struct vnf {
	struct router *router;
	unsigned int index;
	char name[32];
	uint8_t learn; /* enum router_learn */
	uint64_t hold_ns;
	uint16_t punt_hop, blackhole_hop;
	struct user *users[BUCKETS];           /* by what they lead to */
	struct user *users_of_object[BUCKETS]; /* SPEC_OBJECT, by the object's id */
	unsigned int n_users;
	uint32_t round;           /* users of an older one are to be resolved anew */
	unsigned int resolve_at;  /* the bucket of users where that goes on */
	unsigned int resolve_left; /* so many are to be looked through; 0: all are resolved */
	struct object *objects[BUCKETS];
	struct object *groups;                 /* objects that are groups */
	uint32_t n_objects, n_groups, n_neighbours, n_own, n_hops;
	struct neighbour *neighbours[BUCKETS];
	struct own *own[BUCKETS];
	uint32_t generation;        /* of routes and next-hop objects */
	uint32_t kernel_generation; /* of what rtnetlink says of links, addresses, neighbours */
	uint64_t sweep_at_ns;       /* CLOCK_MONOTONIC; 0: nothing is held */
	uint64_t next_sweep_ns;     /* not before */
	/* A sweep goes on here; one of another generation begins anew. */
	struct mtrie_cursor sweep_cursor;
	unsigned int sweep_step, sweep_bucket; /* step: enum sweep_step */
	uint32_t sweep_generation;
	uint64_t sweep_took_ns;
	unsigned int kernel_left; /* buckets to be cleared of what the kernel has not any more */
	bool up;                    /* FPM session open, or kernel read */
	bool down;                  /* its daemon is dead: routes that it left in the kernel are not taken */
	bool read_again;            /* the kernel, as something was missed */
	uint64_t sessions, updates, ignored, no_room, swept, last_update_ns;
	uint64_t routes[2];
	/* Asks the VNF's kernel to resolve and keep a neighbour; NULL: nobody to ask. */
	void (*resolve)(struct vnf *v, int ifindex, const struct address *address);
	void *resolve_ctx;
};

int vnf_init(struct vnf *v, struct router *r, unsigned int index,
	     const struct router_vnf_params *p, struct err *err);
void vnf_fini(struct vnf *v);

/* Routes and next-hop objects, from FPM or rtnetlink. */
void vnf_route_put(struct vnf *v, const struct address *prefix, const struct spec *spec);
void vnf_route_del(struct vnf *v, const struct address *prefix);
void vnf_object_put(struct vnf *v, const struct object *o);
void vnf_object_del(struct vnf *v, uint32_t id);
void vnf_objects_sweep(struct vnf *v, unsigned int bucket);
void vnf_objects_fini(struct vnf *v);

/* Links, addresses, neighbours, from rtnetlink. */
void vnf_link(struct vnf *v, const char *name, int ifindex, bool up);
void vnf_address_put(struct vnf *v, int ifindex, const struct address *address);
void vnf_address_del(struct vnf *v, int ifindex, const struct address *address);
void vnf_neighbour_put(struct vnf *v, int ifindex, const struct address *address,
		       const uint8_t *mac);
void vnf_neighbour_del(struct vnf *v, int ifindex, const struct address *address);

/* A session began, ended; the kernel's state is read anew, has been read. */
void vnf_session_begin(struct vnf *v, uint64_t now_ns);
void vnf_session_end(struct vnf *v, uint64_t now_ns);
void vnf_kernel_begin(struct vnf *v);
void vnf_kernel_end(struct vnf *v);
/* One part of what its kernel has no more is forgotten; whether there are more. */
bool vnf_kernel_sweep(struct vnf *v);
/* Whether something has been held for long enough; a piece of its sweep, until a time (TSC; 0: all). */
bool vnf_sweep_due(const struct vnf *v, uint64_t now_ns);
void vnf_sweep_some(struct vnf *v, uint64_t now_ns, uint64_t until_tsc);
void vnf_sweep(struct vnf *v); /* all of it, now */

struct router_interface *vnf_interface(const struct vnf *v, int ifindex);
struct neighbour *vnf_neighbour(const struct vnf *v, int ifindex, const struct address *a);

/* own.c: a prefix of the VNF's own, in place of a route; routes that are not hidden. */
struct own *own_find(const struct vnf *v, const struct address *prefix);
bool own_put(struct vnf *v, const struct address *prefix, enum own_kind kind, int ifindex,
	     uint16_t hop); /* false: no room */
void own_del(struct vnf *v, const struct address *prefix, enum own_kind kind);
void own_sweep(struct vnf *v, unsigned int bucket);
void own_fini(struct vnf *v);
/* Sets or (NO_HOP) removes the route to a prefix; what was there before, NO_HOP for nothing. */
int route_set(struct vnf *v, const struct address *prefix, uint16_t hop, uint16_t *old);

/* quota.c: whether one VNF may have another next hop number, nodes for another prefix. */
bool quota_hop(const struct vnf *v);
bool quota_nodes(const struct vnf *v);

/* object.c */
const struct object *vnf_object(const struct vnf *v, uint32_t id);

/* user.c: next hop numbers. */
struct user *user_get(struct vnf *v, const struct spec *spec); /* NULL: none left */
void user_unref(struct vnf *v, uint16_t hop);
/*
 * What they lead to has changed. They are resolved anew later, a part of them at a time: a VNF may have
 * tens of thousands, and as many changes.
 */
void users_changed(struct vnf *v);
void users_changed_object(struct vnf *v, uint32_t id);
bool users_resolve(struct vnf *v); /* one part; whether there are more */
void users_fini(struct vnf *v);

/* hop.c: numbers and what they mean. */
int hop_new(struct vnf *v, const struct router_hop *hop); /* the number, or -ENOSPC */
void hop_set(struct router *r, uint16_t number, const struct router_hop *hop);
void hop_free(struct vnf *v, uint16_t number);
/* The way to a neighbour: forward, into another VNF, or punted while its MAC is not known. */
void hop_to_neighbour(const struct vnf *v, const struct path *path, struct router_hop *hop);

static inline unsigned int address_bytes(const struct address *a)
{
	return a->ipv6 ? 16 : 4;
}

static inline bool address_equal(const struct address *a, const struct address *b)
{
	return a->ipv6 == b->ipv6 && a->len == b->len && !memcmp(a->bytes, b->bytes, 16);
}

static inline unsigned int bucket_of(const struct vnf *v, uint64_t x)
{
	return (unsigned int)(x * v->router->secret >> 54);
}

static inline unsigned int address_hash(const struct vnf *v, const struct address *a)
{
	uint64_t words[2];

	memcpy(words, a->bytes, sizeof(words));
	return bucket_of(v, words[0] ^ (words[1] * v->router->secret >> 7) ^ a->len);
}
