/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A switch in user space, over AF_XDP: one socket for each port, all with one memory of frames, so
 * that a frame goes from port to port by its number. The kernel copies it in and out (veth has no
 * zero-copy mode).
 */
struct xsk_port {
	const char *device;
	const unsigned char *mac; /* of the station behind it */
};

struct xsk_switch;

extern const int xsk_switch_built; /* 0: without libxdp */

/* Sockets go into the XSKMAP `map_fd` by the port's number. Without libxdp: -ENOTSUP. */
int xsk_switch_make(struct xsk_switch **made, const struct xsk_port *ports, unsigned int n,
		    int map_fd, char *msg, unsigned int msg_size);
/* Forwards until `end_fd` can be read. */
int xsk_switch_run(struct xsk_switch *s, int end_fd);
/* Frames that found a ring full. */
unsigned long long xsk_switch_dropped(const struct xsk_switch *s);
void xsk_switch_free(struct xsk_switch *s);
