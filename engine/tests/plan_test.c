/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with a ring and a made-up NF: what is accepted, and what each message says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/plan.h"

static const char *const edges[] = {"out", "other", NULL};
static const struct nf_ops fake_ops = {.name = "fake", .edges = edges};
NF_REGISTER(fake_ops)

/* For what may run side by side: each declares one thing. */
static const struct nf_ops ttl_ops = {
	.name = "ttl", .category = NF_GENERAL, .reads = NF_F_TTL, .writes = NF_F_TTL,
	.may_drop = true,
};
NF_REGISTER(ttl_ops)
static const struct nf_ops look_ops = {
	.name = "look", .category = NF_GENERAL, .reads = NF_F_TTL | NF_F_PAYLOAD,
};
NF_REGISTER(look_ops)
static const struct nf_ops track_ops = {
	.name = "track", .category = NF_GENERAL, .reads = NF_F_5TUPLE, .state_key = NF_STATE_FLOW,
};
NF_REGISTER(track_ops)
static const struct nf_ops leaf_ops = {.name = "end", .category = NF_LEAF};
NF_REGISTER(leaf_ops)
static const struct nf_ops maker_ops = {.name = "maker", .category = NF_GENERAL, .changes_volume = true};
NF_REGISTER(maker_ops)
static const struct nf_ops dscp_ops = {.name = "mark", .category = NF_GENERAL, .writes = NF_F_DSCP};
NF_REGISTER(dscp_ops)
static const struct nf_ops mac_ops = {
	.name = "mac", .category = NF_GENERAL, .reads = NF_F_TTL, .writes = NF_F_MAC,
};
NF_REGISTER(mac_ops)
static const struct nf_ops scratch_ops = {.name = "scratch", .category = NF_GENERAL, .marks_mbuf = true};
NF_REGISTER(scratch_ops)

static const char *holder_apart(const void *conf)
{
	(void)conf;
	return "it holds some";
}

static const struct nf_ops holder_ops = {.name = "holder", .category = NF_GENERAL, .apart = holder_apart};
NF_REGISTER(holder_ops)

#define LINKS "\"links\":{\"a\":{\"type\":\"ring\"},\"b\":{\"type\":\"ring\"}}"
#define NFS "\"nfs\":{\"x\":{\"type\":\"fake\"},\"y\":{\"type\":\"fake\"}}"
#define SEGMENT(nodes, to)                                                                         \
	"\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"inputs\":[{\"link\":\"a\",\"to\":\"" to     \
	"\"}],\"nodes\":{" nodes "}}]"

static int parse(const char *text, struct plan **plan, struct err *err)
{
	json_error_t jerr;
	json_t *j = json_loads(text, 0, &jerr);
	int rc;

	if (!j)
		fail_msg("%s: %s", text, jerr.text);
	rc = plan_parse(j, plan, err);
	json_decref(j);
	return rc;
}

static void test_chain(void **state)
{
	struct plan *p;
	struct err err;

	(void)state;
	assert_int_equal(parse("{" LINKS "," NFS ","
			       SEGMENT("\"x\":{\"forward\":{\"out\":\"y\",\"other\":\"drop\"},"
				       "\"reverse\":{\"out\":\"link:b\"}},"
				       "\"y\":{\"forward\":{\"out\":\"link:b\"},\"reverse\":{\"out\":\"x\"}}",
				       "x") "}",
			       &p, &err),
			 0);
	assert_int_equal(p->n_segments, 1);
	assert_int_equal(p->segments[0].n_nodes, 2);
	assert_int_equal(p->segments[0].burst, 32);
	assert_int_equal(p->segments[0].nodes[0].next[NF_FORWARD][0].kind, TO_NODE);
	assert_int_equal(p->segments[0].nodes[0].next[NF_FORWARD][1].kind, TO_DROP);
	assert_int_equal(p->segments[0].nodes[1].next[NF_REVERSE][1].kind, TO_NODE);
	assert_int_equal(p->nfs[0].segment, 0);
	plan_free(p);
}

#define PAIR(first, second, more)                                                                  \
	"{" LINKS ",\"nfs\":{\"x\":{\"type\":\"" first "\"},\"y\":{\"type\":\"" second "\"}},"  \
	"\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"inputs\":[{\"link\":\"a\",\"to\":\"x\"}],"   \
	"\"nodes\":{\"x\":{\"forward\":{\"out\":\"y\"}},\"y\":{\"forward\":{\"out\":\"link:b\"}}}," \
	more "}]}"
