/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rule.h"

#define HEADER "alert tcp any any -> any any "

static const struct param_list no_vars;

static void check_exprs(const char *line, const char *const *exprs)
{
	struct err err = {0};
	struct rule r;
	unsigned int n = 0;

	if (rule_parse(line, "test", &no_vars, &r, &err) != 1)
		fail_msg("%s: %s: %s", line, err.path, err.msg);
	for (; exprs[n]; n++) {
		assert_true(n < r.n_exprs);
		assert_string_equal(r.exprs[n], exprs[n]);
	}
	assert_int_equal(r.n_exprs, n);
	rule_free(&r);
}

#define EXPRS(options, ...)                                                                        \
	check_exprs(HEADER "(" options " sid:1;)", (const char *const[]){__VA_ARGS__, NULL})

static void test_exprs(void **state)
{
	EXPRS("content:\"abc\";", "(?:abc)");
	EXPRS("content:\"a b|0d 0A|.\";", "(?:a\\x20b\\x0d\\x0a\\x2e)");
	EXPRS("content:\"\\\"\\\\\\;\\:\\|\";", "(?:\\x22\\x5c\\x3b\\x3a\\x7c)");
	EXPRS("content:\"a;b\"; nocase;", "(?i:a\\x3bb)");
	EXPRS("content:\"ab\"; depth:5;", "^(?s:.{0,3})(?:ab)");
	EXPRS("content:\"ab\"; depth:2;", "^(?:ab)");
	EXPRS("content:\"ab\"; startswith;", "^(?:ab)");
	EXPRS("content:\"ab\"; offset:4;", "^(?s:.{4,})(?:ab)");
	EXPRS("content:\"ab\"; offset:4; depth:3;", "^(?s:.{4,5})(?:ab)");
	/* Alone they must all be found, in any order; relative ones follow each other. */
	EXPRS("content:\"a\"; content:\"b\";", "(?:a)", "(?:b)");
	EXPRS("content:\"a\"; content:\"b\"; distance:0;", "(?:a)(?s:.*)(?:b)");
	EXPRS("content:\"a\"; content:\"bc\"; distance:2; within:5;", "(?:a)(?s:.{2,5})(?:bc)");
	EXPRS("content:\"a\"; content:\"b\"; within:1;", "(?:a)(?:b)");
	EXPRS("content:\"a\"; pcre:\"/b|c/Ri\";", "(?:a)(?s:.*)(?i:b|c)");
	EXPRS("content:\"a\"; pcre:\"/^b/R\";", "(?:a)(?:b)");
	EXPRS("content:\"a\"; pcre:\"/b\\/c/sm\";", "(?:a)", "(?sm:b\\/c)");
	EXPRS("pcre:\"/b # c/x\";", "(?x:b # c\n)");
	EXPRS("pcre:\"/b/A\";", "^(?:b)");
	/* The first has nothing before it but the beginning. */
	EXPRS("content:\"ab\"; distance:1; within:3;", "^(?s:.{1,2})(?:ab)");
}

static void check_refused(const char *line, int code, const char *message)
{
	struct err err = {0};
	struct rule r;

	assert_int_equal(rule_parse(line, "f:7", &no_vars, &r, &err), code);
	assert_string_equal(err.path, "f:7");
	if (!strstr(err.msg, message))
		fail_msg("%s: \"%s\" says nothing of \"%s\"", line, err.msg, message);
}

