/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offload of state with a VNF that means harm: packets go to its link while it writes whatever the
 * input says into the memory that it shares with the host, or does as it should, or ends, and
 * another one comes. None of the host's packets may be lost, come back twice, out of their flow's
 * order or changed where no function changes them, and no index or length leads out of the memory.
 *
 * One link lives as long as the process, so that state builds up; HEADRACE_FUZZ_FRESH=1 makes one
 * for every input, to reproduce what does not depend on earlier ones.
 */
#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf_dyn.h>

#include "core/plain.h"
#include "link/shm/offload.h"
#include "tests/test_eal.h"

#define SLOTS 64
#define STRIDE 192u /* too short for the longest packets */
#define FLOWS 16
#define MBUFS 511
#define FRAME_MAX 512
#define STEPS_MAX 48 /* of an input: many short ones meet more than few long */
#define BURST 32
#define ORDERS 256

enum step {
	STEP_SEND,
	STEP_SEND_AGAIN,
	STEP_TELL,
	STEP_ECHO,
	STEP_READ,
	STEP_WORD,
	STEP_BYTES,
	STEP_VOID,
	STEP_PEER,
	STEPS,
};

/* What went in, by its mbuf: nobody frees one whose packet comes back. */
struct sent {
	uint64_t key[FAST_KEY6_WORDS], number;
	uint32_t len;
	int family;
	bool odd;
	uint8_t frame[FRAME_MAX];
};

struct order {
	uint64_t key[FAST_KEY6_WORDS], number;
	int family;
};

static struct shm_conf conf = {.slots = SLOTS, .slot_bytes = STRIDE - 64, .offload = FLOWS};
static struct link shm_link = {.name = "fuzz", .conf = &conf};
static struct shm_map to_vnf, from_vnf;
static struct shm_state *s;
static struct link_rxq rxq;
static struct link_txq txq;
static struct rte_mempool *pool;
static int index_offset;
static struct sent sent[MBUFS];
static struct order orders[ORDERS];
static uint64_t accepted, came_back, numbered;
/* The VNF's. */
static uint64_t vnf_read, vnf_wrote, vnf_told;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "offload of state: %s\n", what);
	abort();
}

static struct sent *sent_as(struct rte_mbuf *m)
{
	return &sent[*RTE_MBUF_DYNFIELD(m, index_offset, uint32_t *)];
}

static void number_mbuf(struct rte_mempool *mp, void *arg, void *obj, unsigned int index)
{
	(void)mp;
	(void)arg;
	*RTE_MBUF_DYNFIELD((struct rte_mbuf *)obj, index_offset, uint32_t *) = index;
}

static struct shm_ring *ring(unsigned int which)
{
	return &to_vnf.region->rings[which];
}

static struct shm_slot *slot(unsigned int which, uint64_t index)
{
	uint8_t *slots = (uint8_t *)(to_vnf.region + 1);

	return (struct shm_slot *)(slots + (which * SLOTS + (index & (SLOTS - 1))) * STRIDE);
}

/* What it told and where it was is of no use to the next one, but its memory may hold anything. */
static void new_peer(unsigned int queues)
{
	s->serial++;
	if (queues & 1) {
		from_vnf.serial = s->serial;
		atomic_store(&s->rx.at, atomic_load(&ring(SHM_TO_SERVER)->tail));
	}
	if (queues & 2) {
		to_vnf.serial = s->serial;
		atomic_store(&s->tx.at, atomic_load(&ring(SHM_TO_CLIENT)->head));
	}
	vnf_read = atomic_load(&ring(SHM_TO_CLIENT)->head);
	vnf_wrote = atomic_load(&ring(SHM_TO_SERVER)->tail);
	vnf_told = 0;
}

static void open_queue(struct shm_queue *q, struct shm_map *m, unsigned int which)
{
	q->ring = ring(which);
	q->slots = (uint8_t *)(m->region + 1) + (size_t)which * SLOTS * STRIDE;
	atomic_store(&q->map, m);
}

