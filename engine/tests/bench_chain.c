/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-bench-chain: TSC cycles per packet of a segment's whole loop, with links that cost next to
 * nothing: what the chain itself takes, with the fast path or without.
 *
 *	headrace-bench-chain PLAN HEADERS
 *
 * PLAN has one segment, and links of type "bench". HEADERS: a flow a line, as numbers "source
 * destination source-port destination-port 17"; they come in random order, as 64-byte UDP packets (FCS
 * included), in mbufs recycled from a set that stays in the L2 cache. Making them is not timed. A
 * round's figure is the median of its polls, so that an interrupt or another process that ran meanwhile
 * does not count. The functions' counters, as they grew meanwhile, say what path the figure is of.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "core/setup/engine.h"
#include "core/pkt.h"
#include "test_eal.h"

#define FRAME 60
#define MBUFS 512
#define BURST 32
#define ROUNDS 11
#define POLLS 4000
#define FLOWS_MAX 1000000

struct bench {
	struct rte_mbuf *mbufs[MBUFS];
	unsigned int n_free;
	struct rte_mbuf *next[BURST]; /* made, and handed out by the next poll */
	uint8_t (*frames)[FRAME];
	uint32_t n_flows;
	uint64_t random, left;
};

static struct bench bench = {.random = 88172645463325252u};

static uint16_t bench_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	(void)q;
	(void)n;
	memcpy(pkts, bench.next, sizeof(bench.next));
	return BURST;
}

static uint16_t bench_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	(void)q;
	(void)dest;
	memcpy(&bench.mbufs[bench.n_free], pkts, n * sizeof(pkts[0]));
	bench.n_free += n;
	bench.left += n;
	return n;
}

static const struct link_ops bench_ops = {
	.name = "bench", .reads = true, .writes = true, .rx = bench_rx, .tx = bench_tx,
};
LINK_REGISTER(bench_ops)

static uint32_t next_random(void)
{
	bench.random ^= bench.random << 13;
	bench.random ^= bench.random >> 7;
	bench.random ^= bench.random << 17;
	return (uint32_t)(bench.random >> 20);
}

static void make_frame(uint8_t *frame, const unsigned long *f)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + 14);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	memset(frame, 0, FRAME);
	memcpy(frame, "\x02\0\0\0\0\2\2\0\0\0\0\1\x08", 13);
	*ip = (struct rte_ipv4_hdr){.version_ihl = 0x45, .time_to_live = 64, .next_proto_id = 17,
				    .total_length = rte_cpu_to_be_16(FRAME - 14),
				    .src_addr = rte_cpu_to_be_32((uint32_t)f[0]),
				    .dst_addr = rte_cpu_to_be_32((uint32_t)f[1])};
	*udp = (struct rte_udp_hdr){.src_port = rte_cpu_to_be_16((uint16_t)f[2]),
				    .dst_port = rte_cpu_to_be_16((uint16_t)f[3]),
				    .dgram_len = rte_cpu_to_be_16(FRAME - 34)};
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
}

static int read_headers(const char *path, struct err *err)
{
	FILE *f = fopen(path, "r");
	unsigned long v[4];

	bench.frames = calloc(FLOWS_MAX, FRAME);
	if (!f || !bench.frames) {
		if (f)
			fclose(f);
		return err_set(err, EINVAL, path, "cannot be read: %s", strerror(errno));
	}
	while (bench.n_flows < FLOWS_MAX &&
	       fscanf(f, "%lu %lu %lu %lu %*u", &v[0], &v[1], &v[2], &v[3]) == 4)
		make_frame(bench.frames[bench.n_flows++], v);
	fclose(f);
	return bench.n_flows ? 0 : err_set(err, EINVAL, path, "has no flows");
}

static void make_packets(struct rte_mempool *pool, uint32_t first)
{
	for (unsigned int i = 0; i < BURST; i++) {
		uint32_t flow = first == UINT32_MAX ? next_random() % bench.n_flows
						    : (first + i) % bench.n_flows;
		/* What was dropped is in the pool again. */
		struct rte_mbuf *m = bench.n_free ? bench.mbufs[--bench.n_free] : rte_pktmbuf_alloc(pool);

		rte_pktmbuf_reset(m);
		memcpy(rte_pktmbuf_append(m, FRAME), bench.frames[flow], FRAME);
		pkt_classify(m);
		bench.next[i] = m;
	}
}