#define BESIDE "\"parallel\":{\"nodes\":[\"x\",\"y\"],\"cpus\":[1]}"

static void parallel_pair(const char *text, bool copy)
{
	struct plan *p;
	struct err err;

	if (parse(text, &p, &err))
		fail_msg("%s: %s", err.path, err.msg);
	assert_int_equal(p->segments[0].parallel.n, 2);
	assert_int_equal(p->segments[0].n_cpus, 1);
	assert_int_equal(p->segments[0].n_all_cpus, 2);
	assert_int_equal(p->segments[0].cpus[1], 1);
	assert_int_equal(p->segments[0].parallel.copies[0], copy);
	assert_false(p->segments[0].parallel.copies[1]);
	plan_free(p);
}

/* NFP's table 3: read beside read, read before write on a copy, a drop beside what keeps no state. */
static void test_parallel(void **state)
{
	(void)state;
	parallel_pair(PAIR("look", "look", BESIDE), false);
	parallel_pair(PAIR("look", "ttl", BESIDE), true);
	parallel_pair(PAIR("track", "look", BESIDE), false);
	parallel_pair(PAIR("scratch", "look", BESIDE), true);
	parallel_pair(PAIR("track", "ttl", BESIDE), false);
}

/* A plan that is refused: at which place, and with what in the message. */
struct refusal {
	const char *text, *path, *msg;
};

static void assert_refused(const struct refusal *cases, size_t n)
{
	struct plan *p;
	struct err err;

	for (size_t i = 0; i < n; i++) {
		if (parse(cases[i].text, &p, &err) != -22)
			fail_msg("accepted: %s", cases[i].text);
		if (strcmp(err.path, cases[i].path) || !strstr(err.msg, cases[i].msg))
			fail_msg("%s\ngave \"%s: %s\"\nnot  \"%s: %s\"", cases[i].text, err.path,
				 err.msg, cases[i].path, cases[i].msg);
	}
}

