/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packet path of one NF, named at build time (FUZZ_NF) with its parameters in a file
 * (FUZZ_PARAMS, relative to FUZZ_ROOT). The input is a program: bursts of packets, either raw
 * bytes or a well-formed packet with some bytes changed, as random bytes seldom are IP;
 * either direction; and the passing of time. The harness checks conservation after each burst.
 *
 * One instance lives as long as the process, so that state builds up; HEADRACE_FUZZ_FRESH=1 makes
 * one for every input, to reproduce what does not depend on earlier ones.
 */
#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST 64

enum step {
	STEP_RAW,
	STEP_CRAFT,
	STEP_TIME,
	STEP_FLUSH,
	STEPS,
};

static void add_raw(struct input *in, struct craft_list *list)
{
	unsigned int len = take(in, 1);

	len = RTE_MIN(len, (unsigned int)(in->end - in->at));
	craft_add_bytes(list, in->at, len);
	in->at += len;
}

static void add_craft(struct input *in, struct craft_list *list)
{
	static const char *const ip4[] = {"10.0.0.1", "10.0.1.2", "192.0.2.1", "198.51.100.9"};
	static const char *const ip6[] = {"2001:db8::1", "2001:db8:1::2", "fe80::1", "ff02::1"};
	uint8_t buf[CRAFT_MAX];

	craft_add_bytes(list, buf, take_packet(in, ip4, ip6, buf));
}

static void flush(struct harness *h, struct craft_list *list, enum nf_direction dir)
{
	harness_run(h, dir, BURST, list->packets, list->n);
	harness_forget(h);
	craft_list_free(list);
}

static struct harness *instance(void)
{
	json_t *json = json_load_file(FUZZ_ROOT "/" FUZZ_PARAMS, 0, NULL);
	char *params = json ? json_dumps(json, 0) : NULL;
	struct harness *h;
	struct err err;

	if (!params) {
		fprintf(stderr, "cannot read " FUZZ_PARAMS "\n");
		abort();
	}
	h = harness_new(FUZZ_NF, params, NULL, &err);
	if (!h) {
		fprintf(stderr, "%s: %s\n", err.path, err.msg);
		abort();
	}
	free(params);
	json_decref(json);
	return h;
}

static void play(struct harness *h, struct input *in)
{
	enum nf_direction dir = NF_FORWARD;
	struct craft_list list = {0};

	while (in->at < in->end) {
		unsigned int op = take(in, 1);

		switch ((enum step)(op % STEPS)) {
		case STEP_RAW:
			add_raw(in, &list);
			break;
		case STEP_CRAFT:
			add_craft(in, &list);
			break;
		case STEP_TIME:
			/* 1 us to about 17 minutes, in powers of two. */
			harness_advance(h, 1000ull << (op >> 2) % 31);
			break;
		default:
			flush(h, &list, dir);
			dir = op & 4 ? NF_REVERSE : NF_FORWARD;
		}
		if (list.n == BURST)
			flush(h, &list, dir);
	}
	flush(h, &list, dir);
	/* What shapers hold must not use up the pool. */
	if (h->counts.held > 1000)
		harness_advance(h, 3600000000000ull);
}

static struct harness *shared;

/*
 * Packets that are held have been allocated by the input and not freed, which makes libFuzzer look
 * for leaks after it: each look stops the process for milliseconds, and finds nothing, as they are
 * reachable. While some are held there is none; the last, when the instance has ended, finds what
 * was lost.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return shared && shared->counts.held;
}

static void end_shared(void)
{
	harness_free(shared);
	shared = NULL;
}

static struct harness *shared_instance(void)
{
	if (!shared) {
		shared = instance();
		atexit(end_shared);
	}
	return shared;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fresh = -1;
	struct input in = {data, data + size};
	struct harness *h;

	if (fresh < 0)
		fresh = getenv("HEADRACE_FUZZ_FRESH") != NULL;
	h = fresh ? instance() : shared_instance();
	play(h, &in);
	if (fresh)
		harness_free(h);
	return 0;
}
