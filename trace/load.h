/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "options.h"
#include "tracer.skel.h"

/*
 * The BPF side: opened with the options put into its constants, loaded, attached. What
 * this kernel refuses is left out where the rest makes sense, and said in `left_out`.
 */
struct left_out {
	const char *program;
	char why[96];
};

#define PROGRAMS_MAX 64

struct tracer {
	struct tracer_bpf *skel;
	struct left_out left_out[PROGRAMS_MAX];
	unsigned int n_left_out, n_attached;
	int stats_fd;
};

int tracer_load(struct tracer *t, const struct options *o, char *msg, unsigned int msg_size);
int tracer_attach(struct tracer *t, const struct options *o, char *msg, unsigned int msg_size);
/* No more events; the maps stay readable. */
void tracer_detach(struct tracer *t);
void tracer_close(struct tracer *t);
