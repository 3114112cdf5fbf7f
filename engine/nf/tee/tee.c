/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "core/nf.h"
#include "core/pkt.h"

/*
 * A copy of each packet, or of some, on an edge of its own. The bytes are copied: mbufs that share
 * them (rte_pktmbuf_clone) would show the mirror what later NFs write into the original.
 */

enum { EDGE_OUT, EDGE_COPY };
enum { C_COPIED, C_TRUNCATED, C_LOST };

struct tee_params {
	uint64_t every, bytes;
};

static const struct param tee_params[] = {
	{.name = "every", .type = PARAM_UINT, .min = 1, .max = 1e9, .def = "1", .unit = "packets",
	 .offset = offsetof(struct tee_params, every),
	 .doc = "copy one packet in this many, counted per worker (RFC 5475 section 5.2.1)"},
	{.name = "bytes", .type = PARAM_UINT, .max = 65535, .unit = "bytes",
	 .offset = offsetof(struct tee_params, bytes),
	 .doc = "copy so much of the beginning of each; 0: all that fits into one mbuf"},
	{0},
};

struct tee_worker {
	uint64_t countdown;
};

static int tee_worker_init(struct nf_worker *w, struct err *err)
{
	struct tee_worker *t = calloc(1, sizeof(*t));

	w->state = t;
	return t ? 0 : err_set(err, ENOMEM, "params", "out of memory");
}

static void tee_worker_fini(struct nf_worker *w)
{
	free(w->state);
	w->state = NULL;
}

/* What other NFs know of the original is true of its copy, unless the end is missing. */
static void copy_notes(struct rte_mbuf *copy, const struct rte_mbuf *m)
{
	copy->packet_type = m->packet_type;
	copy->vlan_tci_outer = m->vlan_tci_outer;
	if (copy->pkt_len != m->pkt_len)
		pkt_classify(copy);
}

static void copy_packet(struct nf_worker *w, const struct rte_mbuf *m, enum nf_direction dir)
{
	const struct tee_params *p = w->nf->conf;
	struct rte_mbuf *copy = nf_alloc(w);
	uint32_t bytes = p->bytes && p->bytes < m->pkt_len ? (uint32_t)p->bytes : m->pkt_len;
	const void *from;
	char *to;

	if (unlikely(!copy)) {
		w->counters[C_LOST]++;
		return;
	}
	bytes = RTE_MIN(bytes, rte_pktmbuf_tailroom(copy));
	to = rte_pktmbuf_append(copy, (uint16_t)bytes);
	from = rte_pktmbuf_read(m, 0, bytes, to); /* copies by itself when segments are several */
	if (from != to)
		memcpy(to, from, bytes);
	copy_notes(copy, m);
	if (unlikely(nf_emit(w, copy, EDGE_COPY, dir))) {
		rte_pktmbuf_free(copy);
		w->counters[C_LOST]++;
		return;
	}
	w->counters[C_COPIED]++;
	w->counters[C_TRUNCATED] += bytes < m->pkt_len;
}

static void tee_process(struct nf_worker *w, struct burst *b)
{
	const struct tee_params *p = w->nf->conf;
	struct tee_worker *t = w->state;

	for (unsigned int i = 0; i < b->n; i++) {
		if (t->countdown) {
			t->countdown--;
			continue;
		}
		t->countdown = p->every - 1;
		copy_packet(w, b->pkts[i], b->direction);
	}
}

static const char *const edges[] = {[EDGE_OUT] = "out", [EDGE_COPY] = "copy", NULL};
static const char *const counters[] = {
	[C_COPIED] = "copied", [C_TRUNCATED] = "truncated", [C_LOST] = "copies-lost", NULL};

static const struct nf_ops tee_ops = {
	.name = "tee",
	.doc = "Mirror port: every packet goes on unchanged, and a copy of it, or of one in n, leaves on the "
	       "edge \"copy\". Copies are whole bytes of their own, so that nothing done to one is seen in "
	       "the other. When there is no mbuf or no room, the copy is lost and counted, never the "
	       "original.",
	.standards = "Systematic count-based sampling of RFC 5475. Left out: encapsulation towards a remote "
		     "analyser (ERSPAN), and what does not fit into one mbuf of jumbo frames (truncated).",
	.params = tee_params,
	.conf_size = sizeof(struct tee_params),
	.edges = edges,
	.counters = counters,
	.reads = NF_F_PAYLOAD,
	.changes_volume = true,
	.category = NF_GENERAL,
	.state_key = NF_STATELESS,
	.wants_headers = true,
	.worker_init = tee_worker_init,
	.worker_fini = tee_worker_fini,
	.process = tee_process,
};
NF_REGISTER(tee_ops)
