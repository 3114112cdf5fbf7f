/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same packets through a chain of one replica, and through an elastic one whose replicas come and go and
 * whose buckets move at random while packets are under way: what becomes of each packet must be the same, to
 * the byte, and so must be what functions count. Time stands still but for steps, so that flows end alike.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/setup/elastic_move.h"
#include "core/setup/engine.h"
#include "elastic_by_address.h"
#include "elastic_plan.h"
#include "elastic_traffic.h"
#include "test_eal.h"
#include "virtual_tsc.h"

#define STEPS 1500
#define PACKETS 72 /* outward, in each step, at most */
#define FLOWS 65536
#define STEP_CYCLES (3u << 20)
#define VIRTUAL_START (1ull << 44) /* each run has the same times */
#define QUIET_STEPS 80 /* at the end, for counts of flows */

/* What became of a packet. */
struct fate {
	uint8_t left; /* by link; 0: it did not */
	uint16_t len;
	uint8_t data[TRAFFIC_FRAME_MAX];
};

struct outcome {
	struct fate *fates;
	uint64_t *orders; /* by flow, both ways: a hash of its packets in the order in which they left */
	uint64_t counts[8][NF_COUNTERS_MAX], in[8], out[8][4], dropped[8][NF_DROPS_MAX], aborted[8];
	int64_t held[8];
};

static struct traffic traffic;
static struct outcome *now; /* that of the run that is on */
static unsigned int next_in[TRAFFIC_LINKS], fed; /* packets, by what has been let in */
static unsigned int schedule, step_now;
static bool recording;
static struct elastic_moved in_all; /* and as many changes */
static unsigned int changes_made, partitions_made, given_up;
static atomic_bool hurry;
static uint64_t packets_held; /* that waited while segments changed */
static uint64_t went_held;    /* packets that the first function had, and took along */
static bool partitions;       /* changes are of them, too */

/* An assertion must not leave the test while time stands still, as cmocka reads clocks. */
static void must(bool ok, const char *what)
{
	if (ok)
		return;
	virtual_tsc_stop();
	fail_msg("step %u: %s", step_now, what);
}

static void must_do(int rc, const struct err *err)
{
	if (!rc)
		return;
	virtual_tsc_stop();
	fail_msg("step %u: %s: %s", step_now, err->path, err->msg);
}

static unsigned int pick(unsigned int n)
{
	return traffic_pick(&schedule, n);
}

static uint16_t mem_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	unsigned int link = q->link->name[0] == 'a', *at = &next_in[link];
	uint16_t got = 0;

	for (; got < n && *at < fed; ++*at) {
		const struct traffic_packet *p = &traffic.packets[*at];
		struct rte_mbuf *m;

		if (p->link != link)
			continue;
		m = rte_pktmbuf_alloc(q->link->pool);
		must(m, "no mbuf");
		memcpy(rte_pktmbuf_append(m, p->len), p->data, p->len);
		pkts[got++] = m;
	}
	return got;
}

static void note(struct rte_mbuf *m, uint8_t link)
{
	uint16_t len = (uint16_t)rte_pktmbuf_pkt_len(m);
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t number = traffic_number(data, len), flow;
	struct fate *f = &now->fates[number];

	must(number < fed, "a packet that nobody has sent");
	must(!f->left, "a packet has left twice");
	*f = (struct fate){.left = link, .len = len};
	memcpy(f->data, data, len);
	flow = traffic.packets[number].flow;
	if (flow) {
		uint64_t *order = &now->orders[flow % FLOWS + (flow >> 31) * FLOWS];

		*order = (*order ^ number) * 0x100000001b3u;
	}
	if (recording && link == 1 && traffic_pick(&traffic.seed, 2))
		traffic_answer(&traffic, step_now + 1, data, len);
}

