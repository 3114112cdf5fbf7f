/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "err.h"

/*
 * Where packets' ways end, and whose packets these were: so that what was sent is what arrived
 * plus what was dropped at each place plus what is held, in each direction and size class, and so
 * that what functions make themselves (copies, errors) is not taken for it.
 *
 * Two flags of the mbuf say whose a packet is. Rings keep them, the shm link carries them to the
 * other engine; other links forget them. They are ol_flags' last free ones (rte_mbuf_dyn.h: PMDs
 * take the first), as everything else of an mbuf's own is in its second cache line.
 */
#define PKT_REVERSE_BIT 39
#define PKT_REVERSE (1ull << PKT_REVERSE_BIT)
#define PKT_CREATED (1ull << (PKT_REVERSE_BIT + 1)) /* made by a function: nf_emit */
#define PKT_MARKS (PKT_REVERSE | PKT_CREATED)

/* Frame sizes with FCS as RMON counts them (RFC 2819, etherStatsPkts64Octets and so on). */
#define SIZE_CLASSES 7
extern const char *const size_class_names[SIZE_CLASSES];

struct ends {
	uint64_t n[4][SIZE_CLASSES]; /* by the two flags */
};

/* Claims the flags: after EAL's start, before devices. */
int pkt_marks_register(struct err *err);

static inline unsigned int size_class(uint32_t frame_bytes)
{
	if (frame_bytes <= 64)
		return 0;
	if (frame_bytes > 1518)
		return SIZE_CLASSES - 1;
	return 32 - (unsigned int)__builtin_clz(frame_bytes >> 6);
}

static inline unsigned int pkt_size_class(const struct rte_mbuf *m)
{
	return size_class(m->pkt_len + RTE_ETHER_CRC_LEN);
}

static inline unsigned int pkt_marks(const struct rte_mbuf *m)
{
	return m->ol_flags >> PKT_REVERSE_BIT & 3;
}

static inline void pkt_set_marks(struct rte_mbuf *m, unsigned int marks)
{
	m->ol_flags = (m->ol_flags & ~PKT_MARKS) | (uint64_t)marks << PKT_REVERSE_BIT;
}

/* count: 1, or -1 for what does not end there after all (held, and let go). */
static inline void ends_add(struct ends *e, const struct rte_mbuf *m, int count)
{
	e->n[pkt_marks(m)][pkt_size_class(m)] += (uint64_t)(int64_t)count;
}

static inline void ends_add_burst(struct ends *e, struct rte_mbuf *const *pkts, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		ends_add(e, pkts[i], 1);
}

uint64_t ends_sum(const struct ends *e);
/* {"forward": {"64": n}, "reverse": ..., "created": ...} without zeros; NULL: nothing but zeros. */
json_t *ends_json(const struct ends *e);
/* The same under `key` of o, where there is any. */
void ends_put(json_t *o, const char *key, const struct ends *e);
/* {"64": n, ...} without zeros. */
json_t *sizes_json(const uint64_t sizes[SIZE_CLASSES]);
