/* SPDX-License-Identifier: Apache-2.0 */
#include "l3fwd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <rte_byteorder.h>
#include <rte_common.h>

/*
 * The routes of the list and of the file, of both families mixed, in the arrays that fib_load
 * takes. A file's line is `prefix [next-hop]`: without next hops, as dumps of routing tables have
 * it, they are given out round-robin over params.next_hops, in the order of the lines.
 */

#define LINE_BYTES 256
#define RANGES_TRIED_MAX (1u << 22) /* routes that are made only to look at the table */
#define SPARE(n) ((n) + (n) / 4 + 1024)

struct routes {
	uint8_t *keys, *lens;
	uint16_t *next_hops;
	uint32_t *places; /* index in params.routes, or number of routes there + line */
	size_t n, room;
};

struct loader {
	struct nf *nf;
	const struct l3fwd *l3;
	struct routes families[L3_FAMILIES];
	uint32_t line;
	uint32_t round_robin;
};

static const struct l3fwd_params *params(const struct loader *l)
{
	return l->nf->conf;
}

static const enum fib_key keys[] = {[L3_IPV4] = FIB_KEY_IPV4, [L3_IPV6] = FIB_KEY_IPV6};

static enum l3fwd_family family_of(const struct param_ip *ip)
{
	return ip->family == 4 ? L3_IPV4 : L3_IPV6;
}

int l3fwd_route(const struct param_ip *prefix, const char *path, struct fib_route *route,
		struct err *err)
{
	unsigned int bits = prefix->family == 4 ? 32 : 128;
	uint32_t v4;

	memset(route, 0, sizeof(*route));
	route->len = prefix->len;
	for (unsigned int bit = prefix->len; bit < bits; bit++)
		if (prefix->addr[bit / 8] & (0x80 >> bit % 8))
			return err_set(err, EINVAL, path,
				       "bits are set beyond the prefix length %u", prefix->len);
	if (prefix->family == 6) {
		memcpy(route->key, prefix->addr, 16);
		return 0;
	}
	memcpy(&v4, prefix->addr, sizeof(v4));
	v4 = rte_be_to_cpu_32(v4);
	memcpy(route->key, &v4, sizeof(v4));
	return 0;
}

static void *grow_one(void *array, size_t bytes, bool *ok)
{
	void *bigger = realloc(array, bytes);

	*ok = *ok && bigger;
	return bigger ? bigger : array;
}

static bool grow(struct routes *r, size_t key_bytes)
{
	size_t room = r->room ? r->room * 2 : 1024;
	bool ok = true;

	if (r->n < r->room)
		return true;
	r->keys = grow_one(r->keys, room * key_bytes, &ok);
	r->lens = grow_one(r->lens, room, &ok);
	r->next_hops = grow_one(r->next_hops, room * sizeof(*r->next_hops), &ok);
	r->places = grow_one(r->places, room * sizeof(*r->places), &ok);
	if (ok)
		r->room = room;
	return ok;
}

static int add(struct loader *l, const struct param_ip *prefix, uint64_t next_hop, uint32_t place,
	       const char *path, struct err *err)
{
	enum l3fwd_family family = family_of(prefix);
	struct routes *r = &l->families[family];
	size_t key_bytes = fib_key_bytes(keys[family]);
	struct fib_route route;
	int rc = l3fwd_route(prefix, path, &route, err);

	if (rc)
		return rc;
	if (params(l)->fib == FIB_EXACT && route.len != fib_key_bits(keys[family]))
		return err_set(err, EINVAL, path,
			       "a prefix of length %u; fib \"exact\" takes addresses only",
			       route.len);
	if (next_hop >= l->l3->n_next_hops)
		return err_set(err, EINVAL, path, "next hop %llu; next_hops has %u, counted from 0",
			       (unsigned long long)next_hop, l->l3->n_next_hops);
	if (!grow(r, key_bytes))
		return err_set(err, ENOMEM, path, "out of memory for %zu routes", r->n);
	memcpy(r->keys + r->n * key_bytes, route.key, key_bytes);
	r->lens[r->n] = route.len;
	r->next_hops[r->n] = (uint16_t)next_hop;
	r->places[r->n++] = place;
	return 0;
}

static int read_list(struct loader *l, struct err *err)
{
	const struct l3fwd_route_params *list = params(l)->routes.items;
	int rc = 0;

	for (uint32_t i = 0; i < params(l)->routes.count && !rc; i++) {
		char path[64];

		snprintf(path, sizeof(path), "params.routes[%u]", i);
		rc = add(l, &list[i].prefix, list[i].next_hop, i, path, err);
	}
	return rc;
}

static int read_line(struct loader *l, char *line, const char *place, struct err *err)
{
	char *save, *end, *prefix, *hop, *hash = strchr(line, '#');
	struct param_ip ip;
	unsigned long long nh;

	if (hash)
		*hash = '\0';
	prefix = strtok_r(line, " \t\r\n", &save);
	if (!prefix)
		return 0;
	hop = strtok_r(NULL, " \t\r\n", &save);
	if (strtok_r(NULL, " \t\r\n", &save))
		return err_set(err, EINVAL, place, "more than \"prefix next-hop\"");
	if (param_ip_parse(prefix, &ip))
		return err_set(err, EINVAL, place, "\"%.60s\" is not an IPv4 or IPv6 prefix",
			       prefix);
	if (!hop) {
		nh = l->round_robin++ % l->l3->n_next_hops;
	} else {
		nh = strtoull(hop, &end, 10);
		if (*hop < '0' || *hop > '9' || *end)
			return err_set(err, EINVAL, place,
				       "\"%.60s\" is not a next hop; next_hops has %u, counted from 0",
				       hop, l->l3->n_next_hops);
	}
	return add(l, &ip, nh, (uint32_t)params(l)->routes.count + l->line, place, err);
}

