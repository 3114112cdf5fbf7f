/* SPDX-License-Identifier: Apache-2.0 */
/* The cuckoo table's one writer. Readers may be anywhere, at any time: see cuckoo.h. */
#include "cuckoo_bucket.h"

#include <errno.h>

/*
 * The first key that shares no bucket with key 0. With four buckets one in six does; a failure
 * (-EAGAIN) asks for other seeds.
 */
int cuckoo_fill_unused(struct cuckoo *c)
{
	enum fib_key kind = c->fib.conf.key;
	struct ckey k = {{0, 0}};
	struct hashes h = hash_key(c->seed, kind, &k);
	const uint32_t a = first_bucket(c->n, h), b = second_bucket(c->n, h);

	for (k.w[0] = 1; k.w[0] < 4096; k.w[0]++) {
		uint32_t first, second;

		h = hash_key(c->seed, kind, &k);
		first = first_bucket(c->n, h);
		second = second_bucket(c->n, h);
		if (first == a || first == b || second == a || second == b)
			continue;
		c->filler = k;
		c->zero_bucket[0] = a;
		c->zero_bucket[1] = b;
		for (unsigned int s = 0; s < slots_of(kind); s++) {
			slot_empty(c, bucket_at(c, a), s);
			slot_empty(c, bucket_at(c, b), s);
		}
		return 0;
	}
	return -EAGAIN;
}

struct place {
	struct bucket *b;
	int slot;
	bool second;
};

/* Where a key is; slot -1 when it is not in the table. */
static struct place find(struct cuckoo *c, const struct ckey *k, struct hashes h)
{
	enum fib_key kind = c->fib.conf.key;
	uint32_t bits = filter_bits(kind, h.h2);
	struct place p = {.b = bucket_at(c, first_bucket(c->n, h))};

	p.slot = bucket_find(p.b, kind, p.b->head, k);
	if (p.slot >= 0 || (bucket_filter(p.b, kind) & bits) != bits)
		return p;
	p.b = bucket_at(c, second_bucket(c->n, h));
	p.second = true;
	p.slot = bucket_find(p.b, kind, p.b->head, k);
	return p;
}

/* In its second bucket first: it can be found all the while. */
static void put_second(struct cuckoo *c, const struct ckey *k, struct hashes h, int slot,
		       uint16_t nh)
{
	enum fib_key kind = c->fib.conf.key;
	struct bucket *first = bucket_at(c, first_bucket(c->n, h));

	bucket_put(c, bucket_at(c, second_bucket(c->n, h)), slot, k, nh);
	bucket_open(c, first);
	away_add(first, kind, filter_bits(kind, h.h2));
	bucket_close(c, first, first->head & HEAD_USED);
	c->moved++;
}

/*
 * Moves the key at (from, slot) into a free slot of its other bucket `to`. It is in both
 * before it leaves the one; a reader that came too late for it in the second bucket sees the
 * first bucket's version changed.
 */
static int move(struct cuckoo *c, uint32_t from, unsigned int slot, uint32_t to)
{
	enum fib_key kind = c->fib.conf.key;
	struct bucket *src = bucket_at(c, from), *dst = bucket_at(c, to);
	struct ckey k = slot_key(src, kind, slot);
	struct hashes h = hash_key(c->seed, kind, &k);
	uint16_t nh = slot_nh(src, kind, slot);
	int room = free_slot(dst, kind);
	uint32_t used;

	if (room < 0)
		return -ENOSPC;
	if (first_bucket(c->n, h) == from) {
		bucket_put(c, dst, room, &k, nh);
		used = (src->head & HEAD_USED) & ~(1u << slot);
		bucket_open(c, src);
		slot_empty(c, src, slot);
		away_add(src, kind, filter_bits(kind, h.h2));
		bucket_close(c, src, used);
		c->moved++;
		return 0;
	}
	used = (dst->head & HEAD_USED) | 1u << room;
	bucket_open(c, dst);
	slot_store(dst, kind, room, &k, nh);
	away_remove(dst, kind, filter_bits(kind, h.h2));
	bucket_close(c, dst, used);
	bucket_clear(c, src, slot);
	c->moved--;
	return 0;
}

static uint32_t other_bucket(const struct cuckoo *c, uint32_t bucket, unsigned int slot)
{
	struct ckey k = slot_key(&c->buckets[bucket], c->fib.conf.key, slot);
	struct hashes h = hash_key(c->seed, c->fib.conf.key, &k);
	uint32_t first = first_bucket(c->n, h);

	return first == bucket ? second_bucket(c->n, h) : first;
}

/*
 * Breadth first (CuckooSwitch 4.2): the shortest chain of moves that ends in a free slot. A
 * shortest chain has no bucket twice, so its moves can be made one by one from its end, each
 * into a slot that is free. Returns the node with the free slot, or -1.
 */
static int search(struct cuckoo *c, uint32_t first, uint32_t second)
{
	enum fib_key kind = c->fib.conf.key;
	unsigned int slots = slots_of(kind), n = 0;

	c->search[n++] = (struct search_node){.bucket = first, .parent = UINT16_MAX};
	c->search[n++] = (struct search_node){.bucket = second, .parent = UINT16_MAX};
	for (unsigned int i = 0; i < n; i++) {
		uint32_t bucket = c->search[i].bucket;

		if (free_slot(bucket_at(c, bucket), kind) >= 0)
			return i;
		for (unsigned int s = 0; s < slots && n < SEARCH_MAX; s++) {
			uint32_t other = other_bucket(c, bucket, s);

			__builtin_prefetch(bucket_at(c, other));
			c->search[n++] = (struct search_node){other, i, s};
		}
	}
	return -1;
}

