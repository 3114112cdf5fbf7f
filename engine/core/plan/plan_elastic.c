/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments may be elastic (docs/design/elastic.md). */
#include <errno.h>
#include <stdio.h>

#include "plan_priv.h"

#define NF_F_ENDPOINTS (NF_F_SRC_IP | NF_F_DST_IP | NF_F_SRC_PORT | NF_F_DST_PORT)

static int check_inputs(const struct plan *p, const struct plan_segment *s, const char *path,
			struct err *err)
{
	if (s->n_inputs > ELASTIC_INPUTS_MAX)
		return err_set(err, EINVAL, path, "elastic with %u inputs; allowed: at most %d", s->n_inputs,
			       ELASTIC_INPUTS_MAX);
	for (unsigned int i = 0; i < s->n_inputs; i++) {
		const struct plan_link *l = &p->links[s->inputs[i].link];

		if (!l->ops->writer_steers)
			return err_set(err, EINVAL, path,
				       "elastic, but it reads \"%s\", a %s, whose packets no writer steers; "
				       "allowed: rings", l->name, l->ops->name);
	}
	return 0;
}

/* The functions of all segments that share this one's buckets: which comes after `*at`, and of where. */
struct sharing {
	unsigned int segment, node;
};

static const struct plan_nf *next_sharing(const struct plan *p, const struct plan_segment *s,
					  struct sharing *at)
{
	for (; at->segment < p->n_segments; at->segment++, at->node = 0) {
		const struct plan_segment *one = &p->segments[at->segment];

		if (one->elastic && one->shares == s->shares && at->node < one->n_nodes)
			return &p->nfs[one->nodes[at->node++].nf];
	}
	return NULL;
}

static int check_untold(const struct plan *p, const struct plan_segment *s, const char *path,
			struct err *err)
{
	struct sharing at = {0};
	const struct plan_nf *nf;

	while ((nf = next_sharing(p, s, &at))) {
		const char *what = nf->ops->untold ? nf->ops->untold(nf->conf) : NULL;

		if (what)
			return err_set(err, EINVAL, path,
				       "elastic, but \"%s\" has %s, and nothing tells the bucket of answers "
				       "to them; allowed: a function without, or no input in reverse",
				       nf->name, what);
	}
	return 0;
}

/* Packets come in reverse from outside, which have no bucket yet. */
static bool has_answers(const struct plan *p, const struct plan_segment *s)
{
	for (unsigned int i = 0; i < s->n_inputs; i++)
		for (unsigned int w = 0; w < p->n_segments; w++)
			if (s->inputs[i].direction == NF_REVERSE && !p->segments[w].elastic &&
			    plan_writes(&p->segments[w], s->inputs[i].link))
				return true;
	return false;
}

/* Answers must come to the bucket that their flow has, also where a function changed its endpoints. */
static int check_answers(const struct plan *p, const struct plan_segment *s, const char *path,
			 struct err *err)
{
	const char *changes = NULL;
	unsigned int telling = 0;
	struct sharing at = {0};
	const struct plan_nf *nf;

	if (!has_answers(p, s))
		return 0;
	while ((nf = next_sharing(p, s, &at))) {
		if (nf->ops->bucket_of)
			telling++;
		else if (nf->ops->writes & NF_F_ENDPOINTS)
			changes = nf->name;
	}
	/* Answers have the port of one of them when they come, and a writer asks one only. */
	if (telling > 1)
		return err_set(err, EINVAL, path,
			       "elastic, but %u functions would tell the bucket of answers; allowed: one "
			       "nat", telling);
	if (!changes)
		return 0;
	if (telling)
		return check_untold(p, s, path, err);
	return err_set(err, EINVAL, path,
		       "elastic, but \"%s\" changes the endpoints by which answers are steered; allowed: no "
		       "input in reverse, or a nat before it, whose ports tell the bucket", changes);
}

int plan_bucket_teller(const struct plan *p, const struct plan_segment *s)
{
	struct sharing at = {0};
	const struct plan_nf *nf;

	while ((nf = next_sharing(p, s, &at)))
		if (nf->ops->bucket_of)
			return (int)(nf - p->nfs);
	return -1;
}

