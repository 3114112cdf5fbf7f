/* SPDX-License-Identifier: Apache-2.0 */
#include "mtrie_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

static size_t nodes_of(const struct mtrie *t)
{
	return (size_t)t->conf.nodes + 1;
}

int mtrie_create(struct mtrie **out, const struct mtrie_conf *conf, const char *path,
		 struct err *err)
{
	struct mtrie *t = calloc(1, sizeof(*t));

	if (!t)
		return err_set(err, ENOMEM, path, "out of memory");
	t->conf = *conf;
	t->lookup4 = mtrie_lookup4_of(conf->isa);
	if (!t->lookup4) {
		free(t);
		return err_set(err, ENOTSUP, path, "this machine has no %s", conf->isa);
	}
	t->fresh = NO_NODE + 1;
	t->counts = calloc(conf->roots, sizeof(*t->counts));
	t->root_nodes = calloc(conf->roots, sizeof(*t->root_nodes));
	t->defaults = calloc(conf->roots, sizeof(*t->defaults));
	t->roots = map(conf->roots * sizeof(*t->roots));
	t->root_own = map(conf->roots * sizeof(*t->root_own));
	t->nodes = map(nodes_of(t) * sizeof(*t->nodes));
	t->own = map(nodes_of(t) * sizeof(*t->own));
	if (!t->counts || !t->root_nodes || !t->defaults || !t->roots || !t->root_own || !t->nodes ||
	    !t->own) {
		mtrie_destroy(t);
		return err_set(err, ENOMEM, path, "no address space for %u nodes", conf->nodes);
	}
	/* Only advice: not every kernel has it. Roots are sparse, and stay in small pages. */
	madvise(t->nodes, nodes_of(t) * sizeof(*t->nodes), MADV_HUGEPAGE);
	madvise(t->own, nodes_of(t) * sizeof(*t->own), MADV_HUGEPAGE);
	*out = t;
	return 0;
}

void mtrie_destroy(struct mtrie *t)
{
	if (!t)
		return;
	unmap(t->roots, t->conf.roots * sizeof(*t->roots));
	unmap(t->root_own, t->conf.roots * sizeof(*t->root_own));
	unmap(t->nodes, nodes_of(t) * sizeof(*t->nodes));
	unmap(t->own, nodes_of(t) * sizeof(*t->own));
	free(t->defaults);
	free(t->counts);
	free(t->root_nodes);
	free(t);
}

uint64_t mtrie_count(const struct mtrie *t, uint32_t root)
{
	return t->counts[root];
}

uint32_t mtrie_root_nodes(const struct mtrie *t, uint32_t root)
{
	return t->root_nodes[root];
}

uint32_t mtrie_nodes(const struct mtrie *t)
{
	return t->n_used;
}