/* A region of its exact size, so that what leads out of it is found. */
static void begin(void)
{
	size_t size = sizeof(struct shm_region) + (size_t)SHM_RINGS * SLOTS * STRIDE +
		      offload_bytes(FLOWS);
	struct err err;

	s = shm_link.state = calloc(1, sizeof(*s));
	to_vnf = (struct shm_map){.region = aligned_alloc(64, size),
				  .size = size,
				  .slots = SLOTS,
				  .stride = STRIDE,
				  .flows = FLOWS,
				  .fd = {-1, -1, -1},
				  .client_end = -1};
	must(s && to_vnf.region, "no memory");
	memset((void *)to_vnf.region, 0, size);
	from_vnf = to_vnf;
	s->link = &shm_link;
	s->peer = s->listening = s->wake = -1;
	s->ns_per_cycle = 1e9 / (double)rte_get_tsc_hz();
	atomic_store(&s->up, true);
	must(!shm_offload_open(s, &err), "no memory");
	open_queue(&s->tx, &to_vnf, SHM_TO_CLIENT);
	open_queue(&s->rx, &from_vnf, SHM_TO_SERVER);
	rxq = (struct link_rxq){.link = &shm_link, .state = s};
	txq = (struct link_txq){.link = &shm_link, .state = s};
	accepted = came_back = 0;
	new_peer(3);
}

static void end(void)
{
	shm_offload_close(s->offload);
	must(rte_mempool_full(pool), "a packet was not freed");
	free(to_vnf.region);
	free(s);
	s = shm_link.state = NULL;
}

/* Packets of one flow come back as they went in. */
static void in_order(const struct sent *as)
{
	struct order *o = &orders[rte_hash_crc(as->key, sizeof(as->key), 0) % ORDERS];

	if (o->family == as->family && !memcmp(o->key, as->key, sizeof(o->key)))
		must(as->number > o->number, "a packet was overtaken by one of its flow");
	memcpy(o->key, as->key, sizeof(o->key));
	o->family = as->family;
	o->number = as->number;
}

/* Addresses, ports, MACs, a TTL that is still one, and checksums: no more of it changed. */
static void only_rewritten(const uint8_t *was, const uint8_t *is, const struct sent *as)
{
	bool v4 = as->family == FAST_IPV4;
	unsigned int ttl = FAST_L2_BYTES + (v4 ? 8 : 7), l3 = v4 ? FAST_L3_BYTES : FAST_L3_BYTES6;
	unsigned int l4 = FAST_L2_BYTES + l3, addrs = FAST_L2_BYTES + (v4 ? 12 : 8);
	unsigned int csum = l4 + ((as->key[fast_words((enum fast_family)as->family) - 1] >> 32 &
				   0xff) == IPPROTO_TCP
					  ? TCP_CSUM_AT
					  : UDP_CSUM_AT);

	must(is[ttl] && is[ttl] <= was[ttl], "a TTL that is none");
	for (unsigned int i = 12; i < as->len; i++) {
		bool may = i == ttl || (v4 && (i == ttl + 2 || i == ttl + 3)) ||
			   (i >= addrs && i < l4 + 4) || i == csum || i == csum + 1;

		must(may || is[i] == was[i], "a byte was changed that no function changes");
	}
}

static void came(struct rte_mbuf *m)
{
	const struct sent *as = sent_as(m);

	must(as->family >= 0 && !as->odd, "a packet was spared that could not be");
	must(m->pkt_len == as->len && m->data_len == as->len && m->nb_segs == 1,
	     "a length was changed");
	only_rewritten(as->frame, rte_pktmbuf_mtod(m, const uint8_t *), as);
	in_order(as);
}

static uint16_t read_link(void)
{
	struct rte_mbuf *pkts[BURST];
	uint32_t from = s->offload->back_from;
	uint16_t n = shm_rx(&rxq, pkts, BURST), back = (uint16_t)(s->offload->back_from - from);

	must(back <= n && n <= BURST, "more came than was asked for");
	for (uint16_t i = 0; i < back; i++)
		came(pkts[i]);
	came_back += back;
	rte_pktmbuf_free_bulk(pkts, n);
	return n;
}

/* `odd`: in two segments, or somebody else's, too, which both are the VNF's to see. */
static struct rte_mbuf *packet(const uint8_t *frame, uint32_t len, unsigned int odd)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool),
			*rest = odd & 1 && len > 64 ? rte_pktmbuf_alloc(pool) : NULL;
	uint32_t first = rest ? 60 : len;
	struct sent *as;

	must(m && (rest || !(odd & 1) || len <= 64), "no mbuf");
	as = sent_as(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)first), frame, first);
	if (rest) {
		memcpy(rte_pktmbuf_append(rest, (uint16_t)(len - first)), frame + first,
		       len - first);
		must(!rte_pktmbuf_chain(m, rest), "no chain");
	}
	memcpy(as->frame, frame, len);
	as->len = len;
	as->number = ++numbered;
	as->odd = rest;
	pkt_classify(m);
	as->family = fast_family(m);
	memset(as->key, 0, sizeof(as->key));
	if (as->family >= 0)
		fast_key(as->key, m, 0, (enum fast_family)as->family);
	return m;
}

