/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of known length: every cycle is told apart once, and to whom it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/loop/busy.h"

#define PAUSE 100000
#define STILL 1000000
#define EMPTY 40

struct lcore {
	struct busy_clock clock;
	struct busy a, b;
	uint64_t now;
};

static struct lcore fresh(uint64_t usual)
{
	struct lcore l = {.clock = {.pause = PAUSE, .still = STILL, .mark = 1000}, .now = 1000};

	l.a.usual = l.b.usual = usual * BUSY_USUAL;
	return l;
}

static void turn(struct lcore *l, struct busy *b, uint64_t cycles, uint32_t n)
{
	l->now += cycles;
	busy_turn(b, &l->clock, l->now, n);
}

static void full(struct lcore *l, struct busy *b, uint64_t cycles, uint32_t n)
{
	l->now += cycles;
	busy_unread(b, &l->clock, n);
}

static uint64_t all(const struct lcore *l)
{
	return l->a.ops + l->b.ops + l->clock.idle + l->clock.pauses;
}

/* An lcore that was kept from working for long, and the one that a replica goes to within a trial. */
static void test_looks_of_one_lcore(void **state)
{
	struct busy_window window = {0};
	struct busy_clock had = {.pauses = 5000}, has = {.pauses = 70};
	struct busy b = {.ops = 100};

	(void)state;
	atomic_store(&window.start, 1000);
	atomic_store(&window.end, 9000);
	busy_look(&b, &had, &window, 2000);
	had.pauses = 5400;
	busy_look(&b, &had, &window, 3000);
	assert_int_equal(b.within.last_pauses - b.within.first_pauses, 400);
	assert_int_equal(b.within.last_tsc - b.within.first_tsc, 1000);
	busy_look(&b, &has, &window, 4000);
	has.pauses = 90;
	b.ops = 300;
	busy_look(&b, &has, &window, 6000);
	assert_int_equal(b.within.last_pauses - b.within.first_pauses, 20);
	assert_int_equal(b.within.last_ops - b.within.first_ops, 200);
	assert_int_equal(b.within.last_tsc - b.within.first_tsc, 2000);
}

static void test_partial_load(void **state)
{
	struct lcore l = fresh(500);

	(void)state;
	for (int i = 0; i < 1000; i++) {
		turn(&l, &l.a, 700, 1);
		for (int k = 0; k < 20; k++)
			turn(&l, &l.a, EMPTY, 0);
	}
	assert_int_equal(l.a.ops, 700 * 1000);
	assert_int_equal(l.clock.idle, EMPTY * 20 * 1000);
	assert_int_equal(l.clock.pauses, 0);
}

/* Of a run of full bursts only the empty turn at its end has to be guessed. */
static void test_full_bursts(void **state)
{
	struct lcore l = fresh(70);

	(void)state;
	turn(&l, &l.a, EMPTY, 0);
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 7; k++)
			full(&l, &l.a, 2240, 32);
		turn(&l, &l.a, EMPTY, 0);
	}
	assert_int_equal(l.a.ops, 100 * 7 * 2240);
	assert_int_equal(l.clock.idle, 101 * EMPTY);
}

/* Two replicas on one lcore, one three times as dear as the other: neither is read while both are full. */
static void test_pool(void **state)
{
	struct lcore l = fresh(90);

	(void)state;
	l.b.usual = 30 * BUSY_USUAL;
	turn(&l, &l.a, EMPTY, 0);
	for (int i = 0; i < 100; i++) {
		full(&l, &l.a, 2880, 32);
		full(&l, &l.b, 960, 32);
		turn(&l, &l.b, EMPTY, 0);
	}
	assert_in_range(l.a.ops, 287900, 288100);
	assert_in_range(l.b.ops, 95900, 96100);
	assert_in_range(all(&l), l.now - 1000 - 2, l.now - 1000);
}

/*
 * What a replica has is its own for good: another one that has far more to do from now on takes nothing of
 * it away, though both were read together before.
 */
