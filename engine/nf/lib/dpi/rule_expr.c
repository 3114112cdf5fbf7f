/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From contents and pcres to regular expressions. One that is relative to another is joined with it
 * into a single expression, the gap between them written as a bounded repeat; the others stand
 * alone, and all of them must be found. Suricata's meaning of the numbers: depth counts from
 * offset, within from the end of the match before plus distance.
 */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT_MAX 32767 /* Hyperscan's bound of a repeat */

static void put_content(FILE *f, const struct rule_item *item)
{
	fputs(item->nocase ? "(?i:" : "(?:", f);
	for (size_t i = 0; i < item->len; i++)
		if (isalnum(item->bytes[i]))
			fputc(item->bytes[i], f);
		else
			fprintf(f, "\\x%02x", item->bytes[i]);
	fputc(')', f);
}

static void put_regex(FILE *f, const struct rule_item *item)
{
	fprintf(f, "(?%s%s:", item->nocase ? "i" : "", item->flags);
	fwrite(item->bytes, 1, item->len, f);
	/* A comment of an extended expression would swallow the bracket. */
	fputs(strchr(item->flags, 'x') ? "\n)" : ")", f);
}

static int put_gap(struct rule_text *t, FILE *f, uint32_t low, bool bounded, int64_t high)
{
	if (bounded && high < (int64_t)low)
		return err_set(t->err, EINVAL, t->place,
			       "depth or within is less than the content's length");
	if (low > REPEAT_MAX || (bounded && high > REPEAT_MAX))
		return err_set(t->err, ENOTSUP, t->place,
			       "a distance above %d bytes is not supported", REPEAT_MAX);
	if (bounded && !high)
		return 0;
	if (bounded)
		fprintf(f, "(?s:.{%u,%u})", low, (unsigned int)high);
	else if (low)
		fprintf(f, "(?s:.{%u,})", low);
	else
		fputs("(?s:.*)", f);
	return 0;
}

/* Where the first of an expression may stand. */
static int put_position(struct rule_text *t, FILE *f, const struct rule_item *item)
{
	if (item->regex) {
		if (item->anchored)
			fputc('^', f);
		return 0;
	}
	/* Suricata looks at packets, too, where contents have a position, but not for pcre. */
	if (!item->has_depth && !item->offset)
		return 0;
	t->rule->positioned = true;
	fputc('^', f);
	return put_gap(t, f, item->offset, item->has_depth,
		       (int64_t)item->offset + item->depth - (int64_t)item->len);
}

static int put_distance(struct rule_text *t, FILE *f, const struct rule_item *item)
{
	/* ^ behind R: right behind the match before. */
	if (item->regex && (item->bytes[0] == '^' || item->anchored))
		return 0;
	return put_gap(t, f, item->distance, item->has_within,
		       (int64_t)item->distance + item->within - (int64_t)item->len);
}

static int put_item(struct rule_text *t, FILE *f, struct rule_item *item, bool first)
{
	int rc;

	if (item->relative && (item->has_offset || item->has_depth))
		return err_set(t->err, EINVAL, t->place,
			       "a content with both offset or depth and distance or within");
	rc = first ? put_position(t, f, item) : put_distance(t, f, item);
	if (rc)
		return rc;
	if (!item->regex) {
		put_content(f, item);
		return 0;
	}
	if (!first && item->bytes[0] == '^') {
		memmove(item->bytes, item->bytes + 1, item->len);
		item->len--;
	}
	put_regex(f, item);
	return 0;
}

/* The items from `i` that make one expression; returns how many, or -errno. */
static int put_chain(struct rule_text *t, unsigned int i, char **out)
{
	unsigned int n = 0;
	size_t size;
	FILE *f = open_memstream(out, &size);
	int rc = 0;

	if (!f)
		return err_set(t->err, ENOMEM, t->place, "out of memory for rules");
	/* The first of a rule is relative to the beginning. */
	do
		rc = put_item(t, f, &t->items[i + n], !n);
	while (!rc && i + ++n < t->n_items && t->items[i + n].relative);
	if (fclose(f) && !rc)
		rc = err_set(t->err, ENOMEM, t->place, "out of memory for rules");
	if (rc)
		free(*out);
	return rc ? rc : (int)n;
}

/* distance and within of the very first content count from the beginning, as offset and depth do.
 */
static void first_absolute(struct rule_item *item)
{
	if (!item->relative)
		return;
	item->relative = false;
	if (item->regex)
		return;
	item->has_offset = item->has_distance;
	item->offset = item->distance;
	item->has_depth = item->has_within;
	item->depth = item->within;
}

int rule_exprs_make(struct rule_text *t)
{
	struct rule *r = t->rule;
	int n;

	if (!t->items[0].has_offset && !t->items[0].has_depth)
		first_absolute(&t->items[0]);
	for (unsigned int i = 0; i < t->n_items; i += (unsigned int)n) {
		n = put_chain(t, i, &r->exprs[r->n_exprs]);
		if (n < 0)
			return n;
		r->n_exprs++;
	}
	return 0;
}
