/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define SOURCE_PORT 4740 /* any will do; the collector's is IANA's 4739 by default */
#define HEADERS (sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))

/* Milliseconds without the 64-bit overflow that a uint64_t of cycles * 1000 has after weeks. */
static uint64_t tsc_ms(uint64_t cycles)
{
	uint64_t hz = rte_get_tsc_hz();

	return cycles / hz * 1000 + cycles % hz * 1000 / hz;
}

void mon_clock(struct mon_worker *mw, uint64_t tsc)
{
	struct timespec ts;

	mw->now = flow_now(tsc);
	if (mw->anchor_ms)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	mw->anchor_tsc = tsc;
	mw->anchor_ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	mw->templates_at = mw->now;
}

/* A flow_now() stamp as UNIX time; stamps lie before mw->now, by less than half their range. */
static uint64_t stamp_ms(const struct mon_worker *mw, uint32_t stamp)
{
	uint64_t now_ms = mw->anchor_ms +
			  tsc_ms((uint64_t)(mw->now - flow_now(mw->anchor_tsc)) << 20);

	return now_ms - tsc_ms((uint64_t)(mw->now - stamp) << 20);
}

int mon_socket_open(const struct mon_params *p, struct err *err)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)p->port)};
	bool v4 = p->collector.family == 4;
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memcpy(&a4.sin_addr, p->collector.addr, 4);
	memcpy(&a6.sin6_addr, p->collector.addr, 16);
	if (fd >= 0 && !connect(fd, v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6,
				v4 ? sizeof(a4) : sizeof(a6)))
		return fd;
	err_set(err, errno, "params.collector", "no way to this collector: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EINVAL;
}

static bool send_socket(struct mon_worker *mw)
{
	return send(mw->socket, mw->message.buf, mw->message.len, MSG_DONTWAIT) == mw->message.len;
}

static void put_headers(struct mon_worker *mw, const struct mon_params *p, uint8_t *frame)
{
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)frame;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);
	uint16_t len = mw->message.len;

	memcpy(&eth->dst_addr, p->dst_mac.bytes, 6);
	memcpy(&eth->src_addr, p->src_mac.bytes, 6);
	eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	*ip = (struct rte_ipv4_hdr){
		.version_ihl = RTE_IPV4_VHL_DEF,
		.total_length = rte_cpu_to_be_16((uint16_t)(sizeof(*ip) + sizeof(*udp) + len)),
		.packet_id = rte_cpu_to_be_16(mw->ip_id++),
		.time_to_live = 64,
		.next_proto_id = IPPROTO_UDP,
	};
	memcpy(&ip->src_addr, p->exporter.addr, 4);
	memcpy(&ip->dst_addr, p->collector.addr, 4);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	*udp = (struct rte_udp_hdr){
		.src_port = rte_cpu_to_be_16(SOURCE_PORT),
		.dst_port = rte_cpu_to_be_16((uint16_t)p->port),
		.dgram_len = rte_cpu_to_be_16((uint16_t)(sizeof(*udp) + len)),
	};
	memcpy(udp + 1, mw->message.buf, len);
	udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
}

static bool send_edge(struct mon_worker *mw)
{
	struct rte_mbuf *m = nf_alloc(mw->w);
	uint8_t *frame = m ? (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(HEADERS + mw->message.len))
			   : NULL;

	if (frame) {
		put_headers(mw, mw->w->nf->conf, frame);
		if (!nf_emit(mw->w, m, EDGE_EXPORT, NF_FORWARD))
			return true;
	}
	rte_pktmbuf_free(m);
	return false;
}

static void begin(struct mon_worker *mw)
{
	bool templates = (int32_t)(mw->now - mw->templates_at) >= 0;

	if (templates)
		mw->templates_at = mw->now + mw->template_every;
	ipfix_begin(&mw->message, templates);
	mw->oldest = mw->now;
	mw->open = true;
}

static void finish(struct mon_worker *mw)
{
	const struct mon_params *p = mw->w->nf->conf;
	uint64_t *counters = mw->w->counters;
	bool sent;

	ipfix_end(&mw->message, (uint32_t)(stamp_ms(mw, mw->now) / 1000));
	sent = p->export == EXPORT_SOCKET ? send_socket(mw) : send_edge(mw);
	counters[sent ? C_MESSAGES : C_LOST]++;
	mw->open = false;
}

void mon_flush(struct mon_worker *mw, bool force)
{
	/* A record waits for company for about a second. */
	if (mw->open && (force || mw->now - mw->oldest > 2048))
		finish(mw);
}

void mon_export(struct mon_worker *mw, enum flow_family family, const struct flow *f,
		enum ipfix_end_reason reason)
{
	const struct mon_params *p = mw->w->nf->conf;
	const void *key = f->key;
	const struct mon_state *s = family == FLOW_IPV4 ? (const void *)(f->key + 2)
							: (const void *)(f->key + 5);
	uint8_t proto = family == FLOW_IPV4 ? ((const struct flow_key4 *)key)->proto
					    : ((const struct flow_key6 *)key)->proto;
	uint16_t dport = family == FLOW_IPV4 ? ((const struct flow_key4 *)key)->dport
					     : ((const struct flow_key6 *)key)->dport;
	struct ipfix_record r = {
		.octets = s->octets,
		.packets = s->packets,
		.start_ms = stamp_ms(mw, s->first),
		.end_ms = stamp_ms(mw, s->last),
		.tcp_flags = (uint8_t)f->user,
		.tos = (uint8_t)(f->user >> 8),
		.end_reason = (uint8_t)reason,
	};

	mw->w->counters[C_RECORDS]++;
	if (p->export == EXPORT_NONE)
		return;
	/* Collectors want it as a port too, as NetFlow had it. */
	if (proto == (family == FLOW_IPV4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		r.icmp_type_code = rte_be_to_cpu_16(dport);
	if (!mw->open)
		begin(mw);
	if (ipfix_add(&mw->message, family, key, &r))
		return;
	finish(mw);
	begin(mw);
	ipfix_add(&mw->message, family, key, &r);
}
