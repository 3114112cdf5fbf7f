/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <rte_cycles.h>

#include "core/dpdk.h"
#include "pages.h"

#define AGE_PASS_MS 900     /* over all records, whatever the TSC's frequency is */
#define AGE_TURN 4u         /* flow_now units in which the same shards are looked at */
#define AGE_TURNS 16u
#define AGE_SCAN_MAX 4096u  /* records per tick: bounds the pause an idle worker's first tick makes */

static uint64_t tried_bytes; /* of tables that are only tried; control thread */

uint32_t flow_index(const struct flow_table *t, const struct flow *f)
{
	return (uint32_t)(((const uint8_t *)f - t->probe.records) / t->probe.stride);
}

uint32_t flow_shard(const struct flow_table *t, const struct flow *f)
{
	return t->owners ? flow_shard_of(f->key[t->words - 1]) : 0;
}

struct flow *flow_at(const struct flow_table *t, uint32_t index)
{
	return index < flow_capacity(t) && record(t, index)->live ? record(t, index) : NULL;
}

struct flow *flow_record(const struct flow_table *t, uint32_t index)
{
	return record(t, index);
}

const struct flow_epochs *flow_epochs(const struct flow_table *t)
{
	return t->epochs;
}

void flow_changed(struct flow_table *t, const struct flow *f)
{
	epoch_grows(t, flow_index(t, f));
}

uint32_t flow_count(const struct flow_table *t)
{
	return t->owners ? t->counted : t->shard->count;
}

uint32_t flow_capacity(const struct flow_table *t)
{
	return t->capacity * t->shards;
}

uint32_t flow_top(const struct flow_table *t)
{
	return t->shard->top;
}

void flow_keep(struct flow_table *t, const struct flow_kept *kept)
{
	t->kept = kept ? *kept : (struct flow_kept){0};
	if (kept)
		atomic_store_explicit(kept->live, t->shard->count, memory_order_relaxed);
}

uint32_t flow_ticks(uint64_t ms)
{
	uint64_t cycles = ms * (rte_get_tsc_hz() / 1000);

	return (uint32_t)((cycles + (1u << 20) - 1) >> 20);
}

static unsigned int age_shard(struct flow_table *t, struct flow_shard *s, uint32_t now, uint32_t most,
			      flow_gone_fn *gone, void *arg)
{
	uint32_t elapsed = now - s->aged_at;
	uint64_t share = (uint64_t)s->top * elapsed;
	uint64_t due = share / t->pass;
	unsigned int expired = 0;

	if (!due)
		return 0;
	/* What is left of the time is not enough for a record; it counts at the next tick. */
	s->aged_at = now - (uint32_t)(share % t->pass / s->top);
	due = RTE_MIN(due, most);
	due = RTE_MIN(due, s->top);
	while (due--) {
		struct flow *f;

		if (s->hand >= s->top)
			s->hand = 0;
		f = record(t, s->first + s->hand++);
		if (!f->live || !flow_expired(f, now))
			continue;
		if (gone && !gone(arg, f))
			continue;
		flow_delete(t, f);
		expired++;
	}
	return expired;
}

static bool is_own(const struct flow_table *t, unsigned int shard)
{
	return atomic_load_explicit(&t->owners[shard], memory_order_acquire) == t->worker;
}

static void count_own(struct flow_table *t)
{
	t->counted = 0;
	for (unsigned int i = 0; i < t->shards; i++)
		if (is_own(t, i))
			t->counted += t->shard[i].count;
}

unsigned int flow_age(struct flow_table *t, uint32_t now, flow_gone_fn *gone, void *arg)
{
	unsigned int turn = now / AGE_TURN % AGE_TURNS, expired = 0;

	if (!t->owners)
		return age_shard(t, t->shard, now, AGE_SCAN_MAX, gone, arg);
	/* In turn: a tick that looked at all of them would have to fetch a line of each. */
	for (unsigned int i = turn; i < t->shards; i += AGE_TURNS)
		if (is_own(t, i) && t->shard[i].looked_at != now) {
			t->shard[i].looked_at = now;
			expired += age_shard(t, &t->shard[i], now, AGE_SCAN_MAX / AGE_TURNS, gone, arg);
		}
	if (!turn)
		count_own(t);
	return expired;
}

static int set_seed(struct flow_table *t, uint64_t seed)
{
	/* Odd constants make a usable key of a small given seed. */
	t->probe.seed[0] = seed + 0x9e3779b97f4a7c15;
	t->probe.seed[1] = (seed ^ 0xbf58476d1ce4e5b9) * 0x94d049bb133111eb;
	t->probe.seed[2] = (seed ^ 0xd6e8feb86659fd93) * 0xff51afd7ed558ccd;
	if (seed)
		return 0;
	return getrandom(t->probe.seed, sizeof(t->probe.seed), 0) == sizeof(t->probe.seed) ? 0 : -EIO;
}

uint32_t flow_shard_capacity(uint32_t capacity, uint32_t shards)
{
	uint32_t mean = (capacity + shards - 1) / shards, root = 1;

	while ((uint64_t)root * root < mean)
		root++;
	return mean + 6 * root + 8;
}