static void test_errors(void **state)
{
	static const struct refusal cases[] = {
		{"{}", "links", "at least one link"},
		{"{\"version\":2}", "version", "reads version 1"},
		{"{\"nope\":1}", "plan", "unknown key \"nope\""},
		{"{\"links\":{\"a\":{\"type\":\"rope\"}}}", "links.a",
		 "link type \"rope\" is not known; allowed: ring"},
		{"{\"links\":{\"a b\":{\"type\":\"ring\"}}}", "links.a b", "is no name"},
		{"{\"links\":{\"a\":{\"type\":\"ring\",\"params\":{\"size\":1}}}}",
		 "links.a.params.size", "out of range"},
		{"{\"engine\":{\"locate\":{\"every\":10,\"classes\":[{\"name\":\"a\",\"below_cycles\":9},"
		 "{\"name\":\"b\",\"below_cycles\":9},{\"name\":\"c\"}]}}," LINKS "}",
		 "engine.locate.classes", "\"b\" is 9; allowed: more than the 9"},
		{"{" LINKS "}", "segments", "at least one segment"},
		{"{" LINKS ",\"nfs\":{\"x\":{\"type\":\"nat\"}}}", "nfs.x", "function \"nat\""},
		{"{" LINKS "," NFS "," SEGMENT("", "z") "}", "segments[0].inputs[0]",
		 "\"z\" is no node"},
		{"{" LINKS "," NFS "," SEGMENT("", "link:z") "}", "segments[0].inputs[0]",
		 "no link \"z\""},
		{"{" LINKS "," NFS "," SEGMENT("\"x\":{}", "x") "}", "segments[0].nodes.x.forward",
		 "edge -> target"},
		{"{" LINKS "," NFS "," SEGMENT("\"x\":{\"forward\":{\"other\":\"drop\"}}", "x") "}",
		 "segments[0].nodes.x.forward", "edge \"out\" needs a target"},
		{"{" LINKS "," NFS "," SEGMENT("\"x\":{\"forward\":{\"up\":\"drop\"}}", "x") "}",
		 "segments[0].nodes.x.forward.up", "no such edge"},
		{"{" LINKS "," NFS ","
		 SEGMENT("\"x\":{\"forward\":{\"out\":\"y\"}},\"y\":{\"forward\":{\"out\":\"x\"}}", "x")
		 "}",
		 "segments[0]", "its forward edges form a cycle"},
		{"{" LINKS "," NFS "," SEGMENT("\"q\":{\"forward\":{\"out\":\"drop\"}}", "drop") "}",
		 "segments[0]", "\"q\" is not in nfs"},
		{"{" LINKS ",\"segments\":[{\"name\":\"s\",\"cpus\":[],\"inputs\":[{\"link\":\"a\","
		 "\"to\":\"drop\"}]}]}",
		 "segments[0]", "\"cpus\" is empty"},
		{"{" LINKS ",\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"burst\":65,\"inputs\":["
		 "{\"link\":\"a\",\"to\":\"drop\"}]}]}",
		 "segments[0].burst", "65 is out of range"},
		{"{" LINKS ",\"segments\":[{\"name\":\"s\",\"cpus\":[0],\"inputs\":[{\"link\":\"a\","
		 "\"to\":\"drop\"}]},{\"name\":\"t\",\"cpus\":[0],\"inputs\":[{\"link\":\"a\","
		 "\"to\":\"drop\"}]}]}",
		 "segments", "link \"a\" is read twice"},
	};

	(void)state;
	assert_refused(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_errors_of_functions_side_by_side(void **state)
{
	static const struct refusal cases[] = {
		{PAIR("ttl", "look", BESIDE), "segments[0].parallel.nodes",
		 "\"y\" reads ttl, which \"x\" before it writes"},
		{PAIR("ttl", "mark", BESIDE), "segments[0].parallel.nodes", "both write checksums"},
		{PAIR("mark", "mark", BESIDE), "segments[0].parallel.nodes", "both write dscp"},
		{PAIR("ttl", "track", BESIDE), "segments[0].parallel.nodes",
		 "would see packets that \"x\" before it drops"},
		{PAIR("mac", "ttl", BESIDE), "segments[0].parallel.nodes",
		 "\"x\" reads ttl, which \"y\" behind it writes; it needs a copy"},
		{PAIR("end", "look", BESIDE), "segments[0].parallel.nodes",
		 "\"x\" (end) cannot run beside another function: packets end there"},
		{PAIR("look", "maker", BESIDE), "segments[0].parallel.nodes", "packets of its own"},
		{PAIR("look", "holder", BESIDE), "segments[0].parallel.nodes", "it holds some"},
		{PAIR("look", "look", "\"fastpath\":64," BESIDE), "segments[0].parallel.nodes", "exclude"},
		{PAIR("look", "look", "\"parallel\":{\"nodes\":[\"x\"],\"cpus\":[]}"),
		 "segments[0].parallel.nodes", "1 functions; allowed: 2 to 8"},
		{PAIR("look", "look", "\"parallel\":{\"nodes\":[\"x\",\"y\"],\"cpus\":[1,2]}"),
		 "segments[0].parallel.cpus", "2 CPUs for 1 functions"},
		{PAIR("look", "look", "\"parallel\":{\"nodes\":[\"y\",\"x\"],\"cpus\":[1]}"),
		 "segments[0].parallel.nodes", "leads past its first"},
		{PAIR("look", "look", "\"parallel\":{\"nodes\":[\"x\",\"x\"],\"cpus\":[1]}"),
		 "segments[0].parallel.nodes", "\"x\" is named twice"},
		{PAIR("look", "look", "\"parallel\":{\"nodes\":[\"x\",\"z\"],\"cpus\":[1]}"),
		 "segments[0].parallel.nodes", "\"z\" is no node"},
	};

	(void)state;
	assert_refused(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_missing_file(void **state)
{
	struct plan *p;
	struct err err;

	(void)state;
	assert_int_equal(plan_load("/nonexistent/plan.json", &p, &err), -22);
	assert_non_null(strstr(err.path, "/nonexistent/plan.json"));
}

/* Over the control socket no shared object comes into an engine that runs. */
static void test_functions_are_not_loaded(void **state)
{
	struct plan *p;
	struct err err;

	(void)state;
	assert_int_equal(parse("{\"functions\":[\"/tmp/own.so\"]," LINKS ","
			       "\"segments\":[]}", &p, &err), -22);
	assert_string_equal(err.path, "functions[0]");
	assert_non_null(strstr(err.msg, "was not loaded when the engine started"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_parallel),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_errors_of_functions_side_by_side),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_functions_are_not_loaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
