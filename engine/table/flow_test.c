/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rte_cycles.h>

#include "flow_priv.h"
#include "pages.h"

/* Instead of EAL's, which is not started: at this frequency a pass of ageing is 2048 units of time. */
uint64_t rte_get_tsc_hz(void)
{
	return 2386092942;
}

/* Against a plain model: an array that says which of the possible keys are in. */
#define KEYS 6000u

struct model {
	struct flow_table *t;
	bool in[KEYS];
	uint32_t count;
};

static uint64_t rnd_state = 88172645463325252u;

static uint32_t rnd(uint32_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (uint32_t)(rnd_state >> 16) % below;
}

static struct flow_table *make(enum flow_family family, uint32_t capacity)
{
	struct flow_conf conf = {.family = family, .capacity = capacity, .state_bytes = 8, .seed = 1};
	struct flow_table *t;
	struct err err;

	assert_int_equal(flow_create(&conf, &t, &err), 0);
	return t;
}

/* Key number i, in the buffer big enough for either family. */
static const void *key_of(const struct flow_table *t, uint32_t i, struct flow_key6 *buf)
{
	struct flow_key4 k4 = {.src = 0x0a000000 + i, .dst = 0x0a800001, .sport = (uint16_t)i, .proto = 17};

	memset(buf, 0, sizeof(*buf));
	if (t->words == 2)
		return memcpy(buf, &k4, sizeof(k4));
	buf->src[15] = (uint8_t)i;
	buf->dport = (uint16_t)(i >> 8);
	buf->proto = 6;
	return buf;
}

static uint64_t *state_of(const struct flow_table *t, struct flow *f)
{
	return t->words == 2 ? flow_state4(f) : flow_state6(f);
}

static void check_key(struct model *m, uint32_t i)
{
	struct flow_key6 buf;
	struct flow *f = flow_find(m->t, key_of(m->t, i, &buf));

	assert_int_equal(f != NULL, m->in[i]);
	if (f)
		assert_int_equal(*state_of(m->t, f), i + 1);
}

static void step(struct model *m)
{
	uint32_t i = rnd(KEYS);
	struct flow_key6 buf;
	const void *key = key_of(m->t, i, &buf);
	struct flow *f;

	if (m->in[i]) {
		flow_delete(m->t, flow_find(m->t, key));
		m->in[i] = false;
		m->count--;
		return;
	}
	f = flow_insert(m->t, key);
	assert_int_equal(f != NULL, m->count < flow_capacity(m->t));
	if (!f)
		return;
	assert_int_equal(*state_of(m->t, f), 0);
	*state_of(m->t, f) = i + 1;
	m->in[i] = true;
	m->count++;
}

static void random_ops(enum flow_family family, uint32_t capacity)
{
	struct model *m = calloc(1, sizeof(*m));

	m->t = make(family, capacity);
	for (uint32_t n = 0; n < 200000; n++) {
		step(m);
		check_key(m, rnd(KEYS));
	}
	assert_int_equal(flow_count(m->t), m->count);
	for (uint32_t i = 0; i < KEYS; i++)
		check_key(m, i);
	flow_destroy(m->t);
	free(m);
}

static void test_model_v4(void **state)
{
	(void)state;
	random_ops(FLOW_IPV4, 2000); /* runs full again and again */
	random_ops(FLOW_IPV4, KEYS);
}

static void test_model_v6(void **state)
{
	(void)state;
	random_ops(FLOW_IPV6, 2000);
	random_ops(FLOW_IPV6, KEYS);
}

/* Every capacity can be filled to the last record. */
static void test_fills_up(void **state)
{
	struct flow_key6 buf;

	(void)state;
	for (uint32_t capacity = 1; capacity < 700000; capacity = capacity * 2 + 3) {
		struct flow_table *t = make(FLOW_IPV4, capacity);

		for (uint32_t i = 0; i < capacity; i++)
			assert_non_null(flow_insert(t, key_of(t, i, &buf)));
		assert_null(flow_insert(t, key_of(t, capacity, &buf)));
		assert_int_equal(flow_count(t), capacity);
		flow_destroy(t);
	}
}

