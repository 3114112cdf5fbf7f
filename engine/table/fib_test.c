/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as text, files of routes, batches of changes. */
#include "fib_test_util.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

static void test_text(void **ctx)
{
	static const struct {
		enum fib_key key;
		const char *text, *back; /* back NULL: not valid */
	} cases[] = {
		{FIB_KEY_IPV4, "10.0.0.0/8", "10.0.0.0/8"},
		{FIB_KEY_IPV4, "10.1.2.3", "10.1.2.3/32"},
		{FIB_KEY_IPV4, "0.0.0.0/0", "0.0.0.0/0"},
		{FIB_KEY_IPV4, "10.0.0.1/8", NULL},
		{FIB_KEY_IPV4, "10.0.0.0/33", NULL},
		{FIB_KEY_IPV4, "10.0.0.0/-1", NULL},
		{FIB_KEY_IPV4, "10.0.0.0/", NULL},
		{FIB_KEY_IPV4, "10.0.0", NULL},
		{FIB_KEY_IPV4, "", NULL},
		{FIB_KEY_IPV4, "2001:db8::/32", NULL},
		{FIB_KEY_IPV6, "2001:db8::/32", "2001:db8::/32"},
		{FIB_KEY_IPV6, "::1", "::1/128"},
		{FIB_KEY_IPV6, "2001:db8::1/32", NULL},
		{FIB_KEY_IPV6, "::/129", NULL},
		{FIB_KEY_MAC, "02:00:00:00:0a:01", "02:00:00:00:0a:01"},
		{FIB_KEY_MAC, "02:00:00:00:0a", NULL},
		{FIB_KEY_MAC, "02:00:00:00:0a:0g", NULL},
		{FIB_KEY_MAC, "02-00-00-00-0a-01", NULL},
		{FIB_KEY_VRF_IPV4, "7:10.0.0.1", "7:10.0.0.1"},
		{FIB_KEY_VRF_IPV4, "4294967295:10.0.0.1", "4294967295:10.0.0.1"},
		{FIB_KEY_VRF_IPV4, "4294967296:10.0.0.1", NULL},
		{FIB_KEY_VRF_IPV4, "10.0.0.1", NULL},
		{FIB_KEY_VRF_IPV4, "-1:10.0.0.1", NULL},
	};
	struct fib_route r;
	char buf[FIB_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int rc = fib_route_parse(cases[i].key, cases[i].text, &r);

		assert_int_equal(rc, cases[i].back ? 0 : -EINVAL);
		if (cases[i].back)
			assert_string_equal(fib_route_format(cases[i].key, &r, buf), cases[i].back);
	}
}

static void write_file(char *name, const char *text, bool gz)
{
	int fd = mkstemp(strcpy(name, "/tmp/fib-test-XXXXXX"));
	gzFile f = gzdopen(fd, gz ? "wb" : "wbT");

	assert_int_equal(gzwrite(f, text, strlen(text)), strlen(text));
	gzclose(f);
}

static int load_text(struct fib *f, const char *text, bool gz, char *place, struct err *err)
{
	char name[64];
	uint64_t n = 0;
	int rc;

	write_file(name, text, gz);
	rc = fib_load_file(f, name, NULL, &n, err);
	if (rc && !strncmp(err->path, name, strlen(name)))
		strcpy(place, err->path + strlen(name));
	unlink(name);
	return rc ? rc : (int)n;
}

static void test_file(void **ctx)
{
	const char *good = "# routes\n10.0.0.1 1\n\n  10.0.0.2/32\t65534 # last\n10.0.0.3 0";
	struct fib *f = test_fib(FIB_EXACT, FIB_KEY_IPV4, 100);
	struct err err;
	char place[192];
	uint32_t key = 0x0a000002;
	uint16_t nh;

	for (int gz = 0; gz < 2; gz++) {
		assert_int_equal(load_text(f, good, gz, place, &err), 3);
		assert_int_equal(fib_get(f, &key, 32, &nh), 0);
		assert_int_equal(nh, 65534);
		for (uint32_t k = 0x0a000001; k <= 0x0a000003; k++)
			assert_int_equal(fib_remove(f, &k, 32, NULL), 0);
	}
	fib_destroy(f);
}

