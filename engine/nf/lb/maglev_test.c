/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maglev.h"

#define M 65537u
#define BACKENDS 100u

static void make(struct maglev_backend *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		snprintf(b[i].name, sizeof(b[i].name), "10.0.%u.%u 80", i / 256, i % 256);
		b[i].weight = 1;
		b[i].value = (uint16_t)i;
	}
}

static void shares(const uint16_t *table, unsigned int n, uint32_t *count)
{
	memset(count, 0, n * sizeof(*count));
	for (uint32_t i = 0; i < M; i++) {
		assert_in_range(table[i], 0, n - 1);
		count[table[i]]++;
	}
}

static uint16_t *fill(const struct maglev_backend *b, unsigned int n)
{
	uint16_t *table = malloc(M * sizeof(*table));

	assert_int_equal(maglev_fill(table, M, b, n), 0);
	return table;
}

/* The paper: with equal weights the turns make shares differ by one entry at most. */
static void test_equal_shares(void **state)
{
	struct maglev_backend b[BACKENDS];
	uint32_t count[BACKENDS];

	(void)state;
	for (unsigned int n = 1; n <= BACKENDS; n += 3) {
		uint16_t *table;

		make(b, n);
		table = fill(b, n);
		shares(table, n, count);
		for (unsigned int i = 0; i < n; i++)
			assert_in_range(count[i], M / n, M / n + 1);
		free(table);
	}
}

static void test_weights(void **state)
{
	static const uint32_t weights[] = {1, 2, 3, 10, 0, 100, 7};
	struct maglev_backend b[7];
	uint32_t count[7], sum = 123;
	uint16_t *table;

	(void)state;
	make(b, 7);
	for (unsigned int i = 0; i < 7; i++)
		b[i].weight = weights[i];
	table = fill(b, 7);
	shares(table, 7, count);
	for (unsigned int i = 0; i < 7; i++) {
		double want = (double)M * weights[i] / sum;

		assert_true(count[i] >= want - 3 && count[i] <= want + 3);
	}
	free(table);
}

/*
 * Least disruption: entries of the backend that leaves must move, few others do. Section 5.3
 * of the paper measures some 2 % of entries at M = 65537 for one of 1000; allow that of 100.
 */
static void test_disruption(void **state)
{
	struct maglev_backend b[BACKENDS], rest[BACKENDS - 1];
	uint16_t *before, *after;
	uint32_t forced = 0, needless = 0;

	(void)state;
	make(b, BACKENDS);
	memcpy(rest, b + 1, sizeof(rest));
	before = fill(b, BACKENDS);
	after = fill(rest, BACKENDS - 1);
	for (uint32_t i = 0; i < M; i++) {
		forced += before[i] == 0;
		needless += before[i] != 0 && before[i] != after[i];
	}
	assert_in_range(forced, M / BACKENDS, M / BACKENDS + 1);
	assert_true(needless < M / 50);
	print_message("one of %u backends leaves: %.2f %% of entries move needlessly\n", BACKENDS,
		      100.0 * needless / M);
	free(before);
	free(after);
}

/* The order in which backends were added must not matter much: other workers, other histories. */
static void test_same_names_same_table(void **state)
{
	struct maglev_backend b[10];
	uint16_t *one, *two;

	(void)state;
	make(b, 10);
	one = fill(b, 10);
	two = fill(b, 10);
	assert_memory_equal(one, two, M * sizeof(*one));
	free(one);
	free(two);
}

static void test_nobody(void **state)
{
	struct maglev_backend b[2];
	uint16_t table[7];

	(void)state;
	make(b, 2);
	b[0].weight = b[1].weight = 0;
	assert_int_equal(maglev_fill(table, 7, b, 2), 0);
	for (int i = 0; i < 7; i++)
		assert_int_equal(table[i], MAGLEV_NONE);
}

static void test_primes(void **state)
{
	(void)state;
	assert_true(maglev_is_prime(2) && maglev_is_prime(3) && maglev_is_prime(65537));
	assert_true(maglev_is_prime(5000011));
	assert_false(maglev_is_prime(0) || maglev_is_prime(1) || maglev_is_prime(65536));
	assert_false(maglev_is_prime(65537u * 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_shares), cmocka_unit_test(test_weights),
		cmocka_unit_test(test_disruption),   cmocka_unit_test(test_same_names_same_table),
		cmocka_unit_test(test_nobody),       cmocka_unit_test(test_primes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
