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

/* Every frame that has an Ethernet header: those 12 bytes replaced, nothing else changed. */
static void check_macs(const char *params, enum nf_direction dir, const uint8_t macs[12])
{
	struct err err;
	struct harness *h = harness_run_all("l2fwd", params, NULL, dir, zoo.packets, zoo.n, &err);
	size_t sent = 0;

	assert_non_null(h);
	for (size_t i = 0; i < zoo.n; i++) {
		const struct harness_packet *in = &zoo.packets[i];
		const struct harness_out *out = &h->out[sent];

		if (in->len < 14) {
			assert_int_equal(h->verdicts[i], NF_ABORT);
			continue;
		}
		assert_int_equal(h->verdicts[i], 0);
		assert_int_equal(out->origin, i);
		assert_int_equal(out->len, in->len);
		assert_memory_equal(out->data, macs, 12);
		assert_memory_equal(out->data + 12, (const uint8_t *)in->data + 12, in->len - 12);
		sent++;
	}
	assert_int_equal(h->n_out, sent);
	harness_free(h);
}

static void defaults(void **state)
{
	static const uint8_t macs[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};

	check_macs(NULL, NF_FORWARD, macs);
	check_macs(NULL, NF_REVERSE, macs);
}

static void per_direction(void **state)
{
	static const char *const params =
		"{\"dst_mac\": \"02:00:00:00:00:10\", \"src_mac\": \"02:00:00:00:00:20\","
		" \"reverse_dst_mac\": \"02:00:00:00:00:30\","
		" \"reverse_src_mac\": \"02:00:00:00:00:40\"}";
	static const uint8_t forward[] = {2, 0, 0, 0, 0, 0x10, 2, 0, 0, 0, 0, 0x20};
	static const uint8_t reverse[] = {2, 0, 0, 0, 0, 0x30, 2, 0, 0, 0, 0, 0x40};

	check_macs(params, NF_FORWARD, forward);
	check_macs(params, NF_REVERSE, reverse);
}

static void refuses_bad_mac(void **state)
{
	struct err err;

	assert_null(harness_new("l2fwd", "{\"dst_mac\": \"02:00\"}", NULL, &err));
	assert_string_equal(err.path, "params.dst_mac");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(per_direction),
		cmocka_unit_test(refuses_bad_mac),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
