/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HEADRACE_VERSION
#define HEADRACE_VERSION "0.1.0"
#endif

enum {
	OPT_BACKEND = 256,
	OPT_SAMPLE,
	OPT_DURATION,
	OPT_PACKETS,
	OPT_HISTOGRAMS,
	OPT_EXPIRY,
	OPT_SLOW,
	OPT_PATHS_MAX,
	OPT_PROTO,
	OPT_PORT,
	OPT_ADDR,
	OPT_BARE_HEAD,
	OPT_AUDIT,
	OPT_SOFTIRQ,
	OPT_STATS,
	OPT_BUCKETS,
	OPT_COPY_READS,
	OPT_IDLE,
	OPT_CHECK,
	OPT_WITH_PARENT,
	OPT_READY,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option longopts[] = {
	{"backend", required_argument, NULL, OPT_BACKEND},
	{"sample", required_argument, NULL, OPT_SAMPLE},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"packets", required_argument, NULL, OPT_PACKETS},
	{"histograms", required_argument, NULL, OPT_HISTOGRAMS},
	{"expiry-ms", required_argument, NULL, OPT_EXPIRY},
	{"slow-us", required_argument, NULL, OPT_SLOW},
	{"paths-max", required_argument, NULL, OPT_PATHS_MAX},
	{"proto", required_argument, NULL, OPT_PROTO},
	{"port", required_argument, NULL, OPT_PORT},
	{"addr", required_argument, NULL, OPT_ADDR},
	{"bare-head", no_argument, NULL, OPT_BARE_HEAD},
	{"audit", no_argument, NULL, OPT_AUDIT},
	{"softirq", no_argument, NULL, OPT_SOFTIRQ},
	{"stats", no_argument, NULL, OPT_STATS},
	{"buckets", no_argument, NULL, OPT_BUCKETS},
	{"copy-reads", no_argument, NULL, OPT_COPY_READS},
	{"idle", no_argument, NULL, OPT_IDLE},
	{"check", no_argument, NULL, OPT_CHECK},
	{"with-parent", no_argument, NULL, OPT_WITH_PARENT},
	{"ready-file", required_argument, NULL, OPT_READY},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{},
};

static const char usage[] =
	"headrace-trace: where packets spend their time in this kernel; JSON on stdout\n"
	"  --backend tp_btf|fentry  tracepoints only, or functions' entries as well (tp_btf)\n"
	"  --sample SHARE           share of packets to follow, over 0 to 1 (0.01)\n"
	"  --duration SECONDS       0: until SIGINT or SIGTERM (0)\n"
	"  --packets N              room for packets in flight, a power of two (32768 x sample,\n"
	"                           at least 1024: what fits the cache costs less)\n"
	"  --histograms N           room for stage pairs x devices, a power of two (512)\n"
	"  --expiry-ms N            forget a packet not seen for so long (2000)\n"
	"  --slow-us N              also give the whole path of packets that took at least N us\n"
	"  --paths-max N            at most so many of them (1000)\n"
	"  --proto tcp|udp|icmp  --port N  --addr IPV4   follow only these\n"
	"  --softirq                time per softirq vector and CPU\n"
	"  --stats                  run time of the tracer's own programs\n"
	"  --buckets                the histograms themselves, not only their percentiles\n"
	"  --audit                  compare payloads to find false matches (UDP)\n"
	"  --bare-head              identify by address alone, to see what that does\n"
	"  --copy-reads             read headers as kernels before 6.17 must, by a copying call\n"
	"  --idle                   hooks that do nothing: what --stats itself costs\n"
	"  --check                  which hooks this kernel allows, and why not the others\n"
	"  --with-parent            ends when the process that started it does\n"
	"  --ready-file FILE        created, or a pipe's line, when tracing has begun\n";

static int invalid(char *msg, unsigned int size, const char *name, const char *value,
		   const char *allowed)
{
	snprintf(msg, size, "--%s: \"%s\": allowed: %s", name, value, allowed);
	return -EINVAL;
}

static bool number(const char *text, double min, double max, double *v)
{
	char *end;

	errno = 0;
	*v = strtod(text, &end);
	return !errno && end != text && !*end && isfinite(*v) && *v >= min && *v <= max;
}

static bool whole(const char *text, double min, double max, double *v)
{
	return number(text, min, max, v) && floor(*v) == *v;
}

static bool power_of_two(const char *text, double min, double max, double *v)
{
	return whole(text, min, max, v) && !((uint64_t)*v & ((uint64_t)*v - 1));
}

