/* SPDX-License-Identifier: Apache-2.0 */
#include "patterns.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct sources {
	const char **expr;
	unsigned int *flags, *ids;
	const struct rule **rule;
	unsigned int n;
};

static bool wanted(const struct rule *r, enum patterns_db db)
{
	bool tcp = !r->proto || r->proto == IPPROTO_TCP;

	switch (db) {
	case PATTERNS_STREAM:
		return tcp && !(r->flow & RULE_NO_STREAM);
	case PATTERNS_SEGMENT:
		return tcp && !(r->flow & RULE_ONLY_STREAM) &&
		       (r->flow & RULE_NO_STREAM || r->positioned);
	default:
		return true;
	}
}

static void sources_free(struct sources *s)
{
	free(s->expr);
	free(s->flags);
	free(s->ids);
	free(s->rule);
}

static int sources_alloc(struct sources *s, size_t n)
{
	*s = (struct sources){
		.expr = calloc(n + 1, sizeof(*s->expr)),
		.flags = calloc(n + 1, sizeof(*s->flags)),
		.ids = calloc(n + 1, sizeof(*s->ids)),
		.rule = calloc(n + 1, sizeof(*s->rule)),
	};
	if (s->expr && s->flags && s->ids && s->rule)
		return 0;
	sources_free(s);
	return -ENOMEM;
}

static void add(struct sources *s, const struct rule *r, const char *expr, unsigned int id)
{
	s->rule[s->n] = r;
	s->expr[s->n] = expr;
	s->flags[s->n] = HS_FLAG_SINGLEMATCH;
	s->ids[s->n++] = id;
}

/*
 * Of a rule with several expressions each is a part with an id of its own, behind those of the
 * rules. (Hyperscan's logical combinations would do this, but what is complete at the end of a
 * segment is reported with the next one only, too late to drop.)
 */
static void add_rule(struct sources *s, const struct rules *rules, unsigned int index)
{
	const struct rule *r = &rules->items[index];

	if (r->n_exprs == 1)
		add(s, r, r->exprs[0], index);
	for (unsigned int i = 0; r->n_exprs > 1 && i < r->n_exprs; i++)
		add(s, r, r->exprs[i], (unsigned int)rules->count + r->first_part + i);
}

static int number_parts(struct rules *rules, struct patterns *out)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct rule *r = &rules->items[i];

		r->first_part = (uint32_t)out->n_parts;
		out->n_parts += r->n_exprs > 1 ? r->n_exprs : 0;
	}
	out->part_rule = calloc(out->n_parts + 1, sizeof(*out->part_rule));
	if (!out->part_rule)
		return -ENOMEM;
	for (size_t i = 0; i < rules->count; i++)
		for (unsigned int k = 0; rules->items[i].n_exprs > 1 && k < rules->items[i].n_exprs;
		     k++)
			out->part_rule[rules->items[i].first_part + k] = (uint32_t)i;
	out->part_words = (out->n_parts + 63) / 64;
	return 0;
}

static int compile(const struct sources *s, enum patterns_db which, struct patterns *out,
		   struct err *err)
{
	unsigned int mode = which == PATTERNS_STREAM ? HS_MODE_STREAM : HS_MODE_BLOCK;
	hs_compile_error_t *why = NULL;
	int rc;

	if (hs_compile_multi(s->expr, s->flags, s->ids, s->n, mode, NULL, &out->db[which], &why) ==
	    HS_SUCCESS)
		return 0;
	if (!why)
		return err_set(err, ENOMEM, "params", "Hyperscan: out of memory for the rules");
	if (why->expression >= 0 && (unsigned int)why->expression < s->n)
		rc = err_set(err, EINVAL, s->rule[why->expression]->place,
			     "sid %u: Hyperscan refuses %.120s: %.120s",
			     s->rule[why->expression]->sid, s->expr[why->expression], why->message);
	else
		rc = err_set(err, EINVAL, "params", "Hyperscan refuses the rules: %.200s",
			     why->message);
	hs_free_compile_error(why);
	return rc;
}

static int compile_db(const struct rules *rules, enum patterns_db which, struct patterns *out,
		      struct err *err)
{
	struct sources s;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < rules->count; i++)
		n += rules->items[i].n_exprs;
	rc = sources_alloc(&s, n);
	if (rc)
		return err_set(err, ENOMEM, "params", "out of memory for rules");
	for (size_t i = 0; i < rules->count; i++) {
		if (!wanted(&rules->items[i], which))
			continue;
		out->rules[which]++;
		add_rule(&s, rules, (unsigned int)i);
	}
	if (s.n)
		rc = compile(&s, which, out, err);
	if (!rc && out->db[which] && hs_alloc_scratch(out->db[which], &out->scratch) != HS_SUCCESS)
		rc = err_set(err, ENOMEM, "params", "Hyperscan: no scratch memory");
	sources_free(&s);
	return rc;
}

static int check_rule(const struct rule *r, struct err *err)
{
	hs_compile_error_t *why = NULL;
	hs_expr_info_t *info = NULL;
	int rc = 0;

	for (unsigned int i = 0; i < r->n_exprs && !rc; i++) {
		if (hs_expression_info(r->exprs[i], HS_FLAG_SINGLEMATCH, &info, &why) ==
		    HS_SUCCESS) {
			if (!info->min_width)
				rc = err_set(err, ENOTSUP, r->place,
					     "sid %u: %.120s matches where there is nothing",
					     r->sid, r->exprs[i]);
			free(info);
			continue;
		}
		rc = err_set(err, ENOTSUP, r->place, "sid %u: Hyperscan refuses %.120s: %.120s",
			     r->sid, r->exprs[i], why ? why->message : "out of memory");
		hs_free_compile_error(why);
	}
	return rc;
}

int patterns_check(struct rules *rules, bool skip, struct err *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < rules->count; i++) {
		int rc = check_rule(&rules->items[i], err);

		if (rc && !skip)
			return rc;
		if (rc)
			rule_free(&rules->items[i]);
		else
			rules->items[kept++] = rules->items[i];
	}
	rules->skipped += rules->count - kept;
	rules->count = kept;
	return 0;
}

int patterns_compile(struct rules *rules, struct patterns *out, struct err *err)
{
	int rc = 0;

	*out = (struct patterns){0};
	if (hs_valid_platform() != HS_SUCCESS)
		return err_set(err, ENOTSUP, "params",
			       "Hyperscan does not run on this processor: SSSE3 is needed");
	if (number_parts(rules, out))
		return err_set(err, ENOMEM, "params", "out of memory for rules");
	for (unsigned int i = 0; i < PATTERNS_DBS && !rc; i++)
		rc = compile_db(rules, i, out, err);
	if (!rc && out->db[PATTERNS_STREAM] &&
	    hs_stream_size(out->db[PATTERNS_STREAM], &out->stream_bytes) != HS_SUCCESS)
		rc = err_set(err, EINVAL, "params", "Hyperscan: no size of a stream");
	if (rc)
		patterns_free(out);
	return rc;
}

void patterns_free(struct patterns *p)
{
	for (unsigned int i = 0; i < PATTERNS_DBS; i++)
		hs_free_database(p->db[i]);
	hs_free_scratch(p->scratch);
	free(p->part_rule);
	*p = (struct patterns){0};
}
