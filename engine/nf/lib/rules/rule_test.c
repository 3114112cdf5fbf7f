/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers alone: no EAL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rule.h"

static void parses_a_filter(void **state)
{
	struct acl_rule r;
	struct err err;

	assert_int_equal(classbench_parse_line("@39.11.238.0/25\t135.41.162.111/32\t0 : 65535\t"
					       "1521 : 1600\t0x06/0xFF\t0x1000/0x1000\t\n",
					       "f:1", &r, &err),
			 1);
	assert_int_equal(r.family, 4);
	assert_memory_equal(r.src, "\x27\x0b\xee\x00", 4);
	assert_int_equal(r.src_len, 25);
	assert_memory_equal(r.dst, "\x87\x29\xa2\x6f", 4);
	assert_int_equal(r.dst_len, 32);
	assert_int_equal(r.sport[0], 0);
	assert_int_equal(r.sport[1], 65535);
	assert_int_equal(r.dport[0], 1521);
	assert_int_equal(r.dport[1], 1600);
	assert_int_equal(r.proto, 6);
	assert_int_equal(r.proto_mask, 0xff);
	assert_int_equal(r.flags, 0x1000);
	assert_int_equal(r.flags_mask, 0x1000);
	assert_false(acl_rule_any_port(&r));
}

static void accepts_variants(void **state)
{
	static const char *const lines[] = {
		"@10.0.0.0/8 0.0.0.0/0 0:65535 80:80 6/255",
		"@2001:db8::/32 ::/0 0 : 65535 0 : 65535 0x00/0x00 0x0000/0x0000",
		"  @10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\r\n",
	};
	struct acl_rule r;
	struct err err;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(classbench_parse_line(lines[i], "f:1", &r, &err), 1);
	assert_int_equal(classbench_parse_line("", "f:1", &r, &err), 0);
	assert_int_equal(classbench_parse_line(" \t\r\n", "f:1", &r, &err), 0);
	assert_int_equal(classbench_parse_line("# @ a comment", "f:1", &r, &err), 0);
}

static void clears_bits_behind_the_prefix(void **state)
{
	struct acl_rule r;
	struct err err;

	assert_int_equal(classbench_parse_line("@10.255.255.255/12 2001:db8::/32", "f:1", &r, &err),
			 -EINVAL);
	assert_int_equal(classbench_parse_line("@10.255.255.255/12 1.2.3.4/0 0:1 0:1 0x6/0xff",
					       "f:1", &r, &err),
			 1);
	assert_memory_equal(r.src, "\x0a\xf0\x00\x00", 4);
	assert_memory_equal(r.dst, "\x00\x00\x00\x00", 4);
}

static void refuses_malformed_lines(void **state)
{
	/* What is wrong, and a word that the message must have. */
	static const struct {
		const char *line, *word;
	} bad[] = {
		{"10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xff", "begins with @"},
		{"@", "source is missing"},
		{"@10.0.0.0/33 0.0.0.0/0 0:1 0:1 0x06/0xff", "10.0.0.0/33"},
		{"@10.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xff", "10.0.0/8"},
		{"@10.0.0.0 0.0.0.0/0 0:1 0:1 0x06/0xff", "prefix length"},
		{"@10.0.0.0/8", "destination is missing"},
		{"@10.0.0.0/8 ::/0 0:1 0:1 0x06/0xff", "one family"},
		{"@10.0.0.0/8 0.0.0.0/0", "source ports is missing"},
		{"@10.0.0.0/8 0.0.0.0/0 0 : 65536 0:1 0x06/0xff", "65536"},
		{"@10.0.0.0/8 0.0.0.0/0 -1 : 1 0:1 0x06/0xff", "-1"},
		{"@10.0.0.0/8 0.0.0.0/0 0 1 0:1 0x06/0xff", "lowest : highest"},
		{"@10.0.0.0/8 0.0.0.0/0 9 : 1 0:1 0x06/0xff", "lowest port comes first"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1x 0x06/0xff", "destination ports"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1", "protocol is missing"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1 tcp", "tcp"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x106/0xff", "0x106"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06", "value/mask"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xff 0x10000/0x0", "flags"},
		{"@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xff 0x1/0x1 permit", "permit"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct acl_rule r;
		struct err err = {0};

		assert_int_equal(classbench_parse_line(bad[i].line, "acl.rules:7", &r, &err),
				 -EINVAL);
		assert_string_equal(err.path, "acl.rules:7");
		if (!strstr(err.msg, bad[i].word))
			fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].line, err.msg,
				 bad[i].word);
	}
}

static void names_the_line_of_a_file(void **state)
{
	static char text[] = "# two rules\n"
			     "@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xff\n"
			     "\n"
			     "@10.0.0.0/8 0.0.0.0/0 0:1 0:1 0x06/0xfff\n";
	FILE *f = fmemopen(text, strlen(text), "r");
	struct acl_rules rules = {0};
	struct err err;

	assert_int_equal(classbench_read(f, "some.rules", &rules, &err), -EINVAL);
	assert_string_equal(err.path, "some.rules:4");
	assert_int_equal(rules.count, 1);
	acl_rules_free(&rules);
	fclose(f);
}