static void test_kept(void **state)
{
	struct lcore l = fresh(90);
	uint64_t a;

	(void)state;
	turn(&l, &l.b, EMPTY, 0);
	for (int i = 0; i < 100; i++) {
		full(&l, &l.a, 2880, 32);
		full(&l, &l.b, 2880, 32);
		turn(&l, &l.b, EMPTY, 0);
	}
	a = l.a.ops;
	assert_in_range(a, 287900, 288000);
	/* Its packets take less from now on than is known of them. */
	for (int i = 0; i < 1000; i++) {
		full(&l, &l.b, 288, 32);
		assert_int_equal(l.a.ops, a);
		turn(&l, &l.b, EMPTY, 0);
		assert_int_equal(l.a.ops, a);
	}
	assert_in_range(l.b.ops, 287900 + 288000, 288100 + 288000);
}

static void test_pauses(void **state)
{
	struct lcore l = fresh(500);

	(void)state;
	turn(&l, &l.a, 700, 1);
	turn(&l, &l.a, 700 + PAUSE, 1);  /* an interruption: its packet keeps what is usual */
	turn(&l, &l.a, PAUSE + EMPTY, 0); /* in a turn without packets, too */
	assert_int_equal(l.a.ops, 700 + 500);
	assert_int_equal(l.clock.idle, 0);
	assert_int_equal(l.clock.pauses, 200 + PAUSE + PAUSE + EMPTY);
	assert_int_equal(l.clock.standstill, 0);
	turn(&l, &l.a, 2 * STILL, 0);
	assert_int_equal(l.clock.standstill, 2 * STILL);
	assert_int_equal(all(&l), l.now - 1000);
}

/* Taking the core's pace is no turn; who takes the lcore meanwhile is a pause, and no cycle of it is lost. */
static void test_measured(void **state)
{
	struct lcore l = fresh(500);

	(void)state;
	turn(&l, &l.a, 700, 1);
	l.now += PAUSE;
	busy_measured(&l.clock, l.now);
	assert_int_equal(l.clock.pauses, 0);
	l.now += 2 * STILL;
	busy_measured(&l.clock, l.now);
	turn(&l, &l.a, EMPTY, 0);
	assert_int_equal(l.clock.pauses, 2 * STILL);
	assert_int_equal(l.clock.standstill, 2 * STILL);
	assert_int_equal(all(&l), l.now - 1000 - PAUSE);
}

/*
 * A pause of 30 times as long as the time between two looks, that begins before one of them and ends after
 * another: what was told between two of them is never more than the time that they are apart, and after it
 * nothing is missing.
 */
static void test_looks_into_a_pause(void **state)
{
	struct lcore l = fresh(500);
	struct busy_told was, is;
	uint64_t most = 32 * l.a.usual, step = 3 * STILL, since;

	(void)state;
	turn(&l, &l.a, 700, 1);
	was = busy_so_far(&l.clock, 0, most, l.now + 20);
	assert_int_equal(was.until, l.now); /* a turn that goes on is nobody's yet */
	assert_int_equal(was.pauses, 0);
	since = l.now - step / 3;
	for (int look = 1; look <= 31; look++) {
		is = busy_so_far(&l.clock, 0, most, since + look * step);
		assert_in_range(is.pauses - was.pauses, step / 2, is.until - was.until);
		assert_in_range(is.standstill - was.standstill, step / 2, is.until - was.until);
		assert_in_range(l.a.ops + l.clock.idle + is.pauses, is.until - 1000, is.until - 1000);
		was = is;
	}
	turn(&l, &l.a, 31 * step, 1);
	is = busy_so_far(&l.clock, 0, most, l.now + 20);
	assert_int_equal(is.until, l.now);
	assert_in_range(is.pauses - was.pauses, 0, is.until - was.until);
	assert_int_equal(is.pauses, 31 * step - 500);
	assert_int_equal(is.standstill, is.pauses);
}

/* Turns as long as their packets may make them are no pauses; nor is what nobody knows the packets of. */
static void test_looks_into_long_turns(void **state)
{
	struct lcore l = fresh(5000);
	uint64_t most = 32 * l.a.usual;

	(void)state;
	turn(&l, &l.a, 5000, 1);
	assert_int_equal(busy_so_far(&l.clock, 0, most, l.now + 4 * 32 * 5000).pauses, 0);
	assert_int_equal(busy_so_far(&l.clock, 0, most, l.now + 10 * 32 * 5000).pauses, 9 * 32 * 5000);
	assert_int_equal(busy_so_far(&l.clock, 0, 16 * 500, l.now + 9 * PAUSE).until, l.now);
	assert_int_equal(busy_so_far(&l.clock, 0, 0, l.now + 2 * STILL).pauses, 0);
	assert_int_equal(busy_so_far(&l.clock, 0, 0, l.now + 2 * STILL).until, l.now);
}

