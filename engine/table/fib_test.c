/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as text. */
#include "fib_test_util.h"

#include <errno.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
