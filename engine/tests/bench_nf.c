/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-bench-nf: TSC cycles per packet of an NF's process(), nothing else; or of several, each
 * given what the one before sent on by edge 0: a multi-feature VNF.
 *
 * Packets are 64-byte UDP over IPv4 (FCS included), of a number of flows taken in random order, in mbufs
 * recycled from a set that stays in the L2 cache, as a busy receive ring's do. Making them is not
 * timed; what it costs to read their headers (pkt_classify, once for all NFs of a segment) is a figure
 * of its own. A round's figure is the median of its bursts, so that an interrupt or another process
 * that ran meanwhile does not count; the spread is over rounds. Each stage's figure is its part of
 * the whole, so that one sees which of them grows in company.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>

#include "core/nf.h"
#include "core/pkt.h"

#define MBUFS 256
#define FRAME 60
#define ROUNDS 11
#define BURSTS 5000
#define BUFFER 256
#define STAGES_MAX 8

/* One NF of the stack. */
struct stage {
	const char *name, *params;
	struct nf nf;
	struct nf_worker worker;
	uint64_t verdicts[256];
	uint64_t warm[NF_COUNTERS_MAX]; /* the function's counters when timing began */
	uint64_t burst_cycles; /* of the last burst */
	double cycles[BURSTS], rounds[ROUNDS];
};

struct options {
	uint32_t flows, dst, burst;
};

struct bench {
	struct options opt;
	struct stage stages[STAGES_MAX];
	unsigned int n_stages;
	bool trails; /* as in a segment: two of the functions leave them */
	struct rte_mbuf *mbufs;
	uint8_t *buffers;
	uint64_t random;
	uint64_t headers_cycles; /* that pkt_classify took for the last burst */
	double headers[ROUNDS];
};

/* The bench has no outputs: an NF that makes packets finds the queue full. */
int nf_emit(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	return -ENOBUFS;
}

int nf_release(struct nf_worker *w, struct rte_mbuf *m, uint8_t edge, enum nf_direction dir)
{
	return -ENOBUFS;
}

void nf_drop_held(struct nf_worker *w, struct rte_mbuf *m, unsigned int reason)
{
}

struct rte_mbuf *nf_alloc(struct nf_worker *w)
{
	return NULL;
}

static uint32_t next_random(struct bench *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return (uint32_t)(b->random >> 20);
}

static void make_packet(struct bench *b, struct rte_mbuf *m, uint32_t flow)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + 14);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	memset(frame, 0, FRAME);
	memcpy(frame, "\x02\0\0\0\0\2\2\0\0\0\0\1\x08", 13);
	*ip = (struct rte_ipv4_hdr){.version_ihl = 0x45, .time_to_live = 64, .next_proto_id = IPPROTO_UDP,
				    .total_length = rte_cpu_to_be_16(FRAME - 14),
				    .src_addr = rte_cpu_to_be_32(0xc6120000 + flow / 1000),
				    .dst_addr = rte_cpu_to_be_32(b->opt.dst)};
	*udp = (struct rte_udp_hdr){.src_port = rte_cpu_to_be_16((uint16_t)(10000 + flow % 1000)),
				    .dst_port = rte_cpu_to_be_16(80),
				    .dgram_len = rte_cpu_to_be_16(FRAME - 34)};
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
}

/* The packets of edge 0 stay in the burst, as the segment loop would have them go on. */
static void count_and_pass(struct stage *s, struct burst *burst)
{
	uint8_t any = 0;
	uint16_t n = 0;

	for (uint32_t i = 0; i < burst->n; i++)
		any |= burst->verdict[i];
	if (!any) {
		s->verdicts[0] += burst->n;
		return;
	}
	for (uint32_t i = 0; i < burst->n; i++) {
		s->verdicts[burst->verdict[i]]++;
		if (!burst->verdict[i])
			burst->pkts[n++] = burst->pkts[i];
		burst->verdict[i] = 0;
	}
	burst->n = n;
}

