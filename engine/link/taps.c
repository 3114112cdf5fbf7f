/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many TAPs as one link, for packets that are few: each in a network namespace of its own. A
 * DPDK port each would be more than DPDK has ports, and a poll of all of them would cost more than
 * the packets do. nf_port tells the TAP, of what comes and of what goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_tun.h>
#include <rte_cycles.h>
#include <rte_ether.h>

#include "core/link.h"
#include "core/netns.h"

#define TAPS_MAX 512
#define EVENTS 32
#define FRAME_MAX 9216

struct tap_params {
	char *name, *netns;
	struct param_mac mac;
};

struct taps_conf {
	struct param_list taps;
	uint64_t poll_us;
};

static const struct param tap_params[] = {
	{.name = "name", .type = PARAM_STRING, .required = true,
	 .offset = offsetof(struct tap_params, name), .doc = "its name in the namespace"},
	{.name = "netns", .type = PARAM_FILE, .offset = offsetof(struct tap_params, netns),
	 .doc = "the network namespace that it is made in, as /run/netns/NAME; the engine's own unless "
		"given"},
	{.name = "mac", .type = PARAM_MAC, .required = true, .offset = offsetof(struct tap_params, mac),
	 .doc = "its MAC"},
	{0},
};

static const struct param taps_params[] = {
	{.name = "taps", .type = PARAM_OBJECT, .list = true, .required = true, .fields = tap_params,
	 .fields_size = sizeof(struct tap_params), .offset = offsetof(struct taps_conf, taps),
	 .doc = "the TAPs, numbered from 0: a packet's nf_port"},
	{.name = "poll_us", .type = PARAM_UINT, .max = 100000, .def = "50", .unit = "us",
	 .offset = offsetof(struct taps_conf, poll_us),
	 .doc = "look for packets so often, while there are none: each look is a system call"},
	{0},
};

struct taps_state {
	int *fds;
	unsigned int n;
	int epoll;
	uint64_t next, period; /* TSC */
	uint64_t received, no_mbuf;
	atomic_ulong sent, refused;
};

static int set_mac(const struct ifreq *tap, const struct param_mac *mac)
{
	struct ifreq r = *tap;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (s < 0)
		return -errno;
	r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(r.ifr_hwaddr.sa_data, mac->bytes, sizeof(mac->bytes));
	rc = ioctl(s, SIOCSIFHWADDR, &r) ? -errno : 0;
	close(s);
	return rc;
}

/* In the namespace that the thread is in. A descriptor or -errno. */
static int tap_open(const struct tap_params *p)
{
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", p->name);
	rc = ioctl(fd, TUNSETIFF, &r) ? -errno : set_mac(&r, &p->mac);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int add_tap(struct taps_state *s, const struct tap_params *p, const char *path, struct err *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = s->n};
	int saved, rc, fd;

	if (!*p->name || strlen(p->name) >= IFNAMSIZ)
		return err_set(err, EINVAL, path, "name \"%.40s\"; allowed: 1 to %d characters", p->name,
			       IFNAMSIZ - 1);
	rc = netns_enter(p->netns, &saved, err);
	if (rc)
		return rc;
	fd = tap_open(p);
	netns_leave(saved);
	if (fd < 0)
		return err_set(err, -fd, path, "the TAP \"%s\" cannot be made%s%s: %s", p->name,
			       p->netns ? " in " : "", p->netns ? p->netns : "", strerror(-fd));
	s->fds[s->n++] = fd;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e))
		return err_set(err, errno, path, "cannot be waited for: %s", strerror(errno));
	return 0;
}

static void taps_fini(struct link *l)
{
	struct taps_state *s = l->state;

	if (!s)
		return;
	for (unsigned int i = 0; i < s->n; i++)
		close(s->fds[i]);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s->fds);
	free(s);
	l->state = NULL;
}

static int add_all(struct taps_state *s, const struct taps_conf *c, struct err *err)
{
	const struct tap_params *list = c->taps.items;
	char path[64];
	int rc = 0;

	for (unsigned int i = 0; i < c->taps.count && !rc; i++) {
		snprintf(path, sizeof(path), "params.taps[%u]", i);
		rc = add_tap(s, &list[i], path, err);
	}
	return rc;
}

