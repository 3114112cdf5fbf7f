/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LPM against a plain trie: random small tables, and the Internet's routes, before, while and
 * after prefixes are withdrawn and announced.
 *
 *	lpm_test [ADDRESSES [EVERY]]
 *
 * The default is short; 10000000 50 takes some minutes.
 */
#include "fib_test_util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include <rte_eal.h>

#include "trie.h"

#define BURST 64
#define ROUTES_MAX 1200000

static uint32_t addresses = 200000;
static uint32_t every = 400; /* which prefixes are withdrawn and announced again */

struct routes {
	enum fib_key key;
	uint32_t n;
	uint8_t (*addr)[16]; /* network byte order */
	uint8_t *len;
	uint16_t *nh;
};

static unsigned int bits_of(enum fib_key key)
{
	return fib_key_bits(key);
}

/* From network byte order to the form that the table takes. */
static const void *to_key(enum fib_key key, const uint8_t *addr, void *buf)
{
	uint32_t u32;

	memcpy(&u32, addr, 4);
	u32 = ntohl(u32);
	if (key == FIB_KEY_IPV4)
		memcpy(buf, &u32, 4);
	else
		memcpy(buf, addr, 16);
	return buf;
}

static void mask(uint8_t *addr, unsigned int len)
{
	for (unsigned int i = len; i < 128; i++)
		addr[i / 8] &= ~(0x80 >> i % 8);
}

/* Half of the addresses lie in a prefix of the table: of IPv6's space hardly any does. */
static void random_address(const struct routes *r, uint64_t *state, uint8_t addr[16])
{
	uint64_t w[2] = {rnd64(state), rnd64(state)};
	uint32_t i = rnd64(state) % (r->n * 2);
	uint8_t random[16];

	memcpy(random, w, 16);
	memcpy(addr, w, 16);
	if (i >= r->n)
		return;
	memcpy(addr, r->addr[i], 16);
	for (unsigned int b = r->len[i]; b < bits_of(r->key); b++)
		addr[b / 8] |= random[b / 8] & 0x80 >> b % 8;
}

static uint64_t disagreements(const struct fib *f, const struct trie *t, const struct routes *r,
			      uint64_t *state, uint32_t n, bool flickering)
{
	size_t stride = fib_key_bytes(r->key);
	uint8_t addr[BURST][16], keys[BURST * 16];
	uint16_t nhs[BURST];
	uint64_t wrong = 0;

	for (uint32_t done = 0; done < n; done += BURST) {
		for (unsigned int i = 0; i < BURST; i++) {
			random_address(r, state, addr[i]);
			to_key(r->key, addr[i], keys + i * stride);
		}
		fib_lookup(f, keys, nhs, BURST);
		for (unsigned int i = 0; i < BURST; i++)
			wrong += flickering ? !trie_allows(t, addr[i], bits_of(r->key), nhs[i])
					    : nhs[i] != trie_lookup(t, addr[i], bits_of(r->key));
	}
	return wrong;
}

static struct routes routes_new(enum fib_key key)
{
	return (struct routes){.key = key,
			       .addr = calloc(ROUTES_MAX, 16),
			       .len = calloc(ROUTES_MAX, 1),
			       .nh = calloc(ROUTES_MAX, 2)};
}

static void routes_free(struct routes *r)
{
	free(r->addr);
	free(r->len);
	free(r->nh);
}

static int put(struct fib *f, const struct routes *r, uint32_t i)
{
	uint8_t buf[16];

	return fib_insert(f, to_key(r->key, r->addr[i], buf), r->len[i], r->nh[i]);
}

static int take(struct fib *f, const struct routes *r, uint32_t i)
{
	uint8_t buf[16];

	return fib_remove(f, to_key(r->key, r->addr[i], buf), r->len[i], NULL);
}

