/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "tests/packets.h"

static struct craft_list zoo;

static int setup(void **state)
{
	craft_zoo(&zoo);
	return 0;
}

static int teardown(void **state)
{
	craft_list_free(&zoo);
	return 0;
}

static void passes_all_untouched(void **state)
{
	for (int dir = 0; dir < NF_DIRECTIONS; dir++) {
		struct err err;
		struct harness *h = harness_run_all("null", NULL, NULL, dir, zoo.packets, zoo.n,
						    &err);

		assert_non_null(h);
		assert_int_equal(h->n_out, zoo.n);
		for (size_t i = 0; i < zoo.n; i++) {
			assert_int_equal(h->out[i].len, zoo.packets[i].len);
			assert_memory_equal(h->out[i].data, zoo.packets[i].data, h->out[i].len);
		}
		harness_free(h);
	}
}

static void drops_all(void **state)
{
	struct err err;
	struct harness *h = harness_run_all("null", "{\"action\": \"drop\"}", NULL, NF_FORWARD,
					    zoo.packets, zoo.n, &err);

	assert_non_null(h);
	assert_int_equal(h->n_out, 0);
	assert_int_equal(harness_dropped(h, "null"), zoo.n);
	harness_free(h);
}

static void refuses_unknown_action(void **state)
{
	struct err err;

	assert_null(harness_new("null", "{\"action\": \"eat\"}", NULL, &err));
	assert_string_equal(err.path, "params.action");
	assert_non_null(strstr(err.msg, "pass, drop"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_all_untouched),
		cmocka_unit_test(drops_all),
		cmocka_unit_test(refuses_unknown_action),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
