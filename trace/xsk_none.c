/* SPDX-License-Identifier: Apache-2.0 */
/* What takes the place of xsk.c where libxdp is missing. */
#include <errno.h>
#include <stdio.h>

#include "xsk.h"

const int xsk_switch_built;

int xsk_switch_make(struct xsk_switch **made, const struct xsk_port *ports, unsigned int n,
		    int map_fd, char *msg, unsigned int msg_size)
{
	(void)made, (void)ports, (void)n, (void)map_fd;
	snprintf(msg, msg_size,
		 "--way: \"xsk\": built without libxdp (Debian: libxdp-dev); allowed: peer, xdp");
	return -ENOTSUP;
}

int xsk_switch_run(struct xsk_switch *s, int end_fd)
{
	(void)s, (void)end_fd;
	return -ENOTSUP;
}

unsigned long long xsk_switch_dropped(const struct xsk_switch *s)
{
	(void)s;
	return 0;
}

void xsk_switch_free(struct xsk_switch *s)
{
	(void)s;
}
