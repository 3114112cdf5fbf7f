/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "core/nf.h"
#include "core/tsc.h"

/*
 * The synthetic NF of studies: a known cost per packet, and nothing else. Each kind is real work:
 * time by the TSC, bytes of the packet read or written, lines of memory read.
 */

enum { TOUCH_READ, TOUCH_WRITE };
enum { C_TOUCHED_BYTES, C_TABLE_READS };

#define LINE 64

struct delay_params {
	uint64_t cycles, touch_bytes, table_bytes, table_reads;
	uint32_t touch;
};

static const char *const touches[] = {"read", "write", NULL};

static const struct param delay_params[] = {
	{.name = "cycles", .type = PARAM_UINT, .max = 1e9, .unit = "TSC cycles",
	 .offset = offsetof(struct delay_params, cycles),
	 .doc = "each packet takes so long, the other costs below included, give or take half a reading of "
		"the TSC for a burst; a burst waits for the sum at its end"},
	{.name = "touch_bytes", .type = PARAM_UINT, .max = 65535, .unit = "bytes",
	 .offset = offsetof(struct delay_params, touch_bytes),
	 .doc = "bytes of the packet's first mbuf that are touched, as far as there are so many"},
	{.name = "touch", .type = PARAM_ENUM, .choices = touches, .def = "\"read\"",
	 .offset = offsetof(struct delay_params, touch),
	 .doc = "write: every byte is written with the value that it has"},
	{.name = "table_bytes", .type = PARAM_UINT, .max = 17179869184.0, .unit = "bytes",
	 .offset = offsetof(struct delay_params, table_bytes),
	 .doc = "size of a table of each worker's own: the function's working set"},
	{.name = "table_reads", .type = PARAM_UINT, .max = 1024, .unit = "lines",
	 .offset = offsetof(struct delay_params, table_reads),
	 .doc = "lines of 64 bytes at random places of the table that are read for each packet, each "
		"depending on the one before"},
	{0},
};

struct delay_worker {
	uint64_t half_read; /* cycles */
	uint8_t *table;
	uint64_t lines, at;
};

static int delay_init(struct nf *nf, struct err *err)
{
	const struct delay_params *p = nf->conf;

	if (p->table_reads && p->table_bytes < LINE)
		return err_set(err, EINVAL, "params.table_reads",
			       "%u reads of a table of %u bytes; table_bytes must be at least %d",
			       (unsigned int)p->table_reads, (unsigned int)p->table_bytes, LINE);
	return 0;
}

static void delay_worker_fini(struct nf_worker *w)
{
	struct delay_worker *d = w->state;

	if (d)
		free(d->table);
	free(d);
	w->state = NULL;
}

static int delay_worker_init(struct nf_worker *w, struct err *err)
{
	const struct delay_params *p = w->nf->conf;
	struct delay_worker *d = w->state = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, ENOMEM, "params", "out of memory");
	/* By so much the look that ends a wait is late in the mean. */
	d->half_read = tsc_read_cycles() / 2;
	d->lines = p->table_bytes / LINE;
	if (!d->lines)
		return 0;
	d->table = aligned_alloc(LINE, d->lines * LINE);
	if (!d->table) {
		delay_worker_fini(w);
		return err_set(err, ENOMEM, "params.table_bytes", "no memory for %zu bytes",
			       (size_t)p->table_bytes);
	}
	/* Written, so that each page is one of its own and not the kernel's page of zeros. */
	for (uint64_t i = 0; i < d->lines * LINE; i++)
		d->table[i] = (uint8_t)(i * 0x9e3779b1u >> 24);
	return 0;
}

/* Volatile: the compiler must not drop what nobody looks at. Returns the bytes touched. */
static uint32_t touch(const struct delay_params *p, struct rte_mbuf *m)
{
	volatile uint8_t *frame = rte_pktmbuf_mtod(m, volatile uint8_t *);
	uint32_t bytes = RTE_MIN((uint32_t)p->touch_bytes, (uint32_t)m->data_len);

	for (uint32_t i = 0; i < bytes; i++) {
		uint8_t value = frame[i];

		if (p->touch == TOUCH_WRITE)
			frame[i] = value;
	}
	return bytes;
}

/* A linear congruential generator (Knuth, MMIX); what was read takes part in the next step. */
static void read_table(struct delay_worker *d, uint64_t reads)
{
	while (reads--) {
		d->at = d->at * 6364136223846793005u + 1442695040888963407u;
		d->at += d->table[(uint64_t)((unsigned __int128)d->at * d->lines >> 64) * LINE];
	}
}

static void delay_process(struct nf_worker *w, struct burst *b)
{
	const struct delay_params *p = w->nf->conf;
	struct delay_worker *d = w->state;
	uint64_t start = rte_rdtsc(), touched = 0;

	for (unsigned int i = 0; i < b->n; i++) {
		if (p->touch_bytes)
			touched += touch(p, b->pkts[i]);
		if (p->table_reads)
			read_table(d, p->table_reads);
	}
	w->counters[C_TOUCHED_BYTES] += touched;
	w->counters[C_TABLE_READS] += p->table_reads * b->n;
	/* No rte_pause: one takes up to 140 cycles, by which the cost would be more than it says. */
	if (p->cycles)
		while (rte_rdtsc() - start + d->half_read < p->cycles * b->n)
			;
}

/* What it writes back could be older than what another has written meanwhile. */
static const char *delay_apart(const void *conf)
{
	const struct delay_params *p = conf;

	return p->touch == TOUCH_WRITE && p->touch_bytes ? "it writes back what it read" : NULL;
}

static const char *const counters[] = {
	[C_TOUCHED_BYTES] = "touched-bytes", [C_TABLE_READS] = "table-reads", NULL};

static const struct nf_ops delay_ops = {
	.name = "delay",
	.doc = "Costs each packet a set number of cycles and memory accesses. These are TSC cycles, touched "
	       "packet bytes, and random reads of a table of a set size; the packet passes unchanged. For "
	       "studies of models, placement and contention, where the cost must be known.",
	.standards = "None.",
	.params = delay_params,
	.conf_size = sizeof(struct delay_params),
	.counters = counters,
	.reads = NF_F_PAYLOAD,
	.category = NF_GENERAL,
	.state_key = NF_STATELESS,
	.apart = delay_apart,
	.init = delay_init,
	.worker_init = delay_worker_init,
	.worker_fini = delay_worker_fini,
	.process = delay_process,
};
NF_REGISTER(delay_ops)
