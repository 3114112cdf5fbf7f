/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <rte_cycles.h>

#include "tests/packets.h"

/* Whatever it costs, packets pass as they came. */
static void test_passes(void **state)
{
	static const char *const params[] = {
		"{}", "{\"touch_bytes\": 100, \"touch\": \"write\"}", "{\"touch_bytes\": 65535}",
		"{\"table_bytes\": 100000, \"table_reads\": 3}", "{\"cycles\": 100}"};
	struct craft_list zoo = {0};

	craft_zoo(&zoo);
	for (size_t i = 0; i < RTE_DIM(params); i++) {
		struct err err;
		struct harness *h = harness_run_all("delay", params[i], NULL, NF_FORWARD, zoo.packets,
						    zoo.n, &err);

		assert_non_null(h);
		assert_int_equal(h->n_out, zoo.n);
		for (size_t n = 0; n < zoo.n; n++)
			assert_memory_equal(h->out[n].data, zoo.packets[n].data, zoo.packets[n].len);
		harness_free(h);
	}
	craft_list_free(&zoo);
}

static void test_counts(void **state)
{
	static const uint8_t frame[60];
	struct harness_packet in[10];
	struct err err;
	struct harness *h = harness_new("delay", "{\"touch_bytes\": 50, \"table_bytes\": 640, "
						 "\"table_reads\": 4}", NULL, &err);

	for (int i = 0; i < 10; i++)
		in[i] = (struct harness_packet){frame, i < 5 ? 60 : 20};
	harness_run(h, NF_FORWARD, 7, in, 10);
	assert_int_equal(harness_counter(h, "touched-bytes"), 5 * 50 + 5 * 20);
	assert_int_equal(harness_counter(h, "table-reads"), 40);
	harness_free(h);
}

/* At least as long as said; how much longer is the machine's business. */
static void test_takes_time(void **state)
{
	static const uint8_t frame[60];
	struct harness_packet in[64];
	struct err err;
	struct harness *h = harness_new("delay", "{\"cycles\": 20000}", NULL, &err);
	uint64_t start;

	for (int i = 0; i < 64; i++)
		in[i] = (struct harness_packet){frame, sizeof(frame)};
	start = rte_rdtsc();
	harness_run(h, NF_FORWARD, 32, in, 64);
	assert_true(rte_rdtsc() - start >= 64 * 20000);
	harness_free(h);
}

static void test_bad(void **state)
{
	struct err err;

	assert_null(harness_new("delay", "{\"table_reads\": 1}", NULL, &err));
	assert_string_equal(err.path, "params.table_reads");
	assert_null(harness_new("delay", "{\"touch\": \"lick\"}", NULL, &err));
	assert_string_equal(err.path, "params.touch");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_takes_time),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