/* All bursts: found, not found, twice the same, in order. */
static void test_bulk(void **state)
{
	struct flow_table *t = make(FLOW_IPV4, 5000);
	struct flow_key4 keys[FLOW_BULK_MAX];
	struct flow *out[FLOW_BULK_MAX];
	uint64_t hints[FLOW_BULK_MAX];
	struct flow_key6 buf;

	(void)state;
	for (uint32_t i = 0; i < 5000; i++)
		*state_of(t, flow_insert(t, key_of(t, i, &buf))) = i;
	for (unsigned int n = 0; n <= FLOW_BULK_MAX; n++) {
		uint32_t want[FLOW_BULK_MAX];
		unsigned int hits = 0;

		for (unsigned int i = 0; i < n; i++) {
			want[i] = rnd(10000);
			hits += want[i] < 5000;
			memcpy(&keys[i], key_of(t, want[i], &buf), sizeof(keys[i]));
		}
		for (unsigned int i = 0; i < n; i++)
			hints[i] = flow_hint4(t, &keys[i]);
		assert_int_equal(flow_lookup4_hinted(t, keys, hints, n, out), hits);
		for (unsigned int i = 0; i < n; i++) {
			assert_int_equal(out[i] != NULL, want[i] < 5000);
			if (out[i])
				assert_int_equal(*state_of(t, out[i]), want[i]);
		}
	}
	flow_destroy(t);
}

/* A number that leads to the flow, to another, to one that is gone, nowhere, or out of the table. */
static uint32_t any_number(const struct flow_table *t, const struct flow *f)
{
	switch (rnd(4)) {
	case 0:
		return f ? flow_index(t, f) + 1 : 0;
	case 1:
		return 1 + rnd(flow_capacity(t));
	case 2:
		return rnd(2) ? 0 : flow_capacity(t) + 1 + rnd(10);
	}
	return UINT32_MAX - rnd(2);
}

/* One burst: whatever is on the trails, what is found is what the index has, and is kept. */
static void follow(struct model *m)
{
	union {
		struct flow_key4 v4[FLOW_BULK_MAX];
		struct flow_key6 v6[FLOW_BULK_MAX];
	} keys;
	uint32_t numbers[FLOW_BULK_MAX], was[FLOW_BULK_MAX], *trails[FLOW_BULK_MAX];
	struct flow *out[FLOW_BULK_MAX];
	uint64_t hints[FLOW_BULK_MAX];
	unsigned int n = rnd(FLOW_BULK_MAX + 1), hits = 0;
	bool v6 = m->t->words == 5;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t number = rnd(KEYS);
		void *key = v6 ? (void *)&keys.v6[i] : &keys.v4[i];

		key_of(m->t, number, key);
		was[i] = numbers[i] = any_number(m->t, flow_find(m->t, key));
		trails[i] = rnd(5) ? &numbers[i] : NULL;
		hits += m->in[number];
		out[i] = v6 ? flow_guess6(m->t, trails[i]) : flow_guess4(m->t, trails[i]);
		if (!out[i])
			hints[i] = v6 ? flow_hint6(m->t, key) : flow_hint4(m->t, key);
	}
	assert_int_equal(v6 ? flow_lookup6_trailed(m->t, keys.v6, hints, trails, n, out)
			    : flow_lookup4_trailed(m->t, keys.v4, hints, trails, n, out), hits);
	for (unsigned int i = 0; i < n; i++) {
		struct flow *f = flow_find(m->t, v6 ? (const void *)&keys.v6[i] : &keys.v4[i]);

		assert_ptr_equal(out[i], f);
		assert_int_equal(numbers[i], f && trails[i] ? flow_index(m->t, f) + 1 : was[i]);
	}
}

static void random_trails(enum flow_family family)
{
	struct model *m = calloc(1, sizeof(*m));
	struct flow_key6 buf;

	m->t = make(family, KEYS);
	for (uint32_t n = 0; n < 20000; n++) {
		step(m);
		follow(m);
	}
	/* A record that was given back has a link where its key was: the packet that has it is of no flow. */
	for (uint32_t i = 0; i < KEYS; i++)
		if (m->in[i])
			flow_delete(m->t, flow_find(m->t, key_of(m->t, i, &buf)));
	memset(m->in, 0, sizeof(m->in));
	for (uint32_t n = 0; n < 100; n++)
		follow(m);
	flow_destroy(m->t);
	free(m);
}

static void test_trails(void **state)
{
	(void)state;
	random_trails(FLOW_IPV4);
	random_trails(FLOW_IPV6);
}

