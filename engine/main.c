/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_version.h>

#include "core/control/control.h"
#include "core/log.h"
#include "core/object.h"
#include "core/rights/filter.h"
#include "core/rights/rights.h"
#include "link/replay.h"

#define CHECK_MBUFS 2047 /* of a dry run few are under way at once; sources look at the pool */

/* Set by whichever thread the signal comes to; lock-free, so that a handler may. */
static atomic_bool stop;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&stop, true);
}

static const char usage[] =
	"usage: headrace-engine --plan FILE --control SOCKET [--with-parent | --with-client]\n"
	"                       [--verbose]\n"
	"       headrace-engine --check FILE [--files | --dry-run PACKETS]\n"
	"       headrace-engine --capture FILE\n"
	"       headrace-engine [--load FILE]... --describe\n"
	"       headrace-engine --version\n";

/* Messages quote what they refuse, which may be no text at all: one line, whatever it is. */
static void put_escaped(const char *text)
{
	json_t *valid = json_string(text); /* none, where it is not UTF-8 */

	for (const char *s = text; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !valid))
			fprintf(stderr, "\\x%02x", c);
		else
			putc(c, stderr);
	}
	json_decref(valid);
}

/* Bad input is 2, trouble with the machine is 1. */
static int fail(const struct err *err, int rc)
{
	fputs("headrace-engine: ", stderr);
	put_escaped(err->path);
	fputs(*err->path ? ": " : "", stderr);
	put_escaped(err->msg);
	putc('\n', stderr);
	return rc == -ENOMEM || rc == -EIO ? 1 : 2;
}

static int print_description(void)
{
	json_t *d = describe();
	int rc = d ? json_dumpf(d, stdout, JSON_INDENT(2)) : -1;

	putchar('\n');
	json_decref(d);
	return rc ? 1 : 0;
}

/*
 * Functions and sources, made from their parameters, rules, routes and captures. On ordinary memory
 * and without devices, so that it can be asked while another engine runs. `packets`: what becomes of
 * so many of each source's is read, too.
 */
static int check_files(struct plan *plan, uint64_t packets, json_t **reading, struct err *err)
{
	size_t devices = plan->engine.pci.count;
	char *prefix = NULL;
	int rc;

	/* A prefix of its own: two that check the same plan must not remove each other's files. */
	if (asprintf(&prefix, "headrace-check-%d", getpid()) < 0)
		return err_set(err, ENOMEM, "engine", "out of memory");
	free(plan->engine.file_prefix);
	plan->engine.file_prefix = prefix;

	plan->engine.hugepages = false;
	plan->engine.pci.count = 0;
	plan->engine.mbufs = CHECK_MBUFS;
	log_keep();
	rc = eal_start(plan, false, err);
	if (!rc) {
		rc = packets ? dry_run(plan, packets, reading, err) : engine_check(plan, err);
		eal_stop();
	} else {
		rc = -EIO; /* of the machine: nothing is known about the plan */
	}
	plan->engine.pci.count = devices;
	return rc;
}

static int check(const char *file, bool files, uint64_t packets)
{
	struct plan *plan = NULL;
	json_t *reading = NULL;
	struct err err = {0};
	int rc = plan_load(file, &plan, &err);

	if (!rc && (files || packets))
		rc = check_files(plan, packets, &reading, &err);
	plan_free(plan);
	if (!rc && packets)
		rc = json_dumpf(reading, stdout, JSON_COMPACT) ? -EIO : 0;
	json_decref(reading);
	return rc ? fail(&err, rc) : 0;
}

/* How large the packets of a capture are: whoever writes a plan must know before it can. */
static int print_capture(const char *file)
{
	struct replay_size size;
	struct err err = {0};
	int rc = replay_measure(file, &size, &err);

	if (rc)
		return fail(&err, rc);
	printf("{\"packets\": %llu, \"largest_bytes\": %u, \"period_ns\": %llu}\n",
	       (unsigned long long)size.packets, size.largest_bytes,
	       (unsigned long long)size.period_ns);
	return 0;
}

static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/*
 * Polling lcores that nobody drives any more would take the machine's CPUs for ever: with
 * --with-parent the engine ends when the process that started it does, however that happens.
 */
