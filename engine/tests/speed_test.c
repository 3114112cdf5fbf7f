/* SPDX-License-Identifier: Apache-2.0 */
/* A core's pace, held against a chain of known length: multiplications, which take three cycles each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/loop/pace.h"

#define TRIES 2000
#define MULTIPLICATION 3 /* cycles, on all of Intel's cores since Nehalem and AMD's since Zen */

struct best {
	uint64_t clock, once, wide, multiplied;
};

static uint64_t multiplications(void)
{
	uint64_t start, x = 3, by = 5;

	__asm__ volatile("" : "+r"(by));
	start = rte_rdtsc_precise();
	for (unsigned int i = 0; i < PACE_ADDITIONS / 16; i++) {
#pragma GCC unroll 16
		for (unsigned int j = 0; j < 16; j++) {
			x *= by;
			__asm__ volatile("" : "+r"(x));
		}
	}
	return rte_rdtsc_precise() - start;
}

static struct best measure(void)
{
	struct best b = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

	for (unsigned int i = 0; i < TRIES; i++) {
		b.clock = RTE_MIN(b.clock, pace_clock());
		b.once = RTE_MIN(b.once, pace_once());
		b.wide = RTE_MIN(b.wide, pace_wide());
		b.multiplied = RTE_MIN(b.multiplied, multiplications());
	}
	b.once -= b.clock;
	b.wide -= b.clock;
	b.multiplied -= b.clock;
	return b;
}

/* An addition takes a cycle, no less: the best of many, so that other work does not count. */
static void test_an_addition_takes_a_cycle(void **state)
{
	struct best b = measure();

	(void)state;
#ifndef RTE_ARCH_X86
	skip();
#endif
	assert_in_range(100 * MULTIPLICATION * b.once / b.multiplied, 85, 130);
}

/* Four chains do not take less than one: then neither was a chain. */
static void test_four_chains(void **state)
{
	struct best b = measure();

	(void)state;
	assert_in_range(100 * b.wide / b.once, 95, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_addition_takes_a_cycle),
		cmocka_unit_test(test_four_chains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
