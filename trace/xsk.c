/* SPDX-License-Identifier: Apache-2.0 */
#include "xsk.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <xdp/xsk.h>

#define FRAME_BYTES 4096u /* a frame of veth's XDP is at most a page */
#define RING 2048u
#define FRAMES_PER_PORT (2 * RING) /* on their way in, and on their way out */
#define BATCH 64u

const int xsk_switch_built = 1;

struct port {
	struct xsk_port is;
	struct xsk_socket *socket;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons completion, rx;
	int fd;
	uint32_t sent; /* since the kernel was last asked to send */
};

struct xsk_switch {
	struct xsk_umem *umem;
	void *frames;
	size_t frames_bytes;
	uint64_t *free; /* addresses of frames that are nobody's */
	unsigned int n_free, n_ports;
	unsigned long long dropped;
	struct port port[];
};

static int umem_make(struct xsk_switch *s)
{
	const struct xsk_umem_config config = {
		.fill_size = RING,
		.comp_size = RING,
		.frame_size = FRAME_BYTES,
	};
	unsigned int n = s->n_ports * FRAMES_PER_PORT;
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* may fail: root's frames are not counted */
	s->free = calloc(n, sizeof(*s->free));
	if (!s->free)
		return -ENOMEM;
	s->frames_bytes = (size_t)n * FRAME_BYTES;
	s->frames = mmap(NULL, s->frames_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->frames == MAP_FAILED) {
		s->frames = NULL;
		return -ENOMEM;
	}
	while (s->n_free < n) {
		s->free[s->n_free] = (uint64_t)s->n_free * FRAME_BYTES;
		s->n_free++;
	}
	/* The first port's rings come with the memory. */
	return xsk_umem__create(&s->umem, s->frames, s->frames_bytes, &s->port[0].fill,
				&s->port[0].completion, &config);
}

static int port_make(struct xsk_switch *s, uint32_t i, int map_fd)
{
	const struct xsk_socket_config config = {
		.rx_size = RING,
		.tx_size = RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		/* Sockets that share another's memory take its mode. */
		.bind_flags = i ? 0 : XDP_COPY,
	};
	struct port *p = &s->port[i];
	int rc = xsk_socket__create_shared(&p->socket, p->is.device, 0, s->umem, &p->rx, &p->tx,
					   &p->fill, &p->completion, &config);

	if (rc)
		return rc;
	p->fd = xsk_socket__fd(p->socket);
	return bpf_map_update_elem(map_fd, &i, &p->fd, BPF_ANY);
}

int xsk_switch_make(struct xsk_switch **made, const struct xsk_port *ports, unsigned int n,
		    int map_fd, char *msg, unsigned int msg_size)
{
	struct xsk_switch *s = calloc(1, sizeof(*s) + n * sizeof(s->port[0]));
	int rc;

	if (!s)
		return -ENOMEM;
	s->n_ports = n;
	for (unsigned int i = 0; i < n; i++)
		s->port[i].is = ports[i];
	rc = umem_make(s);
	if (rc)
		snprintf(msg, msg_size, "AF_XDP: no memory for frames: %s", strerror(-rc));
	for (unsigned int i = 0; i < n && !rc; i++) {
		rc = port_make(s, i, map_fd);
		if (rc)
			snprintf(msg, msg_size, "%s: no AF_XDP socket: %s", ports[i].device,
				 strerror(-rc));
	}
	if (rc) {
		xsk_switch_free(s);
		return rc;
	}
	*made = s;
	return 0;
}

static void refill(struct xsk_switch *s, struct port *p)
{
	uint32_t at, n = xsk_prod_nb_free(&p->fill, BATCH);

	if (n > BATCH)
		n = BATCH;
	if (n > s->n_free)
		n = s->n_free;
	if (!n || !xsk_ring_prod__reserve(&p->fill, n, &at))
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&p->fill, at + i) = s->free[--s->n_free];
	xsk_ring_prod__submit(&p->fill, n);
}

/* A packet lies somewhere in its frame. */
static uint64_t frame_of(uint64_t address)
{
	return address & ~(uint64_t)(FRAME_BYTES - 1);
}