/* Cycles that process() of all stages took for one burst of packets. */
static uint64_t run_burst(struct bench *b, uint32_t first, const uint32_t *flows)
{
	struct burst burst = {.n = (uint16_t)b->opt.burst, .direction = NF_FORWARD, .now = rte_rdtsc(),
			      .trails = b->trails};
	uint64_t start, at;

	for (uint32_t i = 0; i < b->opt.burst; i++) {
		burst.pkts[i] = &b->mbufs[(first + i) % MBUFS];
		make_packet(b, burst.pkts[i], flows[i]);
	}
	at = rte_rdtsc_precise();
	for (uint32_t i = 0; i < b->opt.burst; i++) {
		pkt_classify(burst.pkts[i]);
		if (b->trails)
			pkt_set_trail(burst.pkts[i], NULL);
	}
	start = rte_rdtsc_precise();
	b->headers_cycles = start - at;
	at = start;
	for (unsigned int i = 0; i < b->n_stages; i++) {
		struct stage *s = &b->stages[i];
		uint64_t was = at;

		s->nf.ops->process(&s->worker, &burst);
		if (i + 1 < b->n_stages)
			count_and_pass(s, &burst);
		/* Not serializing: what one stage left in flight is the next one's. */
		at = rte_rdtsc();
		s->burst_cycles = at - was;
	}
	start = rte_rdtsc_precise() - start;
	count_and_pass(&b->stages[b->n_stages - 1], &burst);
	return start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

static double run_round(struct bench *b, unsigned int round)
{
	static double cycles[BURSTS], headers[BURSTS];
	uint32_t flows[BURST_MAX];

	for (uint32_t n = 0; n < BURSTS; n++) {
		for (uint32_t i = 0; i < b->opt.burst; i++)
			flows[i] = next_random(b) % b->opt.flows;
		cycles[n] = (double)run_burst(b, n * b->opt.burst, flows) / b->opt.burst;
		headers[n] = (double)b->headers_cycles / b->opt.burst;
		for (unsigned int i = 0; i < b->n_stages; i++)
			b->stages[i].cycles[n] = (double)b->stages[i].burst_cycles / b->opt.burst;
	}
	for (unsigned int i = 0; i < b->n_stages; i++) {
		struct stage *s = &b->stages[i];

		if (s->nf.ops->tick)
			s->nf.ops->tick(&s->worker, rte_rdtsc());
		s->rounds[round] = median(s->cycles, BURSTS);
	}
	b->headers[round] = median(headers, BURSTS);
	return median(cycles, BURSTS);
}

/* Every flow once, so that tables are filled before anything is timed. */
static void warm_up(struct bench *b)
{
	uint32_t flows[BURST_MAX];

	for (uint32_t f = 0; f < b->opt.flows; f += b->opt.burst) {
		for (uint32_t i = 0; i < b->opt.burst; i++)
			flows[i] = (f + i) % b->opt.flows;
		run_burst(b, f, flows);
	}
	for (unsigned int i = 0; i < b->n_stages; i++) {
		struct stage *s = &b->stages[i];

		/* Some functions bring their counters up to date then. */
		if (s->nf.ops->tick)
			s->nf.ops->tick(&s->worker, rte_rdtsc());
		memcpy(s->warm, s->worker.counters, sizeof(s->warm));
		memset(s->verdicts, 0, sizeof(s->verdicts));
	}
}

static void report_stage(struct stage *s)
{
	printf("{\"nf\": \"%s\", \"cycles_per_packet\": %.1f, \"verdicts\": {", s->name,
	       median(s->rounds, ROUNDS));
	for (unsigned int v = 0, any = 0; v < 256; v++)
		if (s->verdicts[v])
			printf("%s\"%u\": %llu", any++ ? ", " : "", v,
			       (unsigned long long)s->verdicts[v]);
	printf("}, \"counters\": {");
	/* Their growth, by which one sees what path the figure is of; of gauges, the change. */
	for (unsigned int c = 0; s->nf.ops->counters && s->nf.ops->counters[c]; c++)
		printf("%s\"%s\": %lld", c ? ", " : "", s->nf.ops->counters[c],
		       (long long)(s->worker.counters[c] - s->warm[c]));
	printf("}}");
}

static void report(struct bench *b)
{
	double rounds[ROUNDS];

	for (unsigned int i = 0; i < ROUNDS; i++)
		rounds[i] = run_round(b, i);
	median(rounds, ROUNDS); /* sorts */
	printf("{\"flows\": %u, \"burst\": %u, \"cycles_per_packet\": {\"min\": %.1f, "
	       "\"median\": %.1f, \"max\": %.1f}, \"headers\": %.1f, \"tsc_hz\": %llu, "
	       "\"stages\": [",
	       b->opt.flows, b->opt.burst, rounds[0], rounds[ROUNDS / 2],
	       rounds[ROUNDS - 1], median(b->headers, ROUNDS), (unsigned long long)rte_get_tsc_hz());
	for (unsigned int i = 0; i < b->n_stages; i++) {
		fputs(i ? ", " : "", stdout);
		report_stage(&b->stages[i]);
	}
	printf("]}\n");
}

static int start_stage(struct stage *s, struct err *err)
{
	json_t *params = json_loads(s->params, 0, NULL);
	void *conf;
	int rc;

	s->nf.ops = nf_find(s->name);
	if (!s->nf.ops) {
		json_decref(params);
		return err_set(err, EINVAL, "--nf", "\"%s\" is not an NF of this program", s->name);
	}
	if (!params)
		return err_set(err, EINVAL, "--params", "is not JSON");
	conf = calloc(1, s->nf.ops->conf_size + 1);
	if (!conf)
		return err_set(err, ENOMEM, "", "out of memory");
	rc = param_parse(s->nf.ops->params, params, "params", conf, err);
	json_decref(params);
	if (rc)
		return rc;
	s->nf.conf = conf;
	s->nf.workers = 1;
	s->worker.nf = &s->nf;
	s->worker.count = 1;
	rc = s->nf.ops->init ? s->nf.ops->init(&s->nf, err) : 0;
	if (!rc && s->nf.ops->worker_init)
		rc = s->nf.ops->worker_init(&s->worker, err);
	return rc;
}

static int start_stages(struct bench *b, struct err *err)
{
	int rc = 0;

	unsigned int leave = 0;

	for (unsigned int i = 0; i < b->n_stages && !rc; i++) {
		rc = start_stage(&b->stages[i], err);
		leave += !rc && b->stages[i].nf.ops->trails;
	}
	b->trails = leave > 1;
	return rc;
}

static void end_stage(struct stage *s)
{
	if (s->nf.ops->worker_fini)
		s->nf.ops->worker_fini(&s->worker);
	if (s->nf.ops->fini)
		s->nf.ops->fini(&s->nf);
}

static int make_mbufs(struct bench *b)
{
	b->mbufs = aligned_alloc(64, MBUFS * sizeof(*b->mbufs));
	b->buffers = aligned_alloc(64, MBUFS * BUFFER);
	if (!b->mbufs || !b->buffers)
		return -ENOMEM;
	memset(b->mbufs, 0, MBUFS * sizeof(*b->mbufs));
	for (unsigned int i = 0; i < MBUFS; i++) {
		struct rte_mbuf *m = &b->mbufs[i];

		m->buf_addr = b->buffers + i * BUFFER;
		m->buf_len = BUFFER;
		m->data_off = 128;
		m->data_len = FRAME;
		m->pkt_len = FRAME;
		m->nb_segs = 1;
		m->refcnt = 1;
	}
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: headrace-bench-nf (--nf NAME [--params JSON])... (at most %d) [--flows N] "
			"[--dst ADDRESS] [--burst 1..%u] [--memory-mb N]\n", STAGES_MAX, BURST_MAX);
	return 2;
}