/* A truncated gzip file would otherwise read as a shorter table, or its last line as a wrong one. */
static int whole(const struct loader *l, gzFile gz, const char *file, struct err *err)
{
	int code;

	gzerror(gz, &code);
	if (code != Z_OK && code != Z_STREAM_END)
		return err_set(err, EINVAL, file, "damaged or truncated after line %u", l->line);
	return 0;
}

static int read_gz(struct loader *l, gzFile gz, const char *file, struct err *err)
{
	char line[LINE_BYTES], place[192];
	z_off_t at = 0, len;
	int rc = 0;

	while (!rc && gzgets(gz, line, sizeof(line))) {
		if (!strchr(line, '\n') && whole(l, gz, file, err))
			return -EINVAL;
		len = gztell(gz) - at;
		at += len;
		l->line++;
		snprintf(place, sizeof(place), "%s:%u", file, l->line);
		if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			return err_set(err, EINVAL, place, "line of more than %u characters",
				       LINE_BYTES - 2);
		if (strlen(line) != (size_t)len)
			return err_set(err, EINVAL, place, "a NUL byte: route files are text");
		rc = read_line(l, line, place, err);
	}
	return rc ? rc : whole(l, gz, file, err);
}

static int read_file(struct loader *l, struct err *err)
{
	const char *file = params(l)->routes_file;
	gzFile gz;
	int rc;

	if (!file)
		return 0;
	gz = gzopen(file, "rb");
	if (!gz)
		return err_set(err, EINVAL, file, "cannot open: %s", strerror(errno));
	rc = read_gz(l, gz, file, err);
	gzclose(gz);
	return rc;
}

static int load_error(const struct loader *l, uint32_t place, int rc, struct err *err)
{
	char path[192];

	if (place < params(l)->routes.count)
		snprintf(path, sizeof(path), "params.routes[%u]", place);
	else
		snprintf(path, sizeof(path), "%s:%u", params(l)->routes_file,
			 place - (uint32_t)params(l)->routes.count);
	return err_set(err, -rc, path, "%s", fib_strerror(rc));
}

/* As the table is when it is there to be looked at only: large enough for what was read. */
static int check_capacity(struct fib_conf *conf, uint64_t routes, struct err *err)
{
	int rc = fib_check(conf, "params.fib", err);

	conf->capacity = SPARE(routes);
	return rc;
}

static int load_family(const struct loader *l, struct l3fwd *l3, enum l3fwd_family family,
		       struct err *err)
{
	const struct routes *r = &l->families[family];
	const struct l3fwd_keys keys_read = {r->keys, r->n};
	uint64_t wanted = params(l)->capacity[family], bad = 0;
	uint64_t counted = l3fwd_ranges_count(params(l), family);
	bool ranges = !l->nf->checking || counted <= RANGES_TRIED_MAX;
	struct fib_conf conf = {
		.kind = params(l)->fib,
		.key = keys[family],
		.capacity = wanted ? wanted : SPARE(r->n) + counted,
		.max_next_hop = (uint16_t)RTE_MAX(l3->n_next_hops - 1, 1u),
		.socket = l->nf->socket_id,
	};
	int rc;

	if (!r->n && !wanted && !counted)
		return 0;
	l->nf->partial |= !ranges;
	if (r->n + counted > conf.capacity)
		return err_set(err, EINVAL,
			       family == L3_IPV4 ? "params.ipv4_capacity" : "params.ipv6_capacity",
			       "%llu is less than the %llu routes given",
			       (unsigned long long)wanted, (unsigned long long)(r->n + counted));
	rc = l3fwd_ranges_check(params(l), family, &keys_read, err);
	if (!rc && l->nf->checking)
		rc = check_capacity(&conf, r->n + (ranges ? counted : 0), err);
	if (!rc)
		rc = fib_create(&l3->fibs[family], &conf, "params.fib", err);
	if (rc)
		return rc;
	rc = r->n ? fib_load(l3->fibs[family], r->keys, r->lens, r->next_hops, r->n, &bad) : 0;
	if (rc)
		return load_error(l, r->places[bad], rc, err);
	return ranges ? l3fwd_ranges_load(params(l), family, l3->fibs[family], l3->n_next_hops, err)
		      : 0;
}

int l3fwd_load_routes(struct l3fwd *l3, struct nf *nf, struct err *err)
{
	struct loader l = {.nf = nf, .l3 = l3};
	int rc = read_list(&l, err);

	if (!rc)
		rc = read_file(&l, err);
	for (unsigned int i = 0; i < L3_FAMILIES; i++) {
		struct routes *r = &l.families[i];

		if (!rc)
			rc = load_family(&l, l3, i, err);
		free(r->keys);
		free(r->lens);
		free(r->next_hops);
		free(r->places);
	}
	return rc;
}
