/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/hist.h"

static struct hist h, other;

static void record(struct hist *to, uint64_t v)
{
	hist_record(to, v);
	to->count++;
	to->sum += v;
	to->min = v < to->min ? v : to->min;
	to->max = v > to->max ? v : to->max;
}

/* The index grows with the value and its bucket is never wider than a thousandth of it. */
static void test_index(void **state)
{
	unsigned int last = 0;

	(void)state;
	for (uint64_t v = 0; v < 1ull << HIST_MAX_BITS; v += 1 + v / 5000) {
		unsigned int i = hist_index(v);

		assert_true(i < HIST_SLOTS);
		assert_true(i >= last);
		last = i;
		if (v >= 2048)
			assert_true(hist_index(v + v / 500) > i);
		else
			assert_int_equal(i, v);
	}
	assert_int_equal(hist_index((1ull << HIST_MAX_BITS) - 1), HIST_SLOTS - 1);
}

static void test_percentiles(void **state)
{
	(void)state;
	hist_reset(&h);
	assert_int_equal(hist_percentile(&h, 0.5), 0);
	for (uint64_t v = 1; v <= 1000; v++)
		record(&h, v);
	assert_int_equal(hist_percentile(&h, 0), 1);
	assert_int_equal(hist_percentile(&h, 0.5), 500);
	assert_int_equal(hist_percentile(&h, 0.99), 990);
	assert_int_equal(hist_percentile(&h, 1), 1000);
}

static void test_add(void **state)
{
	(void)state;
	hist_reset(&h);
	hist_reset(&other);
	record(&h, 10);
	record(&other, 5);
	record(&other, 1000000);
	hist_add(&h, &other);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.min, 5);
	assert_int_equal(h.max, 1000000);
	assert_int_equal(hist_percentile(&h, 1), 1000000);
}

/*
 * The empty histogram and a known one, as HdrHistogram's readers take it: the test of the lab
 * decodes what the engine sends with the Python library; here only the frame is looked at.
 */
/* As adding, with the percentiles of what was moved; and nothing is left. */
static void test_move(void **state)
{
	static const double shares[] = {0.5, 0.99, 1};
	uint64_t values[3];

	(void)state;
	hist_reset(&h);
	hist_reset(&other);
	hist_move(&h, &other, shares, values, 3);
	assert_int_equal(values[2], 0);
	for (unsigned int round = 1; round <= 3; round++) {
		for (uint64_t v = 1; v <= 1000; v++)
			record(&other, v * round);
		other.saturated = 1;
		uint64_t median = hist_percentile(&other, 0.5), most = hist_percentile(&other, 0.99);

		hist_move(&h, &other, shares, values, 3);
		assert_int_equal(values[0], median);
		assert_int_equal(values[1], most);
		assert_int_equal(values[2], 1000 * round);
		assert_int_equal(other.count + other.sum + other.max + other.saturated, 0);
		assert_int_equal(hist_percentile(&h, 1), 1000 * round);
	}
	for (unsigned int i = 0; i < HIST_SLOTS; i++)
		assert_int_equal(other.slots[i], 0);
	assert_int_equal(h.count, 3000);
	assert_int_equal(h.sum, 500500 * 6);
	assert_int_equal(h.min, 1);
	assert_int_equal(h.saturated, 3);
	/* Of the thrice 1 to 1000, scaled, as many are up to 1000 as there are numbers. */
	assert_int_equal(hist_percentile(&h, (1000. + 500 + 333) / 3000), 1000);
}

static void test_encoding(void **state)
{
	char *text;

	(void)state;
	hist_reset(&h);
	record(&h, 123456);
	text = hist_encode(&h);
	assert_non_null(text);
	/* Cookie 0x1c849314 in base64, as every V2 compressed histogram begins. */
	assert_memory_equal(text, "HISTFA", 6);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
