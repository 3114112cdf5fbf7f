/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-xdp CONFIG: a chain of network functions as XDP programs, until it is told to end
 * (SIGINT, SIGTERM, or a kill: the kernel then detaches the programs).
 *
 * CONFIG is a JSON object: `generic` (whether in the kernel's generic mode; otherwise the
 * driver's), `cpus` (that poll the interfaces, where they have threads for it), `socket` (a path:
 * whoever connects gets one JSON object of counters), `chains` (one for each direction:
 * `direction`, `enter` and `leave`, which are interfaces, and `functions`).
 *
 * Run times are taken for a sixteenth of the time: reading the clock twice would cost each packet
 * tens of nanoseconds.
 *
 * Exit status 0; 2 for bad input; 1 for anything else, with one line on stderr.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../parent.h"
#include "chain.h"
#include "napi.h"

#define CHAINS_MAX 2
#define CPUS_MAX 256
#define TIMED_MS 4
#define UNTIMED_MS 60

struct xdp {
	json_t *conf;
	struct chain chains[CHAINS_MAX];
	char threaded[CHAINS_MAX]; /* before it began; see napi.h */
	unsigned int n;
	int listener, stats; /* descriptors, or -1 */
};

static int read_conf(struct xdp *x, const char *file, struct problem *p)
{
	json_error_t error;

	x->conf = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
	if (!x->conf)
		return problem_is(p, -EINVAL, "%s: line %d: %.100s", file, error.line, error.text);
	return json_is_object(x->conf) ? 0 : problem_is(p, -EINVAL, "%s: no object", file);
}

static int load_chains(struct xdp *x, struct problem *p)
{
	const json_t *one, *chains = json_object_get(x->conf, "chains");
	size_t i, n = json_array_size(chains);
	int rc = 0;

	if (n < 1 || n > CHAINS_MAX)
		return problem_is(p, -EINVAL, "chains: %zu; allowed: 1 to %d", n, CHAINS_MAX);
	json_array_foreach(chains, i, one) {
		rc = chain_load(&x->chains[i], one, i ? &x->chains[i - 1] : NULL, p);
		x->n++;
		if (rc)
			break;
	}
	return rc;
}

static int cpus_of(const json_t *conf, int *cpus, unsigned int *n, struct problem *p)
{
	const json_t *one, *given = json_object_get(conf, "cpus");
	size_t i;

	*n = 0;
	json_array_foreach(given, i, one) {
		json_int_t cpu = json_integer_value(one);

		if (i >= CPUS_MAX || cpu < 0 || cpu >= 1024)
			return problem_is(p, -EINVAL, "cpus: allowed: at most %d, 0 to 1023",
					  CPUS_MAX);
		cpus[(*n)++] = (int)cpu;
	}
	return *n ? 0 : problem_is(p, -EINVAL, "cpus: missing");
}

static int attach(struct xdp *x, struct problem *p)
{
	bool generic = json_is_true(json_object_get(x->conf, "generic"));
	char name[IF_NAMESIZE];
	int cpus[CPUS_MAX], rc;
	unsigned int n;

	rc = cpus_of(x->conf, cpus, &n, p);
	for (unsigned int i = 0; i < x->n && !rc; i++) {
		rc = chain_attach(&x->chains[i], generic, p);
		if (!rc && if_indextoname(x->chains[i].enter, name))
			rc = napi_thread(name, cpus, n, &x->threaded[i], p);
	}
	return rc;
}

/* While the programs are attached: some drivers have no NAPI without them. */
static void restore(const struct xdp *x)
{
	char name[IF_NAMESIZE];

	for (unsigned int i = 0; i < x->n; i++)
		if (if_indextoname(x->chains[i].enter, name))
			napi_restore(name, x->threaded[i]);
}

static int listen_at(struct xdp *x, struct problem *p)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const char *path;
	int rc = stage_text(x->conf, "socket", &path, p);

	if (rc)
		return rc;
	if (strlen(path) >= sizeof(at.sun_path))
		return problem_is(p, -EINVAL, "socket: too long (unix(7))");
	strcpy(at.sun_path, path);
	unlink(path);
	x->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (x->listener < 0 || bind(x->listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(x->listener, 8))
		return problem_is(p, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static void answer(struct xdp *x)
{
	int client = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC);
	json_t *counters = json_object();
	char *text;

	for (unsigned int i = 0; i < x->n; i++)
		chain_counters(&x->chains[i], counters);
	text = json_dumps(counters, JSON_COMPACT);
	json_decref(counters);
	if (client >= 0 && text)
		(void)!send(client, text, strlen(text), MSG_NOSIGNAL);
	free(text);
	if (client >= 0)
		close(client);
}

/* Where the kernel takes no run times, there are none. */
static int toggle_stats(struct xdp *x)
{
	if (x->stats >= 0) {
		close(x->stats);
		x->stats = -1;
		return UNTIMED_MS;
	}
	x->stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return x->stats >= 0 ? TIMED_MS : -1;
}

static int serve(struct xdp *x, const sigset_t *ends, struct problem *p)
{
	int fd = signalfd(-1, ends, SFD_CLOEXEC), timeout = 0;
	struct pollfd polled[] = {{.fd = fd, .events = POLLIN},
				  {.fd = x->listener, .events = POLLIN}};

	if (fd < 0)
		return problem_is(p, -errno, "signalfd: %s", strerror(errno));
	while (!polled[0].revents) {
		int ready = poll(polled, 2, timeout);

		if (!ready)
			timeout = toggle_stats(x);
		else if (polled[1].revents)
			answer(x);
	}
	close(fd);
	return 0;
}

static int run(struct xdp *x, const char *file, const sigset_t *ends, struct problem *p)
{
	int rc = read_conf(x, file, p);

	rc = rc ?: load_chains(x, p);
	rc = rc ?: attach(x, p);
	rc = rc ?: listen_at(x, p);
	rc = rc ?: serve(x, ends, p);
	restore(x);
	for (unsigned int i = 0; i < x->n; i++)
		chain_fini(&x->chains[i]);
	json_decref(x->conf);
	return rc;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	return level == LIBBPF_WARN && getenv("HEADRACE_TRACE_DEBUG") ? vfprintf(stderr, fmt, args)
								      : 0;
}

int main(int argc, char **argv)
{
	static struct xdp x = {.listener = -1, .stats = -1};
	struct problem p = {.text = "bad input"};
	sigset_t ends;
	int rc;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "headrace-xdp: usage: headrace-xdp CONFIG\n");
		return 2;
	}
	libbpf_set_print(quiet);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	end_with_parent();
	rc = run(&x, argv[1], &ends, &p);
	if (rc)
		fprintf(stderr, "headrace-xdp: %s\n", p.text);
	return rc == 0 ? 0 : rc == -EINVAL ? 2 : 1;
}
