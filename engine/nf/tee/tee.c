/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include <rte_branch_prediction.h>

#include "nf/lib/copy.h"

/* A copy of each packet, or of some, on an edge of its own. */

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

static void copy_packet(struct nf_worker *w, const struct rte_mbuf *m, enum nf_direction dir)
{
	const struct tee_params *p = w->nf->conf;
	uint32_t bytes = p->bytes && p->bytes < m->pkt_len ? (uint32_t)p->bytes : m->pkt_len;
	struct rte_mbuf *copy = nf_copy_packet(w, m, bytes);
	uint32_t copied;

	if (unlikely(!copy)) {
		w->counters[C_LOST]++;
		return;
	}
	copied = copy->pkt_len; /* before it is gone */
	if (unlikely(nf_emit(w, copy, EDGE_COPY, dir))) {
		rte_pktmbuf_free(copy);
		w->counters[C_LOST]++;
		return;
	}
	w->counters[C_COPIED]++;
	w->counters[C_TRUNCATED] += copied < m->pkt_len;
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
	.doc = "Mirror port: every packet goes on, and a copy leaves. Packets stay unchanged; the copy, of "
	       "each or of one in n, leaves on the edge \"copy\". Copies are whole bytes of their own, so "
	       "that nothing done to one is seen in the other. When there is no mbuf or no room, the copy is "
	       "lost and counted, never the original.",
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
