/* SPDX-License-Identifier: Apache-2.0 */
#include "slices.h"

#include <stdlib.h>
#include <time.h>

#include "segment.h"

#define NS 1000000000ull
#define OWN_TRIES 3 /* an interrupt in one of them is not what looking at the clock takes */

/* Its pages are touched as slices come, by the lcore that writes them: on its own node. */
struct slices *slices_create(void)
{
	return calloc(1, sizeof(struct slices));
}

void slices_free(struct slices *s)
{
	free(s);
}

/* CPU time of the calling thread: what the kernel and, where it says so, a host gave it. */
static uint64_t ran_ns(void)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static uint64_t packets_in(const struct replica *r)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < r->n_inlets; i++)
		n += r->inlets[i].count.packets;
	return n;
}

static void remember(struct slices *s, const struct replica *r)
{
	s->packets = packets_in(r);
	s->found = r->count.polls - r->count.idle_polls;
	s->ops = r->busy.ops;
	s->pace = r->pace.cycles;
	s->wide = r->pace.wide_cycles;
	s->turns = r->busy.turns;
}

static void remember_lcore(struct slicer *s, uint64_t now, uint64_t ran)
{
	s->next = now + rte_get_tsc_hz() / SLICE_HZ;
	s->end = now;
	s->pauses = s->clock->pauses;
	s->slept = s->clock->slept;
	s->ran_ns = ran;
}

/* Nothing is read ahead of the first look at the clock, and the second waits for what was read. */
__attribute__((no_sanitize("thread"))) static uint64_t load_cycles(const uint64_t *at, uint64_t *value)
{
	uint64_t start = rte_rdtsc_precise();

	rte_rmb();
	*value = __atomic_load_n(at, __ATOMIC_RELAXED);
	rte_rmb();
	return rte_rdtsc() - start;
}

void slicer_looked(struct slicer *s, uint32_t cycles)
{
	unsigned int at = s->n_looks;

	if (at == LOOKS)
		return;
	for (; at && s->looks[at - 1] > cycles; at--)
		s->looks[at] = s->looks[at - 1];
	s->looks[at] = cycles;
	s->n_looks++;
}

/*
 * What lies between two lcores is one thing or another, by where a hypervisor has put them, and it moves
 * them every few seconds: hyperthreads of a core, cores of a last-level cache, cores of two. Nothing in a
 * guest says so but what a line costs that the other lcore has just written. So each reads the beacon of
 * another for it; the next write of that pays once for getting the line back. Some looks meet what others do
 * to the caches, and some processors' clocks go in steps of 26 cycles: of a line that takes 78 the second
 * least of five looks said 26 to 78, their median says 78.
 */
static void look(struct slicer *s)
{
	uint64_t own = UINT64_MAX, took, writes, slept;
	uint32_t cycles;
	bool known;

	for (unsigned int i = 0; i < OWN_TRIES; i++) {
		took = load_cycles(&s->end, &writes);
		own = RTE_MIN(own, took);
	}
	took = load_cycles(&s->beside->writes, &writes);
	load_cycles(&s->beside->slept, &slept);
	/* Where it stands still the line is this lcore's own copy; a core that sleeps answers late. */
	known = writes != s->beside_writes && slept == s->beside_slept;
	s->beside_writes = writes;
	s->beside_slept = slept;
	if (!known)
		return;
	cycles = took > own ? (uint32_t)RTE_MIN(took - own, UINT32_MAX) : 1;
	slicer_looked(s, cycles);
}

/* The lower one of two in the middle. */
static uint32_t line_cycles(struct slicer *s)
{
	uint32_t cycles = s->n_looks ? s->looks[(s->n_looks - 1) / 2] : 0;

	s->n_looks = 0;
	return cycles;
}

void slicer_beacon(struct slicer *s, uint64_t now)
{
	__atomic_store_n(&s->own->slept, s->clock->slept, __ATOMIC_RELAXED);
	__atomic_store_n(&s->own->writes, s->own->writes + 1, __ATOMIC_RELAXED);
	s->next_beacon = now + s->beacon_each;
	if (s->beside && (int64_t)(now - s->next_look) >= 0) {
		look(s);
		s->next_look = now + s->look_each;
	}
	busy_measured(s->clock, rte_rdtsc());
}

