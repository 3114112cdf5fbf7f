/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "vnf.h"

/*
 * Messages of rtnetlink(7), as a kernel sends them and as FRR's zebra does over FPM. Everything is
 * checked against the bytes that there are; what is not understood is counted and left out.
 */
struct netlink {
	struct vnf *vnf;
	bool kernel; /* from a kernel, not over FPM */
	bool routes; /* take routes and next-hop objects */
	/*
	 * A deletion waits for the next message: zebra replaces a route by deleting it and adding
	 * it anew, and no packet should fall into the gap.
	 */
	bool deleting;
	struct address deleted;
	/* FPM: no message is begun after `until` (TSC; 0: no end); the parser says that it was `late`. */
	uint64_t until;
	bool late;
	size_t at; /* so much of the first frame's body had its turn already */
};

/* One buffer of whole messages. Negative: it cannot be trusted, the session must begin anew. */
int netlink_parse(struct netlink *nl, const void *buf, size_t len, bool *dump_done);
/* Nothing more has come for a while: what still waits is done. */
void netlink_idle(struct netlink *nl);

/*
 * Forwarding Plane Manager framing, as zebra's: version 1, type 1 (netlink), length with these four
 * bytes, big endian. Whole frames of buf are taken; the number of bytes used, or -EPROTO. Where it was late
 * the next call goes on within the first frame.
 */
#define FPM_FRAME_MAX 65535
long fpm_parse(struct netlink *nl, const uint8_t *buf, size_t len);
