/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the inspection in a build without Hyperscan: dpi and ids start nowhere. */
#include "instance.h"

#include <errno.h>

int dpi_instance_init(struct nf *nf, bool leaf, struct err *err)
{
	return err_set(err, ENOTSUP, "type",
		       "this engine was built without Hyperscan: install libhyperscan-dev (or "
		       "libvectorscan-dev) and build it again");
}

void dpi_instance_fini(struct nf *nf)
{
}

int dpi_worker_init(struct nf_worker *w, struct err *err)
{
	return -ENOTSUP;
}

void dpi_worker_fini(struct nf_worker *w)
{
}

void dpi_tick(struct nf_worker *w, uint64_t now_tsc)
{
}

void dpi_rest(struct nf_worker *w, bool rests)
{
}

int dpi_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	return err_set(err, ENOTSUP, "op", "this engine was built without Hyperscan");
}

void dpi_process(struct nf_worker *w, struct burst *b)
{
}
