/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace-shortcut: lets packets between the given ports of a bridge bypass it, until
 * it is told to end (SIGINT, SIGTERM, or a kill: the kernel then detaches the programs). Prints
 * one JSON object with what was redirected.
 *
 *   headrace-shortcut --way peer|xdp|xsk [--with-parent] [--ready-file FILE] DEVICE=MAC...
 *   headrace-shortcut --ways
 *
 * DEVICE is a bridge's port, the host's end of a veth pair; MAC the station behind it. `xdp`
 * delivers only where the station's end runs NAPI (GRO on, or an XDP program of its own), and
 * it knows nothing of checksums that were left to a device: the stations must make their own
 * (ethtool -K DEVICE tx off). `xsk` has this process send on what comes, over AF_XDP sockets; it
 * needs checksums as `xdp` does, and MTUs of less than a page.
 *
 * `--ways` prints those that it was built with, one a line.
 *
 * Exit status 0; 2 for bad input; 1 for anything else, with one line on stderr.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "parent.h"
#include "shortcut.h"
#include "shortcut.skel.h"
#include "xsk.h"

#define TCX_INGRESS 46 /* enum bpf_attach_type of Linux 6.6: not in older headers */

enum way {
	WAY_NONE,
	WAY_PEER,
	WAY_XDP,
	WAY_XSK,
};

static const char *const ways[] = {[WAY_PEER] = "peer", [WAY_XDP] = "xdp", [WAY_XSK] = "xsk"};

struct port {
	const char *text;
	char device[IF_NAMESIZE];
	struct station station;
	__u32 ifindex;
	struct bpf_link *link; /* detached by the kernel when this process ends */
	int tcx_fd;
	bool clsact; /* before Linux 6.6: a filter, removed at the end */
};

struct shortcut {
	struct shortcut_bpf *skel;
	struct port port[SHORTCUT_PORTS_MAX];
	__u32 n_ports;
	enum way way;
	struct xsk_switch *xsk;
	const char *ready_file;
	bool with_parent;
	char msg[256];
};

static int bad(struct shortcut *s, const char *place, const char *value, const char *allowed)
{
	snprintf(s->msg, sizeof(s->msg), "%s: \"%s\"; allowed: %s", place, value, allowed);
	return -EINVAL;
}

static int port_parse(struct shortcut *s, const char *text)
{
	static const char allowed[] = "DEVICE=MAC of a device in this namespace";
	struct port *p = &s->port[s->n_ports];
	__u8 *m = p->station.mac;
	int used = 0;

	if (s->n_ports == SHORTCUT_PORTS_MAX)
		return bad(s, "PORT", text, "64 ports");
	if (sscanf(text, "%15[^=]=%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", p->device, &m[0], &m[1],
		   &m[2], &m[3], &m[4], &m[5], &used) != 7 ||
	    text[used])
		return bad(s, "PORT", text, allowed);
	p->text = text;
	p->tcx_fd = -1;
	p->ifindex = if_nametoindex(p->device);
	if (!p->ifindex)
		return bad(s, "PORT", text, allowed);
	s->n_ports++;
	return 0;
}

static int way_parse(struct shortcut *s, const char *value)
{
	for (enum way w = WAY_PEER; w <= WAY_XSK; w++)
		if (!strcmp(value, ways[w]))
			s->way = w;
	return s->way ? 0 : bad(s, "--way", value, "peer, xdp, xsk");
}

static int parse(struct shortcut *s, int argc, char **argv)
{
	int rc = 0;

	for (int i = 1; i < argc && !rc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--way")) {
			rc = way_parse(s, value);
			i++;
		} else if (!strcmp(argv[i], "--with-parent")) {
			s->with_parent = true;
		} else if (!strcmp(argv[i], "--ready-file")) {
			s->ready_file = value;
			rc = *value ? 0 : bad(s, "--ready-file", value, "a file's name");
			i++;
		} else {
			rc = port_parse(s, argv[i]);
		}
	}
	if (!rc && !s->way)
		rc = bad(s, "--way", "", "peer, xdp, xsk");
	if (!rc && s->n_ports < 2)
		rc = bad(s, "PORT", s->n_ports ? s->port[0].text : "", "two ports or more");
	return rc;
}

static struct bpf_program *program(struct shortcut *s)
{
	if (s->way == WAY_PEER)
		return s->skel->progs.shortcut_tc;
	return s->way == WAY_XDP ? s->skel->progs.shortcut_xdp : s->skel->progs.shortcut_xsk;
}

static int load(struct shortcut *s)
{
	struct bpf_program *p;

	s->skel = shortcut_bpf__open();
	if (!s->skel)
		return -errno;
	bpf_object__for_each_program(p, s->skel->obj) bpf_program__set_autoload(p, p == program(s));
	bpf_map__set_autocreate(s->skel->maps.ports, s->way == WAY_XDP);
	bpf_map__set_autocreate(s->skel->maps.sockets, s->way == WAY_XSK);
	return shortcut_bpf__load(s->skel);
}

/* Where the way's program finds the device of a port's number, or the number of its device. */
static int fill_port(struct shortcut *s, __u32 i)
{
	struct bpf_map *to = s->way == WAY_XDP ? s->skel->maps.ports : s->skel->maps.indexes;
	__u32 *ifindex = &s->port[i].ifindex;

	if (s->way == WAY_XSK)
		return bpf_map_update_elem(bpf_map__fd(s->skel->maps.numbers), ifindex, &i,
					   BPF_NOEXIST);
	return bpf_map_update_elem(bpf_map__fd(to), &i, ifindex, BPF_ANY);
}

