/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers beside a writer that fills the table to the brim and keeps it there, so that keys
 * move all the time. Half of the keys stay in the table throughout: a lookup that misses one
 * is a failure, and so is a next hop that the key never had. The other keys come and go: they
 * may be found or not, but only with their own next hop.
 *
 *	fib_stress_test [SECONDS [THREADS]]
 */
#include "fib_test_util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "cuckoo.h"

#define CAPACITY 20000u
#define STAYING (CAPACITY / 2)
#define KEYS (CAPACITY + CAPACITY / 10)
#define BURST 64
#define GENERATIONS 8 /* next hop = check of the key * GENERATIONS + how often it was changed */

static double seconds = 0.3;
static unsigned int threads = 2;

struct shared {
	struct fib *f;
	enum fib_key key;
	cuckoo_lookup_fn *lookup;
	atomic_bool stop;
	atomic_ulong lookups, missed, wrong;
};

static uint16_t next_hop(uint32_t number, unsigned int generation)
{
	return (uint16_t)(number * 2654435761u >> 19) * GENERATIONS % 65528 +
	       generation % GENERATIONS;
}

static void *reader(void *arg)
{
	struct shared *s = arg;
	size_t stride = fib_key_bytes(s->key);
	uint64_t state = 88172645463325252u ^ (uintptr_t)&state, n = 0, missed = 0, wrong = 0;
	uint32_t number[BURST];
	uint8_t keys[BURST * 16], buf[16];
	uint16_t nhs[BURST];

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		for (unsigned int i = 0; i < BURST; i++) {
			number[i] = rnd64(&state) % KEYS;
			memcpy(keys + i * stride, test_key(s->key, number[i], buf), stride);
		}
		s->lookup(s->f, keys, nhs, BURST);
		for (unsigned int i = 0; i < BURST; i++) {
			if (nhs[i] == FIB_MISS)
				missed += number[i] < STAYING;
			else
				wrong += nhs[i] / GENERATIONS !=
					 next_hop(number[i], 0) / GENERATIONS;
		}
		n += BURST;
	}
	atomic_fetch_add(&s->lookups, n);
	atomic_fetch_add(&s->missed, missed);
	atomic_fetch_add(&s->wrong, wrong);
	return NULL;
}

static void put(struct shared *s, uint32_t number)
{
	uint8_t buf[16];
	int rc = fib_insert(s->f, test_key(s->key, number, buf), 0, next_hop(number, 0));

	if (rc)
		fail_msg("insert: %s", fib_strerror(rc));
}

static void take(struct shared *s, uint32_t number)
{
	uint8_t buf[16];
	int rc = fib_remove(s->f, test_key(s->key, number, buf), 0, NULL);

	if (rc)
		fail_msg("remove: %s", fib_strerror(rc));
}

static void change(struct shared *s, uint32_t number, unsigned int generation)
{
	uint8_t buf[16];
	int rc = fib_update(s->f, test_key(s->key, number, buf), 0, next_hop(number, generation));

	if (rc)
		fail_msg("update: %s", fib_strerror(rc));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Slots STAYING.. hold the numbers that are in now; each turn one of them is replaced. */
static uint64_t write_for(struct shared *s, double duration)
{
	static uint32_t in[CAPACITY], out[KEYS - CAPACITY];
	uint64_t state = 1181783497276652981u, turns = 0;
	double end = now() + duration;

	for (uint32_t i = 0; i < CAPACITY; i++)
		in[i] = i;
	for (uint32_t i = CAPACITY; i < KEYS; i++)
		out[i - CAPACITY] = i;
	for (;; turns++) {
		uint32_t *a = &in[STAYING + rnd64(&state) % (CAPACITY - STAYING)];
		uint32_t *b = &out[rnd64(&state) % (KEYS - CAPACITY)], t = *a;

		take(s, *a);
		put(s, *b);
		*a = *b;
		*b = t;
		change(s, rnd64(&state) % STAYING, turns);
		if (turns % 256 == 0 && now() > end)
			return 3 * turns;
	}
}

static void stress(enum fib_key key, const char *isa)
{
	const char *name;
	struct shared s = {.key = key, .lookup = cuckoo_lookup_get(isa, key, &name)};
	pthread_t thread[64];
	struct fib_stats stats;
	uint64_t changes;

	if (!s.lookup) {
		print_message("SKIP %s %s: this CPU, or this build, lacks it\n", isa,
			      fib_key_name(key));
		return;
	}
	s.f = test_fib(FIB_EXACT, key, CAPACITY);
	for (uint32_t i = 0; i < CAPACITY; i++)
		put(&s, i);
	for (unsigned int i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, &s), 0);
	changes = write_for(&s, seconds);
	atomic_store(&s.stop, true);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	fib_stats(s.f, &stats);
	print_message("%-8s %-6s %lu lookups beside %llu changes: %lu missed, %lu wrong "
		      "(%.0f %% moved)\n",
		      fib_key_name(key), name, atomic_load(&s.lookups), (unsigned long long)changes,
		      atomic_load(&s.missed), atomic_load(&s.wrong),
		      100.0 * stats.moved / stats.entries);
	assert_true(atomic_load(&s.lookups) > 0);
	assert_int_equal(atomic_load(&s.missed), 0);
	assert_int_equal(atomic_load(&s.wrong), 0);
	fib_destroy(s.f);
}

static void test_stress(void **ctx)
{
	static const char *const isas[] = {"scalar", "avx2", "avx512"};

	for (int key = 0; key < FIB_KEYS; key++)
		for (size_t i = 0; i < sizeof(isas) / sizeof(*isas); i++)
			stress(key, isas[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_stress)};

	if (argc > 1)
		seconds = atof(argv[1]);
	if (argc > 2)
		threads = atoi(argv[2]) < 64 ? atoi(argv[2]) : 64;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
