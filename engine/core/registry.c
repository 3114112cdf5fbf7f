/* SPDX-License-Identifier: Apache-2.0 */
/* The NFs and links that this program has; filled by constructors before main. */
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "nf.h"

#define KINDS_MAX 64

static const struct nf_ops *nfs[KINDS_MAX];
static const struct link_ops *links[KINDS_MAX];
static unsigned int n_nfs, n_links;

void nf_register(const struct nf_ops *ops)
{
	unsigned int i = n_nfs;

	if (n_nfs == KINDS_MAX)
		abort(); /* a build error, not an input */
	n_nfs++;
	for (; i && strcmp(nfs[i - 1]->name, ops->name) > 0; i--)
		nfs[i] = nfs[i - 1];
	nfs[i] = ops;
}

int nf_update(struct nf *nf, const json_t *op, json_t **reply, struct err *err)
{
	int rc = nf->ops->update(nf, op, reply, err);

	/* Refused ones too: they may have been half done, and undone. */
	atomic_fetch_add_explicit(&nf->changes, 1, memory_order_release);
	return rc;
}

const struct nf_ops *nf_at(unsigned int i)
{
	return i < n_nfs ? nfs[i] : NULL;
}

const struct nf_ops *nf_find(const char *name)
{
	for (unsigned int i = 0; i < n_nfs; i++)
		if (!strcmp(nfs[i]->name, name))
			return nfs[i];
	return NULL;
}

void link_register(const struct link_ops *ops)
{
	unsigned int i = n_links;

	if (n_links == KINDS_MAX)
		abort();
	n_links++;
	for (; i && strcmp(links[i - 1]->name, ops->name) > 0; i--)
		links[i] = links[i - 1];
	links[i] = ops;
}

const struct link_ops *link_at(unsigned int i)
{
	return i < n_links ? links[i] : NULL;
}

const struct link_ops *link_find(const char *name)
{
	for (unsigned int i = 0; i < n_links; i++)
		if (!strcmp(links[i]->name, name))
			return links[i];
	return NULL;
}
