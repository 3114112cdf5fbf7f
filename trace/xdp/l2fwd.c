/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "stage.h"
#include "xdp_l2fwd.skel.h"

static const char *const names[] = {NULL};

static void l2fwd_close(void *own)
{
	xdp_l2fwd_bpf__destroy(own);
}

int l2fwd_load(struct stage *s, const json_t *conf, struct problem *p)
{
	struct xdp_l2fwd_bpf *skel = xdp_l2fwd_bpf__open();
	struct macs macs;
	int rc;

	s->count = names;
	s->close = l2fwd_close;
	s->own = skel;
	if (!skel)
		return stage_refused(-errno, s->name, p);
	rc = stage_mac(conf, "dst_mac", macs.dst, p);
	rc = rc ?: stage_mac(conf, "src_mac", macs.src, p);
	if (rc)
		return rc;
	skel->rodata->macs = macs;
	rc = xdp_l2fwd_bpf__load(skel);
	if (rc)
		return stage_refused(rc, s->name, p);
	s->program = bpf_program__fd(skel->progs.l2fwd);
	s->next = bpf_map__fd(skel->maps.next);
	s->counts = bpf_map__fd(skel->maps.counts);
	return 0;
}