static void test_refused(void **state)
{
	check_refused("alert", -EINVAL, "not a rule");
	check_refused("shout tcp any any -> any any (content:\"a\"; sid:1;)", -EINVAL, "shout");
	check_refused("pass tcp any any -> any any (content:\"a\"; sid:1;)", -ENOTSUP, "pass");
	check_refused("alert http any any -> any any (content:\"a\"; sid:1;)", -ENOTSUP, "http");
	check_refused("alert tcp 10.0.0.300 any -> any any (content:\"a\"; sid:1;)", -EINVAL,
		      "300");
	check_refused("alert tcp any 80:79 -> any any (content:\"a\"; sid:1;)", -EINVAL, "80:79");
	check_refused("alert tcp any 65536 -> any any (content:\"a\"; sid:1;)", -EINVAL, "65536");
	check_refused("alert tcp any any <- any any (content:\"a\"; sid:1;)", -EINVAL, "<-");
	check_refused("alert tcp $HOME any -> any any (content:\"a\"; sid:1;)", -EINVAL, "$HOME");
	check_refused("alert tcp [10.0.0.0/8 any -> any any (content:\"a\"; sid:1;)", -EINVAL,
		      "not a list");
	check_refused(HEADER "content:\"a\"; sid:1;", -EINVAL, "brackets");
	check_refused(HEADER "(content:\"a\"; sid:1;", -EINVAL, "not closed");
	check_refused(HEADER "(content:\"a\"; sid:1)", -EINVAL, "semicolon");
	check_refused(HEADER "(content:\"a\";)", -EINVAL, "sid");
	check_refused(HEADER "(sid:1;)", -ENOTSUP, "neither content nor pcre");
	check_refused(HEADER "(content:a; sid:1;)", -EINVAL, "quotes");
	check_refused(HEADER "(content:\"\"; sid:1;)", -EINVAL, "0 bytes");
	check_refused(HEADER "(content:\"|0|\"; sid:1;)", -EINVAL, "|0|");
	check_refused(HEADER "(content:\"|00\"; sid:1;)", -EINVAL, "|00");
	check_refused(HEADER "(content:!\"a\"; sid:1;)", -ENOTSUP, "!");
	check_refused(HEADER "(content:\"abc\"; depth:2; sid:1;)", -EINVAL, "less than");
	check_refused(HEADER "(content:\"abc\"; depth:x; sid:1;)", -ENOTSUP, "depth:x");
	check_refused(HEADER "(content:\"abc\"; depth:70000; sid:1;)", -EINVAL, "70000");
	check_refused(HEADER "(content:\"a\"; content:\"b\"; distance:-1; sid:1;)", -ENOTSUP, "-1");
	check_refused(HEADER "(nocase; content:\"a\"; sid:1;)", -EINVAL, "no content before");
	check_refused(HEADER "(pcre:\"abc\"; sid:1;)", -EINVAL, "expression");
	check_refused(HEADER "(pcre:\"/abc/U\"; sid:1;)", -ENOTSUP, "U");
	check_refused(HEADER "(content:\"a\"; http_uri; sid:1;)", -ENOTSUP, "http_uri");
	check_refused(HEADER "(content:\"a\"; flow:sideways; sid:1;)", -ENOTSUP, "sideways");
	check_refused(HEADER "(content:\"a\"; dsize:5<>6; sid:1;)", -EINVAL, "dsize");
	check_refused(HEADER "(content:\"a\"; sid:x;)", -EINVAL, "sid: \"x\"");
}

struct tuple {
	const char *src, *dst;
	uint16_t sport, dport;
	uint8_t proto;
	bool to_server;
};

static bool applies(const char *line, const struct tuple *t)
{
	struct param_ip src, dst;
	struct rule_packet p = {.proto = t->proto,
				.sport = t->sport,
				.dport = t->dport,
				.to_server = t->to_server,
				.established = true,
				.size = 10};
	char name[] = "NET", value[] = "[10.0.0.0/8, 2001:db8::/33]";
	struct rule_var var = {name, value};
	struct param_list vars = {&var, 1};
	struct err err = {0};
	struct rule r;
	bool yes;

	if (rule_parse(line, "test", &vars, &r, &err) != 1)
		fail_msg("%s: %s", line, err.msg);
	assert_int_equal(param_ip_parse(t->src, &src), 0);
	assert_int_equal(param_ip_parse(t->dst, &dst), 0);
	p.family = src.family;
	p.src = src.addr;
	p.dst = dst.addr;
	yes = rule_applies(&r, &p);
	rule_free(&r);
	return yes;
}

#define RULE(header, options) header " (content:\"a\"; " options "sid:1;)"

