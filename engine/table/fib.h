/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/*
 * Forwarding tables: from a key or prefix to a 16-bit next hop.
 *
 * One table may be read by any number of threads while one other thread changes it.
 * A lookup finds a key that is present all the time, whatever is changed beside it, and
 * gives a next hop that the key has, or had while the lookup ran. Changes are the
 * caller's to serialise. Readers register nowhere, take no lock and never allocate.
 *
 * How a key is handed in, by enum fib_key; arrays are dense:
 *	IPV4      uint32_t, host byte order
 *	IPV6      uint8_t[16], network byte order
 *	MAC       uint64_t, the 48-bit address as a number, first octet most significant
 *	VRF_IPV4  uint64_t, VRF << 32 | address in host byte order
 */
enum fib_kind {
	FIB_EXACT, /* cuckoo hash; cuckoo.h */
	FIB_LPM,   /* longest prefix match over rte_fib / rte_fib6; lpm.h. Needs the EAL. */
};

enum fib_key {
	FIB_KEY_IPV4,
	FIB_KEY_IPV6,
	FIB_KEY_MAC,
	FIB_KEY_VRF_IPV4,
	FIB_KEYS,
};

enum fib_memory {
	FIB_MEMORY_AUTO, /* the largest pages that can be had: 1 GB, 2 MB, transparent, 4 KB */
	FIB_MEMORY_1G,   /* these or an error */
	FIB_MEMORY_2M,
	FIB_MEMORY_ORDINARY,
};

#define FIB_MISS UINT16_MAX             /* what lookups give for a key without a next hop */
#define FIB_NEXT_HOP_MAX (FIB_MISS - 1) /* next hops are 0..FIB_NEXT_HOP_MAX */
#define FIB_CAPACITY_MAX (UINT64_C(1) << 31)

struct fib_conf {
	enum fib_kind kind;
	enum fib_key key;       /* FIB_LPM: IPV4 or IPV6 */
	uint64_t capacity;      /* entries it must hold */
	uint16_t max_next_hop;  /* 0: FIB_NEXT_HOP_MAX */
	int socket;             /* NUMA node, or -1: any */
	enum fib_memory memory; /* FIB_EXACT; FIB_LPM lives in the EAL's memory */
};

/* A route in words of the table's user: what iteration and files are made of. */
struct fib_route {
	uint8_t key[16]; /* in the form above, in its first bytes */
	uint8_t len;     /* prefix length; the key's full length in bits when exact */
	uint16_t next_hop;
};

struct fib_stats {
	uint64_t entries;
	uint64_t capacity;
	uint64_t memory_bytes; /* everything that the table holds */
	uint64_t page_bytes;   /* size of the pages under it; 0: the EAL's */
	uint64_t moved;        /* FIB_EXACT: entries away from their first bucket */
	uint64_t updates;      /* changes since creation */
	const char *lookup;    /* which code runs: "avx512", "avx2", "scalar", "rte_fib" ... */
};

struct fib;

struct fib_ops {
	void (*destroy)(struct fib *f);
	int (*insert)(struct fib *f, const void *key, uint8_t len, uint16_t nh);
	int (*update)(struct fib *f, const void *key, uint8_t len, uint16_t nh);
	int (*remove)(struct fib *f, const void *key, uint8_t len, uint16_t *old);
	int (*get)(const struct fib *f, const void *key, uint8_t len, uint16_t *nh);
	int (*load)(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs,
		    uint64_t n, uint64_t *bad);
	int (*load_range)(struct fib *f, const void *first, unsigned int next_hops, uint64_t n,
			  uint64_t *bad); /* NULL: not supported */
	int (*next)(const struct fib *f, uint64_t *cursor, struct fib_route *route);
	void (*stats)(const struct fib *f, struct fib_stats *s);
};

/* Users read this only through the functions below. */
struct fib {
	void (*lookup)(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n);
	const struct fib_ops *ops;
	struct fib_conf conf;
};

/* err's path is `path` (the caller's name for the table). fib_check makes nothing. */
int fib_check(const struct fib_conf *conf, const char *path, struct err *err);
int fib_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err);
void fib_destroy(struct fib *f); /* NULL is allowed; no reader may be left */

/* Any thread. n keys, n next hops or FIB_MISS. Bursts of 32 and more hide memory latency. */
static inline void fib_lookup(const struct fib *f, const void *keys, uint16_t *nhs, unsigned int n)
{
	f->lookup(f, keys, nhs, n);
}

/*
 * The writer's. `len` is the prefix length (FIB_LPM; FIB_EXACT ignores it). 0, or
 *	-EEXIST (insert) / -ENOENT (update, remove)
 *	-ENOSPC the table is full and unchanged
 *	-ERANGE next hop or len out of range
 */
int fib_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh);
int fib_update(struct fib *f, const void *key, uint8_t len, uint16_t nh);
int fib_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old); /* old may be NULL */
/* The entry itself (for FIB_LPM the very prefix, not the longest match). */
int fib_get(const struct fib *f, const void *key, uint8_t len, uint16_t *nh);

/*
 * n entries at once, much faster than one by one. Wholly applied, or the table is as it was
 * and *bad is the index of the first entry found wrong. lens may be NULL: full length.
 */
int fib_load(struct fib *f, const void *keys, const uint8_t *lens, const uint16_t *nhs, uint64_t n,
	     uint64_t *bad);

/*
 * The n keys that count up from `first` (IPv6: in its last 64 bits), with next hops 0 to
 * next_hops - 1 in turn: tables of a size for which there is no file, and whose list would not fit
 * beside them. FIB_EXACT; else -ENOTSUP. As fib_load else; -ERANGE also for keys that would pass the
 * last one.
 */
int fib_load_range(struct fib *f, const void *first, unsigned int next_hops, uint64_t n,
		   uint64_t *bad);

/*
 * All entries, in no order: start with *cursor = 0; 1 = route filled in, 0 = no more.
 * Writer's thread only.
 */
int fib_next(const struct fib *f, uint64_t *cursor, struct fib_route *route);
uint64_t fib_count(const struct fib *f);
void fib_stats(const struct fib *f, struct fib_stats *s);

/* Sizes and text of keys. */
size_t fib_key_bytes(enum fib_key key);      /* stride of an array of keys: 4, 16, 8, 8 */
unsigned int fib_key_bits(enum fib_key key); /* longest prefix: 32, 128, 48, 64 */
const char *fib_key_name(enum fib_key key);  /* "ipv4", "ipv6", "mac", "vrf-ipv4" */
/* Parse "10.0.0.0/8", "2001:db8::/32", "02:00:00:00:00:01", "7:10.0.0.1"; -EINVAL. */
int fib_route_parse(enum fib_key key, const char *text, struct fib_route *route);
/* Into buf (at least FIB_TEXT_BYTES); returns buf. */
#define FIB_TEXT_BYTES 64
const char *fib_route_format(enum fib_key key, const struct fib_route *route, char *buf);
/* What a -errno of the functions above means, in words. */
const char *fib_strerror(int code);
