/* SPDX-License-Identifier: Apache-2.0 */
#include "port_times.h"

#include <errno.h>
#include <stdbool.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>

#include "core/nf.h"
#include "stamp.h"

#define MAGIC_SHIFT 56 /* above the epoch: packets of any trial */

static int came_offset = -1;

int port_times_init(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "headrace_port_tsc", .size = sizeof(uint64_t), .align = sizeof(uint64_t)};

	if (came_offset < 0)
		came_offset = rte_mbuf_dynfield_register(&field);
	return came_offset < 0 ? -ENOMEM : 0;
}

static inline uint64_t *came(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, came_offset, uint64_t *);
}

/* False for what bears no stamp, or one of a clock that is ahead of ours. */
static inline bool age_of(const struct rte_mbuf *m, uint64_t now, uint64_t *age)
{
	uint64_t stamped;

	if (unlikely(m->data_len < STAMP_BYTES || m->next))
		return false;
	stamped = stamp_read(rte_pktmbuf_mtod_offset(m, const uint8_t *, m->data_len)).magic_time;
	*age = (now - stamped) & STAMP_TIME_MASK;
	return stamped >> MAGIC_SHIFT == 'H' && *age <= STAMP_TIME_MASK / 2;
}

void port_times_in(struct port_times *t, struct rte_mbuf *const *pkts, uint16_t n)
{
	uint64_t now = rte_rdtsc(), age;

	for (uint16_t i = 0; i < n; i++) {
		*came(pkts[i]) = now;
		if (age_of(pkts[i], now, &age)) {
			t->aged++;
			t->age_cycles += age;
		}
	}
}

struct leaving {
	uint64_t age, stay;
	bool aged, stayed;
};

static inline struct leaving look(struct rte_mbuf *m, uint64_t now)
{
	struct leaving l = {0};
	uint64_t since = *came(m);

	l.aged = age_of(m, now, &l.age);
	l.stayed = since && since <= now;
	l.stay = now - since;
	*came(m) = 0;
	return l;
}

static inline void add(struct port_times *t, const struct leaving *l)
{
	t->aged += l->aged;
	t->age_cycles += l->aged ? l->age : 0;
	t->stays += l->stayed;
	t->stay_cycles += l->stayed ? l->stay : 0;
}

/* Once the device has them, packets cannot be looked at. */
static uint16_t out(struct port_times *t, uint16_t port, uint16_t queue, struct rte_mbuf **pkts,
		    uint16_t n)
{
	struct leaving leaving[BURST_MAX];
	uint64_t now = rte_rdtsc();
	uint16_t sent;

	for (uint16_t i = 0; i < n; i++)
		leaving[i] = look(pkts[i], now);
	sent = rte_eth_tx_burst(port, queue, pkts, n);
	for (uint16_t i = 0; i < sent; i++)
		add(t, &leaving[i]);
	return sent;
}

uint16_t port_times_out(struct port_times *t, uint16_t port, uint16_t queue, struct rte_mbuf **pkts,
			uint16_t n)
{
	uint16_t sent = 0, part, took;

	do {
		part = RTE_MIN(n - sent, BURST_MAX);
		took = out(t, port, queue, pkts + sent, part);
		sent += took;
	} while (took == part && sent < n);
	return sent;
}

void port_times_add(struct port_times *sum, const struct port_times *t)
{
	sum->aged += t->aged;
	sum->age_cycles += t->age_cycles;
	sum->stays += t->stays;
	sum->stay_cycles += t->stay_cycles;
}

json_t *port_times_json(uint64_t count, uint64_t cycles)
{
	double ns = (double)cycles * 1e9 / (double)rte_get_tsc_hz();

	return json_pack("{s:I, s:I}", "count", (json_int_t)count, "sum_ns", (json_int_t)ns);
}