/* The key that a record has by its place in the list of free ones leads to no flow. */
static void test_trail_to_a_free_record(void **state)
{
	struct flow_table *t = make(FLOW_IPV4, 10);
	struct flow_key4 key = {.src = 1, .sport = 7, .proto = 17};
	struct flow *f = flow_insert(t, &key), *out;
	uint32_t number = flow_index(t, f) + 1, *trail = &number;
	uint64_t hint;

	(void)state;
	flow_delete(t, f);
	memcpy(&key, f->key, sizeof(key));
	out = flow_guess4(t, trail);
	assert_ptr_equal(out, f);
	assert_int_equal(flow_lookup4_trailed(t, &key, &hint, &trail, 1, &out), 0);
	assert_null(out);
	flow_destroy(t);
}

/* Behind the state where a record has the room, cleared with it; none where it has not. */
static void test_place_of_trails(void **state)
{
	struct flow_conf conf = {.family = FLOW_IPV4, .capacity = 4, .state_bytes = 24, .seed = 1};
	struct flow_key4 key = {.src = 1};
	struct flow_table *t;
	struct err err;
	struct flow *f;

	(void)state;
	for (conf.state_bytes = 0; conf.state_bytes <= 40; conf.state_bytes += 8) {
		assert_int_equal(flow_create(&conf, &t, &err), 0);
		f = flow_insert(t, &key);
		/* 24 bytes of header and key: with 8 of state a record is 32, with 40 it is 64. */
		assert_int_equal(flow_trail(t, f, 0) != NULL,
				 conf.state_bytes != 8 && conf.state_bytes != 40);
		if (flow_trail(t, f, 1)) {
			assert_ptr_equal((uint8_t *)flow_trail(t, f, 0),
					 (uint8_t *)flow_state4(f) + conf.state_bytes);
			*flow_trail(t, f, 1) = 9;
			flow_delete(t, f);
			f = flow_insert(t, &key);
			assert_int_equal(*flow_trail(t, f, 1), 0);
		}
		flow_destroy(t);
	}
}

static bool count_gone(void *arg, struct flow *f)
{
	assert_true(f->live);
	++*(uint32_t *)arg;
	return true;
}

/* One million flows, aged away in some passes without leaving anything, and a second round. */
static void test_million_aged(void **state)
{
	const uint32_t million = 1000000;
	struct flow_table *t = make(FLOW_IPV4, million);
	struct flow_key6 buf;
	uint32_t now = UINT32_MAX - 2000; /* the clock wraps meanwhile */

	(void)state;
	for (unsigned int round = 0; round < 2; round++) {
		uint32_t gone = 0, top;

		for (uint32_t i = 0; i < million; i++) {
			struct flow *f = flow_insert(t, key_of(t, i, &buf));

			assert_non_null(f);
			flow_touch(f, now, i % 2 ? 100 : 10000);
		}
		top = t->shard->top;
		for (unsigned int i = 0; i < 4096; i++)
			flow_age(t, now += 2, count_gone, &gone);
		assert_int_equal(gone, million / 2);
		assert_int_equal(flow_count(t), million / 2);
		for (unsigned int i = 0; i < 4096; i++)
			flow_age(t, now += 2, count_gone, &gone);
		assert_int_equal(gone, million);
		assert_int_equal(flow_count(t), 0);
		assert_int_equal(t->shard->top, top);
		for (uint64_t b = 0; b <= t->probe.bucket_mask; b++) {
			assert_int_equal(bucket_at(t, b)->moved, 0);
			for (unsigned int i = 0; i < SLOTS; i++)
				assert_int_equal(bucket_at(t, b)->tag[i], 0);
		}
	}
	flow_destroy(t);
}

static void test_index_names(void **state)
{
	struct flow_table *t = make(FLOW_IPV6, 10);
	struct flow_key6 buf;
	struct flow *f = flow_insert(t, key_of(t, 3, &buf));
	uint32_t index = flow_index(t, f);

	(void)state;
	assert_ptr_equal(flow_at(t, index), f);
	flow_delete(t, f);
	assert_null(flow_at(t, index));
	assert_null(flow_at(t, 9));
	flow_destroy(t);
}

