/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The writer's operations on one bucket. Readers may be anywhere, at any time: see cuckoo.h. */
#include "cuckoo.h"

static inline struct bucket *bucket_at(struct cuckoo *c, uint32_t i)
{
	return &c->buckets[i];
}

/* Between these two, readers of the bucket wait; a few instructions, no call, no miss. */
static inline void bucket_open(struct cuckoo *c, struct bucket *b)
{
	STORE(&c->changes, c->changes + 1);
	STORE(&b->head, b->head + HEAD_BUSY);
}

static inline void bucket_close(struct cuckoo *c, struct bucket *b, uint32_t used)
{
	uint32_t version = (b->head & ~HEAD_USED) + HEAD_BUSY;

	STORE(&b->head, version | used);
	STORE(&c->changes, c->changes + 1);
}

static inline void slot_store_nh(struct bucket *b, enum fib_key kind, unsigned int s, uint16_t nh)
{
	switch (kind) {
	case FIB_KEY_IPV4:
		STORE(&b->ipv4.nh[s], nh);
		break;
	case FIB_KEY_IPV6:
		STORE(&b->ipv6.nh[s], nh);
		break;
	case FIB_KEY_MAC:
		STORE(&b->mac.entry[s], (uint64_t)nh << MAC_BITS | (b->mac.entry[s] & MAC_MASK));
		break;
	default:
		STORE(&b->vrf.nh[s], nh);
	}
}

static inline void slot_store(struct bucket *b, enum fib_key kind, unsigned int s,
			      const struct ckey *k, uint16_t nh)
{
	switch (kind) {
	case FIB_KEY_IPV4:
		STORE(&b->ipv4.key[s], (uint32_t)k->w[0]);
		break;
	case FIB_KEY_IPV6:
		STORE(&b->ipv6.key[s][0], k->w[0]);
		STORE(&b->ipv6.key[s][1], k->w[1]);
		break;
	case FIB_KEY_MAC:
		STORE(&b->mac.entry[s], (uint64_t)nh << MAC_BITS | k->w[0]);
		return;
	default:
		STORE(&b->vrf.key[s], k->w[0]);
	}
	slot_store_nh(b, kind, s, nh);
}

struct away {
	uint32_t count, lo, hi;
};

static inline struct away away_get(const struct bucket *b, enum fib_key kind)
{
	struct away a = {.count = b->away >> AWAY_SHIFT, .lo = b->away & AWAY_FILTER};

	if (kind == FIB_KEY_IPV4) {
		a.lo = b->ipv4.planes;
		a.hi = b->ipv4.planes >> 32;
	} else if (kind == FIB_KEY_IPV6) {
		a.hi = b->ipv6.hi;
	} else if (kind == FIB_KEY_VRF_IPV4) {
		a.hi = b->vrf.hi;
	}
	return a;
}

static inline void away_set(struct bucket *b, enum fib_key kind, const struct away *a)
{
	if (kind == FIB_KEY_IPV4) {
		STORE(&b->ipv4.planes, (uint64_t)a->hi << 32 | a->lo);
		STORE(&b->away, a->count << AWAY_SHIFT);
		return;
	}
	if (kind == FIB_KEY_IPV6)
		STORE(&b->ipv6.hi, (uint16_t)a->hi);
	else if (kind == FIB_KEY_VRF_IPV4)
		STORE(&b->vrf.hi, a->hi);
	STORE(&b->away, a->count << AWAY_SHIFT | a->lo);
}

/* A key's bits enter the filter of its first bucket, which is open. 3 is "3 or more". */
static inline void away_add(struct bucket *b, enum fib_key kind, uint32_t bits)
{
	struct away a = away_get(b, kind);

	if (kind == FIB_KEY_MAC) {
		a.lo |= bits;
	} else {
		bits &= ~(a.lo & a.hi);
		a.hi |= a.lo & bits;
		a.lo ^= bits;
	}
	a.count += a.count < AWAY_STUCK;
	away_set(b, kind, &a);
}

/* What cannot be counted down (3 or more, or no counters) goes when no key is away any more. */
static inline void away_remove(struct bucket *b, enum fib_key kind, uint32_t bits)
{
	struct away a = away_get(b, kind);

	if (kind != FIB_KEY_MAC) {
		bits &= ~(a.lo & a.hi);
		a.hi ^= bits & ~a.lo;
		a.lo ^= bits;
	}
	a.count -= a.count < AWAY_STUCK;
	if (!a.count)
		a.lo = a.hi = 0;
	away_set(b, kind, &a);
}

static inline int free_slot(const struct bucket *b, enum fib_key kind)
{
	uint32_t free = ~b->head & ((1u << slots_of(kind)) - 1);

	return free ? __builtin_ctz(free) : -1;
}

static inline void bucket_put(struct cuckoo *c, struct bucket *b, unsigned int s,
			      const struct ckey *k, uint16_t nh)
{
	uint32_t used = (b->head & HEAD_USED) | 1u << s;

	bucket_open(c, b);
	slot_store(b, c->fib.conf.key, s, k, nh);
	bucket_close(c, b, used);
}

/* What is in an unused slot cannot be in its bucket, so that readers need not ask which are used.
 */
static inline void slot_empty(struct cuckoo *c, struct bucket *b, unsigned int s)
{
	static const struct ckey zero;
	uint32_t i = (uint32_t)(b - c->buckets);
	bool may_be_zero = i == c->zero_bucket[0] || i == c->zero_bucket[1];

	slot_store(b, c->fib.conf.key, s, may_be_zero ? &c->filler : &zero, 0);
}

static inline void bucket_clear(struct cuckoo *c, struct bucket *b, unsigned int s)
{
	uint32_t used = (b->head & HEAD_USED) & ~(1u << s);

	bucket_open(c, b);
	slot_empty(c, b, s);
	bucket_close(c, b, used);
}