static void refuses_binary_and_missing_files(void **state)
{
	static char text[] = "@10.0.0.0/8\0 0.0.0.0/0 0:1 0:1 0x06/0xff\n";
	FILE *f = fmemopen(text, sizeof(text) - 1, "r");
	struct acl_rules rules = {0};
	struct err err;

	assert_int_equal(classbench_read(f, "b", &rules, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "NUL"));
	fclose(f);
	assert_int_equal(classbench_load("/nonexistent/rules", &rules, &err), -ENOENT);
	assert_string_equal(err.path, "/nonexistent/rules");
	acl_rules_free(&rules);
}

/* From JSON, as the plan has it, to the rules. */
static int from_json(const char *text, struct acl_rules *rules, struct err *err)
{
	static const struct param list[] = {
		{.name = "rules",
		 .type = PARAM_OBJECT,
		 .list = true,
		 .fields = acl_rule_params,
		 .fields_size = sizeof(struct acl_rule_conf)},
		{0},
	};
	json_t *json = json_loads(text, 0, NULL);
	struct param_list conf = {0};
	int rc;

	assert_non_null(json);
	rc = param_parse(list, json, "params", &conf, err);
	json_decref(json);
	if (rc)
		return rc;
	rc = acl_rules_add_conf(rules, &conf, "params.rules", err);
	param_free(list, &conf);
	return rc;
}

static void reads_rules_of_the_plan(void **state)
{
	struct acl_rules rules = {0};
	struct err err;

	assert_int_equal(from_json("{\"rules\": [{\"action\": \"deny\", \"src\": \"10.0.0.0/8\","
				   " \"dport\": [80, 90], \"proto\": \"tcp\"},"
				   "{\"action\": \"permit\", \"dst\": \"2001:db8::1\","
				   " \"sport\": [53], \"proto\": \"17\"},"
				   "{\"action\": \"permit\"}]}",
				   &rules, &err),
			 0);
	assert_int_equal(rules.count, 3);
	assert_true(rules.items[0].deny);
	assert_int_equal(rules.items[0].proto, 6);
	assert_int_equal(rules.items[0].dport[1], 90);
	assert_int_equal(rules.items[1].family, 6);
	assert_int_equal(rules.items[1].dst_len, 128);
	assert_int_equal(rules.items[1].sport[0], 53);
	assert_int_equal(rules.items[1].sport[1], 53);
	assert_int_equal(rules.items[2].family, 0);
	assert_int_equal(rules.items[2].proto_mask, 0);
	acl_rules_free(&rules);
}

static void refuses_rules_of_the_plan(void **state)
{
	static const struct {
		const char *json, *path, *word;
	} bad[] = {
		{"{\"rules\": [{\"src\": \"10.0.0.0/8\"}]}", "params.rules[0]", "action"},
		{"{\"rules\": [{\"action\": \"allow\"}]}", "params.rules[0].action", "allow"},
		{"{\"rules\": [{\"action\": \"deny\", \"src\": \"10.0.0.0/40\"}]}",
		 "params.rules[0].src", "10.0.0.0/40"},
		{"{\"rules\": [{\"action\": \"deny\", \"src\": \"10.1.2.3/8\"}]}",
		 "params.rules[0].src", "beyond the prefix length 8; allowed: 10.0.0.0/8"},
		{"{\"rules\": [{\"action\": \"deny\", \"dst\": \"2001:db8:f::1/33\"}]}",
		 "params.rules[0].dst", "beyond the prefix length 33; allowed: 2001:db8::/33"},
		{"{\"rules\": [{\"action\": \"deny\", \"src\": \"1.2.3.4\", \"dst\": \"::1\"}]}",
		 "params.rules[0].dst", "IPv6, but src is IPv4"},
		{"{\"rules\": [{\"action\": \"deny\", \"sport\": [2, 1]}]}",
		 "params.rules[0].sport", "got [2, 1]; "},
		{"{\"rules\": [{\"action\": \"deny\", \"dport\": [1, 2, 3]}]}",
		 "params.rules[0].dport", "got [1, 2, 3]; "},
		{"{\"rules\": [{\"action\": \"deny\", \"dport\": [1, 2, 3, 4]}]}",
		 "params.rules[0].dport", "got [1, 2, 3 and more]; "},
		{"{\"rules\": [{\"action\": \"deny\", \"dport\": [65536]}]}",
		 "params.rules[0].dport[0]", "65536"},
		{"{\"rules\": [{\"action\": \"deny\", \"proto\": \"256\"}]}",
		 "params.rules[0].proto", "256"},
		{"{\"rules\": [{\"action\": \"deny\", \"proto\": \"\"}]}",
		 "params.rules[0].proto", "\"\" is not"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct acl_rules rules = {0};
		struct err err = {0};

		assert_int_equal(from_json(bad[i].json, &rules, &err), -EINVAL);
		assert_string_equal(err.path, bad[i].path);
		if (!strstr(err.msg, bad[i].word))
			fail_msg("\"%s\" does not say \"%s\"", err.msg, bad[i].word);
		acl_rules_free(&rules);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_a_filter),
		cmocka_unit_test(accepts_variants),
		cmocka_unit_test(clears_bits_behind_the_prefix),
		cmocka_unit_test(refuses_malformed_lines),
		cmocka_unit_test(names_the_line_of_a_file),
		cmocka_unit_test(refuses_binary_and_missing_files),
		cmocka_unit_test(reads_rules_of_the_plan),
		cmocka_unit_test(refuses_rules_of_the_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
