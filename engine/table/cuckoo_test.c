/* SPDX-License-Identifier: Apache-2.0 */
/* The cuckoo table against a plain model, for each kind of key and each instruction set. */
#include "fib_test_util.h"

#include <errno.h>
#include <stdio.h>

#include "cuckoo.h"

static const char *const isas[] = {"scalar", "avx2", "avx512"};

struct model {
	struct fib *f;
	enum fib_key key;
	uint32_t keys;
	uint16_t *nh; /* FIB_MISS: not in the table */
	uint32_t count;
};

static void check_batch(const struct model *m, uint64_t *state, unsigned int n)
{
	size_t stride = fib_key_bytes(m->key);
	uint16_t got[200];
	uint32_t number[200];
	uint8_t keys[200 * 16], buf[16];

	for (unsigned int i = 0; i < n; i++) {
		number[i] = rnd64(state) % m->keys;
		memcpy(keys + i * stride, test_key(m->key, number[i], buf), stride);
	}
	memset(got, 0xee, sizeof(got));
	fib_lookup(m->f, keys, got, n);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(got[i], m->nh[number[i]]);
	assert_int_equal(got[n], 0xeeee); /* nothing written past the end */
}

static void check_all(const struct model *m)
{
	size_t stride = fib_key_bytes(m->key);
	uint8_t *keys = malloc((size_t)m->keys * stride), buf[16];
	uint16_t *got = malloc((size_t)m->keys * sizeof(*got));

	for (uint32_t i = 0; i < m->keys; i++)
		memcpy(keys + i * stride, test_key(m->key, i, buf), stride);
	for (size_t a = 0; a < sizeof(isas) / sizeof(*isas); a++) {
		const char *name;
		cuckoo_lookup_fn *fn = cuckoo_lookup_get(isas[a], m->key, &name);

		if (!fn)
			continue;
		memset(got, 0xee, (size_t)m->keys * sizeof(*got));
		fn(m->f, keys, got, m->keys);
		assert_memory_equal(got, m->nh, (size_t)m->keys * sizeof(*got));
	}
	assert_int_equal(fib_count(m->f), m->count);
	free(keys);
	free(got);
}

static void one_change(struct model *m, uint64_t *state)
{
	uint32_t i = rnd64(state) % m->keys;
	uint16_t nh = rnd64(state) % FIB_MISS, old = 0;
	bool in = m->nh[i] != FIB_MISS;
	uint8_t buf[16];
	const void *key = test_key(m->key, i, buf);
	int rc;

	switch (rnd64(state) % 4) {
	case 0:
		rc = fib_remove(m->f, key, 0, &old);
		assert_int_equal(rc, in ? 0 : -ENOENT);
		if (in)
			assert_int_equal(old, m->nh[i]);
		m->count -= in;
		m->nh[i] = FIB_MISS;
		break;
	case 1:
		assert_int_equal(fib_update(m->f, key, 0, nh), in ? 0 : -ENOENT);
		m->nh[i] = in ? nh : FIB_MISS;
		break;
	default:
		rc = fib_insert(m->f, key, 0, nh);
		if (in) {
			assert_int_equal(rc, -EEXIST);
		} else if (m->count == m->f->conf.capacity) {
			assert_int_equal(rc, -ENOSPC);
		} else {
			assert_int_equal(rc, 0);
			m->nh[i] = nh;
			m->count++;
		}
	}
}

static struct model model_new(enum fib_key key, uint64_t capacity, uint32_t keys)
{
	struct model m = {.key = key, .keys = keys};

	m.f = test_fib(FIB_EXACT, key, capacity);
	m.nh = malloc(keys * sizeof(*m.nh));
	memset(m.nh, 0xff, keys * sizeof(*m.nh));
	return m;
}

static void model_free(struct model *m)
{
	fib_destroy(m->f);
	free(m->nh);
}

