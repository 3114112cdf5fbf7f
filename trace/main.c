/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-trace: loads the BPF programs, waits, prints one JSON object.
 * Exit status 0; 2 for bad input; 1 for anything else, with one line on stderr.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "parent.h"
#include "report.h"

static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	return level == LIBBPF_WARN && getenv("HEADRACE_TRACE_DEBUG") ? vfprintf(stderr, fmt, args)
								      : 0;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

struct run {
	struct tracer tracer;
	struct options options;
	struct names names;
	json_t *paths;
	uint64_t paths_beyond;
};

static int on_path(void *arg, void *data, size_t size)
{
	struct run *r = arg;

	if (size < sizeof(struct path))
		return 0;
	if (json_array_size(r->paths) < r->options.paths_max)
		json_array_append_new(r->paths, report_path(data, &r->names));
	else
		r->paths_beyond++;
	return 0;
}

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Every 5 ms another choice of addresses, see sample_salt. */
static int wait_end(struct run *r, struct ring_buffer *rb, double begin)
{
	uint64_t seed = time(NULL);
	double end = r->options.duration_s ? begin + r->options.duration_s : 0;
	int rc;

	while (!ended && (!end || now_s() < end)) {
		rc = ring_buffer__poll(rb, 5);
		if (rc < 0 && rc != -EINTR)
			return rc;
		r->tracer.skel->bss->sample_salt = splitmix(&seed);
	}
	return 0;
}

static void say_ready(const char *path)
{
	int fd = path ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644) : -1;

	if (fd >= 0) {
		(void)!write(fd, "\n", 1); /* who waits at a pipe's other end has gone at worst */
		close(fd);
	}
}

static int trace(struct run *r, char *msg, unsigned int size, json_t **out)
{
	struct ring_buffer *rb;
	double begin;
	int rc;

	rb = ring_buffer__new(bpf_map__fd(r->tracer.skel->maps.paths), on_path, r, NULL);
	if (!rb)
		return -errno;
	names_collect(&r->names);
	rc = tracer_attach(&r->tracer, &r->options, msg, size);
	if (!rc) {
		begin = now_s();
		say_ready(r->options.ready_file);
		rc = wait_end(r, rb, begin);
		tracer_detach(&r->tracer);
		begin = now_s() - begin;
		ring_buffer__consume(rb);
		names_collect(&r->names);
	}
	if (!rc)
		*out = report(&r->tracer, &r->options, &r->names, begin, r->paths, r->paths_beyond);
	ring_buffer__free(rb);
	return rc ?: *out ? 0 : -ENOMEM;
}

/* Each backend with all its hooks, really loaded and attached for a moment. */
static json_t *check(struct options *o)
{
	static const char *const names[] = {"tp_btf", "fentry"};
	json_t *out = json_object(), *j;
	char msg[256];
	int rc;

	for (int b = BACKEND_TP_BTF; b <= BACKEND_FENTRY; b++) {
		struct tracer t;

		o->backend = b;
		snprintf(msg, sizeof(msg), "out of memory");
		rc = tracer_load(&t, o, msg, sizeof(msg));
		if (!rc)
			rc = tracer_attach(&t, o, msg, sizeof(msg));
		j = json_pack("{s:b,s:i,s:o}", "available", !rc, "hooks", (int)t.n_attached,
			      "left_out", report_left_out(&t));
		if (rc)
			json_object_set_new(j, "why", json_string(msg));
		json_object_set_new(out, names[b], j);
		tracer_close(&t);
	}
	return out;
}

static int print(json_t *j)
{
	int rc = json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));

	putchar('\n');
	json_decref(j);
	return rc || fflush(stdout) ? -EIO : 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct run r = {.paths = json_array()};
	char msg[256] = "";
	json_t *out = NULL;
	int rc;

	rc = options_parse(argc, argv, &r.options, msg, sizeof(msg));
	if (rc) {
		if (rc < 0)
			fprintf(stderr, "headrace-trace: %s\n", msg);
		return rc < 0 ? 2 : 0;
	}
	libbpf_set_print(quiet);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (r.options.with_parent)
		end_with_parent();
	if (r.options.check) {
		rc = print(check(&r.options));
	} else {
		rc = tracer_load(&r.tracer, &r.options, msg, sizeof(msg));
		if (!rc)
			rc = trace(&r, msg, sizeof(msg), &out);
		tracer_close(&r.tracer);
		if (!rc)
			rc = print(out);
	}
	names_free(&r.names);
	json_decref(r.paths);
	if (!rc)
		return 0;
	fprintf(stderr, "headrace-trace: %s\n", *msg ? msg : strerror(-rc));
	return 1;
}