struct play {
	struct input in;
	uint8_t last[CRAFT_MAX]; /* the packet that was sent last */
	uint32_t last_len;
	struct sent told_of;
};

static void send_last(struct play *p, unsigned int times, unsigned int odd)
{
	struct rte_mbuf *pkts[BURST], *shared;
	uint16_t n = 0, taken;

	for (; n < RTE_MIN(times, (unsigned int)BURST); n++) {
		pkts[n] = packet(p->last, p->last_len, odd);
		p->told_of = *sent_as(pkts[n]);
	}
	shared = n && odd & 2 ? pkts[0] : NULL;
	if (shared) {
		sent_as(shared)->odd = true;
		rte_pktmbuf_refcnt_update(shared, 1);
	}
	taken = shm_tx(&txq, 0, pkts, n);
	must(taken <= n, "more was taken than there was");
	accepted += taken;
	rte_pktmbuf_free_bulk(pkts + taken, n - taken);
	rte_pktmbuf_free(shared);
}

static void send_new(struct play *p, unsigned int op)
{
	static const char *const ip4[] = {"10.0.0.1", "192.0.2.1", "203.0.113.1", "198.51.100.7"};
	static const char *const ip6[] = {"2001:db8:a::1", "2001:db8:b::1", "2001:db8:c::1",
					  "2001:db8:c::2"};

	p->last_len = RTE_MIN(take_packet(&p->in, ip4, ip6, p->last), (uint32_t)FRAME_MAX);
	send_last(p, 1, op);
}

static struct offload_area *area(void)
{
	return shm_area(&to_vnf);
}

/* A decision on the flow of the packet that was sent last, as a VNF makes it; or nearly so. */
static void tell(struct play *p, unsigned int op)
{
	struct offload_record *r = &area()->records[vnf_told % OFFLOAD_RECORDS];

	if (p->told_of.family < 0)
		return;
	memset(r, 0, sizeof(*r));
	memcpy(r->key, p->told_of.key, sizeof(r->key));
	r->family = (uint8_t)p->told_of.family;
	r->slot = take(&p->in, 1) % offload_slots(FLOWS);
	r->version = atomic_load(&offload_versions(area(), FLOWS)[r->slot]);
	r->tables = atomic_load(&area()->tables);
	r->ttl = r->ttl_needed = op & 1;
	r->sets = op >> 1 & (NF_SETS_DST_MAC | NF_SETS_SRC_MAC);
	r->l4_delta = (uint16_t)take(&p->in, 2);
	r->l3_delta = r->l4_delta;
	r->ports = take(&p->in, 4);
	if (op & 8) { /* and a lie */
		size_t from = offsetof(struct offload_record, ports);
		size_t at = from + take(&p->in, 1) % (sizeof(*r) - from);

		((uint8_t *)r)[at] = (uint8_t)take(&p->in, 1);
	}
	atomic_store(&area()->head, ++vnf_told);
}

/* What a VNF does that forwards: it takes what there is, or some of it, lets it out, and says so.
 */
static void echo(unsigned int op)
{
	uint64_t there = atomic_load(&ring(SHM_TO_CLIENT)->head) - vnf_read;

	if (there > SLOTS)
		there = 0;
	if (op >> 1)
		there = RTE_MIN(there, (uint64_t)(op >> 1));
	for (; there; there--, vnf_read++) {
		if (op & 1)
			continue; /* dropped */
		memcpy(slot(SHM_TO_SERVER, vnf_wrote++), slot(SHM_TO_CLIENT, vnf_read), STRIDE);
	}
	atomic_store(&ring(SHM_TO_CLIENT)->tail, vnf_read);
	atomic_store(&ring(SHM_TO_SERVER)->head, vnf_wrote);
	atomic_store(&area()->done, vnf_read << 32 | (uint32_t)vnf_wrote);
}

/* Any of its words: to any value, or a little on from what it is. */
static void write_word(struct play *p, unsigned int op)
{
	unsigned int which = take(&p->in, 1),
		     slot_of = which >> 4 ? which % offload_slots(FLOWS) : 0;
	_Atomic uint64_t *wide[] = {
		&ring(0)->head, &ring(0)->tail, &ring(1)->head, &ring(1)->tail,
		&area()->head,  &area()->tail,  &area()->done,  &offload_hits(area())[slot_of],
	};
	_Atomic uint32_t *narrow[] = {
		&ring(0)->asleep, &ring(1)->asleep, &area()->voided,
		&area()->tables,  &area()->seen,    &offload_versions(area(), FLOWS)[slot_of],
	};
	uint64_t value = take(&p->in, 4);

	if (op & 2)
		value |= (uint64_t)take(&p->in, 4) << 32;
	if (op & 1)
		value = (uint64_t)(int8_t)value;
	if (op & 4)
		atomic_store(wide[which % RTE_DIM(wide)],
			     (op & 1 ? atomic_load(wide[which % RTE_DIM(wide)]) : 0) + value);
	else
		atomic_store(
			narrow[which % RTE_DIM(narrow)],
			(uint32_t)((op & 1 ? atomic_load(narrow[which % RTE_DIM(narrow)]) : 0) +
				   value));
}