/* Most of the time nearly full, so that keys move a lot. */
static void test_against_model(void **ctx)
{
	uint64_t state = 88172645463325252u;

	for (int key = 0; key < FIB_KEYS; key++) {
		struct model m = model_new(key, 6000, 6800);

		for (int i = 0; i < 200000; i++) {
			one_change(&m, &state);
			if (i % 97 == 0)
				check_batch(&m, &state, rnd64(&state) % 130);
			if (i % 50000 == 0)
				check_all(&m);
		}
		check_all(&m);
		model_free(&m);
	}
}

/* Every size gets its capacity's entries in, and not one more. */
static void test_fills_to_capacity(void **ctx)
{
	static const uint64_t capacities[] = {1, 2, 3, 7, 64, 1000, 4095, 4096, 5000, 100000};
	uint8_t buf[16];

	for (int key = 0; key < FIB_KEYS; key++)
		for (size_t c = 0; c < sizeof(capacities) / sizeof(*capacities); c++) {
			struct model m = model_new(key, capacities[c], capacities[c] + 10);

			for (uint64_t i = 0; i < capacities[c]; i++) {
				m.nh[i] = i % FIB_MISS;
				m.count++;
				assert_int_equal(fib_insert(m.f, test_key(key, i, buf), 0, m.nh[i]),
						 0);
			}
			assert_int_equal(fib_insert(m.f, test_key(key, capacities[c], buf), 0, 1),
					 -ENOSPC);
			check_all(&m);
			model_free(&m);
		}
}

struct bulk {
	uint8_t *keys;
	uint16_t *nhs;
};

static struct bulk bulk_new(enum fib_key key, uint32_t from, uint32_t n)
{
	size_t stride = fib_key_bytes(key);
	struct bulk b = {malloc(n * stride), malloc(n * sizeof(uint16_t))};
	uint8_t buf[16];

	for (uint32_t i = 0; i < n; i++) {
		memcpy(b.keys + i * stride, test_key(key, from + i, buf), stride);
		b.nhs[i] = (from + i) % FIB_MISS;
	}
	return b;
}

static void bulk_free(struct bulk *b)
{
	free(b->keys);
	free(b->nhs);
}

static void test_load(void **ctx)
{
	for (int key = 0; key < FIB_KEYS; key++) {
		const uint32_t n = 50000;
		struct model m = model_new(key, n, n + 1000);
		struct bulk b = bulk_new(key, 0, n);
		struct fib_stats s;
		uint64_t bad;

		assert_int_equal(fib_load(m.f, b.keys, NULL, b.nhs, n, &bad), 0);
		memcpy(m.nh, b.nhs, n * sizeof(*b.nhs));
		m.count = n;
		check_all(&m);
		/* Overflow of Poisson arrivals: 12 % at 95 % full with 8 slots. */
		fib_stats(m.f, &s);
		if (key == FIB_KEY_IPV4)
			assert_in_range(s.moved, n / 10, n * 15 / 100);
		bulk_free(&b);
		model_free(&m);
	}
}

/* A load that fails, for whatever reason, leaves the entries that were there and no other. */
static void test_load_taken_back(void **ctx)
{
	for (int key = 0; key < FIB_KEYS; key++) {
		const uint32_t n = 20000, before = 5000;
		size_t stride = fib_key_bytes(key);
		struct model m = model_new(key, n + before, n + before);
		struct bulk old = bulk_new(key, 0, before), b = bulk_new(key, before, n);
		uint64_t bad;

		assert_int_equal(fib_load(m.f, old.keys, NULL, old.nhs, before, &bad), 0);
		memcpy(m.nh, old.nhs, before * sizeof(*old.nhs));
		m.count = before;

		/* The same key twice in the input, or once there and once in the table. */
		memcpy(b.keys + (n - 5) * stride, b.keys + 77 * stride, stride);
		assert_int_equal(fib_load(m.f, b.keys, NULL, b.nhs, n, &bad), -EEXIST);
		assert_true(bad == n - 5 || bad == 77);
		check_all(&m);
		memcpy(b.keys + (n - 5) * stride, old.keys + 9 * stride, stride);
		assert_int_equal(fib_load(m.f, b.keys, NULL, b.nhs, n, &bad), -EEXIST);
		assert_int_equal(bad, n - 5);
		check_all(&m);

		b.nhs[123] = FIB_MISS;
		assert_int_equal(fib_load(m.f, b.keys, NULL, b.nhs, n, &bad), -ERANGE);
		assert_int_equal(bad, 123);
		check_all(&m);

		bulk_free(&b);
		b = bulk_new(key, before, before + n + 1); /* more than there is room for */
		assert_int_equal(fib_load(m.f, b.keys, NULL, b.nhs, before + n + 1, &bad), -ENOSPC);
		check_all(&m);
		bulk_free(&old);
		bulk_free(&b);
		model_free(&m);
	}
}

