/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "core/pkt.h"

#define REPLAY_BYTES_MAX (1u << 30)

static uint64_t digest_bytes(const uint8_t *p, size_t n, uint32_t seed)
{
	uint32_t a = rte_hash_crc(p, n, seed), b = rte_hash_crc(p, n, ~seed);

	return (uint64_t)a << 32 | b;
}

uint64_t replay_digest(uint8_t *data, uint16_t len)
{
	struct rte_mbuf m = {.buf_addr = data, .data_len = len, .pkt_len = len, .nb_segs = 1};
	uint32_t off, seed = len;

	pkt_classify(&m);
	if (!pkt_is_ipv4(&m) && !pkt_is_ipv6(&m))
		return digest_bytes(data + RTE_MIN(len, 12), len - RTE_MIN(len, 12), seed);
	off = pkt_l2_len(&m) + pkt_l3_len(&m);
	if (pkt_is_ipv4(&m))
		seed |= (uint32_t)((struct rte_ipv4_hdr *)pkt_l3_hdr(&m))->packet_id << 16;
	if (pkt_l4(&m) == RTE_PTYPE_L4_UDP)
		off += sizeof(struct rte_udp_hdr);
	else if (pkt_l4(&m) == RTE_PTYPE_L4_TCP)
		/* Sequence and acknowledgement numbers tell empty segments apart. */
		return digest_bytes(data + off + 4, 8, seed) ^
		       digest_bytes(data + off + 20, len - RTE_MIN(len, off + 20), seed);
	return digest_bytes(data + off, len - RTE_MIN(len, off), seed);
}

struct replay_slot *replay_find(const struct replay *r, uint64_t digest)
{
	for (uint32_t i = digest & r->mask; r->index[i]; i = (i + 1) & r->mask)
		if (r->slots[r->index[i] - 1].digest == digest)
			return &r->slots[r->index[i] - 1];
	return NULL;
}

static uint32_t slot_of(struct replay *r, uint64_t digest)
{
	struct replay_slot *s = replay_find(r, digest);
	uint32_t i = digest & r->mask;

	if (s)
		return s - r->slots;
	while (r->index[i])
		i = (i + 1) & r->mask;
	r->slots[r->n_slots].digest = digest;
	r->index[i] = ++r->n_slots;
	return r->n_slots - 1;
}

static int build_slots(struct replay *r, struct err *err)
{
	uint32_t size = rte_align32pow2(2 * r->n_packets);

	r->mask = size - 1;
	r->slots = calloc(r->n_packets, sizeof(*r->slots));
	r->index = calloc(size, sizeof(*r->index));
	if (!r->slots || !r->index)
		return err_set(err, ENOMEM, "params.pcap_file", "out of memory");
	for (uint32_t i = 0; i < r->n_packets; i++) {
		struct replay_packet *p = &r->packets[i];

		p->slot = slot_of(r, replay_digest(r->data + p->offset, p->len));
	}
	return 0;
}

struct growth {
	uint32_t packets, bytes; /* room */
	uint32_t used;
};

static int append(struct replay *r, struct growth *g, const uint8_t *data, uint32_t len,
		  uint64_t at_ns)
{
	if (r->n_packets == g->packets) {
		uint32_t room = g->packets ? 2 * g->packets : 256;
		void *p = realloc(r->packets, room * sizeof(*r->packets));

		if (!p)
			return -ENOMEM;
		r->packets = p;
		g->packets = room;
	}
	if (g->used + len > g->bytes) {
		uint32_t room = 2 * (g->bytes + len);
		void *p = room < REPLAY_BYTES_MAX ? realloc(r->data, room) : NULL;

		if (!p)
			return -ENOMEM;
		r->data = p;
		g->bytes = room;
	}
	r->packets[r->n_packets++] = (struct replay_packet){
		.offset = g->used, .len = len, .at_ns = at_ns};
	memcpy(r->data + g->used, data, len);
	g->used += len;
	return 0;
}

/* Time goes on: a stamp before the one ahead of it, of another interface or a clock set back, is its. */
struct stamps {
	uint64_t first, last; /* ns */
	bool any;
};

static uint64_t since_first(struct stamps *s, const struct pcap_pkthdr *h)
{
	/* With PCAP_TSTAMP_PRECISION_NANO tv_usec holds nanoseconds. */
	uint64_t ns = (uint64_t)h->ts.tv_sec * (uint64_t)NS_PER_S + (uint64_t)h->ts.tv_usec;

	if (!s->any)
		*s = (struct stamps){ns, ns, true};
	s->last = RTE_MAX(s->last, ns);
	return s->last - s->first;
}

static uint64_t period_ns(const struct stamps *s, uint64_t packets)
{
	uint64_t took = s->last - s->first;

	return packets > 1 ? took + took / (packets - 1) : 0;
}

