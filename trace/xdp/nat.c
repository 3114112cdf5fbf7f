/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/in.h>
#include <string.h>

#include "stage.h"
#include "xdp_nat.skel.h"

static const char *const names[NAT_COUNTS + 1] = {
	[NAT_PORTS_EXHAUSTED] = "ports-exhausted",
	[NAT_NO_MAPPING] = "no-mapping",
	[NAT_FRAGMENT] = "fragment",
	[NAT_UNSUPPORTED] = "unsupported-protocol",
	[NAT_MALFORMED] = "malformed",
	[NAT_NEW] = "new-sessions",
};

static void nat_close(void *own)
{
	xdp_nat_bpf__destroy(own);
}

static int address(const json_t *text, __u32 *to, struct problem *p)
{
	const char *given = json_string_value(text);

	if (given && inet_pton(AF_INET, given, to) == 1)
		return 0;
	return problem_is(p, -EINVAL, "nat: \"%s\"; allowed: an IPv4 address", given ?: "");
}

static int set_pool(struct xdp_nat_bpf *skel, const json_t *conf, struct problem *p)
{
	const json_t *one, *pool = json_object_get(conf, "pool");
	__u32 addr;
	size_t i;

	if (!json_array_size(pool) || json_array_size(pool) > NAT_POOL_MAX)
		return problem_is(p, -EINVAL, "pool: allowed: 1 to %d addresses", NAT_POOL_MAX);
	skel->rodata->pool_size = (__u32)json_array_size(pool);
	json_array_foreach(pool, i, one) {
		int rc = address(one, &addr, p);

		if (rc)
			return rc;
		skel->rodata->pool[i] = addr;
	}
	return 0;
}

/* Prefixes are given as [address, bits]. */
static int set_inside(struct xdp_nat_bpf *skel, const json_t *conf, struct problem *p)
{
	const json_t *one, *inside = json_object_get(conf, "inside");
	size_t i;

	if (json_array_size(inside) > NAT_INSIDE_MAX)
		return problem_is(p, -EINVAL, "inside: allowed: %d prefixes", NAT_INSIDE_MAX);
	skel->rodata->n_inside = (__u32)json_array_size(inside);
	json_array_foreach(inside, i, one) {
		json_int_t bits = json_integer_value(json_array_get(one, 1));
		struct nat_prefix prefix;
		int rc = address(json_array_get(one, 0), &prefix.addr, p);

		if (rc)
			return rc;
		prefix.mask = bits ? htonl(~0u << (32 - bits)) : 0;
		skel->rodata->inside[i] = prefix;
	}
	return 0;
}

static int set_constants(struct xdp_nat_bpf *skel, const json_t *conf, bool outward,
			 struct problem *p)
{
	json_int_t min = json_integer_value(json_object_get(conf, "port_min"));
	json_int_t max = json_integer_value(json_object_get(conf, "port_max"));
	json_int_t sessions = json_integer_value(json_object_get(conf, "sessions"));
	int rc = set_pool(skel, conf, p);

	rc = rc ?: set_inside(skel, conf, p);
	if (!rc && (min < 1 || max > 65535 || min > max || sessions < 1 || sessions > 1 << 27))
		rc = problem_is(p, -EINVAL, "nat: port_min, port_max or sessions");
	skel->rodata->outward = outward;
	skel->rodata->port_min = (__u32)min;
	skel->rodata->ports = (__u32)(max - min + 1);
	skel->rodata->secret = (__u32)json_integer_value(json_object_get(conf, "seed"));
	/* An LRU map evicts before it is full, as each CPU has free entries of its own. */
	bpf_map__set_max_entries(skel->maps.sessions, (__u32)sessions * 4);
	return rc;
}

static int add_statics(struct xdp_nat_bpf *skel, const json_t *given, struct problem *p)
{
	int map = bpf_map__fd(skel->maps.statics), rc = 0;
	const json_t *one;
	size_t i;

	json_array_foreach(given, i, one) {
		__u8 proto = stage_is(one, "protocol", "tcp") ? IPPROTO_TCP : IPPROTO_UDP;
		struct nat_end in = {0}, out = {0};
		struct nat_static from_in, from_out;

		rc = address(json_object_get(one, "inside"), &in.addr, p);
		rc = rc ?: address(json_object_get(one, "outside"), &out.addr, p);
		if (rc)
			return rc;
		in.port = htons((__u16)json_integer_value(json_object_get(one, "inside_port")));
		out.port = htons((__u16)json_integer_value(json_object_get(one, "outside_port")));
		from_in = (struct nat_static){in.addr, in.port, proto, 1};
		from_out = (struct nat_static){out.addr, out.port, proto, 0};
		if (bpf_map_update_elem(map, &from_in, &out, BPF_ANY) ||
		    bpf_map_update_elem(map, &from_out, &in, BPF_ANY))
			return stage_refused(-errno, "static", p);
	}
	return rc;
}

/* The second direction of a function has the maps of its first one. */
static int share(struct xdp_nat_bpf *skel, const struct stage *other)
{
	struct xdp_nat_bpf *has = other->own;
	int rc = bpf_map__reuse_fd(skel->maps.sessions, bpf_map__fd(has->maps.sessions));

	return rc ?: bpf_map__reuse_fd(skel->maps.statics, bpf_map__fd(has->maps.statics));
}

int nat_load(struct stage *s, const json_t *conf, struct problem *p)
{
	struct xdp_nat_bpf *skel = xdp_nat_bpf__open();
	const json_t *statics = json_object_get(conf, "static");
	int rc;

	s->count = names;
	s->close = nat_close;
	s->own = skel;
	if (!skel)
		return stage_refused(-errno, s->name, p);
	rc = set_constants(skel, conf, json_is_true(json_object_get(conf, "outward")), p);
	if (rc)
		return rc;
	bpf_map__set_max_entries(skel->maps.statics, 2 * (__u32)json_array_size(statics) + 1);
	rc = s->other ? share(skel, s->other) : 0;
	rc = rc ?: xdp_nat_bpf__load(skel);
	if (rc)
		return stage_refused(rc, s->name, p);
	s->program = bpf_program__fd(skel->progs.nat);
	s->next = bpf_map__fd(skel->maps.next);
	s->counts = bpf_map__fd(skel->maps.counts);
	return s->other ? 0 : add_statics(skel, statics, p);
}
