/* SPDX-License-Identifier: Apache-2.0 */
/* Packets in, packets out: the harness feeds bursts, and checks that no packet is lost or left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/object.h"
#include "tests/packets.h"

extern const struct nf_object headrace_function;

static struct harness *start(const char *params)
{
	struct err err;
	struct harness *h = harness_new("my-function", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static void send_from(struct harness *h, const char *src, unsigned int n)
{
	const char *dst = strchr(src, ':') ? "2001:db8::9" : "192.0.2.9";
	struct craft_list list = {0};
	struct craft c = {.proto = 17, .sport = 1, .dport = 2, .payload = 8};

	craft_addrs(&c, src, dst);
	for (unsigned int i = 0; i < n; i++)
		craft_add(&list, &c);
	harness_run(h, NF_FORWARD, 32, list.packets, list.n);
	craft_list_free(&list);
}

/* The bucket's burst at once, then as many as the rate gives in the time that passes. */
static void rate_of_a_source(void **state)
{
	struct harness *h = start("{\"rate\": 10, \"burst\": 5}");

	send_from(h, "10.0.0.1", 20);
	assert_int_equal(h->counts.out, 5);
	assert_int_equal(harness_dropped(h, "rate"), 15);
	harness_advance(h, 310000000); /* 0.31 s: three packets at 10 packets/s */
	send_from(h, "10.0.0.1", 20);
	assert_int_equal(h->counts.out, 8);
	harness_advance(h, 10000000000); /* full again, and no fuller */
	send_from(h, "10.0.0.1", 20);
	assert_int_equal(h->counts.out, 13);
	harness_free(h);
}

static void each_source_by_itself(void **state)
{
	struct harness *h = start("{\"rate\": 10, \"burst\": 5}");

	send_from(h, "10.0.0.1", 9);
	send_from(h, "10.0.0.2", 3);
	send_from(h, "2001:db8::1", 7);
	assert_int_equal(h->counts.out, 5 + 3 + 5);
	assert_int_equal(harness_counter(h, "sources"), 3);
	harness_free(h);
}

/* Whatever comes, at every burst size alike: malformed, cut, fragments, tags, no IP at all. */
static void anything(void **state)
{
	struct craft_list zoo = {0};
	struct harness *h;
	struct err err;

	craft_zoo(&zoo);
	h = harness_run_all("my-function", NULL, NULL, NF_FORWARD, zoo.packets, zoo.n, &err);
	assert_non_null(h);
	assert_int_equal(h->counts.in, zoo.n);
	assert_true(h->counts.aborted > 0 && h->counts.out > 0);
	harness_free(h);
	craft_list_free(&zoo);
}

static void refuses(void **state)
{
	struct err err;

	assert_null(harness_new("my-function", "{\"rate\": 0}", NULL, &err));
	assert_string_equal(err.path, "params.rate");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_of_a_source),
		cmocka_unit_test(each_source_by_itself),
		cmocka_unit_test(anything),
		cmocka_unit_test(refuses),
	};

	nf_register(headrace_function.ops); /* as the engine does when it loads the shared object */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