static void set_sizes(struct flow_table *t, const struct flow_conf *conf)
{
	uint64_t buckets, all;
	uint32_t bytes;

	t->owners = conf->owners;
	t->worker = conf->worker;
	t->shards = conf->owners ? conf->shards : 1;
	t->capacity = conf->owners ? flow_shard_capacity(conf->capacity, t->shards) : conf->capacity;
	/* At most 3/4 of the slots in use: one move then always makes room. */
	buckets = rte_align64pow2((uint64_t)t->capacity * 4 / (3 * SLOTS) + 2);
	all = buckets * t->shards;
	t->moves = buckets - 1;
	t->words = conf->family == FLOW_IPV4 ? 2 : 5;
	t->state_bytes = RTE_ALIGN_CEIL(conf->state_bytes, 8u);
	bytes = sizeof(struct flow) + t->words * sizeof(uint64_t) + t->state_bytes;
	/* A record must not straddle lines needlessly: 32 or a multiple of 64 bytes. */
	t->probe.stride = bytes <= 32 ? 32 : RTE_ALIGN_CEIL(bytes, 64u);
	if (t->probe.stride - bytes >= FLOW_TRAILS * sizeof(uint32_t))
		t->probe.trail_at = bytes;
	t->probe.numbers = flow_capacity(t);
	t->probe.bucket_mask = all - 1;
	t->probe.shard_mask = all - buckets;
	t->probe.shard_step = conf->owners ? buckets : 0;
	t->buckets_bytes = flow_whole_pages(all * sizeof(struct bucket));
	t->records_bytes = flow_whole_pages((size_t)flow_capacity(t) * t->probe.stride);
	t->epochs_bytes = flow_whole_pages(sizeof(*t->epochs) +
					   (size_t)flow_capacity(t) * sizeof(t->epochs->of[0]));
	t->pass = RTE_MAX(flow_ticks(AGE_PASS_MS), 1u);
}

static bool make_shards(struct flow_table *t)
{
	size_t bytes = t->shards * sizeof(*t->shard);

	t->shard = aligned_alloc(alignof(struct flow_shard), bytes);
	if (!t->shard)
		return false;
	memset(t->shard, 0, bytes);
	for (unsigned int i = 0; i < t->shards; i++) {
		t->shard[i].first = i * t->capacity;
		t->shard[i].free = NO_FLOW;
	}
	return true;
}

static size_t bytes_of(const struct flow_table *t)
{
	return t->buckets_bytes + t->records_bytes + t->epochs_bytes;
}

/*
 * Taking more memory than there is would have the kernel end some process. What is only tried takes next to
 * none, and is held against all that the machine has, with the other tables of the same plan: what is free
 * now says nothing about when it runs.
 */
static int fits(const struct flow_table *t, uint32_t capacity, struct err *err)
{
	uint64_t most = pages_memory(t->tried ? "MemTotal" : "MemAvailable");
	uint64_t bytes = bytes_of(t) + (t->tried ? tried_bytes : 0);

	if (bytes <= most)
		return 0;
	if (!t->tried)
		return err_set(err, ENOMEM, "",
			       "a table of %u flows takes %llu MB of memory, %llu MB are available",
			       capacity, (unsigned long long)bytes >> 20, (unsigned long long)most >> 20);
	return err_set(err, EINVAL, "",
		       "tables of flows, this one of %u among them, take %llu MB of memory; "
		       "the machine has %llu MB",
		       capacity, (unsigned long long)bytes >> 20, (unsigned long long)most >> 20);
}

static bool reserve(struct flow_table *t)
{
	t->probe.buckets = flow_reserve(t->buckets_bytes, t->tried);
	t->probe.records = flow_reserve(t->records_bytes, t->tried);
	t->epochs = flow_reserve(t->epochs_bytes, t->tried);
	tried_bytes += t->tried ? bytes_of(t) : 0;
	return t->probe.buckets && t->probe.records && t->epochs;
}

int flow_create(const struct flow_conf *conf, struct flow_table **out, struct err *err)
{
	struct flow_table *t;
	int rc;

	if (!conf->capacity || conf->capacity > FLOW_CAPACITY_MAX)
		return err_set(err, EINVAL, "capacity", "%u flows: allowed 1..%u", conf->capacity,
			       FLOW_CAPACITY_MAX);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, ENOMEM, "", "out of memory");
	set_sizes(t, conf);
	t->tried = conf->tried;
	rc = fits(t, conf->capacity, err);
	if (rc) {
		free(t);
		return rc;
	}
	if (!reserve(t) || !make_shards(t) || set_seed(t, conf->seed)) {
		flow_destroy(t);
		return err_set(err, ENOMEM, "", "no memory for a table of %u flows", conf->capacity);
	}
	*out = t;
	return 0;
}

int flow_join(const struct flow_table *t, uint8_t worker, struct flow_table **out, struct err *err)
{
	struct flow_table *view = malloc(sizeof(*view));

	if (!view)
		return err_set(err, ENOMEM, "", "out of memory");
	*view = *t;
	view->worker = worker;
	view->joined = true;
	view->counted = 0;
	*out = view;
	return 0;
}

void flow_destroy(struct flow_table *t)
{
	if (t && !t->joined) {
		tried_bytes -= t->tried ? bytes_of(t) : 0;
		if (t->probe.buckets)
			munmap(t->probe.buckets, t->buckets_bytes);
		if (t->probe.records)
			munmap(t->probe.records, t->records_bytes);
		if (t->epochs)
			munmap(t->epochs, t->epochs_bytes);
		free(t->shard);
	}
	free(t);
}