static uint16_t mem_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dest;
	for (uint16_t i = 0; i < n; i++) {
		note(pkts[i], q->link->name[0] == 'l' ? 1 : 2);
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct link_ops mem_ops = {
	.name = "mem", .reads = true, .writes = true, .unclassified = true, .rx = mem_rx, .tx = mem_tx,
};
LINK_REGISTER(mem_ops)

/* As the run that is on begins; the first function keeps what it keeps by flow, or by an address. */
static struct elastic_partition begins = {.first = "null", .elastic = true, .burst = 32, .replicas = {1}};

static json_t *plan_json(const struct elastic_partition *p)
{
	json_t *json = elastic_plan(p);

	must(json, "the plan is not JSON");
	return json;
}

/* Some replica's turn, with the time standing still. */
static void poll_one(struct engine *e)
{
	const struct worker *w = &e->workers[0];

	replica_poll(w->replicas[pick(w->n_replicas)]);
}

static bool is_still(const struct engine *e)
{
	for (unsigned int l = 0; l < TRAFFIC_LINKS; l++)
		if (next_in[l] < fed)
			return false;
	for (unsigned int i = 0; i < e->workers->n_replicas; i++) {
		const struct replica *r = e->workers->replicas[i];

		if (r->pending || elastic_waits(r))
			return false;
		for (unsigned int k = 0; k < r->n_inlets; k++) {
			const struct link *l = r->inlets[k].q.link;

			if (l->ops->written && !l->ops->taken(l, r->index, l->ops->written(l, r->index)))
				return false;
		}
	}
	return true;
}

static void drain(struct engine *e)
{
	do {
		for (unsigned int i = 0; i < e->workers->n_replicas; i++)
			replica_poll(e->workers->replicas[i]);
	} while (!is_still(e));
}

/* As an lcore does that begins with these replicas. */
static void begin(struct worker *w)
{
	busy_begin(&w->clock);
	slicer_begin(&w->slicer, &w->clock, &w->beacon, NULL, w->replicas, w->n_replicas);
}

/* Replicas more or fewer, and, where the run is of them, other segments. */
static int change_plan(struct engine *e, struct elastic_partition *p, struct err *err)
{
	const struct elastic_partition was = *p;
	json_t *json, *reply = NULL;
	int rc;

	if (partitions)
		p->cuts = pick(1 << (ELASTIC_FUNCTIONS - 1));
	hurry = p->cuts != was.cuts && !pick(4);
	for (unsigned int i = 0; i < ELASTIC_FUNCTIONS; i++)
		p->replicas[i] = 1 + pick(ELASTIC_MOST);
	json = plan_json(p);
	rc = engine_replan(e, json, ELASTIC_WITHIN_MS, &reply, err);
	begin(e->workers);
	if (json_object_get(reply, "partition")) {
		partitions_made++;
		went_held += (uint64_t)replica_node(e, 0, 0)->stats.held;
		packets_held += (uint64_t)json_integer_value(
			json_object_get(json_object_get(reply, "partition"), "waited"));
	}
	json_decref(reply);
	json_decref(json);
	/* Nobody is waited for then: all has to be as it was. */
	if (hurry && rc == -EBUSY) {
		*p = was;
		given_up++;
		rc = 0;
	}
	hurry = false;
	return rc;
}

/* Of one of its segments, at random. */
static int change_buckets(struct engine *e, struct err *err)
{
	struct elastic_moved moved = {0};
	unsigned int s = 1 + pick(e->plan->n_segments - 1);
	uint8_t to[PKT_BUCKETS];
	int rc;

	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		to[b] = pick(4) ? e->elastic[s]->owners[b] : (uint8_t)pick(e->plan->segments[s].n_cpus);
	rc = elastic_move(e, s, to, ELASTIC_WITHIN_MS, &moved, err);
	in_all.buckets += moved.buckets;
	in_all.waited += moved.waited;
	return rc;
}

static void change(struct engine *e, struct elastic_partition *p)
{
	struct err err = {0};
	int rc;

	changes_made++;
	rc = !p->elastic || !pick(3) ? change_plan(e, p, &err) : change_buckets(e, &err);
	must_do(rc, &err);
}

static void count_node(unsigned int i, const struct node *n)
{
	now->in[i] += n->stats.in;
	now->held[i] += n->stats.held;
	now->aborted[i] += ends_sum(&n->stats.aborted);
	for (unsigned int k = 0; k < 4; k++)
		now->out[i][k] += n->stats.out[k];
	for (unsigned int k = 0; k < NF_DROPS_MAX; k++)
		now->dropped[i][k] += ends_sum(&n->stats.dropped[k]);
	for (unsigned int k = 0; k < NF_COUNTERS_MAX; k++)
		now->counts[i][k] += n->worker->counters[k];
}

static void count(const struct engine *e)
{
	for (unsigned int i = 0; i < e->plan->n_nfs; i++)
		for (unsigned int r = 0; r < e->nfs[i].workers; r++)
			count_node(i, replica_node(e, i, r));
}

/* What comes in with this step, and then its answers; in between some turns, and a change. */
static void feed(struct engine *e, unsigned int upto, bool changes, struct elastic_partition *p)
{
	fed = upto;
	for (unsigned int i = 0; changes && i < pick(12); i++)
		poll_one(e);
	if (changes)
		change(e, p);
	drain(e);
}

static unsigned int end_of(unsigned int from, unsigned int step, enum traffic_link link)
{
	while (from < traffic.n && traffic.packets[from].step == step && traffic.packets[from].link == link)
		from++;
	return from;
}

static void run_steps(struct engine *e, bool changes)
{
	struct elastic_partition p = begins;

	for (step_now = 0; step_now < STEPS + QUIET_STEPS; step_now++) {
		bool quiet = step_now >= STEPS;

		virtual_tsc += STEP_CYCLES;
		drain(e); /* everybody's tick is at this time, with every bucket at home */
		if (quiet)
			continue;
		/* The answers to the step before were recorded when those left. */
		feed(e, end_of(fed, step_now, TRAFFIC_ANSWERS), changes, &p);
		if (recording)
			traffic_make(&traffic, step_now, PACKETS);
		feed(e, end_of(fed, step_now, TRAFFIC_OUTWARD), changes, &p);
		if (recording)
			traffic_stray(&traffic, step_now + 1);
	}
}

static void idle(struct engine *e)
{
	poll_one(e);
}

static void run(struct outcome *o, bool changes, unsigned int seed)
{
	json_t *json = plan_json(&begins);
	struct engine e = {.idle = idle, .ends = &hurry};
	struct plan *plan;
	struct err err = {0};

	schedule = seed;
	o->fates = calloc(TRAFFIC_MAX, sizeof(*o->fates));
	o->orders = calloc(2 * FLOWS, sizeof(*o->orders));
	must(o->fates && o->orders, "out of memory");
	now = o;
	fed = next_in[0] = next_in[1] = 0;
	must_do(plan_parse(json, &plan, &err), &err);
	must_do(engine_make(&e, plan, &err), &err);
	must(virtual_tsc_start(), "this kernel cannot make RDTSC fault (PR_SET_TSC)");
	virtual_tsc = VIRTUAL_START;
	begin(e.workers);
	run_steps(&e, changes);
	virtual_tsc_stop();
	count(&e);
	engine_stop(&e);
	plan_free(plan);
	json_decref(json);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
	for (unsigned int i = 0; i < traffic.n; i++)
		if (memcmp(&a->fates[i], &b->fates[i], sizeof(a->fates[i])))
			fail_msg("packet %u of flow %u: left by %u, and by %u with changes", i,
				 traffic.packets[i].flow, a->fates[i].left, b->fates[i].left);
	assert_memory_equal(a->orders, b->orders, 2 * FLOWS * sizeof(*a->orders));
	assert_memory_equal(a->in, b->in, sizeof(a->in));
	assert_memory_equal(a->out, b->out, sizeof(a->out));
	assert_memory_equal(a->held, b->held, sizeof(a->held));
	assert_memory_equal(a->aborted, b->aborted, sizeof(a->aborted));
	assert_memory_equal(a->dropped, b->dropped, sizeof(a->dropped));
}

/* All but what depends on who was asked: the parts of acl's cache, and sessions found at the first look. */
static void compare_counters(const struct plan *plan, const struct outcome *a, const struct outcome *b)
{
	for (unsigned int i = 0; i < plan->n_nfs; i++) {
		const char *const *names = plan->nfs[i].ops->counters;

		for (unsigned int k = 0; names && names[k]; k++)
			if (strncmp(names[k], "cache-", 6) && strcmp(names[k], "hits") &&
			    a->counts[i][k] != b->counts[i][k])
				fail_msg("%s %s: %lu, and %lu with changes", plan->nfs[i].name, names[k],
					 a->counts[i][k], b->counts[i][k]);
	}
}

static uint64_t counted(const struct plan *plan, const struct outcome *o, const char *nf, const char *name)
{
	for (unsigned int i = 0; i < plan->n_nfs; i++)
		for (unsigned int k = 0; !strcmp(plan->nfs[i].name, nf); k++)
			if (!strcmp(plan->nfs[i].ops->counters[k], name))
				return o->counts[i][k];
	fail_msg("%s has no %s", nf, name);
	return 0;
}

/* Flows have begun, changed and ended, both ways; otherwise the comparison says little. */
static void assert_all_ways(const struct plan *plan, const struct outcome *o)
{
	unsigned int left[3] = {0};

	for (unsigned int i = 0; i < traffic.n; i++)
		left[o->fates[i].left]++;
	assert_true(left[0] > 5000 && left[1] > 20000 && left[2] > 10000);
	assert_true(counted(plan, o, "nat", "new-sessions") > 2000);
	assert_true(counted(plan, o, "nat", "expired") > 2000);
	assert_true(counted(plan, o, "fw", "expired") > 1000);
	assert_true(counted(plan, o, "lb", "new-flows") > 1000);
	assert_true(counted(plan, o, "mon", "records") > 2000);
}

static void outcome_free(struct outcome *o)
{
	free(o->fates);
	free(o->orders);
}

static unsigned int seed_given(void)
{
	return getenv("ELASTIC_SEED") ? (unsigned int)atoi(getenv("ELASTIC_SEED")) : 1;
}

/* The same packets through what `begins`, and through that with changes. */
static void run_both(const struct plan *plan, unsigned int traffic_seed, unsigned int seed,
		     struct outcome *one, struct outcome *many)
{
	traffic_open(&traffic, traffic_seed);
	recording = true;
	run(one, false, 1);
	recording = false;
	run(many, true, seed);
	compare(one, many);
	compare_counters(plan, one, many);
}

static void end_both(struct outcome *one, struct outcome *many)
{
	outcome_free(one);
	outcome_free(many);
	traffic_close(&traffic);
}

static void compare_runs(const struct plan *plan, unsigned int traffic_seed, unsigned int seed)
{
	struct outcome one = {0}, many = {0};

	run_both(plan, traffic_seed, seed, &one, &many);
	if (!begins.params) /* a shaper lets through less */
		assert_all_ways(plan, &one);
	end_both(&one, &many);
}

static void same_fates(void)
{
	unsigned int seed = seed_given();
	json_t *json;
	struct err err = {0};
	struct plan *plan;

	in_all = (struct elastic_moved){0};
	changes_made = partitions_made = given_up = 0;
	packets_held = went_held = 0;
	json = plan_json(&begins);
	assert_int_equal(plan_parse(json, &plan, &err), 0);
	for (unsigned int i = 0; i < 2; i++) {
		begins.burst = i ? 5 : 32;
		compare_runs(plan, seed + i, seed + 100 * i);
	}
	plan_free(plan);
	json_decref(json);
	begins.burst = 32;
}

static void test_same_fates(void **state)
{
	(void)state;
	same_fates();
	/* Some of them under way, or the order of a move's steps would not be seen. */
	assert_true(changes_made > 5000 && in_all.buckets > 100000 && in_all.waited > 500);
	print_message("%u changes, %u buckets moved, %lu packets waited\n", changes_made, in_all.buckets,
		      in_all.waited);
}

/* Functions go to other segments, with replicas and buckets, or with one replica each. */
static void test_partitions(void **state)
{
	(void)state;
	partitions = true;
	for (unsigned int elastic = 0; elastic < 2; elastic++) {
		begins.elastic = elastic;
		same_fates();
		print_message("%s: %u changes, %u of them partitions, for which %lu packets waited, and %u "
			      "not in time; %u buckets moved\n",
			      elastic ? "elastic" : "one replica each", changes_made, partitions_made,
			      packets_held, given_up, in_all.buckets);
		assert_true(partitions_made > 1000 && packets_held > 500 && given_up > 50);
		assert_true(!elastic || in_all.buckets > 50000);
	}
	partitions = false;
}

/* What a function holds while it goes to another segment, a shaper's queues, leaves it when it is due. */
static void test_held(void **state)
{
	(void)state;
	begins.first = "qos";
	begins.params = "{\"classes\":[],\"shaper\":{\"rate_bps\":30000000,\"subports\":["
			"{\"burst_bytes\":1600,\"period_ms\":10}],\"pipe_profiles\":["
			"{\"burst_bytes\":1600,\"period_ms\":10}]}}";
	begins.elastic = false;
	partitions = true;
	same_fates();
	partitions = false;
	print_message("%u partitions, with %lu packets that a shaper held\n", partitions_made, went_held);
	assert_true(partitions_made > 1000 && went_held > 50);
	begins.first = "null";
	begins.params = NULL;
	begins.elastic = true;
}

/* A byte of some packets' numbers is what is looked for; a flow that has one is dropped. */
#define LOOKED_FOR(sid, bytes)                                                                     \
	"\"drop ip any any -> any any (content:\\\"|" bytes "|\\\"; sid:" sid ";)\""

/* Flows under inspection go from replica to replica, and to other segments. */
static void test_inspected(void **state)
{
	struct outcome one = {0}, many = {0};
	json_t *json;
	struct err err = {0};
	struct plan *plan;

	(void)state;
	begins.first = "dpi";
	begins.params = "{\"flows\":20000,\"streams\":20000,\"idle_timeout_s\":0.2,\"rules\":["
			LOOKED_FOR("1", "77") "," LOOKED_FOR("2", "a5") "]}";
	json = plan_json(&begins);
	must_do(plan_parse(json, &plan, &err), &err);
	in_all = (struct elastic_moved){0};
	partitions = true;
	run_both(plan, 3, 3, &one, &many);
	partitions = false;
	print_message("%lu alerts in %lu flows, %u buckets moved\n", counted(plan, &many, "first", "alerts"),
		      counted(plan, &many, "first", "new-flows"), in_all.buckets);
	assert_true(counted(plan, &many, "first", "alerts") > 200 && in_all.buckets > 10000);
	assert_true(counted(plan, &many, "first", "new-flows") >
		    2 * counted(plan, &many, "first", "alerts"));
	end_both(&one, &many);
	plan_free(plan);
	json_decref(json);
	begins.first = "null";
	begins.params = NULL;
}

/* Each address once, however many flows it has: all have one bucket, and its state moves with that. */
static void test_by_address(void **state)
{
	static const char *const types[] = {"by-src", "by-dst"};

	(void)state;
	for (unsigned int i = 0; i < RTE_DIM(types); i++) {
		struct outcome one = {0}, many = {0};
		json_t *json;
		struct err err = {0};
		struct plan *plan;

		begins.first = types[i];
		json = plan_json(&begins);
		assert_int_equal(plan_parse(json, &plan, &err), 0);
		run_both(plan, 5, 7, &one, &many);
		assert_int_equal(counted(plan, &many, "first", "addresses"), by_address_known(i));
		print_message("%s: %zu addresses, %lu packets beyond what each may send\n", types[i],
			      by_address_known(i), many.dropped[0][0]);
		assert_true(by_address_known(i) > (i ? 20 : 2000) && many.dropped[0][0] > 1000);
		end_both(&one, &many);
		plan_free(plan);
		json_decref(json);
	}
	begins.first = "null";
}

static void refused(const char *type, const char *key, const char *why)
{
	json_t *json;
	struct plan *plan = NULL;
	struct err err = {0};

	begins.first = type;
	json = plan_json(&begins);
	if (key)
		json_object_set_new(json_object_get(json_object_get(json, "nfs"), "mon"), "type",
				    json_string(key));
	if (key)
		json_object_del(json_object_get(json_object_get(json, "nfs"), "mon"), "params");
	assert_int_equal(plan_parse(json, &plan, &err), -EINVAL);
	if (!strstr(err.msg, why))
		fail_msg("%s: %s", err.path, err.msg);
	json_decref(json);
	begins.first = "null";
}

static void test_who_cannot(void **state)
{
	(void)state;
	refused("of-all", NULL, "keeps what is of all packets");
	refused("by-src", "by-dst", "keeps by destination address, and one before it by source");
}

#define MANY 1000000 /* polls */

static int named_anew(struct engine *e, struct elastic_partition *p, unsigned int named, struct err *err)
{
	json_t *json, *reply = NULL;
	int rc;

	p->named = named;
	json = plan_json(p);
	rc = engine_replan(e, json, ELASTIC_WITHIN_MS, &reply, err);
	json_decref(reply);
	json_decref(json);
	return rc;
}

/* What a replica had counted is kept for one of its name; where there is no room for it, it stays. */
static void test_former_replicas_are_counted_or_stay(void **state)
{
	struct elastic_partition p = begins;
	struct engine e = {.idle = idle, .ends = &hurry};
	unsigned int named, full = REPLICAS_PAST / ELASTIC_FUNCTIONS;
	struct plan *plan;
	struct err err = {0};
	json_t *json;

	(void)state;
	p.elastic = false;
	p.cuts = (1 << (ELASTIC_FUNCTIONS - 1)) - 1;
	json = plan_json(&p);
	assert_int_equal(plan_parse(json, &plan, &err), 0);
	must_do(engine_make(&e, plan, &err), &err);
	begin(e.workers);
	e.replicas[1][0]->count.polls = MANY;
	must_do(named_anew(&e, &p, 1, &err), &err);
	assert_true(e.replicas[1][0]->count.polls < MANY);
	must_do(named_anew(&e, &p, 0, &err), &err);
	assert_true(e.replicas[1][0]->count.polls >= MANY);
	for (named = 2; named <= full; named++)
		must_do(named_anew(&e, &p, named, &err), &err);
	assert_int_equal(e.n_replicas_past, full * ELASTIC_FUNCTIONS);
	assert_int_equal(named_anew(&e, &p, named, &err), -ENOSPC);
	assert_string_equal(err.path, "plan.segments");
	assert_non_null(strstr(err.msg, "6 more replicas would leave"));
	assert_int_equal(e.n_replicas_past, full * ELASTIC_FUNCTIONS);
	engine_stop(&e);
	plan_free(plan);
	json_decref(json);
}

/* All tests, or the one that is named: meson runs each by itself. */
int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_fates),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_inspected),
		cmocka_unit_test(test_by_address),
		cmocka_unit_test(test_who_cannot),
		cmocka_unit_test(test_former_replicas_are_counted_or_stay),
	};
	unsigned int named = 0;

	for (unsigned int i = 0; argc > 1 && i < RTE_DIM(tests); i++)
		named += !strcmp(tests[i].name, argv[1]);
	if (argc > 1 && !named) {
		fprintf(stderr, "%s: no test of this name\n", argv[1]);
		return 1;
	}
	/* Before time stands still, which EAL would wait for. */
	if (test_eal_start("768") < 0)
		return 1;
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
