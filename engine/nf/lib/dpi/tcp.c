/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP segments in the order of the stream (RFC 9293). Segments pass at once and are scanned when
 * their turn comes: those that came early are held as copies, of bounded number. That suffices for
 * dropping, too: a receiver cannot read what lies behind a gap, so that the packet which fills it
 * is the one to stop. Of bytes sent twice, the first copy counts.
 */
#include "dpi.h"

#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_tcp.h>

static inline int32_t before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static void release(struct dpi_worker *dw, struct dpi_dir *d)
{
	struct dpi_segment *s = &dw->segments[d->held - 1];
	uint32_t number = d->held - 1;

	d->held = s->next;
	d->n_held--;
	pool_give(&dw->segment_pool, number);
}

/* The bytes of a segment that have not been scanned yet; it begins at or before next_seq. */
static void consume(struct inspection *in, struct dpi_dir *d, uint32_t seq, const uint8_t *data,
		    uint32_t len)
{
	uint32_t known = d->next_seq - seq;

	if (known >= len)
		return;
	scan_stream(in, d, data + known, len - known);
	d->next_seq = seq + len;
}

static void deliver(struct inspection *in, struct dpi_dir *d)
{
	while (d->held) {
		const struct dpi_segment *s = &in->dw->segments[d->held - 1];

		if (before(s->seq, d->next_seq) > 0)
			return;
		consume(in, d, s->seq, s->data, s->len);
		release(in->dw, d);
	}
}

static void skip_gap(struct inspection *in, struct dpi_dir *d)
{
	scan_gap(in->dw, d);
	d->next_seq = in->dw->segments[d->held - 1].seq;
	deliver(in, d);
}

/* Room for one more, in the stream and in the pool. */
static bool hold(struct inspection *in, struct dpi_dir *d, uint32_t seq, const uint8_t *data,
		 uint32_t len)
{
	struct dpi_worker *dw = in->dw;
	uint32_t *link = &d->held, number;
	struct dpi_segment *s;

	if (d->n_held >= dw->dpi->params->reorder_per_stream ||
	    !pool_take(&dw->segment_pool, in->bucket, &number))
		return false;
	while (*link && before(dw->segments[*link - 1].seq, seq) <= 0)
		link = &dw->segments[*link - 1].next;
	s = &dw->segments[number];
	s->seq = seq;
	s->len = len;
	s->next = *link;
	memcpy(s->data, data, len);
	*link = number + 1;
	d->n_held++;
	return true;
}

/*
 * When there is no room, the gap is given up: held bytes are scanned as a new stream, which frees
 * room. When it is others who hold everything, this segment alone is scanned so.
 */
static void early(struct inspection *in, struct dpi_dir *d, uint32_t seq, const uint8_t *data,
		  uint32_t len)
{
	struct dpi_worker *dw = in->dw;

	while (len) {
		uint32_t part = RTE_MIN(len, (uint32_t)SEGMENT_BYTES);

		if (before(seq, d->next_seq) <= 0) {
			consume(in, d, seq, data, len);
			deliver(in, d);
			return;
		}
		if (hold(in, d, seq, data, part)) {
			dw->w->counters[C_REORDERED]++;
			seq += part;
			data += part;
			len -= part;
			continue;
		}
		dw->w->counters[C_REORDER_OVERFLOW]++;
		if (d->held && before(dw->segments[d->held - 1].seq, seq) <= 0) {
			skip_gap(in, d);
			continue;
		}
		scan_gap(dw, d);
		d->next_seq = seq;
	}
}

static void payload(struct inspection *in, struct dpi_dir *d, uint32_t seq)
{
	uint32_t len = in->packet.size;

	if (!len || !in->dw->dpi->patterns.db[PATTERNS_STREAM])
		return;
	if (d->flags & DIR_END) {
		d->next_seq = before(seq + len, d->next_seq) > 0 ? seq + len : d->next_seq;
		return;
	}
	if (likely(seq == d->next_seq && !d->held)) {
		scan_stream(in, d, in->payload, len);
		d->next_seq += len;
		return;
	}
	if (before(seq, d->next_seq) > 0) {
		early(in, d, seq, in->payload, len);
		return;
	}
	if (before(seq + len, d->next_seq) <= 0) {
		in->dw->w->counters[C_RETRANSMITTED]++;
		return;
	}
	consume(in, d, seq, in->payload, len);
	deliver(in, d);
}

/* Scans what is held in spite of the gap before it, and gives the rest back. */
static void tcp_end(struct inspection *in, struct dpi_dir *d)
{
	while (d->held)
		skip_gap(in, d);
	scan_end(in->dw, in, d);
}

void inspection_reverse(const struct inspection *in, struct inspection *out)
{
	*out = *in;
	out->packet.to_server = !in->packet.to_server;
	out->packet.src = in->packet.dst;
	out->packet.dst = in->packet.src;
	out->packet.sport = in->packet.dport;
	out->packet.dport = in->packet.sport;
	out->n_fired = 0;
	out->action = 0;
}

/* Both directions, each with the rules that look at it. */
void tcp_end_both(struct inspection *in)
{
	struct inspection other;
	unsigned int way = !in->packet.to_server;

	tcp_end(in, &in->flow->dir[way]);
	inspection_reverse(in, &other);
	tcp_end(&other, &in->flow->dir[!way]);
	in->action = RTE_MAX(in->action, other.action);
}

