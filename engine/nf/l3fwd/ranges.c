/* SPDX-License-Identifier: Apache-2.0 */
#include "l3fwd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>

/*
 * Routes by the thousand million, which no file holds. A table of them takes minutes to fill, so
 * whatever is wrong with a range is found by its ends, before there is a table.
 */

/* A range counts in the last 64 bits of its addresses, as fib_load_range does. */
struct span {
	uint64_t net, first, last;
};

static const struct l3fwd_range_params *range_at(const struct l3fwd_params *p, size_t i)
{
	return (const struct l3fwd_range_params *)p->ranges.items + i;
}

static bool is_of(const struct l3fwd_range_params *range, enum l3fwd_family family)
{
	return range->first.family == (family == L3_IPV4 ? 4 : 6);
}

/* An address in the tables' form as the number that ranges count. */
static struct span span_of(enum l3fwd_family family, const uint8_t *key, uint64_t count)
{
	struct span s = {0};
	uint64_t words[2];
	uint32_t v4;

	if (family == L3_IPV4) {
		memcpy(&v4, key, sizeof(v4));
		s.first = v4;
	} else {
		memcpy(words, key, sizeof(words));
		s.net = rte_be_to_cpu_64(words[0]);
		s.first = rte_be_to_cpu_64(words[1]);
	}
	s.last = s.first + (count - 1);
	return s;
}

static int check_range(const struct l3fwd_params *p, size_t i, enum l3fwd_family family,
		       struct span *s, struct err *err)
{
	const struct l3fwd_range_params *range = range_at(p, i);
	uint64_t highest = family == L3_IPV4 ? UINT32_MAX : UINT64_MAX;
	struct fib_route first;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "params.ranges[%zu]", i);
	rc = l3fwd_route(&range->first, path, &first, err);
	if (rc)
		return rc;
	if (first.len != (family == L3_IPV4 ? 32 : 128))
		return err_set(err, EINVAL, path, "a prefix of length %u; allowed: an address",
			       first.len);
	if (p->fib != FIB_EXACT)
		return err_set(err, EINVAL, path, "only with fib \"exact\"");
	*s = span_of(family, first.key, range->count);
	if (s->last < s->first || s->last > highest)
		return err_set(err, EINVAL, path, "address %llu of it: is past the last one",
			       (unsigned long long)(highest - s->first + 1));
	return 0;
}

/* The first address that both have is `at` in the later range, as far as there is one. */
static bool meet(const struct span *s, const struct span *other, uint64_t *at)
{
	uint64_t from = other->first > s->first ? other->first : s->first;

	*at = from - s->first;
	return s->net == other->net && from <= s->last && from <= other->last;
}

static int check_apart(const struct l3fwd_params *p, size_t i, enum l3fwd_family family,
		       const struct span *s, struct err *err)
{
	char path[64];
	uint64_t at;

	for (size_t j = 0; j < i; j++) {
		struct fib_route first;
		struct span other;

		if (!is_of(range_at(p, j), family))
			continue;
		l3fwd_route(&range_at(p, j)->first, "", &first, err); /* which was found right */
		other = span_of(family, first.key, range_at(p, j)->count);
		if (!meet(s, &other, &at))
			continue;
		snprintf(path, sizeof(path), "params.ranges[%zu]", i);
		return err_set(err, EEXIST, path,
			       "address %llu of it is in ranges[%zu], too; allowed: each address once",
			       (unsigned long long)at, j);
	}
	return 0;
}

static int check_routes(size_t i, enum l3fwd_family family, const struct span *s,
			const struct l3fwd_keys *routes, struct err *err)
{
	size_t key_bytes = family == L3_IPV4 ? 4 : 16;
	char path[64];
	uint64_t at;

	for (size_t r = 0; r < routes->n; r++) {
		struct span one = span_of(family, routes->keys + r * key_bytes, 1);

		if (!meet(s, &one, &at))
			continue;
		snprintf(path, sizeof(path), "params.ranges[%zu]", i);
		return err_set(err, EEXIST, path,
			       "address %llu of it has a route of its own, too; allowed: each address once",
			       (unsigned long long)at);
	}
	return 0;
}

int l3fwd_ranges_check(const struct l3fwd_params *p, enum l3fwd_family family,
		       const struct l3fwd_keys *routes, struct err *err)
{
	struct span s = {0};
	int rc = 0;

	for (size_t i = 0; i < p->ranges.count && !rc; i++) {
		if (!is_of(range_at(p, i), family))
			continue;
		rc = check_range(p, i, family, &s, err);
		if (!rc)
			rc = check_apart(p, i, family, &s, err);
		if (!rc)
			rc = check_routes(i, family, &s, routes, err);
	}
	return rc;
}

uint64_t l3fwd_ranges_count(const struct l3fwd_params *p, enum l3fwd_family family)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->ranges.count; i++)
		n += is_of(range_at(p, i), family) ? range_at(p, i)->count : 0;
	return n;
}

int l3fwd_ranges_load(const struct l3fwd_params *p, enum l3fwd_family family, struct fib *fib,
		      unsigned int next_hops, struct err *err)
{
	for (size_t i = 0; i < p->ranges.count; i++) {
		const struct l3fwd_range_params *range = range_at(p, i);
		struct fib_route first;
		uint64_t bad = 0;
		char path[64];
		int rc;

		if (!is_of(range, family))
			continue;
		snprintf(path, sizeof(path), "params.ranges[%zu]", i);
		rc = l3fwd_route(&range->first, path, &first, err);
		if (rc)
			return rc;
		rc = fib_load_range(fib, first.key, next_hops, range->count, &bad);
		if (rc)
			return err_set(err, -rc, path, "address %llu of it: %s",
				       (unsigned long long)bad, fib_strerror(rc));
	}
	return 0;
}
