/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets of an elastic segment go from replica to replica as the input says, by requests that may be
 * nonsense, that are given no time, and between which any replica has any turn: nobody's packet may be
 * lost, come twice, pass another one of its flow or have another session of the NAT, and who is said to
 * have a bucket is a replica that runs.
 *
 * One engine lives as long as the process, so that what was left half done meets what comes;
 * HEADRACE_FUZZ_FRESH=1 makes one for every input.
 */
#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/control/control.h"
#include "core/link.h"
#include "core/loop/elastic.h"
#include "core/setup/elastic_move.h"
#include "core/setup/engine.h"
#include "fuzz/clock.h"
#include "tests/test_eal.h"

#define FLOWS 64
#define STEPS_MAX 8 /* of an input: many short ones meet more than few long */
#define FRAME 64
#define SOURCE_AT 26 /* the address that NAT writes */
#define SPORT_AT 34
#define NUMBER_AT (FRAME - 8) /* the payload's last bytes: the packet's number, its flow */
#define QUEUE 4096

enum step { STEP_SEND, STEP_SEND_MORE, STEP_POLL, STEP_MOVE, STEP_HURRY, STEP_NONSENSE, STEPS };

/* As a packet's last bytes say. */
struct told {
	uint32_t number, flow;
};

static const char plan_text[] =
	"{\"engine\":{\"hugepages\":false,\"mbufs\":4095},\"links\":{"
	"\"outward\":{\"type\":\"fed\"},\"left\":{\"type\":\"fed\"},"
	"\"wire\":{\"type\":\"ring\",\"params\":{\"size\":64,\"on_full\":\"wait\"}},"
	"\"away\":{\"type\":\"ring\",\"params\":{\"size\":64,\"on_full\":\"wait\"}}},"
	"\"nfs\":{\"nat\":{\"type\":\"nat\","
	"\"params\":{\"pool\":[\"192.0.2.1\"],\"seed\":1,\"sessions\":4096}},"
	"\"mon\":{\"type\":\"monitor\",\"params\":{\"flows\":4096}}},\"segments\":["
	"{\"name\":\"source\",\"cpus\":[0],\"inputs\":[{\"link\":\"outward\",\"to\":\"link:wire\"}]},"
	"{\"name\":\"chain\",\"cpus\":[0,0,0],\"elastic\":4,\"inputs\":[{\"link\":\"wire\",\"to\":\"nat\"}],"
	"\"nodes\":{\"nat\":{\"forward\":{\"out\":\"mon\"}},\"mon\":{\"forward\":{\"out\":\"link:away\"}}}},"
	/* Apart from the source: one that waits for room would keep it from making any. */
	"{\"name\":\"sink\",\"cpus\":[0],\"inputs\":[{\"link\":\"away\",\"to\":\"link:left\"}]}]}";

static struct plan *plan;
static struct engine e;
static struct input *steering; /* says whose turn is next, while there are bytes of it */
static unsigned int turn;
static atomic_bool hurry;
static struct told queue[QUEUE]; /* what the source has to send, in a circle */
static uint32_t fed, sent, left_n;
static uint8_t frames[FLOWS][FRAME];
static uint32_t last[FLOWS], in_flow[FLOWS]; /* the last number that left, and packets of it that went in */
static uint8_t mapped[FLOWS][6];
static bool is_mapped[FLOWS];

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "moves of buckets: %s\n", what);
	abort();
}

static void must_do(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "moves of buckets: %s: %s\n", err->path, err->msg);
	abort();
}

static uint16_t fed_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t got = 0;

	for (; got < n && sent != fed; sent++) {
		const struct told *t = &queue[sent % QUEUE];
		struct rte_mbuf *m = rte_pktmbuf_alloc(q->link->pool);
		uint8_t *data;

		must(m, "no mbuf");
		data = (uint8_t *)rte_pktmbuf_append(m, FRAME);
		memcpy(data, frames[t->flow], FRAME);
		memcpy(data + NUMBER_AT, t, sizeof(*t));
		pkts[got++] = m;
	}
	return got;
}

static uint16_t fed_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	(void)q;
	(void)dest;
	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *data = rte_pktmbuf_mtod(pkts[i], const uint8_t *);
		uint8_t endpoint[6];
		struct told t;

		memcpy(&t, data + NUMBER_AT, sizeof(t));
		memcpy(endpoint, data + SOURCE_AT, 4);
		memcpy(endpoint + 4, data + SPORT_AT, 2);
		must(rte_pktmbuf_pkt_len(pkts[i]) == FRAME && t.flow < FLOWS, "a packet that nobody sent");
		must(t.number == last[t.flow] + 1, "a packet was lost, came twice or passed another one");
		must(!is_mapped[t.flow] || !memcmp(mapped[t.flow], endpoint, sizeof(endpoint)),
		     "a flow has another session");
		memcpy(mapped[t.flow], endpoint, sizeof(endpoint));
		is_mapped[t.flow] = true;
		last[t.flow] = t.number;
		left_n++;
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct link_ops fed_ops = {
	.name = "fed", .reads = true, .writes = true, .unclassified = true, .rx = fed_rx, .tx = fed_tx,
};
LINK_REGISTER(fed_ops)

/* The input says whose turn is next; behind its end all have theirs. */
static void poll_next(struct engine *engine)
{
	const struct worker *w = &engine->workers[0];
	bool told = steering && steering->at < steering->end;

	turn = told ? take(steering, 1) : turn + 1;
	replica_poll(w->replicas[turn % w->n_replicas]);
}

