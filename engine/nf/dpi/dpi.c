/* SPDX-License-Identifier: Apache-2.0 */
#include "nf/lib/dpi/instance.h"

static int dpi_init(struct nf *nf, struct err *err)
{
	return dpi_instance_init(nf, false, err);
}

static const char *const drops[] = {
	[DROP_MATCHED] = "matched", [DROP_LABEL] = "label", [DROP_FRAGMENT] = "fragment", NULL};

static const struct nf_ops dpi_ops = {
	.name = "dpi",
	.doc = "Deep packet inspection: patterns in payloads and TCP streams. It looks for many at once, "
	       "across segments, and finds each flow's application. A rule that matches counts and reports "
	       "an alert, marks the packet and its flow by DSCP, or drops them. Segments pass at once; "
	       "copies of those out of order are held until their turn comes, in bounded memory, and the "
	       "packet that completes a match is the one that is dropped, and its flow with it.",
	.standards = DPI_STANDARDS
		     "Patterns by Hyperscan or Vectorscan, applications by nDPI. Left out: IP reassembly "
		     "(fragments are counted, and passed or dropped), checksums (not verified), decryption, "
		     "parsers of application protocols and rules that need them, rules without content.",
	.params = dpi_params,
	.conf_size = sizeof(struct dpi_params),
	.drops = drops,
	.policy_drops = 1u << DROP_MATCHED | 1u << DROP_LABEL | 1u << DROP_FRAGMENT,
	.counters = dpi_counters,
	.reads = NF_F_5TUPLE | NF_F_L4_FLAGS | NF_F_PAYLOAD,
	.writes = NF_F_DSCP,
	.marks_mbuf = true,
	.may_drop = true,
	.category = NF_GENERAL,
	.state_key = NF_STATE_FLOW,
	.wants_headers = true,
	.trails = true,
	.elastic = true,
	.rest = dpi_rest,
	.init = dpi_init,
	.fini = dpi_instance_fini,
	.worker_init = dpi_worker_init,
	.worker_fini = dpi_worker_fini,
	.process = dpi_process,
	.tick = dpi_tick,
	.update = dpi_update,
};
NF_REGISTER(dpi_ops)