static int read_packets(struct replay *r, pcap_t *pcap, const char *file, uint32_t max_len,
			struct err *err)
{
	struct growth g = {0};
	struct stamps stamps = {0};
	struct pcap_pkthdr *h;
	const uint8_t *data;
	char place[192];
	int rc;

	while ((rc = pcap_next_ex(pcap, &h, &data)) == 1) {
		snprintf(place, sizeof(place), "%.160s: packet %u", file, r->n_packets + 1);
		if (h->caplen < h->len)
			return err_set(err, EINVAL, place, "cut off: %u of %u bytes captured",
				       h->caplen, h->len);
		if (h->caplen < sizeof(struct rte_ether_hdr) || h->caplen > max_len)
			return err_set(err, EINVAL, place,
				       "%u bytes; allowed: 14 to %u", h->caplen, max_len);
		if (append(r, &g, data, h->caplen, since_first(&stamps, h)))
			return err_set(err, ENOMEM, place, "more than %u MiB cannot be replayed",
				       REPLAY_BYTES_MAX >> 21);
	}
	if (rc == -1) {
		snprintf(place, sizeof(place), "%.160s: packet %u", file, r->n_packets + 1);
		return err_set(err, EINVAL, place, "%s", pcap_geterr(pcap));
	}
	if (!r->n_packets)
		return err_set(err, EINVAL, file, "holds no packet");
	r->period_ns = period_ns(&stamps, r->n_packets);
	return 0;
}

static ssize_t unzip(void *gz, char *buf, size_t size)
{
	int problem = Z_OK, n = gzread(gz, buf, (unsigned int)RTE_MIN(size, (size_t)INT32_MAX));

	/* What was cut off reads as if it ended there. */
	if (!n)
		gzerror(gz, &problem);
	errno = EIO;
	return problem == Z_OK ? n : -1;
}

static int unzip_end(void *gz)
{
	return gzclose(gz) == Z_OK ? 0 : EOF;
}

/* What is not in gzip is read as it is. */
static FILE *open_zipped(const char *file)
{
	gzFile gz = gzopen(file, "rb");
	FILE *f = gz ? fopencookie(gz, "rb", (cookie_io_functions_t){.read = unzip, .close = unzip_end})
		     : NULL;

	if (gz && !f)
		gzclose(gz);
	return f;
}

static int open_capture(const char *file, pcap_t **out, struct err *err)
{
	char msg[PCAP_ERRBUF_SIZE];
	FILE *f = open_zipped(file);
	pcap_t *pcap;
	int type;

	if (!f)
		return err_set(err, EINVAL, file, "%s", strerror(errno));
	pcap = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, msg);
	if (!pcap) {
		fclose(f);
		return err_set(err, EINVAL, file, "%s; allowed: pcap or pcapng, also gzipped", msg);
	}
	type = pcap_datalink(pcap);
	if (type != DLT_EN10MB) {
		pcap_close(pcap);
		return err_set(err, EINVAL, file, "link type %d; only Ethernet (1) can be replayed",
			       type);
	}
	*out = pcap;
	return 0;
}

int replay_measure(const char *file, struct replay_size *size, struct err *err)
{
	struct stamps stamps = {0};
	struct pcap_pkthdr *h;
	const uint8_t *data;
	pcap_t *pcap;
	int rc = open_capture(file, &pcap, err);

	if (rc)
		return rc;
	*size = (struct replay_size){0};
	while ((rc = pcap_next_ex(pcap, &h, &data)) == 1) {
		size->packets++;
		since_first(&stamps, h);
		size->largest_bytes = RTE_MAX(size->largest_bytes, h->caplen);
	}
	size->period_ns = period_ns(&stamps, size->packets);
	rc = rc == -1 ? err_set(err, EINVAL, file, "packet %llu: %s",
				(unsigned long long)size->packets + 1, pcap_geterr(pcap))
		      : 0;
	pcap_close(pcap);
	return rc;
}

int replay_load(const char *file, uint32_t max_len, struct replay **out, struct err *err)
{
	struct replay *r;
	pcap_t *pcap;
	int rc = open_capture(file, &pcap, err);

	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	rc = r ? read_packets(r, pcap, file, max_len, err)
	       : err_set(err, ENOMEM, file, "out of memory");
	pcap_close(pcap);
	if (!rc)
		rc = build_slots(r, err);
	if (rc) {
		replay_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

void replay_reset(struct replay *r)
{
	for (uint32_t i = 0; i < r->n_slots; i++) {
		atomic_store_explicit(&r->slots[i].sent, 0, memory_order_relaxed);
		atomic_store_explicit(&r->slots[i].received, 0, memory_order_relaxed);
	}
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	free(r->packets);
	free(r->slots);
	free(r->index);
	free(r->data);
	free(r);
}
