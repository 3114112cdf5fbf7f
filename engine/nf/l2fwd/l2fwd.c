/* SPDX-License-Identifier: Apache-2.0 */
#include "core/nf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ether.h>
#include <rte_prefetch.h>

struct l2fwd_conf {
	struct param_mac dst_mac, src_mac;
	struct param_mac reverse_dst_mac, reverse_src_mac;
};

/* The first 12 bytes of every frame of one direction, as they lie in it. */
struct l2fwd_header {
	uint64_t low;
	uint32_t high;
};

struct l2fwd {
	struct l2fwd_header header[NF_DIRECTIONS];
};

static const struct param l2fwd_params[] = {
	{.name = "dst_mac", .type = PARAM_MAC, .offset = offsetof(struct l2fwd_conf, dst_mac),
	 .def = "\"02:00:00:00:00:02\"", .doc = "Destination MAC address of every frame sent on."},
	{.name = "src_mac", .type = PARAM_MAC, .offset = offsetof(struct l2fwd_conf, src_mac),
	 .def = "\"02:00:00:00:00:01\"", .doc = "Source MAC address of every frame sent on."},
	{.name = "reverse_dst_mac", .type = PARAM_MAC,
	 .offset = offsetof(struct l2fwd_conf, reverse_dst_mac),
	 .doc = "The same for the reverse direction; absent: as forward."},
	{.name = "reverse_src_mac", .type = PARAM_MAC,
	 .offset = offsetof(struct l2fwd_conf, reverse_src_mac),
	 .doc = "The same for the reverse direction; absent: as forward."},
	{0},
};

/* Destination first: IEEE 802.3 clause 3.1.1. */
static struct l2fwd_header header_make(const struct param_mac *dst, const struct param_mac *src)
{
	struct l2fwd_header h;
	uint8_t bytes[12];

	memcpy(bytes, dst->bytes, 6);
	memcpy(bytes + 6, src->bytes, 6);
	memcpy(&h.low, bytes, 8);
	memcpy(&h.high, bytes + 8, 4);
	return h;
}

static const struct param_mac *mac_or(const struct param_mac *mac, const struct param_mac *other)
{
	static const struct param_mac none;

	return memcmp(mac, &none, sizeof(none)) ? mac : other;
}

static int l2fwd_init(struct nf *nf, struct err *err)
{
	const struct l2fwd_conf *conf = nf->conf;
	struct l2fwd *l2fwd = malloc(sizeof(*l2fwd));

	if (!l2fwd)
		return err_set(err, ENOMEM, "", "out of memory");
	l2fwd->header[NF_FORWARD] = header_make(&conf->dst_mac, &conf->src_mac);
	l2fwd->header[NF_REVERSE] = header_make(mac_or(&conf->reverse_dst_mac, &conf->dst_mac),
						mac_or(&conf->reverse_src_mac, &conf->src_mac));
	nf->state = l2fwd;
	return 0;
}

static void l2fwd_fini(struct nf *nf)
{
	free(nf->state);
	nf->state = NULL;
}

static void l2fwd_process(struct nf_worker *w, struct burst *b)
{
	const struct l2fwd *l2fwd = w->nf->state;
	const struct l2fwd_header h = l2fwd->header[b->direction];

	for (unsigned int i = 0; i < b->n; i++) {
		struct rte_mbuf *m = b->pkts[i];
		uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

		if (likely(i + 1 < b->n))
			rte_prefetch0(rte_pktmbuf_mtod(b->pkts[i + 1], void *));
		if (unlikely(m->data_len < RTE_ETHER_HDR_LEN)) {
			b->verdict[i] = NF_ABORT;
			continue;
		}
		memcpy(frame, &h.low, sizeof(h.low));
		memcpy(frame + sizeof(h.low), &h.high, sizeof(h.high));
	}
}

static bool l2fwd_flow_action(struct nf_worker *w, const struct nf_flow *flow, uint8_t verdict,
			      struct nf_flow_action *action)
{
	(void)w;
	(void)flow;
	action->sets = NF_SETS_DST_MAC | NF_SETS_SRC_MAC;
	return !verdict;
}

static const struct nf_ops nf_l2fwd_ops = {
	.name = "l2fwd",
	.doc = "Sends every frame on with new MAC addresses. So do DPDK's l2fwd and testpmd's mac mode. It "
	       "learns nothing and looks nothing up.",
	.standards = "Ethernet II and 802.1Q frames; nothing behind the MAC addresses is read or "
		     "changed. Frames shorter than an Ethernet header are malformed. "
		     "Left out: learning, flooding and filtering (IEEE 802.1D).",
	.params = l2fwd_params,
	.conf_size = sizeof(struct l2fwd_conf),
	.writes = NF_F_MAC,
	.category = NF_GENERAL,
	.state_key = NF_STATELESS,
	.elastic = true,
	.init = l2fwd_init,
	.fini = l2fwd_fini,
	.process = l2fwd_process,
	.flow_action = l2fwd_flow_action,
};
NF_REGISTER(nf_l2fwd_ops)