/* Anywhere: slots with their lengths, records, what is the host's to write. */
static void write_bytes(struct play *p)
{
	size_t at = (size_t)take(&p->in, 3) % to_vnf.size, n = take(&p->in, 1);

	n = RTE_MIN(RTE_MIN(n, to_vnf.size - at), (size_t)(p->in.end - p->in.at));
	memcpy((uint8_t *)to_vnf.region + at, p->in.at, n);
	p->in.at += n;
}

/* As a VNF that takes a decision back, or whose tables changed. */
static void take_back(unsigned int op)
{
	if (op & 1) {
		atomic_fetch_add(&area()->tables, 1);
		return;
	}
	atomic_fetch_add(&offload_versions(area(), FLOWS)[op % offload_slots(FLOWS)], 1);
	atomic_fetch_add(&area()->voided, 1);
}

/* Where each packet is that was taken. */
static void conserved(void)
{
	const struct shm_offload *o = s->offload;
	uint64_t held = 0, gone = ends_sum(&o->gone_ends);

	for (unsigned int i = 0; i < (o->set_mask + 1) * SHM_WAYS; i++)
		held += o->flows[i].held;
	must(held == o->held_n, "what is held is not what flows hold");
	must(accepted == came_back + shm_offload_used(o) + gone + s->sent + s->too_long,
	     "a packet is nowhere, or twice");
	must(o->n.hits <= came_back + shm_offload_used(o) + gone && o->n.hits >= came_back,
	     "not as many were spared as came back");
}

static void step(struct play *p)
{
	unsigned int op = take(&p->in, 1), more = op / STEPS;

	fuzz_tsc += rte_get_tsc_hz() >> 14;
	switch ((enum step)(op % STEPS)) {
	case STEP_SEND:
		send_new(p, more & 3);
		break;
	case STEP_SEND_AGAIN:
		send_last(p, p->last_len ? 1 + more % 16 : 0, more / 16 * 3 & more);
		break;
	case STEP_TELL:
		tell(p, more);
		break;
	case STEP_ECHO:
		echo(more);
		break;
	case STEP_READ:
		read_link();
		break;
	case STEP_WORD:
		write_word(p, more);
		break;
	case STEP_BYTES:
		write_bytes(p);
		break;
	case STEP_VOID:
		take_back(more);
		break;
	default:
		new_peer(more);
	}
}

static void start(void)
{
	static const struct rte_mbuf_dynfield index_field = {
		.name = "fuzz_index", .size = sizeof(uint32_t), .align = sizeof(uint32_t)};
	static const struct rte_mbuf_dynfield stamp_field = {
		.name = "fuzz_stamp", .size = sizeof(uint64_t), .align = sizeof(uint64_t)};
	struct err err;

	must(test_eal_start("64") >= 0 && !pkt_marks_register(&err), "EAL does not start");
	fuzz_tsc = rte_rdtsc(); /* from here on it moves as the inputs say */
	index_offset = rte_mbuf_dynfield_register(&index_field);
	shm_stamp_offset = rte_mbuf_dynfield_register(&stamp_field);
	pool = rte_pktmbuf_pool_create("fuzz", MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + FRAME_MAX,
				       SOCKET_ID_ANY);
	must(pool && index_offset >= 0 && shm_stamp_offset >= 0, "no memory for packets");
	rte_mempool_obj_iter(pool, number_mbuf, NULL);
	shm_link.pool = pool;
	if (!getenv("HEADRACE_FUZZ_FRESH")) {
		begin();
		atexit(end);
	}
}

/* As in fuzz_nf.c: what is held at an input's end is no leak, but looking for one takes
 * milliseconds. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return s != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct play p;
	bool fresh;

	if (!pool)
		start();
	p.in = (struct input){data, data + size};
	p.last_len = 0;
	p.told_of.family = -1;
	fresh = !s;
	if (fresh)
		begin();
	for (unsigned int i = 0; i < STEPS_MAX && p.in.at < p.in.end; i++)
		step(&p);
	conserved();
	if (fresh)
		end();
	return 0;
}
