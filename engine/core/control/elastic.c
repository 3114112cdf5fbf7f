/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about elastic segments, and what `read` says of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/setup/elastic_move.h"
#include "control.h"

static int named_segment(struct engine *e, const json_t *req, unsigned int *out, struct err *err)
{
	const char *name = json_string_value(json_object_get(req, "segment"));

	if (!name)
		return err_set(err, EINVAL, "segment", "is missing");
	for (unsigned int i = 0; i < e->plan->n_segments; i++) {
		if (strcmp(e->plan->segments[i].name, name))
			continue;
		*out = i;
		return e->elastic[i] ? 0
				     : err_set(err, ENOTSUP, "segment", "\"%.40s\" is not elastic", name);
	}
	return err_set(err, EINVAL, "segment", "there is no segment \"%.40s\"", name);
}

static int listed_buckets(const json_t *list, uint8_t replica, uint8_t to[PKT_BUCKETS], struct err *err)
{
	char path[32];
	size_t i;
	json_t *v;

	if (!json_is_array(list) || !json_array_size(list))
		return err_set(err, EINVAL, "buckets", "must be a list of numbers, 0 to %d", PKT_BUCKETS - 1);
	json_array_foreach((json_t *)list, i, v) {
		json_int_t bucket = json_integer_value(v);

		snprintf(path, sizeof(path), "buckets[%zu]", i);
		if (!json_is_integer(v) || bucket < 0 || bucket >= PKT_BUCKETS)
			return err_set(err, EINVAL, path, "must be a whole number, 0 to %d",
				       PKT_BUCKETS - 1);
		to[bucket] = replica;
	}
	return 0;
}

int elastic_cmd_move(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	const json_t *to = json_object_get(req, "to");
	struct elastic_moved moved = {0};
	uint8_t owners[PKT_BUCKETS];
	unsigned int segment = 0, n, within_ms;
	int rc = named_segment(e, req, &segment, err);

	if (!rc)
		rc = elastic_within(req, &within_ms, err);
	if (rc)
		return rc;
	n = e->plan->segments[segment].n_cpus;
	if (!json_is_integer(to) || json_integer_value(to) < 0 || json_integer_value(to) >= n)
		return err_set(err, EINVAL, "to", "must be a replica that runs, 0 to %u", n - 1);
	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		owners[b] = atomic_load_explicit(&e->elastic[segment]->owners[b], memory_order_relaxed);
	rc = listed_buckets(json_object_get(req, "buckets"), (uint8_t)json_integer_value(to), owners, err);
	if (!rc)
		rc = elastic_move(e, segment, owners, within_ms, &moved, err);
	if (rc)
		return rc;
	*reply = elastic_moved_json(e->plan->segments[segment].name, &moved);
	json_object_set_new(*reply, "ok", json_true());
	return 0;
}

/* Packets steered by bucket, of all writers. */
static void add_steered(struct engine *e, const struct elastic *elastic, uint64_t packets[PKT_BUCKETS])
{
	for (unsigned int s = 0; s < e->plan->n_segments; s++)
		for (unsigned int i = 0; i < e->plan->segments[s].n_replicas; i++) {
			const struct replica *r = e->replicas[s][i];

			for (unsigned int o = 0; o < r->n_outlets; o++) {
				const struct elastic_way *way = r->outlets[o].way;

				if (!way || elastic_of(way) != elastic)
					continue;
				for (unsigned int b = 0; b < PKT_BUCKETS; b++)
					packets[b] += way->packets[b];
			}
		}
}

int elastic_cmd_buckets(struct engine *e, const json_t *req, json_t **reply, struct err *err)
{
	json_t *owners, *packets;
	uint64_t steered[PKT_BUCKETS] = {0};
	unsigned int segment = 0;
	int rc = named_segment(e, req, &segment, err);

	if (rc)
		return rc;
	add_steered(e, e->elastic[segment], steered);
	owners = json_array();
	packets = json_array();
	for (unsigned int b = 0; b < PKT_BUCKETS; b++) {
		json_array_append_new(owners, json_integer(atomic_load(&e->elastic[segment]->owners[b])));
		json_array_append_new(packets, json_integer((json_int_t)steered[b]));
	}
	*reply = json_pack("{s:b, s:o, s:o}", "ok", 1, "owners", owners, "packets", packets);
	return 0;
}

json_t *elastic_json(const struct elastic *elastic, unsigned int replica, bool rests)
{
	unsigned int n = 0;

	for (unsigned int b = 0; b < PKT_BUCKETS; b++)
		n += atomic_load_explicit(&elastic->owners[b], memory_order_relaxed) == replica;
	return json_pack("{s:i, s:b}", "buckets", (int)n, "rests", rests);
}

json_t *elastic_way_json(const struct elastic_way *way)
{
	return json_pack("{s:I, s:I, s:i}", "waited", (json_int_t)way->waited, "most", (json_int_t)way->most,
			 "now", (int)way->n);
}