static void end_with_parent(void)
{
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		atomic_store(&stop, true);
}

static int serve(struct plan *plan, const struct control *control, struct err *err)
{
	struct engine engine = {0};
	int rc;

	catch_signals();
	rc = engine_start(&engine, plan, err);
	if (rc)
		return rc;
	log_release();
	telemetry_register(&engine);
	rc = control_listen(control, err);
	if (!rc)
		rc = rights_drop(engine_keeps(&engine), err);
	if (!rc)
		control_serve(&engine, control, &stop);
	telemetry_register(NULL);
	engine_stop(&engine);
	return rc;
}

static int run(char **argv, const char *file, const char *path, bool with_client, bool verbose)
{
	struct control control;
	struct plan *plan = NULL;
	struct err err = {0};
	int rc;

	rc = plan_load(file, &plan, &err);
	if (rc)
		return fail(&err, rc);
	rc = rights_begin(argv, &err);
	if (rc) {
		plan_free(plan);
		return fail(&err, rc);
	}
	/* Before EAL: a second engine on the same socket must not disturb the first. */
	rc = control_open(&control, path, &err);
	if (rc) {
		plan_free(plan);
		return fail(&err, rc);
	}
	control.with_client = with_client;
	if (!verbose)
		log_keep();
	rc = eal_start(plan, true, &err);
	if (!rc) {
		rc = serve(plan, &control, &err);
		eal_stop();
	}
	control_close(&control);
	plan_free(plan);
	return rc ? fail(&err, rc) : 0;
}

/* What the command line asks for. */
struct request {
	const char *plan, *control, *checked;
	bool verbose, files, with_client;
	uint64_t packets;
};

static int print_version(void)
{
	printf("headrace-engine %s, %s, %s, %s\n", HEADRACE_VERSION, rte_version(), HEADRACE_BUILD,
	       filter_about());
	return 0;
}

static int misused(void)
{
	fputs(usage, stderr);
	return 2;
}

/* One option; true if it was all that was asked for, and `rc` is how that ended. */
static bool take_option(struct request *q, int option, int *rc)
{
	struct err err = {0};

	*rc = 0;
	switch (option) {
	case 'p':
		q->plan = optarg;
		return false;
	case 'c':
		q->control = optarg;
		return false;
	case 'k':
		q->checked = optarg;
		return false;
	case 'w':
		end_with_parent();
		return false;
	case 'l':
		q->with_client = true;
		return false;
	case 'e':
		q->verbose = true;
		return false;
	case 'f':
		q->files = true;
		return false;
	case 'r':
		q->packets = strtoull(optarg, NULL, 10);
		return false;
	case 'o':
		*rc = nf_object_load(optarg, optarg, &err);
		if (*rc)
			*rc = fail(&err, *rc);
		return *rc != 0;
	case 'a':
		*rc = print_capture(optarg);
		return true;
	case 'd':
		*rc = print_description();
		return true;
	case 'v':
		*rc = print_version();
		return true;
	case 'h':
		fputs(usage, stdout);
		return true;
	default:
		*rc = misused();
		return true;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"plan", required_argument, NULL, 'p'},  {"control", required_argument, NULL, 'c'},
		{"check", required_argument, NULL, 'k'}, {"describe", no_argument, NULL, 'd'},
		{"with-parent", no_argument, NULL, 'w'}, {"verbose", no_argument, NULL, 'e'},
		{"files", no_argument, NULL, 'f'},       {"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},        {"with-client", no_argument, NULL, 'l'},
		{"load", required_argument, NULL, 'o'},
		{"capture", required_argument, NULL, 'a'}, {"dry-run", required_argument, NULL, 'r'},
		{0},
	};
	struct request q = {0};
	int option, rc;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (take_option(&q, option, &rc))
			return rc;
	if (q.checked && !q.plan && !q.control && optind == argc)
		return check(q.checked, q.files, q.packets);
	if (!q.plan || !q.control || q.files || q.packets || optind != argc)
		return misused();
	return run(argv, q.plan, q.control, q.with_client, q.verbose);
}