static int taps_init(struct link *l, struct err *err)
{
	const struct taps_conf *c = l->conf;
	struct taps_state *s;
	int rc;

	if (!c->taps.count || c->taps.count > TAPS_MAX)
		return err_set(err, EINVAL, "params.taps", "%zu entries; allowed: 1 to %d", c->taps.count,
			       TAPS_MAX);
	if (l->n_rxq > 1)
		return err_set(err, EINVAL, "params.taps", "%u replicas read them; allowed: one", l->n_rxq);
	s = l->state = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "params", "out of memory");
	s->fds = calloc(c->taps.count, sizeof(*s->fds));
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->period = c->poll_us * (rte_get_tsc_hz() / 1000000);
	rc = s->fds && s->epoll >= 0 ? add_all(s, c, err)
				     : err_set(err, ENOMEM, "params", "out of memory");
	if (rc)
		taps_fini(l);
	return rc;
}

/* A TAP whose namespace has gone says so for ever: it is not asked again. */
static struct rte_mbuf *read_one(struct link_rxq *q, unsigned int tap)
{
	struct taps_state *s = q->state;
	struct rte_mbuf *m = rte_pktmbuf_alloc(q->link->pool);
	ssize_t n;

	if (!m) {
		s->no_mbuf++;
		return NULL;
	}
	n = read(s->fds[tap], rte_pktmbuf_mtod(m, void *), rte_pktmbuf_tailroom(m));
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR && errno != EIO))
			epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->fds[tap], NULL);
		rte_pktmbuf_free(m);
		return NULL;
	}
	m->data_len = (uint16_t)n;
	m->pkt_len = (uint32_t)n;
	m->port = (uint16_t)tap;
	s->received++;
	return m;
}

static uint16_t taps_rx(struct link_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	struct taps_state *s = q->state;
	uint64_t now = rte_rdtsc();
	struct epoll_event events[EVENTS];
	uint16_t got = 0;
	int ready;

	if (now < s->next)
		return 0;
	ready = epoll_wait(s->epoll, events, RTE_MIN(n, EVENTS), 0);
	for (int i = 0; i < ready && got < n; i++) {
		struct rte_mbuf *m = read_one(q, events[i].data.u32);

		if (m)
			pkts[got++] = m;
	}
	s->next = got ? now : now + s->period;
	return got;
}

static bool write_one(const struct taps_state *s, const struct rte_mbuf *m)
{
	uint8_t buf[FRAME_MAX];
	const void *frame;

	if (m->port >= s->n)
		return false;
	frame = rte_pktmbuf_read(m, 0, m->pkt_len, m->pkt_len <= sizeof(buf) ? buf : NULL);
	return frame && write(s->fds[m->port], frame, m->pkt_len) == (ssize_t)m->pkt_len;
}

/* What a TAP refuses (down, queue full) is lost there, as at a host's interface. */
static uint16_t taps_tx(struct link_txq *q, uint16_t dest, struct rte_mbuf **pkts, uint16_t n)
{
	struct taps_state *s = q->state;

	(void)dest;
	for (uint16_t i = 0; i < n; i++) {
		if (write_one(s, pkts[i]))
			atomic_fetch_add_explicit(&s->sent, 1, memory_order_relaxed);
		else
			atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static json_t *taps_stats(struct link *l)
{
	struct taps_state *s = l->state;

	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "taps", (json_int_t)s->n, "received",
			 (json_int_t)s->received, "sent", (json_int_t)atomic_load(&s->sent), "refused",
			 (json_int_t)atomic_load(&s->refused), "no_mbuf", (json_int_t)s->no_mbuf);
}

static const struct link_ops taps_ops = {
	.name = "taps",
	.doc = "Many TAPs as one link, each in a network namespace. There a `router` sends what is for its "
	       "VNFs and takes what they send. For packets that are few: each is a system call.",
	.params = taps_params,
	.conf_size = sizeof(struct taps_conf),
	.reads = true,
	.writes = true,
	.unclassified = true,
	.marks_port = true,
	.init = taps_init,
	.fini = taps_fini,
	.rx = taps_rx,
	.tx = taps_tx,
	.stats = taps_stats,
};
LINK_REGISTER(taps_ops)