static bool parse_proto(const char *text, uint8_t *proto)
{
	static const struct {
		const char *name;
		uint8_t number;
	} known[] = {{"tcp", 6}, {"udp", 17}, {"icmp", 1}};

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i].name)) {
			*proto = known[i].number;
			return true;
		}
	return false;
}

static bool parse_addr(const char *text, uint32_t *addr)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	*addr = ntohl(in.s_addr);
	return true;
}

static bool parse_backend(const char *text, enum backend *b)
{
	*b = !strcmp(text, "fentry") ? BACKEND_FENTRY : BACKEND_TP_BTF;
	return *b == BACKEND_FENTRY || !strcmp(text, "tp_btf");
}

/* NULL: taken; otherwise what is allowed. */
static const char *take_size(struct options *o, int opt, const char *arg)
{
	double v;

	switch (opt) {
	case OPT_PACKETS:
		if (!power_of_two(arg, 64, 1 << 22, &v))
			return "a power of two, 64 to 4194304";
		o->packets = v;
		return NULL;
	case OPT_HISTOGRAMS:
		if (!power_of_two(arg, 16, 1 << 16, &v))
			return "a power of two, 16 to 65536";
		o->histograms = v;
		return NULL;
	case OPT_EXPIRY:
		if (!whole(arg, 1, 3600e3, &v))
			return "a whole number, 1 to 3600000";
		o->expiry_ms = v;
		return NULL;
	case OPT_SLOW:
		if (!number(arg, 0, 60e6, &v))
			return "0 to 60000000";
		o->paths = true;
		o->slow_ns = v * 1000;
		return NULL;
	default:
		if (!whole(arg, 1, 1e7, &v))
			return "a whole number, 1 to 10000000";
		o->paths_max = v;
		return NULL;
	}
}

static const char *take(struct options *o, int opt, const char *arg)
{
	double v;

	switch (opt) {
	case OPT_BACKEND:
		return parse_backend(arg, &o->backend) ? NULL : "tp_btf, fentry";
	case OPT_SAMPLE:
		return number(arg, 1e-9, 1, &o->sample) ? NULL : "over 0 to 1";
	case OPT_DURATION:
		return number(arg, 0, 1e6, &o->duration_s) ? NULL : "0 to 1000000";
	case OPT_PROTO:
		return parse_proto(arg, &o->proto) ? NULL : "tcp, udp, icmp";
	case OPT_PORT:
		if (!whole(arg, 1, 65535, &v))
			return "a whole number, 1 to 65535";
		o->port = v;
		return NULL;
	case OPT_ADDR:
		return parse_addr(arg, &o->addr) ? NULL : "an IPv4 address";
	case OPT_READY:
		o->ready_file = arg;
		return NULL;
	default:
		return take_size(o, opt, arg);
	}
}

static bool take_flag(struct options *o, int opt)
{
	switch (opt) {
	case OPT_BARE_HEAD:
		return o->bare_head = true;
	case OPT_AUDIT:
		return o->audit = true;
	case OPT_SOFTIRQ:
		return o->softirq = true;
	case OPT_STATS:
		return o->stats = true;
	case OPT_BUCKETS:
		return o->buckets = true;
	case OPT_COPY_READS:
		return o->copy_reads = true;
	case OPT_IDLE:
		return o->idle = true;
	case OPT_CHECK:
		return o->check = true;
	case OPT_WITH_PARENT:
		return o->with_parent = true;
	}
	return false;
}

static uint32_t default_packets(double sample)
{
	uint32_t n = 1024;

	while (n < 32768 * sample)
		n *= 2;
	return n;
}

int options_parse(int argc, char **argv, struct options *o, char *msg, unsigned int msg_size)
{
	const char *allowed;
	int opt, at;

	*o = (struct options){
		.sample = 0.01, .histograms = 512, .expiry_ms = 2000, .paths_max = 1000};
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", longopts, &at)) != -1) {
		if (opt == OPT_HELP || opt == OPT_VERSION) {
			fputs(opt == OPT_HELP ? usage : "headrace-trace " HEADRACE_VERSION "\n",
			      stdout);
			return 1;
		}
		if (opt == '?') {
			snprintf(msg, msg_size,
				 "%s: unknown option, or its value is missing; see --help",
				 argv[optind - 1]);
			return -EINVAL;
		}
		if (take_flag(o, opt))
			continue;
		allowed = take(o, opt, optarg);
		if (allowed)
			return invalid(msg, msg_size, longopts[at].name, optarg, allowed);
	}
	if (!o->packets)
		o->packets = default_packets(o->sample);
	if (optind < argc) {
		snprintf(msg, msg_size, "\"%s\": arguments are not taken; see --help",
			 argv[optind]);
		return -EINVAL;
	}
	return 0;
}