/* Few bits vary, so that prefixes nest and repeat. */
static void small_table(enum fib_key key, uint64_t seed)
{
	struct fib *f = test_fib(FIB_LPM, key, 300);
	struct routes r = routes_new(key);
	struct trie t = {0};
	uint64_t state = seed, cursor = 0, listed = 0, in = 0;
	struct fib_route route;
	uint8_t buf[16];

	r.n = 300;
	for (uint32_t i = 0; i < r.n; i++) {
		/* The default route too; few short ones, for they fill much of the table. */
		r.len[i] = i ? rnd64(&state) % (bits_of(key) + 1) : 0;
		if (i % 16 && r.len[i] < 12)
			r.len[i] += 12;
		for (int b = 0; b < 16; b++)
			r.addr[i][b] = i % 2 ? rnd64(&state) & 0x81 : 0xff;
		mask(r.addr[i], r.len[i]);
		r.nh[i] = rnd64(&state) % FIB_MISS;
	}
	for (int step = 0; step < 1000; step++) {
		uint32_t i = rnd64(&state) % r.n;
		struct trie_node *node = trie_node(&t, r.addr[i], r.len[i]);
		bool there = node->nh != FIB_MISS;

		if (there) {
			r.nh[i] = rnd64(&state) % FIB_MISS;
			if (step % 3) {
				assert_int_equal(take(f, &r, i), 0);
				node->nh = FIB_MISS;
			} else {
				assert_int_equal(fib_update(f, to_key(key, r.addr[i], buf),
							    r.len[i], r.nh[i]),
						 0);
				node->nh = r.nh[i];
			}
		} else {
			assert_int_equal(take(f, &r, i), -ENOENT);
			assert_int_equal(put(f, &r, i), 0);
			assert_int_equal(put(f, &r, i), -EEXIST);
			node->nh = r.nh[i];
		}
		assert_int_equal(disagreements(f, &t, &r, &state, BURST, false), 0);
	}
	for (uint32_t i = 0; i < t.n; i++)
		in += t.nodes[i].nh != FIB_MISS;
	while (fib_next(f, &cursor, &route)) {
		uint8_t addr[16] = {0};

		listed++;
		to_key(key, route.key, addr); /* its own inverse */
		assert_int_equal(trie_node(&t, addr, route.len)->nh, route.next_hop);
	}
	assert_int_equal(listed, in);
	assert_int_equal(fib_count(f), in);
	trie_free(&t);
	routes_free(&r);
	fib_destroy(f);
}

static void test_small(void **ctx)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		small_table(FIB_KEY_IPV4, seed * 7919);
		small_table(FIB_KEY_IPV6, seed * 104729);
	}
}

/* Next hops that fit two of DIR-24-8's bytes, and those that do not. */
static void test_next_hop_range(void **ctx)
{
	static const uint16_t largest[] = {1, 0x7ffe, 0x7fff, FIB_NEXT_HOP_MAX};

	for (size_t i = 0; i < sizeof(largest) / sizeof(*largest); i++) {
		struct fib_conf conf = {.kind = FIB_LPM,
					.key = FIB_KEY_IPV4,
					.capacity = 10,
					.max_next_hop = largest[i],
					.socket = -1};
		uint32_t key = 0x0a000000, probe[2] = {0x0a000001, 0x0b000001};
		uint16_t nhs[2];
		struct fib *f;
		struct err err;

		assert_int_equal(fib_create(&f, &conf, "test", &err), 0);
		assert_int_equal(fib_insert(f, &key, 8, largest[i]), 0);
		if (largest[i] < FIB_NEXT_HOP_MAX)
			assert_int_equal(fib_update(f, &key, 8, largest[i] + 1), -ERANGE);
		fib_lookup(f, probe, nhs, 2);
		assert_int_equal(nhs[0], largest[i]);
		assert_int_equal(nhs[1], FIB_MISS);
		fib_destroy(f);
	}
}

static void test_full_and_bad_load(void **ctx)
{
	struct fib *f = test_fib(FIB_LPM, FIB_KEY_IPV4, 4);
	uint32_t keys[] = {0x01000000, 0x02000000, 0x03000000, 0x02000000, 0x05000000};
	uint8_t lens[] = {8, 8, 8, 8, 8};
	uint16_t nhs[] = {1, 2, 3, 4, 5};
	uint64_t bad;

	assert_int_equal(fib_load(f, keys, lens, nhs, 4, &bad), -EEXIST);
	assert_int_equal(bad, 3);
	assert_int_equal(fib_count(f), 0);
	keys[3] = 0x04000000;
	assert_int_equal(fib_load(f, keys, lens, nhs, 5, &bad), -ENOSPC);
	assert_int_equal(bad, 4);
	assert_int_equal(fib_count(f), 0);
	assert_int_equal(fib_load(f, keys, lens, nhs, 4, &bad), 0);
	assert_int_equal(fib_insert(f, &keys[4], 8, 1), -ENOSPC);
	assert_int_equal(fib_count(f), 4);
	fib_destroy(f);
}

static const char *routes_file(char *buf, size_t size)
{
	static const char *const roots[] = {"../shared", "../../shared", "../../../shared"};
	const char *env = getenv("HEADRACE_SHARED");

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots) + 1; i++) {
		const char *root = i ? roots[i - 1] : env;

		if (!root)
			continue;
		snprintf(buf, size, "%s/data/routes/tier1_prefixes.txt.gz", root);
		if (!access(buf, R_OK))
			return buf;
	}
	return NULL;
}

