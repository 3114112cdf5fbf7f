/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rte_hash_crc.h>

#include "fastpath.h"
#include "table/flow.h"

/* Between fastpath.c (hits) and fastpath_record.c (what is learned). */

static __rte_always_inline size_t fast_entry_bytes(enum fast_family family)
{
	return family == FAST_IPV4 ? FAST_ENTRY4_BYTES : FAST_ENTRY6_BYTES;
}

static __rte_always_inline size_t fast_index(const struct fastpath *fp, uint32_t hash, unsigned int way)
{
	return (size_t)(hash & fp->set_mask) * FAST_WAYS + way % FAST_WAYS;
}

static __rte_always_inline struct fast_entry *fast_at(const struct fastpath *fp, enum fast_family family,
						      size_t index)
{
	return (struct fast_entry *)(fp->tables[family].entries + index * fast_entry_bytes(family));
}

/* Where in its set a key is looked for first: spread over the ways, so that mostly one line is read. */
static inline unsigned int fast_home(uint32_t hash)
{
	return hash >> 30;
}

static __rte_always_inline bool fast_same_key(const struct fast_entry *e, const uint64_t *key,
					      enum fast_family family)
{
	uint64_t differ = (e->key[0] ^ key[0]) | (e->key[1] ^ key[1]);

	if (family == FAST_IPV6)
		differ |= (e->key[2] ^ key[2]) | (e->key[3] ^ key[3]) | (e->key[4] ^ key[4]);
	return !differ;
}

static __rte_always_inline uint32_t fast_hash(const struct fastpath *fp, const uint64_t *key,
					      enum fast_family family)
{
	uint32_t h = rte_hash_crc_8byte(key[1], rte_hash_crc_8byte(key[0], fp->seed));

	if (family == FAST_IPV6)
		h = rte_hash_crc_8byte(key[4], rte_hash_crc_8byte(key[3], rte_hash_crc_8byte(key[2], h)));
	return h;
}

static inline struct fast_rewrite4 *fast_rewrite4(struct fast_entry *e)
{
	return (struct fast_rewrite4 *)(e->key + FAST_KEY4_WORDS);
}

static inline struct fast_rewrite6 *fast_rewrite6(struct fast_entry *e)
{
	return (struct fast_rewrite6 *)(e->key + FAST_KEY6_WORDS);
}

static __rte_always_inline struct fast_entry *fast_find(const struct fastpath *fp,
							const uint64_t *key, uint32_t hash,
							enum fast_family family, size_t *index)
{
	for (unsigned int i = 0; i < FAST_WAYS; i++) {
		struct fast_entry *e;

		*index = fast_index(fp, hash, fast_home(hash) + i);
		e = fast_at(fp, family, *index);
		if (likely(fast_same_key(e, key, family)))
			return e;
	}
	return NULL;
}

/* A slot's number, for the host: those of IPv6 behind those of IPv4. */
static inline uint32_t fast_slot(const struct fastpath *fp, enum fast_family family, size_t index)
{
	return (uint32_t)(family * (size_t)(fp->set_mask + 1) * FAST_WAYS + index);
}

/* A place that the host has, or had: it is nobody else's. */
static inline bool fast_is_told(const struct fastpath *fp, enum fast_family family, size_t index)
{
	return fp->offer && fp->offer->told[fast_slot(fp, family, index)].state != FAST_UNTOLD;
}

void fast_note_begin(struct fastpath *fp, struct rte_mbuf *m, const uint64_t *key, uint32_t hash,
		     enum fast_family family, uint8_t direction);
/* Flows age by what their functions' records say; often enough is enough. */
void fast_refresh(struct fast_flow *f, const struct fast_timers *t, uint32_t now);
/* Whether what a packet of these has gone through may be told at all, and telling it. */
bool fast_may_tell(const struct fastpath *fp, const struct fast_record *rec,
		   const struct target *to);
void fast_tell(struct fastpath *fp, const struct fast_record *rec, struct fast_entry *e,
	       size_t index, uint32_t now);

/* Packets of a path, that fastpath_credit has to count. */
static inline void fast_credit_path(struct fastpath *fp, uint16_t path, uint32_t n)
{
	struct fast_path *p = &fp->paths[path];

	if (!p->packets)
		fp->touched[fp->n_touched++] = path;
	p->packets += n;
}

static inline uint32_t fast_epochs(const struct fast_path *p, const struct fast_flow *f)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < FAST_FLOWS_MAX && p->epochs[i]; i++)
		sum += p->epochs[i]->of[f->flow[i]];
	return sum;
}
