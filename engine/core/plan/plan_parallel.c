/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which neighbours may work on a packet at the same time (Sun et al., NFP, SIGCOMM 2017, table 3),
 * from what they declare; stricter than NFP where a difference could be seen
 * (docs/design/parallel.md).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "plan_priv.h"

/* The IPv4 header checksum and TCP's and UDP's: no field that anybody declares, but others bring it
 * along. */
#define F_CHECKSUM (1u << 31)
#define SUMMED (NF_F_5TUPLE | NF_F_TTL | NF_F_DSCP | NF_F_L4_FLAGS | NF_F_PAYLOAD)

const char *const nf_field_names[] = {"mac",   "vlan", "src_ip", "dst_ip",   "src_port", "dst_port",
				      "proto", "ttl",  "dscp",   "l4_flags", "payload",  "length"};

static uint32_t writes(const struct nf_ops *ops)
{
	return ops->writes | (ops->writes & SUMMED ? F_CHECKSUM : 0);
}

/* A checksum is updated from what it was (RFC 1624); who reads the payload may look at it, too. */
static uint32_t reads(const struct nf_ops *ops)
{
	return ops->reads | (writes(ops) & F_CHECKSUM) |
	       (ops->reads & NF_F_PAYLOAD ? F_CHECKSUM : 0);
}

static const char *field_name(uint32_t bits)
{
	for (unsigned int i = 0; i < NF_FIELDS; i++)
		if (bits & 1u << i)
			return nf_field_names[i];
	return "checksums";
}

static int check_alone(const struct plan_nf *nf, const char *path, struct err *err)
{
	const struct nf_ops *ops = nf->ops;
	const char *why = ops->apart ? ops->apart(nf->conf) : NULL;

	if (ops->category == NF_LEAF)
		why = "packets end there";
	else if (ops->changes_volume)
		why = "it makes packets of its own";
	else if (ops->writes & NF_F_LENGTH)
		why = "it changes packets' lengths";
	if (!why)
		return 0;
	return err_set(err, EINVAL, path, "\"%s\" (%s) cannot run beside another function: %s",
		       nf->name, ops->name, why);
}

/* May `second` start before `first` is done? *copy: if `first` works on a copy. */
static int check_pair(const struct plan_nf *first, const struct plan_nf *second, bool *copy,
		      const char *path, struct err *err)
{
	const struct nf_ops *a = first->ops, *b = second->ops;
	uint32_t common = writes(a) & writes(b);

	if (common)
		return err_set(err, EINVAL, path, "\"%s\" and \"%s\" both write %s", first->name,
			       second->name, field_name(common));
	common = writes(a) & reads(b);
	if (common)
		return err_set(err, EINVAL, path, "\"%s\" reads %s, which \"%s\" before it writes",
			       second->name, field_name(common), first->name);
	if (a->may_drop && b->state_key != NF_STATELESS)
		return err_set(
			err, EINVAL, path,
			"\"%s\" keeps state, and would see packets that \"%s\" before it drops",
			second->name, first->name);
	if (!(reads(a) & writes(b)))
		return 0;
	if (a->writes)
		return err_set(
			err, EINVAL, path,
			"\"%s\" reads %s, which \"%s\" behind it writes; it needs a copy of the packet, "
			"and what it writes itself would be lost",
			first->name, field_name(reads(a) & writes(b)), second->name);
	*copy = true;
	return 0;
}

static const struct plan_nf *member(const struct plan *p, const struct plan_segment *s,
				    unsigned int m)
{
	return &p->nfs[s->nodes[s->parallel.nodes[m]].nf];
}

static int check_members(const struct plan *p, struct plan_segment *s, const char *path,
			 struct err *err)
{
	struct plan_parallel *g = &s->parallel;
	int rc = 0;

	for (unsigned int m = 0; m < g->n && !rc; m++)
		rc = check_alone(member(p, s, m), path, err);
	for (unsigned int m = 0; m < g->n && !rc; m++)
		for (unsigned int after = m + 1; after < g->n && !rc; after++)
			rc = check_pair(member(p, s, m), member(p, s, after), &g->copies[m], path,
					err);
	for (unsigned int m = 0; m < g->n && !rc; m++) {
		if (!member(p, s, m)->ops->marks_mbuf)
			continue;
		g->copies[m] = true;
		if (member(p, s, m)->ops->writes)
			rc = err_set(
				err, EINVAL, path,
				"\"%s\" needs a copy of the packet, and what it writes would be lost",
				member(p, s, m)->name);
	}
	return rc;
}

static int member_of(const struct plan_parallel *g, struct target t)
{
	for (unsigned int m = 0; t.kind == TO_NODE && m < g->n; m++)
		if (g->nodes[m] == t.index)
			return (int)m;
	return -1;
}

