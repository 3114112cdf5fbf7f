/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "link/due.h"

static struct pace pace(double interval, uint64_t packets)
{
	struct pace p = {.start_tsc = 1000, .left = packets, .deadline = UINT64_MAX};

	pace_set_interval(&p, interval);
	return p;
}

/* Polled often, each packet leaves at its time and no earlier. */
static void test_on_time(void **state)
{
	struct pace p = pace(100, 50);
	uint64_t intended, sent = 0;

	(void)state;
	for (uint64_t now = 900; now < 7000; now++) {
		uint16_t n = pace_due(&p, now, 32, &intended);

		if (!n)
			continue;
		assert_int_equal(n, 1);
		assert_int_equal(intended, 1000 + 100 * sent);
		assert_int_equal(now, intended);
		sent++;
	}
	assert_int_equal(sent, 50);
	assert_int_equal(p.left, 0);
	assert_int_equal(p.behind_max, 0);
}

/* A fractional interval does not drift: a million packets take a million intervals. */
static void test_no_drift(void **state)
{
	struct pace p = pace(230.77, 1000000);
	uint64_t intended = 0;

	(void)state;
	for (uint64_t now = 1000; p.left; now += 3000)
		while (pace_due(&p, now, 32, &intended))
			;
	assert_in_range(intended, 1000 + 230769000, 1000 + 230770000);
}

/* After a stall the backlog comes at 8/7 of the rate, with true intended times, not at once. */
static void test_stall(void **state)
{
	struct pace p = pace(100, UINT64_MAX);
	uint64_t intended, sent = 0, start = 1000 + 1000000;

	(void)state;
	assert_int_equal(pace_due(&p, 1000, 1, &intended), 1);
	for (uint64_t now = start; now < start + 70000; now += 10) {
		uint16_t n = pace_due(&p, now, 32, &intended);

		if (n && !sent)
			assert_int_equal(intended, 1100);
		sent += n;
	}
	/* 700 intervals at 8/7, and the credit. */
	assert_in_range(sent, 800, 800 + PACE_CREDIT + 2);
	assert_in_range(p.behind_max, 990000, 1000000);
}

static void test_full_speed(void **state)
{
	struct pace p = pace(0, 100);
	uint64_t intended;

	(void)state;
	assert_int_equal(pace_due(&p, 999, 32, &intended), 0);
	assert_int_equal(pace_due(&p, 2000, 32, &intended), 32);
	assert_int_equal(intended, 2000);
	assert_int_equal(pace_due(&p, 2001, 64, &intended), 64);
	assert_int_equal(pace_due(&p, 2002, 32, &intended), 4);
	assert_int_equal(pace_due(&p, 2003, 32, &intended), 0);
}

/*
 * A rate that is set a hundred times, to what it is, changes nothing: not between two packets, and not while
 * 1,000 are owed. One that is halved then has those come, too, and the next one after what is left of its
 * interval, which is twice as long now.
 */
static void test_another_rate(void **state)
{
	struct pace p = {.deadline = UINT64_MAX, .left = UINT64_MAX};
	uint64_t intended, sent = 0, now;

	(void)state;
	pace_set_interval(&p, 100);
	for (now = 0; now <= 100000; now += 50) {
		if (now % 1000 == 0)
			pace_change(&p, now << PACE_FRACTION, 100);
		sent += pace_due(&p, now, 32, &intended);
	}
	assert_int_equal(sent, 1001); /* at 0, 100, ... 100000 */
	pace_change(&p, 200000ull << PACE_FRACTION, 100);
	pace_change(&p, 200000ull << PACE_FRACTION, 200);
	for (now = 200000; now < 10000000; now += 50)
		sent += pace_due(&p, now, 32, &intended);
	assert_in_range(sent, 1001 + 1000 + 49000 - 1, 1001 + 1000 + 49000 + 1);
	/* What was owed had room behind the start only for some: no time is before it. */
	p = (struct pace){.deadline = UINT64_MAX, .left = UINT64_MAX};
	pace_set_interval(&p, 10);
	pace_change(&p, 1000ull << PACE_FRACTION, 1000);
	assert_int_equal(p.next, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_rate),
		cmocka_unit_test(test_on_time),
		cmocka_unit_test(test_no_drift),
		cmocka_unit_test(test_stall),
		cmocka_unit_test(test_full_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