enum nf_state_key plan_buckets_by(const struct plan *p, const struct plan_segment *s)
{
	struct sharing at = {0};
	const struct plan_nf *nf;

	while ((nf = next_sharing(p, s, &at)))
		if (nf->ops->state_key == NF_STATE_SRC || nf->ops->state_key == NF_STATE_DST)
			return nf->ops->state_key;
	return NF_STATE_FLOW;
}

/* All that functions keep has to be a bucket's, and a packet has one bucket. */
static int check_keys(const struct plan *p, const struct plan_segment *s, const char *path, struct err *err)
{
	static const char *const keys[] = {[NF_STATE_SRC] = "source", [NF_STATE_DST] = "destination"};
	enum nf_state_key by = plan_buckets_by(p, s);
	struct sharing at = {0};
	const struct plan_nf *nf;

	while ((nf = next_sharing(p, s, &at))) {
		enum nf_state_key key = nf->ops->state_key;

		if (!nf->ops->elastic)
			return err_set(err, EINVAL, path,
				       "elastic, but \"%s\", a %s, keeps what is %s; "
				       "allowed: functions that keep nothing, or all by flow or address",
				       nf->name, nf->ops->name,
				       key == NF_STATE_GLOBAL ? "of all packets" : "not a bucket's");
		if (by != NF_STATE_FLOW && key != by && (key == NF_STATE_SRC || key == NF_STATE_DST))
			return err_set(err, EINVAL, path,
				       "elastic, but \"%s\" keeps by %s address, and one before it by %s; "
				       "allowed: one of the two", nf->name, keys[key], keys[by]);
	}
	return 0;
}

static int check_one(const struct plan *p, const struct plan_segment *s, const char *path, struct err *err)
{
	int rc;

	/* With one reader a ring's writers steer nothing: no packet would have its bucket. */
	if (s->elastic < 2 || s->elastic < s->n_cpus)
		return err_set(err, EINVAL, path,
			       "elastic is %u with %u CPUs; allowed: as many or more, and 2 at least",
			       s->elastic, s->n_cpus);
	if (s->steer != STEER_HASH || s->parallel.n || s->fastpath)
		return err_set(err, EINVAL, path, "elastic with %s; allowed: steer hash, and neither "
			       "`parallel` nor `fastpath`",
			       s->steer != STEER_HASH ? "steer even"
			       : s->parallel.n	      ? "parallel"
						      : "fastpath");
	rc = check_keys(p, s, path, err);
	if (!rc)
		rc = check_inputs(p, s, path, err);
	return rc ? rc : check_answers(p, s, path, err);
}

/* Both have the lower one's number from now on. */
static void join(struct plan *p, struct plan_segment *a, struct plan_segment *b)
{
	unsigned int from = RTE_MAX(a->shares, b->shares), to = RTE_MIN(a->shares, b->shares);

	for (unsigned int i = 0; i < p->n_segments; i++)
		if (p->segments[i].shares == from)
			p->segments[i].shares = to;
}

/* A packet that goes from one elastic segment into another one keeps its bucket. */
static void join_all(struct plan *p)
{
	for (unsigned int i = 0; i < p->n_segments; i++)
		p->segments[i].shares = i;
	for (unsigned int i = 0; i < p->n_segments; i++) {
		struct plan_segment *s = &p->segments[i];

		for (unsigned int k = 0; s->elastic && k < s->n_inputs; k++)
			for (unsigned int w = 0; w < p->n_segments; w++)
				if (p->segments[w].elastic && plan_writes(&p->segments[w], s->inputs[k].link))
					join(p, s, &p->segments[w]);
	}
}

int plan_check_elastic(struct plan *p, struct err *err)
{
	int rc = 0;

	join_all(p);
	for (unsigned int i = 0; i < p->n_segments && !rc; i++) {
		char path[64];

		snprintf(path, sizeof(path), "segments[%u]", i);
		rc = p->segments[i].elastic ? check_one(p, &p->segments[i], path, err) : 0;
	}
	return rc;
}
