/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule sets replaced by one thread while another classifies: every burst sees one whole set,
 * and no set is freed in use (which AddressSanitizer sees where it is on).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/packets.h"

#define UPDATES 60
#define PACKETS 32

struct traffic {
	struct harness *h;
	struct craft_list packets;
	atomic_bool stop;
	atomic_ulong bursts;
	unsigned long mixed, passed, denied;
};

/* Half of the packets TCP, half UDP; both sets say the same of either. */
static void *traffic_run(void *arg)
{
	struct traffic *t = arg;
	struct harness *h = t->h;

	while (!atomic_load(&t->stop)) {
		harness_run(h, NF_FORWARD, PACKETS, t->packets.packets, PACKETS);
		for (size_t i = 1; i < h->n_verdicts; i++)
			t->mixed += h->verdicts[i] != h->verdicts[0];
		t->passed += h->verdicts[0] == 0;
		t->denied += h->verdicts[0] != 0;
		harness_forget(h);
		if (atomic_fetch_add(&t->bursts, 1) % 8 == 0)
			harness_advance(h, 1000000);
	}
	return NULL;
}

static void update(struct harness *h, unsigned int i)
{
	static const char *const ops[] = {
		"{\"rules\": [{\"action\": \"permit\", \"proto\": \"tcp\", \"dport\": [80]},"
		" {\"action\": \"permit\", \"proto\": \"udp\", \"dport\": [80]}]}",
		"{\"rules\": [{\"action\": \"deny\", \"proto\": \"udp\"},"
		" {\"action\": \"deny\", \"src\": \"10.0.0.0/8\"}], \"default\": \"permit\"}",
	};
	struct err err;

	assert_int_equal(harness_update(h, ops[i % 2], NULL, &err), 0);
}

static void replaces_under_traffic(void **state)
{
	struct craft c = {.dport = 80, .payload = 10};
	struct traffic t = {0};
	pthread_t thread;
	struct err err;

	craft_addrs(&c, "10.0.0.1", "192.0.2.1");
	for (int i = 0; i < PACKETS; i++) {
		c.proto = i % 2 ? IPPROTO_TCP : IPPROTO_UDP;
		c.sport = i / 2;
		craft_add(&t.packets, &c);
	}
	t.h = harness_new("acl", NULL, NULL, &err);
	assert_non_null(t.h);
	update(t.h, 0);
	assert_int_equal(pthread_create(&thread, NULL, traffic_run, &t), 0);
	for (unsigned int i = 1; i <= UPDATES; i++) {
		unsigned long before = atomic_load(&t.bursts);

		update(t.h, i);
		/* Let traffic see most of the sets, but hurry past some. */
		while (i % 4 && atomic_load(&t.bursts) == before)
			sched_yield();
	}
	atomic_store(&t.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(t.mixed, 0);
	assert_true(t.passed > 0 && t.denied > 0);
	harness_free(t.h);
	craft_list_free(&t.packets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(replaces_under_traffic)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