/* Every edge of a member leads to the next; and only from there, and forward, may packets come. */
static int check_shape(const struct plan *p, const struct plan_segment *s, const char *path,
		       struct err *err)
{
	const struct plan_parallel *g = &s->parallel;

	for (unsigned int i = 0; i < s->n_inputs; i++) {
		if (s->inputs[i].direction != NF_FORWARD)
			return err_set(
				err, EINVAL, path,
				"functions side by side see forward traffic only; the segment reads reverse "
				"traffic from \"%s\"",
				p->links[s->inputs[i].link].name);
		if (member_of(g, s->inputs[i].to) > 0)
			return err_set(err, EINVAL, path,
				       "input \"%s\" leads past its first function",
				       p->links[s->inputs[i].link].name);
	}
	for (unsigned int i = 0; i < s->n_nodes; i++) {
		int from = member_of(g, (struct target){.kind = TO_NODE, .index = (uint16_t)i});

		for (unsigned int e = 0; e < s->nodes[i].n_edges; e++) {
			struct target t = s->nodes[i].next[NF_FORWARD][e];
			int to = member_of(g, t);
			bool inside = from >= 0 && (unsigned int)from + 1 < g->n;

			if (inside ? t.kind != TO_DROP && to != from + 1 : to > 0)
				return err_set(
					err, EINVAL, path,
					"edge \"%s\" of \"%s\" leads elsewhere; allowed: from each "
					"function to the next in the order given, or drop",
					nf_edge_name(p->nfs[s->nodes[i].nf].ops, e),
					p->nfs[s->nodes[i].nf].name);
		}
	}
	return 0;
}

static int find_member(const struct plan *p, const struct plan_segment *s, const char *name)
{
	for (unsigned int i = 0; i < s->n_nodes; i++)
		if (!strcmp(p->nfs[s->nodes[i].nf].name, name))
			return (int)i;
	return -1;
}

static int list_members(const struct plan *p, struct plan_segment *s, char *const *names,
			unsigned int n, const char *path, struct err *err)
{
	struct plan_parallel *g = &s->parallel;

	for (unsigned int m = 0; m < n; m++) {
		int at = find_member(p, s, names[m]);

		if (at < 0)
			return err_set(err, EINVAL, path, "\"%.40s\" is no node of this segment",
				       names[m]);
		if (member_of(g, (struct target){.kind = TO_NODE, .index = (uint16_t)at}) >= 0)
			return err_set(err, EINVAL, path, "\"%.40s\" is named twice", names[m]);
		g->nodes[g->n++] = (uint16_t)at;
	}
	return 0;
}

/* Behind those of the replicas, so that whoever needs all CPUs finds them in one place. */
static int add_cpus(struct plan_segment *s, const struct param_list *given, const char *path,
		    struct err *err)
{
	unsigned int want = (s->parallel.n - 1) * s->n_cpus;
	unsigned int *cpus;

	if (given->count != want)
		return err_set(
			err, EINVAL, path,
			"%zu CPUs for %u functions behind the first and %u replicas; allowed: %u",
			given->count, s->parallel.n - 1, s->n_cpus, want);
	cpus = realloc(s->cpus, (s->n_cpus + want) * sizeof(*cpus));
	if (!cpus)
		return err_set(err, ENOMEM, path, "out of memory");
	s->cpus = cpus;
	for (unsigned int i = 0; i < want; i++)
		cpus[s->n_all_cpus++] = (unsigned int)((const uint64_t *)given->items)[i];
	return 0;
}

int plan_parse_parallel(const struct plan *p, struct plan_segment *s,
			const struct param_list *names, const struct param_list *cpus,
			const char *segment, struct err *err)
{
	char path[96];
	int rc;

	if (!names->count && !cpus->count)
		return 0;
	snprintf(path, sizeof(path), "%.60s.parallel.nodes", segment);
	if (names->count < 2 || names->count > PARALLEL_MAX)
		return err_set(err, EINVAL, path, "%zu functions; allowed: 2 to %d", names->count,
			       PARALLEL_MAX);
	if (s->fastpath)
		return err_set(
			err, EINVAL, path,
			"\"fastpath\" and \"parallel\" exclude each other: what is spared cannot run "
			"beside anything");
	rc = list_members(p, s, names->items, (unsigned int)names->count, path, err);
	if (!rc)
		rc = check_shape(p, s, path, err);
	if (!rc)
		rc = check_members(p, s, path, err);
	snprintf(path, sizeof(path), "%.60s.parallel.cpus", segment);
	return rc ? rc : add_cpus(s, cpus, path, err);
}
