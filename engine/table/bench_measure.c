/* SPDX-License-Identifier: Apache-2.0 */
/* The timed loops of the benchmark. */
#include "bench_fib.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define BATCH 4096 /* keys made, then looked up: they are in the first-level cache */

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/*
 * What this thread has run for: on a machine with other work, time on the clock would measure that
 * work. Caches and memory are shared all the same.
 */
static double cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1du;
}

static uint64_t fresh_state(void)
{
	static atomic_ulong calls;

	return 88172645463325252u + atomic_fetch_add(&calls, 1) * 0x9e3779b97f4a7c15u;
}

static void make_keys(const struct bench_input *in, enum bench_mix mix, uint64_t *state,
		      uint8_t *keys)
{
	for (unsigned int i = 0; i < BATCH; i++) {
		uint64_t random = next_random(state);

		if (mix == BENCH_HITS || (mix == BENCH_MIXED && random & 1))
			bench_hit(in, random, keys + i * in->stride);
		else
			bench_miss(in, random, keys + i * in->stride);
	}
}

static volatile uint64_t sink; /* answers must go somewhere, or nobody asks */

double bench_lookups(const struct bench_input *in, const struct bench_target *t, enum bench_mix mix,
		     const struct bench_options *o)
{
	_Alignas(64) static _Thread_local uint8_t keys[BATCH * 16];
	uint64_t state = fresh_state(), n = 0, sum = 0;
	double spent = 0, end = bench_now() + 20 * o->seconds;

	while (spent < o->seconds && bench_now() < end) {
		double t0;

		make_keys(in, mix, &state, keys);
		t0 = cpu_now();
		for (unsigned int i = 0; i < BATCH; i += o->burst)
			sum += t->ask(t->ctx, keys + i * in->stride,
				      BATCH - i < o->burst ? BATCH - i : o->burst);
		spent += cpu_now() - t0;
		n += BATCH;
	}
	sink += sum;
	return n / spent / 1e6;
}

static uint64_t ask_fib(void *ctx, const void *keys, unsigned int n)
{
	uint16_t nhs[BATCH];

	fib_lookup(ctx, keys, nhs, n);
	return nhs[0] + nhs[n - 1];
}

struct bench_target bench_fib_target(struct fib *f)
{
	return (struct bench_target){.ask = ask_fib, .ctx = f};
}

/*
 * What a lookup cannot beat: one random line each, its address known beforehand, prefetched 32
 * lines ahead, one word of it read.
 */
double bench_gather(const void *memory, uint64_t lines, const struct bench_options *o)
{
	static uint32_t index[BATCH + 32];
	const uint8_t *base = memory;
	uint64_t state = fresh_state(), n = 0, sum = 0;
	double spent = 0, end = bench_now() + 20 * o->seconds;

	while (spent < o->seconds && bench_now() < end) {
		double t0;

		for (unsigned int i = 0; i < BATCH; i++)
			index[i] = (unsigned __int128)next_random(&state) * lines >> 64;
		t0 = cpu_now();
		for (unsigned int i = 0; i < BATCH; i++) {
			__builtin_prefetch(base + (uint64_t)index[i + 32] * 64);
			sum += *(const uint32_t *)(base + (uint64_t)index[i] * 64);
		}
		spent += cpu_now() - t0;
		n += BATCH;
	}
	sink += sum;
	return n / spent / 1e6;
}

struct writer {
	struct fib *f;
	const struct bench_input *in;
	uint64_t rate;
	int cpu;
	atomic_bool stop;
	uint64_t done, failed;
	double spent;
};

/* Three changes: a random entry is given another next hop, taken out, and put in again. */
static void change_three(struct writer *w, uint64_t *state)
{
	uint64_t i = (unsigned __int128)next_random(state) * w->in->n >> 64;
	const uint8_t *key = w->in->keys + i * w->in->stride;
	uint8_t len = w->in->lens ? w->in->lens[i] : 0;

	w->failed += fib_update(w->f, key, len, bench_next_hop(*state)) != 0;
	w->failed += fib_remove(w->f, key, len, NULL) != 0;
	w->failed += fib_insert(w->f, key, len, w->in->nhs[i]) != 0;
	w->done += 3;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *write_loop(void *arg)
{
	struct writer *w = arg;
	uint64_t state = fresh_state();
	double start = bench_now(), cpu_start = cpu_now();

	pin(w->cpu);
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		if (!w->rate || w->done < (bench_now() - start) * w->rate)
			change_three(w, &state);
		else
			__builtin_ia32_pause();
	}
	w->spent = cpu_now() - cpu_start;
	return NULL;
}

/* The reader stays where it is; the writer gets another CPU of those allowed. */
static int other_cpu(void)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && cpu != sched_getcpu())
			return cpu;
	return -1;
}

int bench_updating(struct fib *f, const struct bench_input *in, uint64_t rate,
		   const struct bench_options *o, struct bench_beside *out)
{
	struct writer w = {.f = f, .in = in, .rate = rate, .cpu = other_cpu()};
	struct bench_target t = bench_fib_target(f);
	cpu_set_t before;
	pthread_t thread;

	if (w.cpu < 0)
		return -ENODEV;
	sched_getaffinity(0, sizeof(before), &before);
	pin(sched_getcpu());
	if (pthread_create(&thread, NULL, write_loop, &w)) {
		sched_setaffinity(0, sizeof(before), &before);
		return -EAGAIN;
	}
	out->lookups_mps = bench_lookups(in, &t, BENCH_HITS, o);
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(before), &before);
	out->updates_ps = w.done / w.spent; /* of its CPU time */
	return w.failed ? -EIO : 0;
}