/* The same ports again (RFC 9293 section 3.6.1). */
static void restart(struct inspection *in)
{
	struct dpi_flow *f = in->flow;

	tcp_end_both(in);
	f->dir[0] = f->dir[1] = (struct dpi_dir){0};
	f->flags &= (uint8_t)~FLOW_CLOSED;
}

static void begin(struct dpi_dir *d, uint32_t isn)
{
	d->isn = isn;
	d->next_seq = isn + 1;
	d->flags |= DIR_SEEN | DIR_SYN;
}

/* Who sent what we took for the client's turns out to be the server. */
static void swap_sides(struct inspection *in)
{
	struct dpi_flow *f = in->flow;
	uint64_t bytes = f->bytes[0];
	uint32_t packets = f->packets[0];

	f->bytes[0] = f->bytes[1];
	f->bytes[1] = bytes;
	f->packets[0] = f->packets[1];
	f->packets[1] = packets;
	f->flags ^= FLOW_CLIENT_HIGH;
	in->packet.to_server = !in->packet.to_server;
}

/* A connection that both sides want, in place of the one before. */
static void agree(struct inspection *in, bool offered)
{
	restart(in);
	if (in->packet.to_server)
		swap_sides(in);
	begin(&in->flow->dir[0], in->ack - 1);
	in->flow->dir[0].offer = in->ack - 1;
	in->flow->dir[0].flags |= offered ? DIR_OFFER : 0;
	begin(&in->flow->dir[1], in->seq);
}

static void syn(struct inspection *in, struct dpi_dir *d, const struct dpi_dir *peer)
{
	bool over = in->flow->flags & FLOW_CLOSED || !(peer->flags & DIR_SEEN);

	if (d->flags & DIR_SEEN && over && d->next_seq != in->seq + 1)
		restart(in);
	d->offer = in->seq;
	d->flags |= DIR_OFFER;
	if (!(d->flags & DIR_SEEN))
		begin(d, in->seq);
}

/*
 * A SYN amid a connection begins a new one only when the other side answers it: it need not (RFC
 * 5961 section 4.2), and whoever could move our place in the stream alone would be unseen from
 * there on. So nobody answers himself either.
 */
static void syn_ack(struct inspection *in, const struct dpi_dir *d, const struct dpi_dir *peer)
{
	bool offered = peer->flags & DIR_OFFER && peer->offer + 1 == in->ack;
	bool known = d->flags & DIR_SYN && d->isn == in->seq && peer->isn + 1 == in->ack;

	if (known || d->flags & DIR_OFFER)
		return;
	if (offered || !(d->flags & DIR_SEEN))
		agree(in, offered);
}

/* Bytes acknowledged by the receiver have been sent: what we lack of them will not come again. */
static void acknowledged(struct inspection *in, struct dpi_dir *peer)
{
	const struct dpi_segment *s = in->dw->segments;
	struct inspection other;

	inspection_reverse(in, &other);
	while (peer->held && before(in->ack, s[peer->held - 1].seq) > 0)
		skip_gap(&other, peer);
	in->action = RTE_MAX(in->action, other.action);
}

static void fin(struct inspection *in, struct dpi_dir *d, uint32_t seq)
{
	if (in->tcp_flags & RTE_TCP_FIN_FLAG && !(d->flags & DIR_FIN)) {
		d->fin_seq = seq + in->packet.size;
		d->flags |= DIR_FIN;
	}
	if (d->flags & DIR_FIN && !(d->flags & DIR_END) && before(d->fin_seq, d->next_seq) <= 0)
		tcp_end(in, d);
}

static void payload_and_fin(struct inspection *in, struct dpi_dir *d, uint32_t seq)
{
	payload(in, d, seq);
	scan_packet(in, PATTERNS_SEGMENT, in->payload, in->packet.size);
	if (unlikely(in->tcp_flags & RTE_TCP_FIN_FLAG || d->flags & DIR_FIN))
		fin(in, d, seq);
}

static void handshake(struct inspection *in)
{
	unsigned int way = !in->packet.to_server;
	struct dpi_flow *f = in->flow;

	if (in->tcp_flags & RTE_TCP_ACK_FLAG)
		syn_ack(in, &f->dir[way], &f->dir[!way]);
	else
		syn(in, &f->dir[way], &f->dir[!way]);
}

void tcp_input(struct inspection *in)
{
	bool is_syn = in->tcp_flags & RTE_TCP_SYN_FLAG, reset;
	struct dpi_flow *f = in->flow;
	struct dpi_dir *d, *peer;

	if (unlikely(is_syn))
		handshake(in);
	d = &f->dir[!in->packet.to_server];
	peer = &f->dir[in->packet.to_server];
	/* Any other RST is no end to its receiver either (RFC 5961 section 3.2). */
	reset = in->tcp_flags & RTE_TCP_RST_FLAG &&
		(!(d->flags & DIR_SEEN) || in->seq == d->next_seq);
	/* In the midst of a connection: its first segment seen is the first. */
	if (unlikely(!(d->flags & DIR_SEEN))) {
		d->next_seq = in->seq + is_syn;
		d->flags |= DIR_SEEN;
	}
	if (in->tcp_flags & RTE_TCP_ACK_FLAG && unlikely(peer->held))
		acknowledged(in, peer);
	payload_and_fin(in, d, in->seq + is_syn);
	if (unlikely(reset || f->dir[0].flags & f->dir[1].flags & DIR_FIN))
		f->flags |= FLOW_CLOSED;
}
