/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mtrie.h"

#define PREFIXES 2000

static const char *const isas[] = {"scalar", "avx2"};
static const char *isa; /* of the lookups that are tested */
#define ROOTS 3

/* The plain model: a list of prefixes, looked through from end to end. */
struct prefix {
	uint32_t root;
	uint8_t key[16], len;
	uint16_t nh; /* MTRIE_MISS: not there */
};

static uint64_t seed = 42;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

static bool covers(const uint8_t *key, uint8_t len, const uint8_t *of)
{
	unsigned int whole = len / 8, bits = len % 8;

	return !memcmp(key, of, whole) &&
	       (!bits || !((key[whole] ^ of[whole]) & (uint8_t)(0xff << (8 - bits))));
}

static uint16_t model_lookup(const struct prefix *list, uint32_t root, const uint8_t *key)
{
	const struct prefix *best = NULL;

	for (unsigned int i = 0; i < PREFIXES; i++)
		if (list[i].nh != MTRIE_MISS && list[i].root == root &&
		    covers(list[i].key, list[i].len, key) && (!best || list[i].len > best->len))
			best = &list[i];
	return best ? best->nh : MTRIE_MISS;
}

/* Few values per byte, so that prefixes nest and collide. */
static void random_key(uint8_t *key, unsigned int bytes)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, 10};

	memset(key, 0, 16);
	for (unsigned int i = 0; i < bytes; i++)
		key[i] = values[rnd(sizeof(values))];
}

