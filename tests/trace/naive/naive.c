/* SPDX-License-Identifier: Apache-2.0 */
/* Runs naive.bpf.c until a signal: `trace-naive SHARE READY-FILE`; see ../overhead.py. */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "naive.skel.h"

int main(int argc, char **argv)
{
	struct naive_bpf *skel;
	sigset_t ends;
	double share;
	int got, fd;

	if (argc != 3 || !((share = atof(argv[1])) > 0 && share <= 1)) {
		fprintf(stderr, "usage: trace-naive SHARE READY-FILE; SHARE: over 0, at most 1\n");
		return 2;
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	skel = naive_bpf__open();
	if (!skel)
		return 1;
	skel->rodata->sample_threshold = share * UINT32_MAX;
	if (naive_bpf__load(skel) || naive_bpf__attach(skel)) {
		naive_bpf__destroy(skel);
		return 1;
	}
	fd = open(argv[2], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	sigwait(&ends, &got);
	naive_bpf__destroy(skel);
	return 0;
}