static int parse(int argc, char **argv, struct bench *b, const char **memory)
{
	static const struct option longs[] = {
		{"nf", 1, NULL, 'n'},    {"params", 1, NULL, 'p'}, {"flows", 1, NULL, 'f'},
		{"dst", 1, NULL, 'd'},   {"burst", 1, NULL, 'b'},  {"memory-mb", 1, NULL, 'm'},
		{NULL, 0, NULL, 0},
	};
	struct options *o = &b->opt;
	struct param_ip ip;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'n' && b->n_stages < STAGES_MAX)
			b->stages[b->n_stages++] = (struct stage){.name = optarg, .params = "{}"};
		else if (c == 'p' && b->n_stages)
			b->stages[b->n_stages - 1].params = optarg;
		else if (c == 'f')
			o->flows = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'b')
			o->burst = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'm')
			*memory = optarg;
		else if (c == 'd' && !param_ip_parse(optarg, &ip) && ip.family == 4)
			o->dst = rte_be_to_cpu_32(*(uint32_t *)ip.addr);
		else
			return usage();
	}
	return b->n_stages && o->flows && o->burst && o->burst <= BURST_MAX && optind == argc ? 0 : usage();
}

static int start_eal(const char *memory)
{
	const char *args[] = {"bench", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			      "--lcores", "0", "--log-level", "error", "-m", memory,
			      "--force-max-simd-bitwidth=512"};

	/* EAL only reads them. */
	return rte_eal_init(RTE_DIM(args), (char **)(uintptr_t)args) < 0 ? -EIO : 0;
}

int main(int argc, char **argv)
{
	static struct bench b = {.opt = {.flows = 1024, .dst = 0x0a000001, .burst = 32},
				 .random = 88172645463325252u};
	const char *memory = "512";
	struct err err = {0};
	int rc = parse(argc, argv, &b, &memory);

	if (rc)
		return rc;
	if (start_eal(memory))
		return 1;
	rc = make_mbufs(&b) ? err_set(&err, ENOMEM, "", "out of memory") : start_stages(&b, &err);
	if (rc) {
		fprintf(stderr, "headrace-bench-nf: %s: %s\n", err.path, err.msg);
		return rc == -ENOMEM ? 1 : 2;
	}
	warm_up(&b);
	report(&b);
	for (unsigned int i = 0; i < b.n_stages; i++)
		end_stage(&b.stages[i]);
	return 0;
}