/* Counted keys are as those of a list: where the count carries, and where it must end. */
static void test_load_range(void **ctx)
{
	static const struct {
		enum fib_key key;
		const char *first, *last, *next;
	} cases[] = {
		{FIB_KEY_IPV4, "255.254.255.254", "255.255.0.7", "255.255.0.8"},
		{FIB_KEY_IPV6, "2001:db8::ffff:fffe", "2001:db8::1:0:7", "2001:db8::1:0:8"},
		{FIB_KEY_MAC, "02:00:00:00:ff:fe", "02:00:00:01:00:07", "02:00:00:01:00:08"},
		{FIB_KEY_VRF_IPV4, "6:255.255.255.254", "7:0.0.0.7", "7:0.0.0.8"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fib *f = test_fib(FIB_EXACT, cases[i].key, 100000);
		struct fib_route first, last, next;
		uint64_t bad;
		uint16_t nh;

		assert_int_equal(fib_route_parse(cases[i].key, cases[i].first, &first), 0);
		assert_int_equal(fib_route_parse(cases[i].key, cases[i].last, &last), 0);
		assert_int_equal(fib_route_parse(cases[i].key, cases[i].next, &next), 0);
		assert_int_equal(fib_load_range(f, first.key, 4, 10, &bad), 0);
		assert_int_equal(fib_count(f), 10);
		assert_int_equal(fib_get(f, first.key, 0, &nh), 0);
		assert_int_equal(nh, 0);
		assert_int_equal(fib_get(f, last.key, 0, &nh), 0);
		assert_int_equal(nh, 9 % 4);
		assert_int_equal(fib_get(f, next.key, 0, &nh), -ENOENT);
		/* Overlapping: as it was. */
		assert_int_equal(fib_load_range(f, last.key, 4, 50000, &bad), -EEXIST);
		assert_int_equal(fib_count(f), 10);
		assert_int_equal(fib_load_range(f, next.key, 0, 5, &bad), -ERANGE);
		assert_int_equal(fib_load_range(f, next.key, 1, 50000, &bad), 0);
		assert_int_equal(fib_count(f), 50010);
		fib_destroy(f);
	}
}

static void test_iterate(void **ctx)
{
	for (int key = 0; key < FIB_KEYS; key++) {
		const uint32_t n = 3000;
		struct bulk b = bulk_new(key, 0, n);
		struct fib *f = test_fib(FIB_EXACT, key, n);
		struct fib_route r;
		uint64_t cursor = 0, bad, seen = 0, sum = 0;
		uint16_t nh;

		assert_int_equal(fib_load(f, b.keys, NULL, b.nhs, n, &bad), 0);
		for (; fib_next(f, &cursor, &r); seen++) {
			assert_int_equal(fib_get(f, r.key, 0, &nh), 0);
			assert_int_equal(nh, r.next_hop);
			assert_int_equal(r.len, fib_key_bits(key));
			sum += nh;
		}
		assert_int_equal(seen, n);
		assert_int_equal(sum, (uint64_t)n * (n - 1) / 2);
		fib_destroy(f);
		bulk_free(&b);
	}
}

/* How many misses cost a second line, after every entry was replaced many times over. */
static void test_filter_after_churn(void **ctx)
{
	const uint32_t n = 40000;
	struct model m = model_new(FIB_KEY_IPV4, n, 1);
	const struct cuckoo *c = (const struct cuckoo *)m.f;
	uint32_t second = 0, probes = 100000;
	uint8_t buf[16];

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(fib_insert(m.f, test_key(m.key, i, buf), 0, 1), 0);
	for (uint32_t i = 0; i < 20 * n; i++) {
		assert_int_equal(fib_remove(m.f, test_key(m.key, i, buf), 0, NULL), 0);
		assert_int_equal(fib_insert(m.f, test_key(m.key, i + n, buf), 0, 1), 0);
	}
	for (uint32_t i = 0; i < probes; i++) {
		uint32_t key = 0x40000000 + i;
		struct hashes h = hash32(c->seed, key);
		uint32_t bits = filter_bits(m.key, h.h2);

		second += (bucket_filter(&c->buckets[first_bucket(c->n, h)], m.key) & bits) == bits;
	}
	print_message("second line at a miss after churn: %.2f %%\n", 100.0 * second / probes);
	assert_true(second < probes / 20);
	model_free(&m);
}

static void test_bad_input(void **ctx)
{
	struct fib_conf conf = {.kind = FIB_EXACT, .key = FIB_KEY_IPV4, .socket = -1};
	struct fib *f = NULL;
	struct err err;
	uint64_t mac = UINT64_C(1) << 48;

	assert_int_equal(fib_create(&f, &conf, "params.capacity", &err), -EINVAL);
	assert_string_equal(err.path, "params.capacity");
	conf.capacity = FIB_CAPACITY_MAX + 1;
	assert_int_equal(fib_create(&f, &conf, "params.capacity", &err), -EINVAL);
	conf.capacity = 100;
	conf.socket = 63;
	conf.memory = FIB_MEMORY_ORDINARY;
	assert_int_equal(fib_create(&f, &conf, "params.socket", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "NUMA node 63"));
	assert_null(f);

	f = test_fib(FIB_EXACT, FIB_KEY_MAC, 10);
	assert_int_equal(fib_insert(f, &mac, 0, 1), -EINVAL);
	mac = 1;
	assert_int_equal(fib_insert(f, &mac, 0, FIB_MISS), -ERANGE);
	assert_int_equal(fib_count(f), 0);
	fib_destroy(f);
}

/* 2^31 IPv6 entries are 51 GB; where there is less, the message says how much is needed. */
static void test_more_than_memory(void **ctx)
{
	struct fib_conf conf = {.kind = FIB_EXACT,
				.key = FIB_KEY_IPV6,
				.capacity = FIB_CAPACITY_MAX,
				.socket = -1,
				.memory = FIB_MEMORY_ORDINARY};
	struct fib *f = NULL;
	struct err err;

	FILE *meminfo = fopen("/proc/meminfo", "r");
	unsigned long long kb = 0;

	while (meminfo && fscanf(meminfo, "MemAvailable: %llu kB", &kb) != 1)
		if (fscanf(meminfo, "%*[^\n]\n") == EOF)
			break;
	if (meminfo)
		fclose(meminfo);
	if (!kb || kb > 45u << 20) {
		print_message("SKIP: this machine has memory for it\n");
		skip();
	}
	assert_int_equal(fib_create(&f, &conf, "params.capacity", &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "needs"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_fills_to_capacity),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_load_taken_back),
		cmocka_unit_test(test_load_range),
		cmocka_unit_test(test_iterate),
		cmocka_unit_test(test_filter_after_churn),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_more_than_memory),
	};
	const char *name;

	for (size_t a = 0; a < sizeof(isas) / sizeof(*isas); a++)
		if (!cuckoo_lookup_get(isas[a], FIB_KEY_IPV4, &name))
			print_message("SKIP: lookups for %s are not tested, this CPU lacks it\n",
				      isas[a]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
