/* SPDX-License-Identifier: Apache-2.0 */
/* Which partitions of its functions a running engine can go to from the one that it has. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "repartition.h"
#include "replan.h"

/* The running segment that is as this one will be, CPUs aside. */
static int same_as(const struct repartition *c, unsigned int i)
{
	const struct plan *is = c->e->plan, *will = c->next;
	const json_t *a = json_object_get(is->json, "segments"), *b = json_object_get(will->json, "segments");

	for (unsigned int s = 0; s < is->n_segments; s++)
		if (!strcmp(is->segments[s].name, will->segments[i].name))
			return is->segments[s].n_cpus == will->segments[i].n_cpus &&
					       segments_alike(json_array_get(a, s), json_array_get(b, i))
				       ? (int)s
				       : -1;
	return -1;
}

static void pair(struct repartition *c)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		c->leaves[s] = true;
	for (unsigned int i = 0; i < c->next->n_segments; i++) {
		c->stays[i] = same_as(c, i);
		if (c->stays[i] >= 0)
			c->leaves[c->stays[i]] = false;
	}
}

bool repartition_enters(const struct repartition *c, unsigned int link)
{
	for (unsigned int s = 0; s < c->e->plan->n_segments; s++)
		if (!c->leaves[s] && plan_writes(&c->e->plan->segments[s], link))
			return true;
	return false;
}

/* What a segment that comes or goes may have: rings, and functions one after the other. */
static int plain(const struct plan *p, const struct plan_segment *s, const char *path, struct err *err)
{
	if (s->parallel.n || s->fastpath)
		return err_set(err, ENOTSUP, path,
			       "\"%s\" has %s, which stays as it is while the engine runs", s->name,
			       s->parallel.n ? "functions side by side" : "a fast path");
	if (!s->elastic && s->n_replicas > 1)
		return err_set(err, ENOTSUP, path,
			       "\"%s\" has %u replicas, each with flows of its own; allowed: one, or an "
			       "`elastic` segment", s->name, s->n_replicas);
	for (unsigned int l = 0; l < p->n_links; l++)
		if (!p->links[l].ops->writer_steers &&
		    (plan_writes(s, l) || plan_reader(p, l) == s - p->segments))
			return err_set(err, ENOTSUP, path,
				       "\"%s\" has \"%s\", a %s, which stays where it is while the engine "
				       "runs; allowed: rings", s->name, p->links[l].name,
				       p->links[l].ops->name);
	return 0;
}

/* Workers of a function are made when the engine starts, as are the tables that they share, or do not. */
static int functions(const struct repartition *c, const struct plan_segment *s, const char *path,
		     struct err *err)
{
	for (unsigned int k = 0; k < s->n_nodes; k++) {
		const struct nf *nf = &c->e->nfs[s->nodes[k].nf];

		if (c->e->plan->nfs[s->nodes[k].nf].segment < 0)
			return err_set(err, ENOTSUP, path,
				       "\"%s\" is in no segment of the running plan; allowed: functions that "
				       "are", nf->name);
		if (!nf->owners != !s->elastic)
			return err_set(err, ENOTSUP, path,
				       "\"%s\" keeps what it keeps %s, and \"%s\" is %s; allowed: %s",
				       nf->name, nf->owners ? "by bucket" : "for one worker", s->name,
				       nf->owners ? "not `elastic`" : "`elastic`",
				       nf->owners ? "an elastic segment" : "a segment that is not");
		if (nf->workers != s->n_replicas)
			return err_set(err, ENOTSUP, path,
				       "\"%s\" has %u workers, and \"%s\" would have %u; allowed: `elastic` "
				       "as where it is", nf->name, nf->workers, s->name, s->n_replicas);
	}
	return 0;
}

/* Queues are made when the engine starts, too. */
static int queues(const struct repartition *c, unsigned int l, struct err *err)
{
	int was = plan_reader(c->e->plan, l), is = plan_reader(c->next, l);
	unsigned int readers = is < 0 ? 0 : c->next->segments[is].n_replicas;
	unsigned int writers = plan_writers(c->next, l);
	const struct link *link = &c->e->links[l];
	char path[64];

	snprintf(path, sizeof(path), "plan.links.%.40s", link->name);
	if (!readers != !writers)
		return err_set(err, EINVAL, path, "needs a %s: no segment names it",
			       readers ? "writer" : "reader");
	if (!readers && !link->spare && was >= 0)
		return err_set(err, ENOTSUP, path, "no segment would name it; allowed: `spare` ones");
	if (readers > link->n_rxq || (writers > 1 && link->n_txq < 2 && !link->spare))
		return err_set(err, ENOTSUP, path,
			       "would have %u readers and %u writers; allowed: at most %u and %u, or "
			       "`spare` for as many", readers, writers, link->n_rxq, link->n_txq);
	if (is >= 0 && was >= 0 && repartition_enters(c, l) &&
	    (!c->next->segments[is].elastic != !c->e->plan->segments[was].elastic ||
	     readers != c->e->plan->segments[was].n_replicas))
		return err_set(err, ENOTSUP, path,
			       "its reader would have other replicas; allowed: as many, `elastic` as now");
	return 0;
}

static const struct plan_segment *has(const struct plan *p, unsigned int nf)
{
	return p->nfs[nf].segment < 0 ? NULL : &p->segments[p->nfs[nf].segment];
}

/* What is kept of a packet is kept by its bucket: two functions that mean the same one have to go on so. */
static int buckets(const struct repartition *c, struct err *err)
{
	const struct plan *a = c->e->plan, *b = c->next;

	for (unsigned int i = 0; i < a->n_nfs; i++)
		for (unsigned int k = 0; k < i; k++) {
			const struct plan_segment *s[] = {has(a, i), has(a, k), has(b, i), has(b, k)};

			if (!s[0] || !s[1] || !s[0]->elastic || !s[1]->elastic ||
			    (s[0]->shares == s[1]->shares) == (s[2]->shares == s[3]->shares))
				continue;
			return err_set(err, ENOTSUP, "plan.segments",
				       "\"%s\" and \"%s\" %s; allowed: elastic segments joined as now",
				       a->nfs[k].name, a->nfs[i].name,
				       s[0]->shares == s[1]->shares
					       ? "would no longer have packets in the same buckets"
					       : "have packets in buckets of their own");
		}
	return 0;
}

int repartition_check(struct repartition *c, struct err *err)
{
	const struct plan *is = c->e->plan, *will = c->next;
	char path[48];
	int rc = 0;

	pair(c);
	for (unsigned int s = 0; s < is->n_segments && !rc; s++)
		rc = c->leaves[s] ? plain(is, &is->segments[s], "plan.segments", err) : 0;
	for (unsigned int i = 0; i < will->n_segments && !rc; i++) {
		snprintf(path, sizeof(path), "plan.segments[%u]", i);
		rc = c->stays[i] < 0 ? functions(c, &will->segments[i], path, err) : 0;
		if (!rc && c->stays[i] < 0)
			rc = plain(will, &will->segments[i], path, err);
		if (!rc)
			rc = engine_has_cpus(c->e, &will->segments[i], path, err);
	}
	for (unsigned int i = 0; i < is->n_nfs && !rc; i++)
		if (has(is, i) && !has(will, i))
			rc = err_set(err, ENOTSUP, "plan.segments",
				     "\"%s\" would be in no segment; allowed: each function in one",
				     is->nfs[i].name);
	for (unsigned int l = 0; l < is->n_links && !rc; l++)
		rc = is->links[l].ops->writer_steers ? queues(c, l, err) : 0;
	return rc ? rc : buckets(c, err);
}
