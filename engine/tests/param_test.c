/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/param.h"

struct inner {
	char *name;
	uint64_t n;
};

struct conf {
	bool flag;
	uint64_t count;
	double share;
	char *text, *output;
	uint32_t word;
	struct param_mac mac;
	struct param_ip ip;
	struct param_list items;
	struct param_list list;
};

static const char *const words[] = {"one", "two", NULL};
static const struct param inner_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct inner, name)},
	{.name = "n", .type = PARAM_UINT, .offset = offsetof(struct inner, n), .def = "7"},
	{0},
};
static const struct param params[] = {
	{.name = "flag", .type = PARAM_BOOL, .offset = offsetof(struct conf, flag), .def = "true"},
	{.name = "count", .type = PARAM_UINT, .offset = offsetof(struct conf, count), .min = 2,
	 .max = 9, .def = "3", .unit = "packets"},
	{.name = "share", .type = PARAM_DOUBLE, .offset = offsetof(struct conf, share), .max = 1},
	{.name = "text", .type = PARAM_STRING, .offset = offsetof(struct conf, text)},
	{.name = "output", .type = PARAM_OUTPUT, .offset = offsetof(struct conf, output)},
	{.name = "word", .type = PARAM_ENUM, .choices = words, .offset = offsetof(struct conf, word)},
	{.name = "mac", .type = PARAM_MAC, .offset = offsetof(struct conf, mac)},
	{.name = "ip", .type = PARAM_IP, .offset = offsetof(struct conf, ip)},
	{.name = "items", .type = PARAM_OBJECT, .list = true, .fields = inner_params,
	 .fields_size = sizeof(struct inner), .offset = offsetof(struct conf, items)},
	{.name = "list", .type = PARAM_UINT, .list = true, .max = 5,
	 .offset = offsetof(struct conf, list), .def = "[1, 2]"},
	{0},
};

static int parse(const char *text, struct conf *c, struct err *err)
{
	json_t *obj = json_loads(text, 0, NULL);
	int rc;

	assert_non_null(obj);
	memset(c, 0, sizeof(*c));
	rc = param_parse(params, obj, "p", c, err);
	json_decref(obj);
	return rc;
}

static void test_defaults(void **state)
{
	struct conf c;
	struct err err;

	(void)state;
	assert_int_equal(parse("{}", &c, &err), 0);
	assert_true(c.flag);
	assert_int_equal(c.count, 3);
	assert_int_equal(c.list.count, 2);
	assert_int_equal(((uint64_t *)c.list.items)[1], 2);
	assert_null(c.text);
	param_free(params, &c);
}

static void test_values(void **state)
{
	struct conf c;
	struct err err;

	(void)state;
	assert_int_equal(parse("{\"flag\":false,\"count\":9,\"share\":0.5,\"text\":\"t\",\"word\":\"two\","
			       "\"mac\":\"02:00:00:00:00:ff\",\"ip\":\"10.0.0.0/8\","
			       "\"items\":[{\"name\":\"a\"},{\"name\":\"b\",\"n\":1}],\"list\":[]}",
			       &c, &err),
			 0);
	assert_false(c.flag);
	assert_int_equal(c.word, 1);
	assert_int_equal(c.mac.bytes[5], 0xff);
	assert_int_equal(c.ip.family, 4);
	assert_int_equal(c.ip.len, 8);
	assert_int_equal(c.items.count, 2);
	assert_string_equal(((struct inner *)c.items.items)[1].name, "b");
	assert_int_equal(((struct inner *)c.items.items)[0].n, 7);
	assert_int_equal(c.list.count, 0);
	param_free(params, &c);
}

/* Every message names the place; nothing stays allocated (AddressSanitizer watches). */
static void test_errors(void **state)
{
	static const struct {
		const char *text, *path, *msg;
	} cases[] = {
		{"{\"nope\":1}", "p", "unknown key \"nope\""},
		{"{\"count\":1}", "p.count", "1 is out of range: 2 to 9 packets"},
		{"{\"count\":-1}", "p.count", "-1 is out of range"},
		{"{\"count\":\"3\"}", "p.count", "an integer"},
		{"{\"share\":2}", "p.share", "out of range"},
		{"{\"flag\":1}", "p.flag", "true or false"},
		{"{\"word\":\"three\"}", "p.word", "allowed: one, two"},
		{"{\"mac\":\"02:00\"}", "p.mac", "not a MAC address"},
		{"{\"mac\":\"02:00:00:00:00:01x\"}", "p.mac", "not a MAC address"},
		{"{\"ip\":\"10.0.0.0/33\"}", "p.ip", "not an IPv4 or IPv6"},
		{"{\"ip\":\"::1/-1\"}", "p.ip", "not an IPv4 or IPv6"},
		{"{\"items\":{}}", "p.items", "a list"},
		{"{\"items\":[{\"name\":\"a\"},{\"n\":1}]}", "p.items[1]", "\"name\" is missing"},
		{"{\"items\":[{\"name\":\"a\",\"x\":1}]}", "p.items[0]", "unknown key \"x\""},
		{"{\"text\":\"t\",\"list\":[1,9]}", "p.list[1]", "9 is out of range"},
	};
	struct conf c;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text, &c, &err), -22);
		assert_string_equal(err.path, cases[i].path);
		if (!strstr(err.msg, cases[i].msg))
			fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].text, cases[i].msg, err.msg);
		assert_null(c.text);
		assert_null(c.items.items);
	}
}

static void test_schema(void **state)
{
	json_t *s = param_schema(params), *p = json_object_get(s, "properties");

	(void)state;
	assert_true(json_is_false(json_object_get(s, "additionalProperties")));
	assert_int_equal(json_object_size(p), 10);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(p, "count"), "maximum")),
			 9);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(p, "output"), "format")), "output");
	assert_string_equal(json_string_value(json_object_get(json_object_get(p, "list"), "type")),
			    "array");
	json_decref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_schema),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