static void clear_tail(uint8_t *key, uint8_t len)
{
	for (unsigned int bit = len; bit < 128; bit++)
		key[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
}

static struct mtrie *make(uint32_t nodes)
{
	struct mtrie_conf conf = {.roots = ROOTS, .nodes = nodes, .isa = isa};
	struct mtrie *t = NULL;
	struct err err;

	assert_int_equal(mtrie_create(&t, &conf, "t", &err), 0);
	return t;
}

static uint32_t word_of(const uint8_t *key)
{
	return (uint32_t)key[0] << 24 | key[1] << 16 | key[2] << 8 | key[3];
}

static void check_lookups(const struct mtrie *t, const struct prefix *list, unsigned int bytes)
{
	uint8_t keys[MTRIE_BURST_MAX][16];
	const uint8_t *at[MTRIE_BURST_MAX];
	uint32_t roots[MTRIE_BURST_MAX];
	uint16_t nhs[MTRIE_BURST_MAX], nhs4[MTRIE_BURST_MAX];
	uint32_t words[MTRIE_BURST_MAX];

	for (unsigned int n = 1; n <= MTRIE_BURST_MAX; n += 21) {
		for (unsigned int i = 0; i < n; i++) {
			random_key(keys[i], bytes);
			at[i] = keys[i];
			roots[i] = rnd(ROOTS);
			words[i] = word_of(keys[i]);
		}
		mtrie_lookup(t, roots, at, bytes, nhs, n);
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(nhs[i], model_lookup(list, roots[i], keys[i]));
		if (bytes != 4)
			continue;
		mtrie_lookup4(t, roots, words, nhs4, n);
		assert_memory_equal(nhs, nhs4, n * sizeof(*nhs));
	}
}

static struct prefix *model_find(struct prefix *list, const struct prefix *p)
{
	for (unsigned int i = 0; i < PREFIXES; i++)
		if (list[i].nh != MTRIE_MISS && list[i].root == p->root && list[i].len == p->len &&
		    !memcmp(list[i].key, p->key, 16))
			return &list[i];
	return NULL;
}

static void change(struct mtrie *t, struct prefix *list, unsigned int bytes)
{
	struct prefix p = {.root = rnd(ROOTS), .len = (uint8_t)rnd(8 * bytes + 1)}, *known;
	struct prefix *slot = &list[rnd(PREFIXES)];
	uint16_t old, nh = (uint16_t)rnd(MTRIE_MISS);

	random_key(p.key, bytes);
	clear_tail(p.key, p.len);
	known = model_find(list, &p);
	assert_int_equal(mtrie_get(t, p.root, p.key, p.len), known ? known->nh : MTRIE_MISS);
	if (rnd(3) == 0) {
		assert_int_equal(mtrie_remove(t, p.root, p.key, p.len, &old), known ? 0 : -ENOENT);
		if (known) {
			assert_int_equal(old, known->nh);
			known->nh = MTRIE_MISS;
		}
		return;
	}
	if (!known && slot->nh != MTRIE_MISS) {
		assert_int_equal(mtrie_remove(t, slot->root, slot->key, slot->len, &old), 0);
		slot->nh = MTRIE_MISS;
	}
	assert_int_equal(mtrie_put(t, p.root, p.key, p.len, nh, &old), 0);
	assert_int_equal(old, known ? known->nh : MTRIE_MISS);
	if (!known) {
		known = slot;
		*known = p;
	}
	known->nh = nh;
}

static void remove_each(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh)
{
	uint16_t old;

	(void)len;
	assert_int_equal(mtrie_remove(*(struct mtrie **)ctx, 0, key, len, &old), 0);
	assert_int_equal(old, nh);
}

/* Pieces as small as they can be. */
static bool always_late(void *ctx)
{
	(void)ctx;
	return true;
}

struct met {
	struct prefix *list;
	uint64_t prefixes;
};

static void meet(void *ctx, const uint8_t *key, uint8_t len, uint16_t nh)
{
	struct met *met = ctx;
	struct prefix p = {.root = 0, .len = len};
	const struct prefix *known;

	memcpy(p.key, key, sizeof(p.key));
	known = model_find(met->list, &p);
	assert_non_null(known);
	assert_int_equal(known->nh, nh);
	met->prefixes++;
}

/* All are met once, at whatever prefix a piece ends; at once, too. */
static void check_walks(struct mtrie *t, struct prefix *list)
{
	for (unsigned int whole = 0; whole < 2; whole++) {
		struct mtrie_cursor at = {0};
		struct met met = {list, 0};
		unsigned int pieces = 1;

		while (!mtrie_walk(t, 0, &at, meet, whole ? NULL : always_late, &met))
			pieces++;
		assert_int_equal(met.prefixes, mtrie_count(t, 0));
		assert_true(whole ? pieces == 1 : pieces > mtrie_root_nodes(t, 0));
	}
}

static void remove_in_pieces(struct mtrie *t)
{
	struct mtrie_cursor at = {0};

	while (!mtrie_walk(t, 0, &at, remove_each, always_late, &t))
		;
}

static void run_model(unsigned int bytes)
{
	struct prefix *list = calloc(PREFIXES, sizeof(*list));
	struct mtrie *t = make(1 << 20);

	for (unsigned int i = 0; i < PREFIXES; i++)
		list[i].nh = MTRIE_MISS;
	for (unsigned int i = 0; i < 20000; i++) {
		change(t, list, bytes);
		if (i % 100 == 0)
			check_lookups(t, list, bytes);
	}
	check_walks(t, list);
	remove_in_pieces(t);
	for (unsigned int i = 0; i < PREFIXES; i++) {
		uint16_t old;

		if (list[i].nh != MTRIE_MISS && list[i].root)
			assert_int_equal(
				mtrie_remove(t, list[i].root, list[i].key, list[i].len, &old), 0);
	}
	assert_int_equal(mtrie_count(t, 0), 0);
	assert_int_equal(mtrie_nodes(t), 0); /* every node was given back */
	mtrie_destroy(t);
	free(list);
}

/* Each that this machine has. */
static void with_each_isa(void (*test)(void))
{
	for (unsigned int i = 0; i < sizeof(isas) / sizeof(*isas); i++) {
		struct mtrie_conf conf = {.roots = 1, .nodes = 1, .isa = isas[i]};
		struct mtrie *t;
		struct err err;
		int rc = mtrie_create(&t, &conf, "t", &err);

		if (rc == -ENOTSUP) {
			print_message("no %s here\n", isas[i]);
			continue;
		}
		assert_int_equal(rc, 0);
		mtrie_destroy(t);
		isa = isas[i];
		test();
	}
	isa = NULL;
}

static void ipv4(void)
{
	run_model(4);
}

static void test_ipv4(void **state)
{
	(void)state;
	with_each_isa(ipv4);
}

static void test_unknown_isa(void **state)
{
	struct mtrie_conf conf = {.roots = 1, .nodes = 1, .isa = "abacus"};
	struct mtrie *t;
	struct err err;

	(void)state;
	assert_int_equal(mtrie_create(&t, &conf, "t", &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "abacus"));
}

static void test_ipv6(void **state)
{
	(void)state;
	run_model(16);
}

static void test_full(void **state)
{
	struct mtrie *t = make(3);
	uint8_t key[16] = {1, 2, 3, 4, 5, 6};
	uint16_t old;

	(void)state;
	assert_int_equal(mtrie_put(t, 0, key, 48, 7, &old), -ENOSPC);
	assert_int_equal(mtrie_nodes(t), 0);
	assert_int_equal(mtrie_put(t, 0, key, 40, 7, &old), 0);
	key[0] = 9;
	assert_int_equal(mtrie_put(t, 0, key, 24, 7, &old), -ENOSPC);
	assert_int_equal(mtrie_put(t, 0, key, 16, 7, &old), 0);
	mtrie_destroy(t);
}

/*
 * Beside a writer that makes and unmakes longer prefixes, in nodes used again and again for
 * different ones: a reader sees one of the next hops that its address has had, never another's.
 */
struct stress {
	struct mtrie *t;
	struct rcu readers;
	atomic_bool reads, stop;
	uint64_t wrong, lookups;
};

static void *read_loop(void *arg)
{
	struct stress *s = arg;
	uint8_t keys[32][16];
	uint32_t words[32], roots[32] = {0};
	uint16_t nhs[32];

	for (unsigned int i = 0; i < 32; i++) {
		memset(keys[i], 0, 16);
		keys[i][0] = 10;
		keys[i][1] = keys[i][2] = (uint8_t)i;
		keys[i][3] = 1;
		words[i] = word_of(keys[i]);
	}
	while (!atomic_load(&s->stop)) {
		mtrie_lookup4(s->t, roots, words, nhs, 32);
		rcu_quiescent(&s->readers, 0);
		for (unsigned int i = 0; i < 32; i++)
			s->wrong += nhs[i] != 1000 && nhs[i] != i;
		s->lookups += 32;
		atomic_store(&s->reads, true);
	}
	return NULL;
}

static void concurrent(void)
{
	struct stress s = {0};
	struct mtrie_conf conf = {.roots = 1, .nodes = 64, .readers = &s.readers, .isa = isa};
	uint8_t key[16] = {10};
	struct err err;
	pthread_t reader;
	uint16_t old;

	assert_int_equal(rcu_init(&s.readers, 1, &err), 0);
	rcu_online(&s.readers, 0);
	assert_int_equal(mtrie_create(&s.t, &conf, "t", &err), 0);
	assert_int_equal(mtrie_put(s.t, 0, key, 8, 1000, &old), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_loop, &s), 0);
	while (!atomic_load(&s.reads)) /* other work may keep it from its CPU */
		sched_yield();
	for (unsigned int i = 0; i < 400000; i++) {
		uint8_t k[16] = {10, (uint8_t)(i % 32), (uint8_t)(i % 32), 1};
		int rc = mtrie_put(s.t, 0, k, 32, (uint16_t)(i % 32), &old);

		/* All nodes may be waiting for the reader. */
		assert_true(rc == 0 || rc == -ENOSPC);
		if (!rc)
			assert_int_equal(mtrie_remove(s.t, 0, k, 32, &old), 0);
	}
	atomic_store(&s.stop, true);
	pthread_join(reader, NULL);
	assert_true(s.lookups > 0);
	assert_int_equal(s.wrong, 0);
	mtrie_destroy(s.t);
	rcu_fini(&s.readers);
}

static void test_concurrent(void **state)
{
	(void)state;
	with_each_isa(concurrent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_unknown_isa),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_concurrent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