/* Makes a free slot in one of the two buckets, and says in which. Nothing is lost on the way. */
static int make_room(struct cuckoo *c, uint32_t first, uint32_t second, uint32_t *bucket)
{
	int i = search(c, first, second);

	if (i < 0)
		return -ENOSPC;
	while (c->search[i].parent != UINT16_MAX) {
		const struct search_node *to = &c->search[i];
		const struct search_node *from = &c->search[to->parent];

		if (move(c, from->bucket, to->slot, to->bucket))
			return -ENOSPC;
		i = to->parent;
	}
	*bucket = c->search[i].bucket;
	return 0;
}

/*
 * A guest in a full first bucket whose own first bucket has room again goes home, and leaves its
 * slot: without that, a table that changes for long ends up with twice as many keys away.
 */
static int send_guest_home(struct cuckoo *c, uint32_t bucket)
{
	enum fib_key kind = c->fib.conf.key;

	for (unsigned int s = 0; s < slots_of(kind); s++) {
		struct ckey k = slot_key(bucket_at(c, bucket), kind, s);
		uint32_t home = first_bucket(c->n, hash_key(c->seed, kind, &k));

		if (home != bucket && free_slot(bucket_at(c, home), kind) >= 0)
			return move(c, bucket, s, home);
	}
	return -ENOSPC;
}

int cuckoo_place_first(struct cuckoo *c, const struct ckey *k, struct hashes h, uint16_t nh)
{
	enum fib_key kind = c->fib.conf.key;
	struct bucket *b = bucket_at(c, first_bucket(c->n, h));
	int slot = free_slot(b, kind);

	if (find(c, k, h).slot >= 0)
		return -EEXIST;
	if (slot < 0)
		return -ENOSPC;
	bucket_put(c, b, slot, k, nh);
	c->entries++;
	return 0;
}

int cuckoo_place(struct cuckoo *c, const struct ckey *k, struct hashes h, uint16_t nh)
{
	enum fib_key kind = c->fib.conf.key;
	uint32_t first = first_bucket(c->n, h), second = second_bucket(c->n, h), bucket = second;
	int rc = cuckoo_place_first(c, k, h, nh);

	if (rc != -ENOSPC)
		return rc;
	if (!send_guest_home(c, first)) {
		bucket = first;
	} else if (free_slot(bucket_at(c, second), kind) < 0) {
		rc = make_room(c, first, second, &bucket);
		if (rc)
			return rc;
	}
	if (bucket == first)
		bucket_put(c, bucket_at(c, first), free_slot(bucket_at(c, first), kind), k, nh);
	else
		put_second(c, k, h, free_slot(bucket_at(c, second), kind), nh);
	c->entries++;
	return 0;
}

/* The key, if it is one of this kind: a MAC address has 48 bits. */
static int key_take(const struct cuckoo *c, const void *key, struct ckey *k, struct hashes *h)
{
	*k = key_load(c->fib.conf.key, key);
	if (c->fib.conf.key == FIB_KEY_MAC && k->w[0] > MAC_MASK)
		return -EINVAL;
	*h = hash_key(c->seed, c->fib.conf.key, k);
	return 0;
}

int cuckoo_insert(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct cuckoo *c = (struct cuckoo *)f;
	struct hashes h;
	struct ckey k;
	int rc = key_take(c, key, &k, &h);

	if (rc)
		return rc;
	if (c->entries >= f->conf.capacity)
		return find(c, &k, h).slot >= 0 ? -EEXIST : -ENOSPC;
	rc = cuckoo_place(c, &k, h, nh);
	c->updates += !rc;
	return rc;
}

/* A next hop is one store: readers see the old one or the new one. */
int cuckoo_update(struct fib *f, const void *key, uint8_t len, uint16_t nh)
{
	struct cuckoo *c = (struct cuckoo *)f;
	struct hashes h;
	struct place p;
	struct ckey k;
	int rc = key_take(c, key, &k, &h);

	if (rc)
		return rc;
	p = find(c, &k, h);
	if (p.slot < 0)
		return -ENOENT;
	slot_store_nh(p.b, f->conf.key, p.slot, nh);
	c->updates++;
	return 0;
}

int cuckoo_remove(struct fib *f, const void *key, uint8_t len, uint16_t *old)
{
	struct cuckoo *c = (struct cuckoo *)f;
	enum fib_key kind = f->conf.key;
	struct bucket *first;
	struct hashes h;
	struct place p;
	struct ckey k;
	int rc = key_take(c, key, &k, &h);

	if (rc)
		return rc;
	p = find(c, &k, h);
	if (p.slot < 0)
		return -ENOENT;
	*old = slot_nh(p.b, kind, p.slot);
	bucket_clear(c, p.b, p.slot);
	if (p.second) {
		first = bucket_at(c, first_bucket(c->n, h));
		bucket_open(c, first);
		away_remove(first, kind, filter_bits(kind, h.h2));
		bucket_close(c, first, first->head & HEAD_USED);
		c->moved--;
	}
	c->entries--;
	c->updates++;
	return 0;
}
