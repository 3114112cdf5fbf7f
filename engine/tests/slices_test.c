/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of known length, cut into slices: nothing is lost between them, and each has its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/loop/segment.h"

#define SLICE_CYCLES 20000000ull
#define BURST 32

struct lcore {
	struct busy_clock clock;
	struct beacon beacon;
	struct slicer slicer;
	struct replica a, b, *both[2];
	struct inlet in_a, in_b;
	uint64_t now;
};

static void begin(struct lcore *l, uint64_t usual_a, uint64_t usual_b)
{
	*l = (struct lcore){.clock = {.mark = 1000, .pause = 100000, .still = UINT64_MAX}, .now = 1000};
	l->a = (struct replica){.n_inlets = 1, .inlets = &l->in_a, .slices = slices_create()};
	l->b = (struct replica){.n_inlets = 1, .inlets = &l->in_b, .slices = slices_create()};
	l->a.busy.usual = usual_a * BUSY_USUAL;
	l->b.busy.usual = usual_b * BUSY_USUAL;
	l->both[0] = &l->a;
	l->both[1] = &l->b;
	assert_non_null(l->a.slices);
	assert_non_null(l->b.slices);
	slicer_begin(&l->slicer, &l->clock, &l->beacon, NULL, l->both, 2);
}

static void end(struct lcore *l)
{
	slices_free(l->a.slices);
	slices_free(l->b.slices);
}

/* A full burst, which is not read; then an empty turn, which is. */
static void poll_full(struct lcore *l, struct replica *r, uint64_t cycles)
{
	l->now += cycles;
	r->inlets->count.packets += BURST;
	r->count.polls++;
	busy_unread(&r->busy, &l->clock, BURST);
}

static void poll_empty(struct lcore *l, struct replica *r, uint64_t cycles)
{
	l->now += cycles;
	r->count.polls++;
	r->count.idle_polls++;
	busy_turn(&r->busy, &l->clock, l->now, 0);
}

static const struct slice *last(const struct replica *r)
{
	return &r->slices->ring[(r->slices->n - 1) % SLICES];
}

/* What both cost changes from slice to slice: each slice has its own cycles, whatever went before. */
static void test_own_cycles(void **state)
{
	struct lcore l;

	(void)state;
	begin(&l, 100, 50);
	poll_empty(&l, &l.b, 40); /* known, where one that ends a run of full bursts has to be guessed */
	slicer_close(&l.slicer, l.now);
	for (uint64_t cost = 1; cost <= 4; cost++) {
		uint64_t was = l.now;

		l.a.busy.usual = 100 * cost * BUSY_USUAL;
		for (int i = 0; i < 1000; i++) {
			poll_full(&l, &l.a, 100 * cost * BURST);
			poll_full(&l, &l.b, 50ull * BURST);
			poll_empty(&l, &l.b, 40);
		}
		slicer_close(&l.slicer, l.now);
		assert_int_equal(last(&l.a)->packets, 1000 * BURST);
		assert_int_equal(last(&l.a)->found, 1000);
		assert_int_equal(last(&l.a)->ref, l.now - was);
		assert_int_equal(last(&l.a)->end, l.now);
		assert_in_range(last(&l.a)->ops, 100 * cost * BURST * 1000 - 50,
				100 * cost * BURST * 1000 + 50);
		assert_in_range(last(&l.b)->ops, 50ull * BURST * 1000 - 50, 50ull * BURST * 1000 + 50);
		assert_int_equal(last(&l.b)->pauses, 0);
	}
	end(&l);
}

/* A pause is in its slice only, of both replicas, and in nobody's cycles. */
static void test_pause(void **state)
{
	struct lcore l;

	(void)state;
	begin(&l, 100, 100);
	for (int slice = 0; slice < 3; slice++) {
		for (int i = 0; i < 100; i++)
			poll_empty(&l, &l.a, i == 50 && slice == 1 ? 5000000 : 40);
		slicer_close(&l.slicer, l.now);
		assert_int_equal(last(&l.a)->pauses, slice == 1 ? 5000000 : 0);
		assert_int_equal(last(&l.b)->pauses, slice == 1 ? 5000000 : 0);
		assert_int_equal(last(&l.a)->ops, 0);
	}
	end(&l);
}

/* Slices by TSC: whole ones within it, the newest where there were more than are kept, evenly thinned. */
static void test_between(void **state)
{
	static struct slice out[SLICES];
	struct lcore l;
	uint64_t first;
	unsigned int n;

	(void)state;
	begin(&l, 100, 100);
	for (uint64_t i = 0; i < SLICES + 500; i++) {
		l.in_a.count.packets += i;
		l.now = 1000 + (i + 1) * SLICE_CYCLES;
		slicer_close(&l.slicer, l.now);
	}
	n = slices_between(l.a.slices, 1000 + 1000 * SLICE_CYCLES, 1000 + 1200 * SLICE_CYCLES, out, SLICES);
	assert_int_equal(n, 200);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(out[i].packets, 1000 + i);
	n = slices_between(l.a.slices, 1001 + 1000 * SLICE_CYCLES, 999 + 1200 * SLICE_CYCLES, out, SLICES);
	assert_int_equal(n, 198);
	assert_int_equal(out[0].packets, 1001);
	n = slices_between(l.a.slices, 0, UINT64_MAX, out, SLICES);
	first = out[0].packets;
	assert_true(n > SLICES - 200 && first == SLICES + 500 - n);
	n = slices_between(l.a.slices, 1000 + 1000 * SLICE_CYCLES, 1000 + 1200 * SLICE_CYCLES, out, 60);
	assert_int_equal(n, 50); /* each fourth */
	assert_int_equal(out[49].packets, 1000 + 4 * 49);
	end(&l);
}

