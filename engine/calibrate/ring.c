/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What handing packets from one core to another over an rte_ring costs, per packet, at bursts 1..64:
 * the pointers alone, and with what a pipeline's next function cannot avoid: the packet's
 * descriptor and first header line, which its neighbour has just written, are read there.
 * A second ring brings the packets back, as a mempool's cache would. `same` is the same between two
 * segments on one core, whose packets never leave its caches.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_pause.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "calibrate.h"

#define RING_SIZE 1024
#define PACKETS 512 /* all of them fit into either ring: never full */
#define BURST_MAX 64
#define AHEAD 6 /* the segment loop prefetches so many packets ahead */
#define WINDOW_S 0.002 /* shorter than a scheduler tick: most windows are undisturbed */
#define WINDOWS 5      /* per round */

static const unsigned int bursts[] = {1, 2, 4, 8, 16, 32, 64};

/* The lines of an mbuf that a pipeline touches: descriptor with the data's address, and data. */
struct packet {
	uint8_t *header;
	uint64_t meta[7];
	uint64_t data[8];
};

struct side {
	struct rte_ring *in, *out;
	unsigned int burst;
	bool touch, writes;
	uint64_t until;
	uint64_t rx_cycles, tx_cycles, packets;
};

struct figures {
	struct sample enqueue, dequeue, total, same;
};

static void touch(struct packet **p, unsigned int n, bool writes)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n && i < AHEAD; i++)
		rte_prefetch0(p[i]->header);
	for (unsigned int i = 0; i < n; i++) {
		if (i + AHEAD < n)
			rte_prefetch0(p[i + AHEAD]->header);
		if (writes) {
			p[i]->meta[0]++;
			p[i]->data[0]++;
		} else {
			sum += *(uint64_t *)(void *)p[i]->header + p[i]->meta[0];
		}
	}
	__asm__ volatile("" : "+r"(sum));
}

/* Receive, touch, send on; only polls that found packets count, as in the segment loop. */
static void side_poll(struct side *s, uint64_t start)
{
	struct packet *p[BURST_MAX];
	unsigned int n = rte_ring_sc_dequeue_burst(s->in, (void **)p, s->burst, NULL);
	uint64_t received;

	if (!n) {
		rte_pause();
		return;
	}
	if (s->touch)
		touch(p, n, s->writes);
	received = rte_rdtsc();
	rte_ring_sp_enqueue_burst(s->out, (void **)p, n, NULL);
	s->rx_cycles += received - start;
	s->tx_cycles += rte_rdtsc() - received;
	s->packets += n;
}

static void side_run(void *arg)
{
	struct side *s = arg;
	uint64_t now;

	while ((now = rte_rdtsc()) < s->until)
		side_poll(s, now);
}

static void rings_free(struct rte_ring **rings)
{
	free(rings[0]);
	free(rings[1]);
}

/* No EAL: rings in ordinary memory. All packets begin in the second one. */
static int rings_make(struct rte_ring **rings, struct packet *packets, struct err *err)
{
	size_t bytes = RTE_ALIGN((size_t)rte_ring_get_memsize(RING_SIZE), 2 * LINE);

	for (unsigned int i = 0; i < 2; i++) {
		rings[i] = aligned_alloc(2 * LINE, bytes);
		if (!rings[i] || rte_ring_init(rings[i], "", RING_SIZE, RING_F_SP_ENQ | RING_F_SC_DEQ))
			return err_set(err, ENOMEM, "", "no memory for a ring");
	}
	for (unsigned int i = 0; i < PACKETS; i++) {
		packets[i].header = (uint8_t *)packets[i].data;
		rte_ring_sp_enqueue(rings[1], &packets[i]);
	}
	return 0;
}

/* Figures are what each side pays; `total` is what the slower one makes of it. */
static void two_cores(struct partner *p, struct rte_ring **rings, unsigned int burst, bool with_touch,
		      struct figures *f)
{
	uint64_t start = rte_rdtsc(), until = start + (uint64_t)(WINDOW_S * tsc_hz());
	struct side producer = {.in = rings[1], .out = rings[0], .burst = burst, .touch = with_touch,
				.writes = true, .until = until};
	struct side consumer = {.in = rings[0], .out = rings[1], .burst = burst, .touch = with_touch,
				.until = until};

	partner_begin(p, side_run, &consumer);
	side_run(&producer);
	partner_wait(p);
	if (!producer.packets || !consumer.packets)
		return;
	sample_add(&f->enqueue, (double)producer.tx_cycles / (double)producer.packets);
	sample_add(&f->dequeue, (double)consumer.rx_cycles / (double)consumer.packets);
	sample_add(&f->total, (double)(until - start) / (double)consumer.packets);
}

static void one_core(struct rte_ring **rings, unsigned int burst, bool with_touch, struct figures *f)
{
	uint64_t until = rte_rdtsc() + (uint64_t)(WINDOW_S / 4 * tsc_hz()), now;
	struct side producer = {.in = rings[1], .out = rings[0], .burst = burst, .touch = with_touch,
				.writes = true};
	struct side consumer = {.in = rings[0], .out = rings[1], .burst = burst, .touch = with_touch};

	while ((now = rte_rdtsc()) < until) {
		side_poll(&producer, now);
		side_poll(&consumer, rte_rdtsc());
	}
	if (producer.packets && consumer.packets)
		sample_add(&f->same, (double)producer.tx_cycles / (double)producer.packets +
					     (double)consumer.rx_cycles / (double)consumer.packets);
}

static json_t *figures_json(const struct figures *f, unsigned int burst, bool with_touch)
{
	json_t *o = json_pack("{s:i, s:b, s:o, s:o, s:o}", "burst", (int)burst, "touched", with_touch,
			      "enqueue", sample_json(&f->enqueue), "dequeue", sample_json(&f->dequeue),
			      "total", sample_json(&f->total));

	json_object_set_new(o, "same_core", sample_json(&f->same));
	return o;
}

json_t *measure_ring(const struct options *o, struct err *err)
{
	static struct figures figures[2][RTE_DIM(bursts)];
	static struct packet packets[PACKETS] __rte_aligned(LINE);
	struct rte_ring *rings[2] = {NULL, NULL};
	json_t *list = json_array();
	struct partner p;
	int rc = pin_to(o->cpus[0], err);

	if (!rc)
		rc = rings_make(rings, packets, err);
	if (!rc)
		rc = partner_start(&p, o->cpus[1], err);
	if (rc) {
		rings_free(rings);
		json_decref(list);
		return NULL;
	}
	for (unsigned int round = 0; round < o->rounds * WINDOWS; round++)
		for (unsigned int t = 0; t < 2; t++)
			for (unsigned int b = 0; b < RTE_DIM(bursts); b++) {
				two_cores(&p, rings, bursts[b], t, &figures[t][b]);
				one_core(rings, bursts[b], t, &figures[t][b]);
			}
	partner_stop(&p);
	rings_free(rings);
	for (unsigned int t = 0; t < 2; t++)
		for (unsigned int b = 0; b < RTE_DIM(bursts); b++)
			json_array_append_new(list, figures_json(&figures[t][b], bursts[b], t));
	return list;
}