static void begin(void)
{
	json_t *json = json_loads(plan_text, 0, NULL);
	struct err err = {0};

	must(json, "the plan is not JSON");
	must_do(plan_parse(json, &plan, &err), &err);
	e = (struct engine){.idle = poll_next, .ends = &hurry};
	must_do(engine_make(&e, plan, &err), &err);
	json_decref(json);
	busy_begin(&e.workers[0].clock);
	slicer_begin(&e.workers[0].slicer, &e.workers[0].clock, &e.workers[0].beacon, NULL,
		     e.workers[0].replicas, e.workers[0].n_replicas);
	for (unsigned int i = 0; i < FLOWS; i++) {
		uint16_t sport = (uint16_t)(1000 + i);
		struct craft c = {.proto = IPPROTO_UDP, .sport = sport, .dport = 53, .payload = 22};
		uint8_t frame[CRAFT_MAX];

		craft_addrs(&c, "10.0.0.1", "198.18.0.1");
		must(craft_build(&c, frame) == FRAME, "a frame is of another length");
		memcpy(frames[i], frame, FRAME);
	}
	fed = sent = left_n = 0;
	memset(last, 0, sizeof(last));
	memset(in_flow, 0, sizeof(in_flow));
	memset(is_mapped, 0, sizeof(is_mapped));
}

static void end(void)
{
	engine_stop(&e);
	plan_free(plan);
}

static void send_some(struct input *in)
{
	unsigned int from = take(in, 1), n = 1 + take(in, 1) % 12;

	for (unsigned int i = 0; i < n; i++, fed++) {
		uint32_t flow = (from + i * (1 + from % 3)) % FLOWS;

		queue[fed % QUEUE] = (struct told){.number = ++in_flow[flow], .flow = flow};
	}
}

/* Whatever the request is, the answer is one of the two; afterwards somebody who runs has each bucket. */
static int ask(json_t *req)
{
	json_t *reply = NULL;
	struct err err = {0};
	int rc = elastic_cmd_move(&e, req, &reply, &err);

	must(rc ? !reply && err.msg[0] : json_is_true(json_object_get(reply, "ok")),
	     "a request has no answer");
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		must(atomic_load(&e.elastic[1]->owners[b]) < e.plan->segments[1].n_cpus,
		     "nobody who runs has a bucket");
	json_decref(reply);
	json_decref(req);
	return rc;
}

/* Some in equal distances, down to neighbours; `in_hurry`: they are given no time. */
static void move_some(struct input *in, bool in_hurry)
{
	unsigned int from = take(in, 1), n = 1 + take(in, 1) % 24, by = 1 + take(in, 1), to = take(in, 1) % 3;
	json_t *buckets = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(buckets, json_integer((from + i * by) % PKT_BUCKETS));
	atomic_store(&hurry, in_hurry);
	must(!ask(json_pack("{s:s, s:o, s:i}", "segment", "chain", "buckets", buckets, "to", (int)to)) ||
		     in_hurry, "a move that had time was not made");
	atomic_store(&hurry, false);
}

static json_t *odd_value(struct input *in, unsigned int deep)
{
	static const char *const texts[] = {"chain", "sink", "", "nowhere"};
	unsigned int kind = take(in, 1);
	json_t *list;

	switch (kind % 6) {
	case 0:
		return json_integer((int8_t)take(in, 1));
	case 1:
		return json_integer((json_int_t)((uint64_t)take(in, 4) << 31));
	case 2:
		return json_real(take(in, 1) / 2.0);
	case 3:
		return json_string(texts[take(in, 1) % RTE_DIM(texts)]);
	case 4:
		return kind & 8 ? json_null() : json_true();
	default:
		list = json_array();
		for (unsigned int n = take(in, 1) % 4; n && deep; n--)
			json_array_append_new(list, odd_value(in, deep - 1));
		return list;
	}
}

static void nonsense(struct input *in)
{
	static const char *const keys[] = {"segment", "buckets", "to", "within_ms"};
	json_t *req = json_pack("{s:s, s:[i], s:i}", "segment", "chain", "buckets", 7, "to", 1);

	for (unsigned int n = take(in, 1) % 4; n; n--)
		json_object_set_new(req, keys[take(in, 1) % RTE_DIM(keys)], odd_value(in, 2));
	ask(req);
}

static void drain(void)
{
	steering = NULL;
	for (unsigned int i = 0; left_n != fed; i++) {
		must(i < 100000, "packets do not leave any more");
		poll_next(&e);
	}
}

static void play(struct input *in)
{
	steering = in;
	for (unsigned int i = 0; i < STEPS_MAX && in->at < in->end; i++)
		switch (take(in, 1) % STEPS) {
		case STEP_SEND:
		case STEP_SEND_MORE:
			send_some(in);
			break;
		case STEP_POLL:
			poll_next(&e);
			break;
		case STEP_MOVE:
			move_some(in, false);
			break;
		case STEP_HURRY:
			move_some(in, true);
			break;
		case STEP_NONSENSE:
			nonsense(in);
			break;
		}
	drain();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fresh = -1;
	struct input in = {data, data + size};

	if (fresh < 0) {
		fresh = getenv("HEADRACE_FUZZ_FRESH") != NULL;
		must(test_eal_start("256") >= 0, "EAL does not start");
		fuzz_tsc = rte_rdtsc(); /* it stands still: no session ends */
		begin();
		atexit(end);
	}
	play(&in);
	if (fresh) {
		end();
		begin();
	}
	return 0;
}