static double poll_once(struct replica *r, struct rte_mempool *pool, uint32_t first)
{
	uint64_t start;

	make_packets(pool, first);
	start = rte_rdtsc_precise();
	replica_poll(r);
	return (double)(rte_rdtsc_precise() - start) / BURST;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

typedef uint64_t counts[NF_COUNTERS_MAX];

static void report_counters(const struct replica *r, const counts *warm)
{
	for (unsigned int i = 0; i < r->n_nodes; i++) {
		const struct nf_worker *w = r->nodes[i].worker;
		const char *const *names = w->nf->ops->counters;

		printf("%s\"%s\": {", i ? ", " : "", w->nf->ops->name);
		for (unsigned int c = 0; names && names[c]; c++)
			printf("%s\"%s\": %lld", c ? ", " : "", names[c],
			       (long long)(w->counters[c] - warm[i][c]));
		printf("}");
	}
}

static void measure(struct replica *r, struct rte_mempool *pool)
{
	static double polls[POLLS], rounds[ROUNDS];
	counts warm[r->n_nodes];
	uint64_t before;

	for (uint32_t first = 0; first < 2 * bench.n_flows; first += BURST)
		poll_once(r, pool, first);
	for (unsigned int i = 0; i < r->n_nodes; i++)
		memcpy(warm[i], r->nodes[i].worker->counters, sizeof(warm[i]));
	before = bench.left;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < POLLS; i++)
			polls[i] = poll_once(r, pool, UINT32_MAX);
		qsort(polls, POLLS, sizeof(polls[0]), compare);
		rounds[round] = polls[POLLS / 2];
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
	printf("{\"flows\": %u, \"cycles_per_packet\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}, "
	       "\"passed\": %.3f, \"tsc_hz\": %llu, \"counters\": {",
	       bench.n_flows, rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1],
	       (double)(bench.left - before) / ((double)ROUNDS * POLLS * BURST),
	       (unsigned long long)rte_get_tsc_hz());
	report_counters(r, (const counts *)warm);
	printf("}}\n");
}

static int start_nfs(struct engine *e, struct err *err)
{
	int rc = 0;

	for (unsigned int i = 0; i < e->plan->n_nfs && !rc; i++) {
		struct nf *nf = &e->nfs[i];

		nf->ops = e->plan->nfs[i].ops;
		nf->conf = e->plan->nfs[i].conf;
		nf->workers = 1;
		rc = nf->ops->init ? nf->ops->init(nf, err) : 0;
	}
	return rc;
}

static int start(struct engine *e, struct err *err)
{
	char megabytes[24];

	snprintf(megabytes, sizeof(megabytes), "%lu", (unsigned long)e->plan->engine.memory_mb);
	if (test_eal_start(megabytes) < 0)
		return err_set(err, EIO, "engine.memory_mb", "DPDK does not start with %s", megabytes);
	e->pool = rte_pktmbuf_pool_create("packets", MBUFS - 1, 0, 0, RTE_PKTMBUF_HEADROOM + 256,
					  SOCKET_ID_ANY);
	e->links = calloc(e->plan->n_links, sizeof(*e->links));
	e->nfs = calloc(e->plan->n_nfs + 1, sizeof(*e->nfs));
	if (!e->pool || !e->links || !e->nfs)
		return err_set(err, ENOMEM, "", "out of memory");
	for (unsigned int i = 0; i < e->plan->n_links; i++)
		e->links[i] = (struct link){.ops = e->plan->links[i].ops, .pool = e->pool};
	return start_nfs(e, err);
}

int main(int argc, char **argv)
{
	struct engine e = {0};
	struct err err = {0};
	struct replica *r;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: headrace-bench-chain PLAN HEADERS\n");
		return 2;
	}
	rc = read_headers(argv[2], &err);
	if (!rc)
		rc = plan_load(argv[1], &e.plan, &err);
	if (!rc)
		rc = start(&e, &err);
	if (!rc)
		rc = replica_create(&e, 0, 0, &r, &err);
	if (rc) {
		fprintf(stderr, "headrace-bench-chain: %s: %s\n", err.path, err.msg);
		return rc == -ENOMEM ? 1 : 2;
	}
	measure(r, e.pool);
	return 0;
}