static void test_file_errors(void **ctx)
{
	static const struct {
		const char *text, *place, *says;
	} cases[] = {
		{"10.0.0.1 1\n10.0.0.2\n", ":2", "no next hop after \"10.0.0.2\""},
		{"10.0.0.1 65535\n", ":1", "next hop must be 0..65534, not \"65535\""},
		{"10.0.0.1 -1\n", ":1", "not \"-1\""},
		{"10.0.0.1 99999999999999999999\n", ":1", "next hop must be"},
		{"10.0.0.300 1\n", ":1", "not a prefix or address of kind ipv4: \"10.0.0.300\""},
		{"\n10.0.0.0/8 1\n", ":2", "takes no prefixes"},
		{"10.0.0.1 1 2\n", ":1", "nothing may follow"},
		{"10.0.0.1 1\n10.0.0.2 2\n10.0.0.1 3\n", ":3", "twice"},
		{"10.0.0.1 1\n10.0.0.2 2\n10.0.0.3 3\n10.0.0.4 3\n", ":4", "full"},
	};
	struct fib *f = test_fib(FIB_EXACT, FIB_KEY_IPV4, 3);
	struct err err;
	char place[192], long_line[700];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_true(load_text(f, cases[i].text, i % 2, place, &err) < 0);
		assert_string_equal(place, cases[i].place);
		assert_non_null(strstr(err.msg, cases[i].says));
		assert_int_equal(fib_count(f), 0);
	}
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = 0;
	assert_true(load_text(f, long_line, false, place, &err) < 0);
	assert_string_equal(place, ":1");
	assert_int_equal(fib_load_file(f, "/nonexistent/routes", NULL, NULL, &err), -ENOENT);
	fib_destroy(f);
}

static void test_truncated_gzip(void **ctx)
{
	struct fib *f = test_fib(FIB_EXACT, FIB_KEY_IPV4, 10000);
	char *text = malloc(20 * 5000), name[64], *p = text;
	struct err err;

	for (int i = 0; i < 5000; i++)
		p += sprintf(p, "10.%d.%d.1 %d\n", i / 256, i % 256, i * 7919 % 60000);
	write_file(name, text, true);
	assert_int_equal(truncate(name, 5000), 0);
	assert_int_equal(fib_load_file(f, name, NULL, NULL, &err), -EIO);
	assert_int_equal(fib_count(f), 0);
	unlink(name);
	free(text);
	fib_destroy(f);
}

static struct fib_change change(enum fib_change_op op, const char *prefix, uint16_t nh)
{
	struct fib_change c = {.op = op};

	assert_int_equal(fib_route_parse(FIB_KEY_IPV4, prefix, &c.route), 0);
	c.route.next_hop = nh;
	return c;
}

/* All or nothing: the third change fails, the first two are taken back. */
static void test_apply(void **ctx)
{
	struct fib *f = test_fib(FIB_EXACT, FIB_KEY_IPV4, 10);
	struct fib_change first[] = {change(FIB_INSERT, "10.0.0.1", 1),
				     change(FIB_INSERT, "10.0.0.2", 2)};
	struct fib_change second[] = {change(FIB_REMOVE, "10.0.0.1", 0),
				      change(FIB_UPDATE, "10.0.0.2", 22),
				      change(FIB_INSERT, "10.0.0.3", 3),
				      change(FIB_UPDATE, "10.0.0.9", 9)};
	uint32_t keys[] = {0x0a000001, 0x0a000002, 0x0a000003};
	uint16_t nhs[3];
	size_t bad;

	assert_int_equal(fib_apply(f, first, 2, &bad), 0);
	assert_int_equal(fib_apply(f, second, 4, &bad), -ENOENT);
	assert_int_equal(bad, 3);
	fib_lookup(f, keys, nhs, 3);
	assert_int_equal(nhs[0], 1);
	assert_int_equal(nhs[1], 2);
	assert_int_equal(nhs[2], FIB_MISS);
	assert_int_equal(fib_apply(f, second, 3, &bad), 0);
	fib_lookup(f, keys, nhs, 3);
	assert_int_equal(nhs[0], FIB_MISS);
	assert_int_equal(nhs[1], 22);
	assert_int_equal(nhs[2], 3);
	fib_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),        cmocka_unit_test(test_file),
		cmocka_unit_test(test_file_errors), cmocka_unit_test(test_truncated_gzip),
		cmocka_unit_test(test_apply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