void slicer_begin(struct slicer *s, struct busy_clock *clock, struct beacon *own,
		  const struct beacon *beside, struct replica **replicas, unsigned int n)
{
	*s = (struct slicer){
		.clock = clock, .own = own, .beside = beside, .replicas = replicas, .n_replicas = n,
		.beacon_each = rte_get_tsc_hz() / BEACON_HZ, .look_each = rte_get_tsc_hz() / LOOK_HZ};
	for (unsigned int i = 0; i < n; i++)
		if (replicas[i]->slices)
			remember(replicas[i]->slices, replicas[i]);
	remember_lcore(s, clock->mark, ran_ns());
}

/* Neither run nor slept; a clock that is read a little later than the other makes it less than nothing. */
static uint32_t kept_us(const struct slicer *s, uint64_t ref, uint64_t ran)
{
	double awake = (double)(ref - (s->clock->slept - s->slept)) / (double)rte_get_tsc_hz();
	double kept = awake * 1e6 - (double)(ran - s->ran_ns) / 1e3;

	return kept > 0 ? (uint32_t)RTE_MIN(kept, (double)UINT32_MAX) : 0;
}

static void close_one(struct replica *r, const struct slice *lcore)
{
	struct slices *own = r->slices;
	uint64_t n = atomic_load_explicit(&own->n, memory_order_relaxed);
	const struct busy_turns *now = &r->busy.turns, *was = &own->turns;

	own->ring[n % SLICES] = (struct slice){
		.end = lcore->end,
		.ref = lcore->ref,
		.pauses = lcore->pauses,
		.kept_us = lcore->kept_us,
		.line = lcore->line,
		.ops = r->busy.ops - own->ops,
		.packets = (uint32_t)(packets_in(r) - own->packets),
		.found = (uint32_t)(r->count.polls - r->count.idle_polls - own->found),
		.turns = (uint32_t)(now->n - was->n),
		.turn_packets = (uint32_t)(now->packets - was->packets),
		.turn_packets_squared = (uint32_t)(now->packets_squared - was->packets_squared),
		.turn_cycles = now->cycles - was->cycles,
		.turn_cycles_by_packets = now->cycles_by_packets - was->cycles_by_packets,
		.pace = (uint32_t)(r->pace.cycles - own->pace),
		.wide = (uint32_t)(r->pace.wide_cycles - own->wide),
	};
	remember(own, r);
	atomic_store_explicit(&own->n, n + 1, memory_order_release);
}

void slicer_close(struct slicer *s, uint64_t now)
{
	uint64_t ran = ran_ns();
	struct slice lcore = {
		.end = now,
		.ref = now - s->end,
		.pauses = s->clock->pauses - s->pauses,
		.kept_us = kept_us(s, now - s->end, ran),
		.line = line_cycles(s),
	};

	for (unsigned int i = 0; i < s->n_replicas; i++)
		if (s->replicas[i]->slices)
			close_one(s->replicas[i], &lcore);
	remember_lcore(s, now, ran);
}

unsigned int slices_between(const struct slices *s, uint64_t since, uint64_t until,
			    struct slice *out, unsigned int most)
{
	uint64_t n = atomic_load_explicit(&s->n, memory_order_acquire);
	/* The oldest few may be written over while they are read. */
	uint64_t first = n > SLICES - SLICE_HZ ? n - (SLICES - SLICE_HZ) : 0, end = n, step;
	unsigned int found = 0;

	while (first < end && s->ring[first % SLICES].end - s->ring[first % SLICES].ref < since)
		first++;
	while (end > first && s->ring[(end - 1) % SLICES].end > until)
		end--;
	step = most ? (end - first + most - 1) / most : 0;
	for (uint64_t i = first; most && i < end; i += step)
		out[found++] = s->ring[i % SLICES];
	return found;
}