static void reclaim(struct xsk_switch *s, struct port *p)
{
	uint32_t at, n = xsk_ring_cons__peek(&p->completion, RING, &at);

	for (uint32_t i = 0; i < n; i++)
		s->free[s->n_free++] = frame_of(*xsk_ring_cons__comp_addr(&p->completion, at + i));
	xsk_ring_cons__release(&p->completion, n);
}

/* In copy mode the kernel sends when it is asked to, some packets at each call. */
static void transmit(struct xsk_switch *s, struct port *p)
{
	for (uint32_t done = 0; done < p->sent; done += 32)
		if (sendto(p->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
		    errno != EBUSY && errno != ENOBUFS)
			break;
	p->sent = 0;
	reclaim(s, p);
}

static struct port *port_of(struct xsk_switch *s, const unsigned char *mac)
{
	for (unsigned int i = 0; i < s->n_ports; i++)
		if (!memcmp(s->port[i].is.mac, mac, ETH_ALEN))
			return &s->port[i];
	return NULL;
}

/* The kernel's program hands over frames for known stations only; no room is a drop. */
static void forward(struct xsk_switch *s, const struct xdp_desc *in)
{
	struct port *to = port_of(s, xsk_umem__get_data(s->frames, in->addr));
	struct xdp_desc *out;
	uint32_t at;

	if (!to || !xsk_ring_prod__reserve(&to->tx, 1, &at)) {
		s->dropped++;
		s->free[s->n_free++] = frame_of(in->addr);
		return;
	}
	out = xsk_ring_prod__tx_desc(&to->tx, at);
	*out = (struct xdp_desc){.addr = in->addr, .len = in->len};
	xsk_ring_prod__submit(&to->tx, 1);
	to->sent++;
}

/* What came to one port, once. */
static uint32_t turn(struct xsk_switch *s, struct port *p)
{
	uint32_t at, n = xsk_ring_cons__peek(&p->rx, BATCH, &at);

	for (uint32_t i = 0; i < n; i++)
		forward(s, xsk_ring_cons__rx_desc(&p->rx, at + i));
	xsk_ring_cons__release(&p->rx, n);
	for (unsigned int i = 0; n && i < s->n_ports; i++)
		if (s->port[i].sent)
			transmit(s, &s->port[i]);
	refill(s, p);
	return n;
}

int xsk_switch_run(struct xsk_switch *s, int end_fd)
{
	struct pollfd *fds = calloc(s->n_ports + 1, sizeof(*fds));
	uint32_t n;

	if (!fds)
		return -ENOMEM;
	for (unsigned int i = 0; i < s->n_ports; i++) {
		fds[i] = (struct pollfd){.fd = s->port[i].fd, .events = POLLIN};
		for (uint32_t filled = 0; filled < RING; filled += BATCH)
			refill(s, &s->port[i]);
	}
	fds[s->n_ports] = (struct pollfd){.fd = end_fd, .events = POLLIN};
	do {
		n = 0;
		for (unsigned int i = 0; i < s->n_ports; i++)
			n += turn(s, &s->port[i]);
		/* Nothing came: wait. Something did: only look whether to end. */
		if (poll(fds, s->n_ports + 1, n ? 0 : -1) < 0 && errno != EINTR)
			break;
	} while (!fds[s->n_ports].revents);
	n = fds[s->n_ports].revents ? 0 : errno;
	free(fds);
	return -(int)n;
}

unsigned long long xsk_switch_dropped(const struct xsk_switch *s)
{
	unsigned long long sum = s->dropped;

	for (unsigned int i = 0; i < s->n_ports; i++) {
		struct xdp_statistics seen = {};
		socklen_t size = sizeof(seen);

		if (!getsockopt(s->port[i].fd, SOL_XDP, XDP_STATISTICS, &seen, &size))
			sum += seen.rx_dropped + seen.rx_ring_full + seen.rx_fill_ring_empty_descs;
	}
	return sum;
}

void xsk_switch_free(struct xsk_switch *s)
{
	if (!s)
		return;
	for (unsigned int i = 0; i < s->n_ports; i++)
		if (s->port[i].socket)
			xsk_socket__delete(s->port[i].socket);
	if (s->umem)
		xsk_umem__delete(s->umem);
	if (s->frames)
		munmap(s->frames, s->frames_bytes);
	free(s->free);
	free(s);
}
