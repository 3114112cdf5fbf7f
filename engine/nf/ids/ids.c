/* SPDX-License-Identifier: Apache-2.0 */
#include "nf/lib/dpi/instance.h"

static int ids_init(struct nf *nf, struct err *err)
{
	return dpi_instance_init(nf, true, err);
}

static const struct nf_ops ids_ops = {
	.name = "ids",
	.doc = "Intrusion detection: alerts on a mirrored copy of the traffic. It inspects what comes "
	       "(behind tee) as dpi does, and writes alerts as JSON lines in the form of Suricata's EVE, to "
	       "a file or a Unix socket, from a thread off the packet path. Its packets end here. Rules that "
	       "say mark or drop alert. When more alerts come than are written, they are lost and counted; "
	       "no packet ever waits. One of eve_file and eve_socket is needed, and something to look for: "
	       "rules, rules_file or labels.",
	.standards = DPI_STANDARDS
		     "Events: alert and flow of EVE. Left out: IP reassembly (fragments are counted), "
		     "checksums (not verified), events of application protocols, thresholds, and what "
		     "docs/inspection.md names.",
	.params = dpi_params + DPI_OWN_PARAMS,
	.conf_size = sizeof(struct dpi_params),
	.counters = dpi_counters,
	.reads = NF_F_5TUPLE | NF_F_L4_FLAGS | NF_F_PAYLOAD,
	.marks_mbuf = true,
	.category = NF_LEAF,
	.state_key = NF_STATE_FLOW,
	.wants_headers = true,
	.trails = true,
	.elastic = true,
	.rest = dpi_rest,
	.init = ids_init,
	.fini = dpi_instance_fini,
	.worker_init = dpi_worker_init,
	.worker_fini = dpi_worker_fini,
	.process = dpi_process,
	.tick = dpi_tick,
	.update = dpi_update,
};
NF_REGISTER(ids_ops)