static unsigned int mappings(void)
{
	unsigned int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	for (int c; (c = fgetc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

/* A large table's parts are huge pages throughout, a small one takes no more than it needs. */
static void test_whole_pages(void **state)
{
	const uintptr_t page = 1u << 21;
	unsigned int before;
	struct flow_table *t;

	(void)state;
	before = mappings();
	for (int i = 0; i < 8; i++) {
		t = make(FLOW_IPV4, 100000);
		assert_int_equal((uintptr_t)t->probe.records % page, 0);
		assert_int_equal(t->records_bytes % page, 0);
		assert_int_equal((uintptr_t)t->probe.buckets % page, 0);
		assert_int_equal(t->buckets_bytes % page, 0);
		flow_destroy(t);
	}
	assert_true(mappings() <= before + 1);
	t = make(FLOW_IPV4, 1000);
	assert_true(t->records_bytes < page / 2 && t->buckets_bytes < page / 2);
	flow_destroy(t);
}

static void test_bad_capacity(void **state)
{
	struct flow_conf conf = {.capacity = 0};
	struct flow_table *t;
	struct err err;

	(void)state;
	assert_int_equal(flow_create(&conf, &t, &err), -22);
	assert_string_equal(err.path, "capacity");
	conf.capacity = FLOW_CAPACITY_MAX + 1;
	assert_int_equal(flow_create(&conf, &t, &err), -22);
}

static size_t resident_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*u %zu", &pages), 1);
	fclose(f);
	return pages;
}

/* A plan is checked in no time, and beside whatever runs, however large its tables are. */
static void test_tried(void **state)
{
	struct flow_conf conf = {.capacity = 1 << 24, .seed = 1, .tried = true};
	struct flow_key4 key = {.src = 1, .dst = 2, .proto = 17};
	size_t before = resident_pages();
	struct flow_table *t;
	struct err err;

	(void)state;
	assert_int_equal(flow_create(&conf, &t, &err), 0);
	assert_non_null(flow_insert(t, &key));
	assert_non_null(flow_find(t, &key));
	assert_true(resident_pages() - before < 256); /* a megabyte of its 800 */
	flow_destroy(t);
}

/* What the machine will never have is refused; of all tables of a plan together, those that are there. */
static void test_tried_of_all(void **state)
{
	uint64_t total = pages_memory("MemTotal"), taken = 0, each = 0;
	struct flow_conf conf = {.family = FLOW_IPV6, .tried = true};
	struct flow_table *tables[64];
	struct err err;
	unsigned int n = 0;
	int rc;

	(void)state;
	conf.capacity = (uint32_t)RTE_MIN(total / 512, (uint64_t)FLOW_CAPACITY_MAX);
	for (; !(rc = flow_create(&conf, &tables[n], &err)); n++) {
		each = tables[n]->buckets_bytes + tables[n]->records_bytes + tables[n]->epochs_bytes;
		taken += each;
		assert_true(taken <= total && n + 1 < RTE_DIM(tables));
	}
	assert_int_equal(rc, -22);
	assert_non_null(strstr(err.msg, " among them, take "));
	assert_true(n > 1 && taken + each > total); /* one more would not have fitted */
	flow_destroy(tables[--n]);
	assert_int_equal(flow_create(&conf, &tables[n++], &err), 0); /* what is gone no longer counts */
	while (n)
		flow_destroy(tables[--n]);
}

/* Populating it would have the kernel end some process. */
static void test_more_than_there_is(void **state)
{
	struct flow_conf conf = {.capacity = FLOW_CAPACITY_MAX, .state_bytes = 1 << 16};
	struct flow_table *t;
	struct err err;

	(void)state;
	assert_int_equal(flow_create(&conf, &t, &err), -12);
	assert_non_null(strstr(err.msg, "a table of 268435456 flows takes "));
	assert_non_null(strstr(err.msg, " MB are available"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model_v4),      cmocka_unit_test(test_model_v6),
		cmocka_unit_test(test_fills_up),      cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_million_aged),  cmocka_unit_test(test_index_names),
		cmocka_unit_test(test_whole_pages),   cmocka_unit_test(test_bad_capacity),
		cmocka_unit_test(test_trails),	      cmocka_unit_test(test_trail_to_a_free_record),
		cmocka_unit_test(test_place_of_trails),
		cmocka_unit_test(test_tried),	      cmocka_unit_test(test_tried_of_all),
		cmocka_unit_test(test_more_than_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
