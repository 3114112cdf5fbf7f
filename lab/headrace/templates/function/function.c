/* SPDX-License-Identifier: Apache-2.0 */
/*
 * my-function: at most so many packets per second from each source address, by a token bucket for
 * each (RFC 2697's committed rate and burst, in packets).
 */
#include "core/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "core/pkt.h"

#define WAYS 4 /* sources that share a slot of the table, the one idle for longest makes room */

struct conf {
	uint64_t rate, burst, sources;
};

/* The parameters' table: the parser, messages, `headrace nf my-function` and its schema come of it. */
static const struct param params[] = {
	{.name = "rate", .type = PARAM_UINT, .min = 1, .max = 1e9, .def = "1000",
	 .unit = "packets/s", .offset = offsetof(struct conf, rate),
	 .doc = "What each source may send."},
	{.name = "burst", .type = PARAM_UINT, .min = 1, .max = 1e6, .def = "32", .unit = "packets",
	 .offset = offsetof(struct conf, burst),
	 .doc = "What a source that was silent may send at once."},
	{.name = "sources", .type = PARAM_UINT, .min = 4, .max = 1 << 24, .def = "65536",
	 .offset = offsetof(struct conf, sources),
	 .doc = "Sources that each lcore remembers. One that is forgotten begins with a full bucket."},
	{0},
};

enum { DROP_RATE };
static const char *const drops[] = {"rate", NULL};
enum { COUNTER_SOURCES };
static const char *const counters[] = {"sources", NULL};

struct bucket {
	uint8_t address[16]; /* IPv4 in the first four, zeros behind */
	uint64_t full;       /* TSC at which it is full again; 0: nobody's */
};

/* Of one lcore: what its state holds is shared with nobody. */
struct table {
	uint64_t mask;       /* of slots */
	uint64_t per_packet; /* TSC cycles */
	uint64_t burst;      /* TSC cycles */
	struct bucket buckets[];
};

/* Control thread: files are read and parameters refused here. `nf->conf` is what was parsed. */
static int init(struct nf *nf, struct err *err)
{
	const struct conf *conf = nf->conf;

	if (conf->rate > rte_get_tsc_hz())
		return err_set(err, EINVAL, "params.rate", "got %lu; allowed: at most %lu here",
			       (unsigned long)conf->rate, (unsigned long)rte_get_tsc_hz());
	return 0;
}

static int worker_init(struct nf_worker *w, struct err *err)
{
	const struct conf *conf = w->nf->conf;
	uint64_t slots = 1;
	struct table *t;

	while (slots * WAYS < conf->sources)
		slots *= 2;
	t = calloc(1, sizeof(*t) + slots * WAYS * sizeof(t->buckets[0]));
	if (!t)
		return err_set(err, ENOMEM, "params.sources", "out of memory");
	t->mask = slots - 1;
	t->per_packet = rte_get_tsc_hz() / conf->rate;
	t->burst = conf->burst * t->per_packet;
	w->state = t;
	return 0;
}

static void worker_fini(struct nf_worker *w)
{
	free(w->state);
}

/* That of the source, or the one in its slot that was full first. */
static struct bucket *find(struct nf_worker *w, const uint8_t address[16])
{
	struct table *t = w->state;
	struct bucket *slot = &t->buckets[(rte_hash_crc(address, 16, 0) & t->mask) * WAYS];
	struct bucket *oldest = slot;

	for (unsigned int i = 0; i < WAYS; i++) {
		if (slot[i].full && !memcmp(slot[i].address, address, 16))
			return &slot[i];
		if (slot[i].full < oldest->full)
			oldest = &slot[i];
	}
	memcpy(oldest->address, address, 16);
	oldest->full = 0;
	w->counters[COUNTER_SOURCES]++;
	return oldest;
}

/* Whether the bucket has a token; a bucket is told by when it is full again. */
static bool take(struct nf_worker *w, struct bucket *b, uint64_t now)
{
	const struct table *t = w->state;
	uint64_t full = RTE_MAX(b->full, now) + t->per_packet;

	if (full > now + t->burst)
		return false;
	b->full = full;
	return true;
}

/*
 * The packets' lcore: never blocks, allocates or logs. Verdicts are "out" (edge 0) beforehand, so that
 * only exceptions are written. `wants_headers`: packets are classified (core/pkt.h).
 */
static void process(struct nf_worker *w, struct burst *b)
{
	for (unsigned int i = 0; i < b->n; i++) {
		const struct rte_mbuf *m = b->pkts[i];
		uint8_t address[16] = {0};

		if (pkt_malformed(m)) {
			b->verdict[i] = NF_ABORT;
			continue;
		}
		if (pkt_is_ipv4(m))
			memcpy(address, &((const struct rte_ipv4_hdr *)pkt_l3_hdr(m))->src_addr, 4);
		else if (pkt_is_ipv6(m))
			memcpy(address, ipv6_src(pkt_l3_hdr(m)), 16);
		else
			continue; /* ARP and the like have no rate */
		if (!take(w, find(w, address), b->now))
			b->verdict[i] = NF_DROP(DROP_RATE);
	}
}

static const struct nf_ops ops = {
	.name = "my-function",
	.doc = "At most so many packets per second from each source address. What is more is dropped.",
	.standards = "RFC 2697's committed rate and burst, counted in packets, on each lcore by itself. "
		     "Left out: colours, bytes.",
	.params = params,
	.conf_size = sizeof(struct conf),
	.drops = drops,
	.policy_drops = 1u << DROP_RATE, /* what the user asked for is no loss with `losses: unintended` */
	.counters = counters,
	.reads = NF_F_SRC_IP,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATE_SRC,
	.wants_headers = true,
	.init = init,
	.worker_init = worker_init,
	.worker_fini = worker_fini,
	.process = process,
};
NF_OBJECT(ops);
