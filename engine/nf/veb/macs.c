/* SPDX-License-Identifier: Apache-2.0 */
#include "macs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/dpdk.h"

#define USED 0x8000u
#define STATIC 0x4000u
#define PORT 0x00ffu
#define ADDRESS (~(uint64_t)0xffff)
#define AGE_SLOTS 64u /* per tick at least; a table of 64 Ki slots then takes a second */

int macs_init(struct macs *t, uint32_t entries, uint32_t timeout, struct err *err)
{
	uint64_t buckets = rte_align64pow2((uint64_t)entries * 2 / MACS_SLOTS + 1);
	size_t slots = buckets * MACS_SLOTS;

	memset(t, 0, sizeof(*t));
	t->mask = (uint32_t)buckets - 1;
	t->timeout = timeout;
	t->words = aligned_alloc(64, slots * sizeof(*t->words));
	t->times = aligned_alloc(64, RTE_ALIGN_CEIL(slots * sizeof(*t->times), (size_t)64));
	if (!t->words || !t->times ||
	    getrandom(&t->seed, sizeof(t->seed), 0) != sizeof(t->seed)) {
		macs_fini(t);
		return err_set(err, ENOMEM, "params.addresses", "no memory for %u addresses", entries);
	}
	for (size_t i = 0; i < slots; i++) {
		atomic_init(&t->words[i], 0);
		atomic_init(&t->times[i], 0);
	}
	return 0;
}

void macs_fini(struct macs *t)
{
	free((void *)t->words);
	free((void *)t->times);
	t->words = NULL;
	t->times = NULL;
}

/* Keyed, as addresses are whatever a neighbour says they are; then MurmurHash3's finaliser. */
static inline size_t bucket_of(const struct macs *t, uint64_t key)
{
	uint64_t h = key ^ t->seed;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
	return (h ^ h >> 33) & t->mask;
}

static inline uint64_t word_at(const struct macs *t, size_t slot)
{
	return atomic_load_explicit(&t->words[slot], memory_order_acquire);
}

static inline bool is_gone(const struct macs *t, size_t slot, uint64_t word, uint32_t now)
{
	uint32_t used = atomic_load_explicit(&t->times[slot], memory_order_relaxed);

	return !(word & STATIC) && (int32_t)(now - used) >= (int32_t)t->timeout;
}

/* The slot of an address, or -1. */
static inline int64_t slot_of(const struct macs *t, uint64_t key)
{
	size_t first = bucket_of(t, key) * MACS_SLOTS;

	for (size_t i = first; i < first + MACS_SLOTS; i++) {
		uint64_t word = word_at(t, i);

		if ((word & ADDRESS) == key && (word & USED))
			return (int64_t)i;
	}
	return -1;
}

int macs_find(const struct macs *t, uint64_t key, uint32_t now, bool *is_static)
{
	int64_t slot = slot_of(t, key);
	uint64_t word;

	if (is_static)
		*is_static = false;
	if (slot < 0)
		return -1;
	word = word_at(t, (size_t)slot);
	/* Another worker may have given the slot away since. */
	if ((word & ADDRESS) != key || is_gone(t, (size_t)slot, word, now))
		return -1;
	if (is_static)
		*is_static = word & STATIC;
	return (int)(word & PORT);
}

static bool replace(struct macs *t, size_t slot, uint64_t old, uint64_t word, uint32_t now)
{
	/* The time first: an entry must not be old when it appears. */
	atomic_store_explicit(&t->times[slot], now, memory_order_relaxed);
	return atomic_compare_exchange_strong_explicit(&t->words[slot], &old, word,
						       memory_order_acq_rel, memory_order_relaxed);
}

/* Two workers may add one address at once, in two slots: the first is found, the other ages. */
static bool add(struct macs *t, uint64_t word, uint32_t now)
{
	size_t first = bucket_of(t, word & ADDRESS) * MACS_SLOTS;

	for (size_t i = first; i < first + MACS_SLOTS; i++) {
		uint64_t old = word_at(t, i);

		if ((!old || is_gone(t, i, old, now)) && replace(t, i, old, word, now))
			return true;
	}
	return false;
}

enum macs_learn macs_learn(struct macs *t, uint64_t key, uint16_t port, uint32_t now)
{
	int64_t slot = slot_of(t, key);
	uint64_t word, fresh = key | USED | port;
	uint32_t used;

	if (slot < 0)
		return add(t, fresh, now) ? MACS_LEARNT : MACS_FULL;
	word = word_at(t, (size_t)slot);
	if (word & STATIC)
		return (word & PORT) == port ? MACS_KNOWN : MACS_STATIC_ELSEWHERE;
	if (word != fresh)
		return replace(t, (size_t)slot, word, fresh, now) ? MACS_MOVED : MACS_KNOWN;
	/* Not at every frame: the line is read by all workers. */
	used = atomic_load_explicit(&t->times[slot], memory_order_relaxed);
	if (now - used > t->timeout / 64)
		atomic_store_explicit(&t->times[slot], now, memory_order_relaxed);
	return MACS_KNOWN;
}

int macs_add_static(struct macs *t, uint64_t key, uint16_t port)
{
	uint64_t word = key | USED | STATIC | port;
	int64_t slot = slot_of(t, key);
	size_t first = bucket_of(t, key) * MACS_SLOTS;

	if (slot >= 0) {
		atomic_store_explicit(&t->words[slot], word, memory_order_release);
		return 0;
	}
	/* What was learnt gives way. */
	for (size_t i = first; i < first + MACS_SLOTS; i++) {
		uint64_t old = word_at(t, i);

		if (!(old & STATIC) && replace(t, i, old, word, 0))
			return 0;
	}
	return -ENOSPC;
}

int macs_remove_static(struct macs *t, uint64_t key)
{
	int64_t slot = slot_of(t, key);

	if (slot < 0 || !(word_at(t, (size_t)slot) & STATIC))
		return -ENOENT;
	atomic_store_explicit(&t->words[slot], 0, memory_order_release);
	return 0;
}

static size_t slots(const struct macs *t)
{
	return ((size_t)t->mask + 1) * MACS_SLOTS;
}

static bool clear(struct macs *t, size_t slot, uint64_t old)
{
	return atomic_compare_exchange_strong_explicit(&t->words[slot], &old, 0, memory_order_acq_rel,
						       memory_order_relaxed);
}

void macs_flush(struct macs *t)
{
	for (size_t i = 0; i < slots(t); i++) {
		uint64_t word = word_at(t, i);

		if (word && !(word & STATIC))
			clear(t, i, word);
	}
}

unsigned int macs_age(struct macs *t, uint32_t now)
{
	size_t n = slots(t), due = RTE_MIN(n, RTE_MAX((size_t)AGE_SLOTS, n / 1024));
	unsigned int gone = 0;

	while (due--) {
		size_t slot = t->hand++ % n;
		uint64_t word = word_at(t, slot);

		if (word && is_gone(t, slot, word, now))
			gone += clear(t, slot, word);
	}
	return gone;
}

uint32_t macs_count(const struct macs *t)
{
	uint32_t count = 0;

	for (size_t i = 0; i < slots(t); i++)
		count += word_at(t, i) != 0;
	return count;
}