static void test_applies(void **state)
{
	const struct tuple v4 = {"10.1.2.3", "192.0.2.1", 1024, 80, 6, true};
	const struct tuple v6 = {"2001:db8::1", "2001:db8:8000::1", 1024, 80, 58, false};

	assert_true(applies(RULE("alert tcp any any -> any any", ""), &v4));
	assert_true(applies(RULE("alert ip any any -> any any", ""), &v6));
	assert_false(applies(RULE("alert udp any any -> any any", ""), &v4));
	assert_true(applies(RULE("alert icmp any any -> any any", ""), &v6));
	assert_true(applies(RULE("alert tcp 10.0.0.0/8 any -> 192.0.2.1 80", ""), &v4));
	assert_false(applies(RULE("alert tcp 10.1.2.0/25 any -> !192.0.2.1 80", ""), &v4));
	assert_true(applies(RULE("alert tcp 10.1.2.0/30 any -> any any", ""), &v4));
	assert_false(applies(RULE("alert tcp 10.1.2.4/30 any -> any any", ""), &v4));
	assert_true(applies(RULE("alert tcp [10.0.0.0/8, !10.2.0.0/16] any -> any any", ""), &v4));
	assert_false(applies(
		RULE("alert tcp [10.0.0.0/8,![10.1.0.0/16,11.0.0.0/8]] any -> any any", ""), &v4));
	assert_true(applies(RULE("alert tcp $NET any -> !$NET any", ""), &v4));
	assert_true(applies(RULE("alert ip $NET any -> !$NET any", ""), &v6));
	assert_true(applies(RULE("alert tcp any 1024: -> any [80, 443]", ""), &v4));
	assert_false(applies(RULE("alert tcp any :1023 -> any any", ""), &v4));
	assert_false(applies(RULE("alert tcp any any -> any ![79:81]", ""), &v4));
	assert_false(applies(RULE("alert tcp any 80 -> any any", ""), &v4));
	assert_true(applies(RULE("alert tcp any 80 <> any any", ""), &v4));
	assert_true(
		applies(RULE("alert tcp any any -> any any", "flow:established,to_server; "), &v4));
	assert_false(applies(RULE("alert tcp any any -> any any", "flow:from_server; "), &v4));
	assert_true(applies(RULE("alert tcp any any -> any any", "dsize:10; "), &v4));
	assert_false(applies(RULE("alert tcp any any -> any any", "dsize:!10; "), &v4));
	assert_true(applies(RULE("alert tcp any any -> any any", "dsize:9<>11; "), &v4));
	assert_false(applies(RULE("alert tcp any any -> any any", "dsize:>10; "), &v4));
	assert_true(applies(RULE("alert tcp any any -> any any", "dsize:<11; "), &v4));
}

static int read_text(const char *text, bool skip, struct rules *rules, struct err *err)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	int rc = rules_read(f, "f", rules, skip, err);

	fclose(f);
	return rc ? rc : rules_check(rules, err);
}

static void test_nul_in_a_file(void **state)
{
	static char text[] = "# a comment\n" HEADER "(content:\"a\"; sid:1;)\0 \n";
	FILE *f = fmemopen(text, sizeof(text) - 1, "r");
	struct rules rules = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(rules_read(f, "f", &rules, false, &err), -EINVAL);
	assert_string_equal(err.path, "f:2");
	assert_non_null(strstr(err.msg, "NUL"));
	fclose(f);
	rules_free(&rules);
}

static void test_file(void **state)
{
	static const char text[] = "# a comment\n\n" HEADER
				   "(content:\"a\"; \\\n  msg:\"two \\\"lines\\\"\"; "
				   "sid:1; rev:3;)\r\n" HEADER "(content:\"b\"; flags:S; sid:2;)\n";
	struct rules rules = {0};
	struct err err = {0};

	assert_int_equal(read_text(text, true, &rules, &err), 0);
	assert_int_equal(rules.count, 1);
	assert_int_equal(rules.skipped, 1);
	assert_string_equal(rules.items[0].msg, "two \"lines\"");
	assert_string_equal(rules.items[0].place, "f:4");
	rules_free(&rules);
	assert_int_equal(read_text(text, false, &rules, &err), -ENOTSUP);
	assert_string_equal(err.path, "f:5");
	rules_free(&rules);
	assert_int_equal(read_text(HEADER "(content:\"a\"; sid:1;)\n" HEADER
					  "(content:\"b\"; sid:1;)",
				   true, &rules, &err),
			 -EINVAL);
	assert_string_equal(err.path, "f:2");
	rules_free(&rules);
	assert_int_equal(read_text(HEADER "\\\n", true, &rules, &err), -EINVAL);
	rules_free(&rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exprs),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_applies),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_nul_in_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
