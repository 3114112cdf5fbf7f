/* SPDX-License-Identifier: Apache-2.0 */
/* The cuckoo table: making it, looking at it. Changing it: cuckoo_write.c. */
#include "cuckoo.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#else
#define cpu_relax() __asm__ volatile("" ::: "memory")
#endif

/*
 * How full `capacity` entries may make the table. Thresholds of two choices: 0.998 with 8
 * slots, 0.997 with 7, 0.99 with 5, 0.959 with 3 (Cain, Sanders, Wormald, SODA 2007; Fernholz,
 * Ramachandran, SODA 2007): all but the last leave room at 0.95. Small tables stray from their
 * averages, so they get more room.
 */
static double fill_target(const struct fib_conf *conf)
{
	if (conf->capacity < 4096)
		return 0.75;
	return conf->key == FIB_KEY_IPV6 ? 0.90 : 0.95;
}

struct snapshot {
	uint32_t head;
	uint16_t nh; /* FIB_MISS: not here */
	bool maybe_away;
};

/* The bucket at one instant, as far as this key is concerned. */
static inline struct snapshot bucket_look(const struct bucket *b, enum fib_key kind,
					  const struct ckey *k, uint32_t bits)
{
	struct snapshot s;
	int slot;

	for (;;) {
		s.head = LOAD(&b->head);
		if (!(s.head & HEAD_BUSY)) {
			slot = bucket_find(b, kind, s.head, k);
			s.nh = slot < 0 ? FIB_MISS : slot_nh(b, kind, slot);
			s.maybe_away = (bucket_filter(b, kind) & bits) == bits;
			if (LOAD(&b->head) == s.head)
				return s;
		}
		cpu_relax();
	}
}

/*
 * A miss in the second bucket counts only if the first has not changed since it was looked
 * at: the key may have come back from the second just before that was looked at.
 */
uint16_t cuckoo_find(const struct cuckoo *c, enum fib_key kind, const struct ckey *k,
		     struct hashes h)
{
	const struct bucket *first = &c->buckets[first_bucket(c->n, h)];
	const struct bucket *second = &c->buckets[second_bucket(c->n, h)];
	uint32_t bits = filter_bits(kind, h.h2);
	struct snapshot s, t;

	do {
		s = bucket_look(first, kind, k, bits);
		if (s.nh != FIB_MISS || !s.maybe_away)
			return s.nh;
		t = bucket_look(second, kind, k, 0);
		if (t.nh != FIB_MISS)
			return t.nh;
	} while (LOAD(&first->head) != s.head);
	return FIB_MISS;
}

static int cuckoo_get(const struct fib *f, const void *key, uint8_t len, uint16_t *nh)
{
	const struct cuckoo *c = (const struct cuckoo *)f;
	struct ckey k = key_load(f->conf.key, key);

	*nh = cuckoo_find(c, f->conf.key, &k, hash_key(c->seed, f->conf.key, &k));
	return *nh == FIB_MISS ? -ENOENT : 0;
}

/* The cursor is the number of the next slot. */
static int cuckoo_next(const struct fib *f, uint64_t *cursor, struct fib_route *route)
{
	const struct cuckoo *c = (const struct cuckoo *)f;
	enum fib_key kind = f->conf.key;
	unsigned int slots = slots_of(kind);

	for (uint64_t i = *cursor; i < (uint64_t)c->n * slots; i++) {
		const struct bucket *b = &c->buckets[i / slots];
		unsigned int s = i % slots;
		struct ckey k;

		if (!(b->head >> s & 1))
			continue;
		k = slot_key(b, kind, s);
		memcpy(route->key, k.w, sizeof(k.w));
		route->len = fib_key_bits(kind);
		route->next_hop = slot_nh(b, kind, s);
		*cursor = i + 1;
		return 1;
	}
	return 0;
}

static void cuckoo_stats(const struct fib *f, struct fib_stats *s)
{
	const struct cuckoo *c = (const struct cuckoo *)f;

	s->entries = c->entries;
	s->memory_bytes = c->mapped_bytes + sizeof(*c);
	s->page_bytes = c->page_bytes;
	s->moved = c->moved;
	s->updates = c->updates;
	s->lookup = c->isa;
}

static void cuckoo_destroy(struct fib *f)
{
	struct cuckoo *c = (struct cuckoo *)f;

	pages_unmap(c->buckets, c->mapped_bytes);
	free(c);
}

static const struct fib_ops cuckoo_ops = {
	.destroy = cuckoo_destroy,
	.insert = cuckoo_insert,
	.update = cuckoo_update,
	.remove = cuckoo_remove,
	.get = cuckoo_get,
	.load = cuckoo_load,
	.load_range = cuckoo_load_range,
	.next = cuckoo_next,
	.stats = cuckoo_stats,
};

cuckoo_lookup_fn *cuckoo_lookup_get(const char *isa, enum fib_key kind, const char **name)
{
	const struct {
		const char *isa;
		bool usable;
		cuckoo_lookup_fn *const *fns;
	} sets[] = {
#if defined(CUCKOO_SIMD)
		{"avx512",
		 __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
			 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
			 __builtin_cpu_supports("bmi2"),
		 cuckoo_lookups_avx512},
		{"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"),
		 cuckoo_lookups_avx2},
#endif
		{"scalar", true, cuckoo_lookups_scalar},
	};

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		if (!sets[i].usable || (isa && strcmp(isa, sets[i].isa)))
			continue;
		*name = sets[i].isa;
		return sets[i].fns[kind];
	}
	return NULL;
}

static int buckets_for(const struct fib_conf *conf, uint32_t *n)
{
	double want = (double)conf->capacity / (slots_of(conf->key) * fill_target(conf)) + 4;

	if (want > UINT32_MAX)
		return -EINVAL;
	*n = (uint32_t)want;
	return 0;
}

int cuckoo_create(struct fib **out, const struct fib_conf *conf, const char *path, struct err *err)
{
	struct cuckoo *c = aligned_alloc(64, sizeof(*c));
	void *buckets;
	int rc;

	if (!c)
		return err_set(err, ENOMEM, path, "not enough memory");
	memset(c, 0, sizeof(*c));
	c->fib = (struct fib){.ops = &cuckoo_ops, .conf = *conf};
	c->fib.lookup = cuckoo_lookup_get(NULL, conf->key, &c->isa);
	/* Seeds that nobody can guess: keys that all share a bucket cannot be made up. */
	if (getrandom(c->seed, sizeof(c->seed), 0) != sizeof(c->seed)) {
		rc = err_set(err, EIO, path, "no random numbers from the kernel");
		goto fail;
	}
	rc = buckets_for(conf, &c->n);
	if (rc) {
		err_set(err, -rc, path, "capacity %llu is too much for one table",
			(unsigned long long)conf->capacity);
		goto fail;
	}
	rc = pages_map(&buckets, (size_t)c->n * sizeof(struct bucket), conf->memory, conf->socket,
		       &c->mapped_bytes, &c->page_bytes, path, err);
	if (rc)
		goto fail;
	c->buckets = buckets;
	rc = cuckoo_fill_unused(c);
	if (rc) {
		err_set(err, -rc, path, "unlucky random numbers; try again");
		pages_unmap(c->buckets, c->mapped_bytes);
		goto fail;
	}
	*out = &c->fib;
	return 0;
fail:
	free(c);
	return rc;
}