static void read_routes(const char *file, struct routes *v4, struct routes *v6)
{
	gzFile gz = gzopen(file, "rb");
	uint64_t state = 88172645463325252u;
	struct fib_route route;
	char line[128];

	assert_non_null(gz);
	while (gzgets(gz, line, sizeof(line))) {
		struct routes *r = strchr(line, ':') ? v6 : v4;

		line[strcspn(line, " \t\r\n")] = 0;
		assert_int_equal(fib_route_parse(r->key, line, &route), 0);
		assert_true(r->n < ROUTES_MAX);
		to_key(r->key, route.key, r->addr[r->n]); /* its own inverse */
		r->len[r->n] = route.len;
		r->nh[r->n++] = rnd64(&state) % 1000;
	}
	gzclose(gz);
}

struct replay {
	const struct fib *f;
	const struct trie *t;
	const struct routes *r;
	atomic_bool stop;
	uint64_t lookups, wrong;
};

static void *look_during(void *arg)
{
	struct replay *p = arg;
	uint64_t state = 0x123456789abcdef;

	while (!atomic_load(&p->stop)) {
		p->wrong += disagreements(p->f, p->t, p->r, &state, 4096, true);
		p->lookups += 4096;
	}
	return NULL;
}

/* One prefix in `every` goes and comes back, three times. */
static uint64_t replay(struct fib *f, const struct routes *r)
{
	uint64_t changes = 0;

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < r->n; i += every, changes++)
			assert_int_equal(take(f, r, i), 0);
		for (uint32_t i = 0; i < r->n; i += every, changes++)
			assert_int_equal(put(f, r, i), 0);
	}
	return changes;
}

static void internet(struct routes *r)
{
	struct fib_conf conf = {.kind = FIB_LPM,
				.key = r->key,
				.capacity = r->n + 1000,
				.max_next_hop = 1000,
				.socket = -1};
	size_t stride = fib_key_bytes(r->key);
	uint8_t *keys = malloc(r->n * stride);
	struct trie t = {0};
	struct replay p = {.t = &t, .r = r};
	uint64_t state = 42, bad, changes;
	pthread_t reader;
	struct fib *f;
	struct err err;

	for (uint32_t i = 0; i < r->n; i++) {
		trie_node(&t, r->addr[i], r->len[i])->nh = r->nh[i];
		to_key(r->key, r->addr[i], keys + i * stride);
	}
	for (uint32_t i = 0; i < r->n; i += every)
		trie_node(&t, r->addr[i], r->len[i])->flickers = true;
	if (fib_create(&f, &conf, "test", &err))
		fail_msg("%s", err.msg);
	assert_int_equal(fib_load(f, keys, r->len, r->nh, r->n, &bad), 0);
	assert_int_equal(disagreements(f, &t, r, &state, addresses, false), 0);

	p.f = f;
	assert_int_equal(pthread_create(&reader, NULL, look_during, &p), 0);
	changes = replay(f, r);
	atomic_store(&p.stop, true);
	pthread_join(reader, NULL);
	print_message("%s: %u prefixes, %llu lookups beside %llu changes, %llu wrong\n",
		      fib_key_name(r->key), r->n,
		      (unsigned long long)p.lookups, (unsigned long long)changes,
		      (unsigned long long)p.wrong);
	assert_int_equal(p.wrong, 0);
	assert_int_equal(disagreements(f, &t, r, &state, addresses, false), 0);
	assert_int_equal(fib_count(f), r->n);
	fib_destroy(f);
	trie_free(&t);
	free(keys);
}

static void test_internet(void **ctx)
{
	struct routes v4 = routes_new(FIB_KEY_IPV4), v6 = routes_new(FIB_KEY_IPV6);
	char buf[512];
	const char *file = routes_file(buf, sizeof(buf));

	if (!file) {
		print_message("SKIP: no data/routes/tier1_prefixes.txt.gz in ../shared or "
			      "HEADRACE_SHARED\n");
		skip();
	}
	read_routes(file, &v4, &v6);
	internet(&v4);
	internet(&v6);
	routes_free(&v4);
	routes_free(&v6);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_next_hop_range),
		cmocka_unit_test(test_full_and_bad_load),
		cmocka_unit_test(test_internet),
	};
	const char *eal[] = {argv[0],
			     "--no-huge",
			     "--no-pci",
			     "--no-shconf",
			     "--no-telemetry",
			     "--log-level=error",
			     "-m",
			     "1536",
			     "-l",
			     "0"};

	cpu_set_t cpus;

	if (argc > 1)
		addresses = strtoul(argv[1], NULL, 10);
	if (argc > 2 && strtoul(argv[2], NULL, 10))
		every = strtoul(argv[2], NULL, 10);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (rte_eal_init(sizeof(eal) / sizeof(*eal), (char **)(uintptr_t)eal) < 0) {
		print_message("the EAL does not start\n");
		return 1;
	}
	/* The EAL ties this thread to one CPU; the readers that it starts shall run beside it. */
	sched_setaffinity(0, sizeof(cpus), &cpus);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
