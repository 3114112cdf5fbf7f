/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

/* Each packet goes on as it came; each copy has the same bytes. */
static void check(const char *params, const struct harness_config *config, uint32_t bytes,
		  size_t every)
{
	struct err err;
	struct harness *h = harness_run_all("tee", params, config, NF_REVERSE, zoo.packets, zoo.n,
					    &err);
	size_t originals = 0, copies = 0;

	assert_non_null(h);
	for (size_t i = 0; i < h->n_out; i++) {
		const struct harness_out *out = &h->out[i];
		const struct harness_packet *in;
		uint32_t len;

		assert_int_equal(out->direction, NF_REVERSE);
		if (out->edge == 0) {
			in = &zoo.packets[originals++];
			assert_int_equal(out->len, in->len);
		} else {
			in = &zoo.packets[copies++ * every];
			len = in->len < bytes ? in->len : bytes;
			assert_int_equal(out->len, len);
			assert_int_equal(out->origin, HARNESS_CREATED);
		}
		assert_memory_equal(out->data, in->data, out->len);
	}
	assert_int_equal(originals, zoo.n);
	assert_int_equal(copies, (zoo.n + every - 1) / every);
	assert_int_equal(harness_counter(h, "copied"), copies);
	harness_free(h);
}

static void test_all(void **state)
{
	const struct harness_config segments = {.first_segment = 20};

	check(NULL, NULL, UINT32_MAX, 1);
	check(NULL, &segments, UINT32_MAX, 1);
}

static void test_some(void **state)
{
	check("{\"every\": 5}", NULL, UINT32_MAX, 5);
	check("{\"bytes\": 40}", NULL, 40, 1);
	check("{\"bytes\": 1, \"every\": 1000000}", NULL, 1, 1000000);
}

/* No room for copies: they are lost, and no original is. */
static void test_no_room(void **state)
{
	const struct harness_config config = {.emit_room = 3};
	struct err err;
	struct harness *h = harness_new("tee", NULL, &config, &err);

	harness_run(h, NF_FORWARD, 32, zoo.packets, 32);
	assert_int_equal(h->n_out, 35);
	assert_int_equal(harness_counter(h, "copies-lost"), 29);
	harness_free(h);
}

static void test_bad(void **state)
{
	struct err err;

	assert_null(harness_new("tee", "{\"every\": 0}", NULL, &err));
	assert_string_equal(err.path, "params.every");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_some),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