/* A look at the beacon beside in each of its turns, which `goes_on` says whether that has written since. */
static void look(struct lcore *l, struct beacon *beside, bool goes_on)
{
	beside->writes += goes_on;
	l->slicer.next_look = l->now;
	slicer_beacon(&l->slicer, l->now);
}

/* The beacon beside is looked at where it was written since; what it costs is the machine's. */
static void test_line_beside(void **state)
{
	struct beacon beside = {.writes = 5};
	struct lcore l;

	(void)state;
	begin(&l, 100, 100);
	slicer_beacon(&l.slicer, l.now);
	assert_int_equal(l.beacon.writes, 1);
	slicer_close(&l.slicer, l.now);
	assert_int_equal(last(&l.a)->line, 0); /* no other lcore */
	slicer_begin(&l.slicer, &l.clock, &l.beacon, &beside, l.both, 2);
	look(&l, &beside, true);
	slicer_close(&l.slicer, l.now += SLICE_CYCLES);
	assert_in_range(last(&l.a)->line, 1, UINT32_MAX);
	assert_int_equal(last(&l.b)->line, last(&l.a)->line);
	look(&l, &beside, false);
	slicer_close(&l.slicer, l.now += SLICE_CYCLES);
	assert_int_equal(last(&l.a)->line, 0); /* it stands still */
	beside.slept++;
	look(&l, &beside, true);
	slicer_close(&l.slicer, l.now += SLICE_CYCLES);
	assert_int_equal(last(&l.a)->line, 0);
	look(&l, &beside, true);
	slicer_close(&l.slicer, l.now += SLICE_CYCLES);
	assert_in_range(last(&l.a)->line, 1, UINT32_MAX);
	end(&l);
}

/* A beacon is written, and another read, as often as is said; its lcore's clock says what it slept. */
static void test_beacon_pace(void **state)
{
	const unsigned int writes = 1000, each = 20;
	struct beacon beside = {0};
	struct lcore l;
	unsigned int looks = 0;

	(void)state;
	begin(&l, 100, 100);
	slicer_begin(&l.slicer, &l.clock, &l.beacon, &beside, l.both, 2);
	l.slicer.beacon_each = 1000;
	l.slicer.look_each = each * l.slicer.beacon_each;
	l.clock.slept = 77;
	for (unsigned int i = 0; i < writes; i++) {
		uint64_t seen = l.slicer.beside_writes;

		beside.writes++;
		slicer_beacon(&l.slicer, l.now);
		looks += l.slicer.beside_writes != seen;
		l.now = l.slicer.next_beacon;
	}
	assert_int_equal(l.beacon.writes, writes);
	assert_int_equal(l.beacon.slept, 77);
	assert_int_equal(looks, writes / each);
	assert_true(l.clock.mark > 1000); /* what it took is no turn's */
	end(&l);
}

/*
 * An lcore that waits for room turns every few dozen cycles. A line that it writes each time takes up to ten
 * times what lies between it and who looks; the beacon is due once in a few hundred turns.
 */
static void test_beacon_of_a_busy_lcore(void **state)
{
	const uint64_t each = 260000, turn = 26, beacons = 100;
	struct lcore l;
	uint64_t end_of_all;

	(void)state;
	begin(&l, 100, 100);
	l.slicer.beacon_each = each;
	l.a.slicer = l.b.slicer = &l.slicer;
	l.a.next_due = l.b.next_due = UINT64_MAX / 4;
	end_of_all = l.now + beacons * each;
	for (; l.now < end_of_all; l.now += turn) {
		if (l.now >= l.a.next_upkeep)
			replica_upkeep(&l.a, l.now);
		if (l.now >= l.b.next_upkeep)
			replica_upkeep(&l.b, l.now);
	}
	assert_in_range(l.beacon.writes, beacons - 1, beacons + 1);
	end(&l);
}

/*
 * As looks at a line of 78 cycles fell, in steps of the clock, and one that met another's write: the least
 * of them, and the second least, were read as another state of the machine.
 */
static void test_middle_look(void **state)
{
	static const uint32_t looks[] = {52, 312, 78, 26, 78, 1, 1};
	static const uint32_t middle[] = {0, 52, 52, 78, 52, 78, 78, 78};
	struct lcore l;

	(void)state;
	begin(&l, 100, 100);
	for (unsigned int n = 0; n <= RTE_DIM(looks); n++) {
		for (unsigned int i = 0; i < n; i++)
			slicer_looked(&l.slicer, looks[i]);
		slicer_close(&l.slicer, l.now += SLICE_CYCLES);
		assert_int_equal(last(&l.a)->line, middle[n]); /* each slice has its own */
	}
	end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_cycles), cmocka_unit_test(test_pause),
		cmocka_unit_test(test_between), cmocka_unit_test(test_line_beside),
		cmocka_unit_test(test_beacon_pace), cmocka_unit_test(test_beacon_of_a_busy_lcore),
		cmocka_unit_test(test_middle_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