static int fill(struct shortcut *s)
{
	int stations = bpf_map__fd(s->skel->maps.stations), rc = 0;

	for (__u32 i = 0; i < s->n_ports && !rc; i++) {
		rc = bpf_map_update_elem(stations, &s->port[i].station, &i, BPF_NOEXIST);
		if (rc == -EEXIST)
			return bad(s, "PORT", s->port[i].text, "each MAC once");
		if (!rc)
			rc = fill_port(s, i);
		if (rc == -EEXIST)
			return bad(s, "PORT", s->port[i].text, "each device once");
	}
	return rc;
}

/* Before the programs are attached, so that what they redirect finds its socket. */
static int open_sockets(struct shortcut *s)
{
	struct xsk_port ports[SHORTCUT_PORTS_MAX];

	if (s->way != WAY_XSK)
		return 0;
	for (__u32 i = 0; i < s->n_ports; i++)
		ports[i] = (struct xsk_port){s->port[i].device, s->port[i].station.mac};
	return xsk_switch_make(&s->xsk, ports, s->n_ports, bpf_map__fd(s->skel->maps.sockets),
			       s->msg, sizeof(s->msg));
}

static int attach_clsact(struct shortcut *s, struct port *p)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = p->ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(s->skel->progs.shortcut_tc));
	int rc = bpf_tc_hook_create(&hook);

	if (rc) /* somebody else's clsact is not ours to fill and to remove */
		return rc;
	p->clsact = true;
	return bpf_tc_attach(&hook, &opts);
}

static int attach_tc(struct shortcut *s, struct port *p)
{
	int prog = bpf_program__fd(s->skel->progs.shortcut_tc);

	p->tcx_fd = bpf_link_create(prog, p->ifindex, (enum bpf_attach_type)TCX_INGRESS, NULL);
	return p->tcx_fd >= 0 ? 0 : attach_clsact(s, p);
}

static int attach_xdp(struct shortcut *s, struct port *p)
{
	p->link = bpf_program__attach_xdp(program(s), p->ifindex);
	return p->link ? 0 : -errno;
}

static int attach(struct shortcut *s)
{
	for (__u32 i = 0; i < s->n_ports; i++) {
		struct port *p = &s->port[i];
		int rc = s->way == WAY_PEER ? attach_tc(s, p) : attach_xdp(s, p);

		if (rc) {
			snprintf(s->msg, sizeof(s->msg), "%s: cannot be attached: %s", p->device,
				 strerror(-rc));
			return rc;
		}
	}
	return 0;
}

static void detach(struct shortcut *s)
{
	for (__u32 i = 0; i < s->n_ports; i++) {
		struct port *p = &s->port[i];
		LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = p->ifindex,
			    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

		bpf_link__destroy(p->link);
		if (p->tcx_fd >= 0)
			close(p->tcx_fd);
		if (p->clsact)
			bpf_tc_hook_destroy(&hook);
	}
}

static __u64 total(struct shortcut *s, __u32 what)
{
	int cpus = libbpf_num_possible_cpus();
	__u64 *each = calloc(cpus > 0 ? cpus : 1, sizeof(*each)), sum = 0;

	if (each && !bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.counts), &what, each))
		for (int i = 0; i < cpus; i++)
			sum += each[i];
	free(each);
	return sum;
}

static int say_ready(struct shortcut *s)
{
	int fd;

	if (!s->ready_file)
		return 0;
	fd = open(s->ready_file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0) {
		snprintf(s->msg, sizeof(s->msg), "%s: %s", s->ready_file, strerror(errno));
		return -errno;
	}
	(void)!write(fd, "\n", 1); /* who waits at a pipe's other end has gone at worst */
	close(fd);
	return 0;
}

/* SIGINT and SIGTERM are blocked from the start, so that none is missed before the wait. */
static int wait_end(struct shortcut *s, const sigset_t *ends)
{
	int fd, rc, sig;

	if (!s->xsk)
		return -sigwait(ends, &sig);
	fd = signalfd(-1, ends, SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = xsk_switch_run(s->xsk, fd);
	close(fd);
	return rc;
}

static int run(struct shortcut *s, const sigset_t *ends)
{
	int rc = load(s);

	rc = rc ?: fill(s);
	rc = rc ?: open_sockets(s);
	rc = rc ?: attach(s);
	rc = rc ?: say_ready(s);
	rc = rc ?: wait_end(s, ends);
	detach(s);
	if (!rc)
		printf("{\"redirected\": %llu, \"left_to_the_bridge\": %llu, \"dropped\": %llu}\n",
		       (unsigned long long)total(s, SHORTCUT_REDIRECTED),
		       (unsigned long long)total(s, SHORTCUT_LEFT),
		       s->xsk ? xsk_switch_dropped(s->xsk) : 0);
	xsk_switch_free(s->xsk);
	shortcut_bpf__destroy(s->skel);
	return rc;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	return level == LIBBPF_WARN && getenv("HEADRACE_TRACE_DEBUG") ? vfprintf(stderr, fmt, args)
								      : 0;
}

static int print_ways(void)
{
	for (enum way w = WAY_PEER; w <= WAY_XSK; w++)
		if (w != WAY_XSK || xsk_switch_built)
			puts(ways[w]);
	return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct shortcut s;
	sigset_t ends;
	int rc;

	if (argc == 2 && !strcmp(argv[1], "--ways"))
		return print_ways();
	rc = parse(&s, argc, argv);
	if (rc) {
		fprintf(stderr, "headrace-shortcut: %s\n", s.msg);
		return 2;
	}
	libbpf_set_print(quiet);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (s.with_parent)
		end_with_parent();
	rc = run(&s, &ends);
	if (!rc)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr, "headrace-shortcut: %s\n", *s.msg ? s.msg : strerror(-rc));
	return 1;
}