/* An lcore that waits for packets sleeps, and is kept from nothing. */
static void test_looks_into_sleep(void **state)
{
	struct lcore l = fresh(500);
	struct busy_told is;

	(void)state;
	turn(&l, &l.a, 700, 1);
	is = busy_so_far(&l.clock, l.now + 10, 32 * l.a.usual, l.now + 10 + 2 * STILL);
	assert_int_equal(is.slept, 2 * STILL);
	assert_int_equal(is.pauses, 0);
	assert_int_equal(is.until, l.now + 2 * STILL);
}

/* Gaps are told in turns without packets only, by their length; a pause is one, too. */
static void test_gaps(void **state)
{
	struct lcore l = fresh(500);

	(void)state;
	for (int i = 0; i < 10; i++) {
		turn(&l, &l.a, EMPTY, 0);
		turn(&l, &l.a, BUSY_GAP - 1, 0);
		turn(&l, &l.a, BUSY_GAP, 0);
		turn(&l, &l.a, 2 * BUSY_GAP - 1, 0);
		turn(&l, &l.a, 5 * BUSY_GAP, 0);
		turn(&l, &l.a, 5 * BUSY_GAP, 32);
		turn(&l, &l.a, 20 * PAUSE, 0);
	}
	assert_int_equal(l.clock.gaps.n[0], 20);
	assert_int_equal(l.clock.gaps.cycles[0], 10 * (3 * BUSY_GAP - 1));
	assert_int_equal(l.clock.gaps.n[1], 0);
	assert_int_equal(l.clock.gaps.n[2], 10);
	assert_int_equal(l.clock.gaps.cycles[2], 50 * BUSY_GAP);
	assert_int_equal(l.clock.gaps.n[7], 10); /* 2,000,000 is between 2^7 and 2^8 times 2^13 */
	turn(&l, &l.a, 1ull << 40, 0);
	assert_int_equal(l.clock.gaps.n[BUSY_GAPS - 1], 1);
}

/* A turn of 400 cycles and 30 for each packet: sums that a line through them gives back. */
static void test_line(void **state)
{
	struct lcore l = fresh(100);
	const struct busy_turns *t = &l.a.turns;
	double mean, slope;

	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t n = 1 + i % 7;

		l.now += 400 + 30 * n;
		busy_count_turn(&l.a, &l.clock, l.now, n);
		busy_turn(&l.a, &l.clock, l.now, n);
	}
	mean = (double)t->packets / t->n;
	slope = ((double)t->cycles_by_packets / t->n - mean * t->cycles / t->n) /
		((double)t->packets_squared / t->n - mean * mean);
	assert_in_range((uint64_t)(slope * 1000), 29990, 30010);
	assert_in_range((uint64_t)(((double)t->cycles / t->n - slope * mean) * 10), 3999, 4001);
	l.now += 2 * PAUSE;
	busy_count_turn(&l.a, &l.clock, l.now, 1); /* interrupted: no turn of these */
	assert_int_equal(t->n, 3000);
}

/* A function that has become slow for good is not taken for one that is interrupted for ever. */
static void test_slower_for_good(void **state)
{
	struct lcore l = fresh(500);
	uint64_t at;

	(void)state;
	for (int i = 0; i < 100; i++) {
		turn(&l, &l.a, 2 * PAUSE, 1);
		busy_learn(&l.a, 2 * PAUSE, 1);
	}
	at = l.clock.pauses;
	turn(&l, &l.a, 2 * PAUSE, 1);
	assert_int_equal(l.clock.pauses, at);
	assert_int_equal(all(&l), l.now - 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partial_load), cmocka_unit_test(test_full_bursts),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_kept), cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_gaps), cmocka_unit_test(test_measured),
		cmocka_unit_test(test_looks_into_a_pause), cmocka_unit_test(test_looks_of_one_lcore),
		cmocka_unit_test(test_looks_into_long_turns), cmocka_unit_test(test_looks_into_sleep),
		cmocka_unit_test(test_slower_for_good), cmocka_unit_test(test_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
