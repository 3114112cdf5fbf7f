/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

#include "maglev.h"
#include "stage.h"
#include "xdp_lb.skel.h"

static const char *const names[LB_COUNTS + 1] = {
	[LB_NO_BACKEND] = "no-backend", [LB_NOT_FOR_VIP] = "not-for-vip",
	[LB_FRAGMENT] = "fragment",     [LB_MALFORMED] = "malformed",
	[LB_BALANCED] = "balanced",
};
static const __u8 protocols[] = {IPPROTO_TCP, IPPROTO_UDP};

static void lb_close(void *own)
{
	xdp_lb_bpf__destroy(own);
}

static int address(const json_t *conf, __u32 *to, struct problem *p)
{
	const char *text;
	int rc = stage_text(conf, "address", &text, p);

	if (!rc && inet_pton(AF_INET, text, to) != 1)
		rc = problem_is(p, -EINVAL, "lb: \"%s\"; allowed: an IPv4 address", text);
	return rc;
}

static __u16 port_of(const json_t *conf)
{
	return htons((__u16)json_integer_value(json_object_get(conf, "port")));
}

static bool has(const json_t *vip, __u8 proto)
{
	return !stage_is(vip, "protocol", proto == IPPROTO_TCP ? "udp" : "tcp");
}

static int put(const struct bpf_map *map, const void *key, const void *value, struct problem *p)
{
	if (!bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY))
		return 0;
	return stage_refused(-errno, bpf_map__name(map), p);
}

static int add_vip(struct xdp_lb_bpf *skel, const json_t *vip, __u32 number, struct problem *p)
{
	struct lb_key key = {0};
	__u32 value = LB_ADDRESS;
	int rc = address(vip, &key.addr, p);

	rc = rc ?: put(skel->maps.vips, &key, &value, p);
	key.port = port_of(vip);
	value = number + 1;
	for (size_t i = 0; i < sizeof(protocols) && !rc; i++) {
		key.proto = protocols[i];
		if (has(vip, key.proto))
			rc = put(skel->maps.vips, &key, &value, p);
	}
	return rc;
}

static int add_backend(struct xdp_lb_bpf *skel, const json_t *vip, const json_t *one, __u32 number,
		       struct problem *p)
{
	struct lb_backend b = {.port = port_of(one), .vip_port = port_of(vip)};
	struct lb_key key = {.port = b.port ?: b.vip_port};
	int rc = address(one, &b.addr, p);

	rc = rc ?: address(vip, &b.vip_addr, p);
	rc = rc ?: put(skel->maps.backends, &number, &b, p);
	key.addr = b.addr;
	for (size_t i = 0; i < sizeof(protocols) && !rc; i++) {
		key.proto = protocols[i];
		if (has(vip, key.proto))
			rc = put(skel->maps.by_backend, &key, &number, p);
	}
	return rc;
}

/* A VIP's table, behind those of the VIPs before it. `first`: the number of its first backend. */
static int fill_table(struct xdp_lb_bpf *skel, const json_t *backends, __u32 vip, __u32 first,
		      struct problem *p)
{
	__u32 entries = skel->rodata->entries, n = (__u32)json_array_size(backends);
	struct maglev_member *members = calloc(n + 1ul, sizeof(*members));
	__u32 *table = calloc(entries, sizeof(*table));
	int rc = members && table ? 0 : problem_is(p, -ENOMEM, "lb: no memory for its tables");

	for (__u32 i = 0; i < n && !rc; i++) {
		const json_t *one = json_array_get(backends, i), *weight;
		__u32 addr = 0;

		rc = address(one, &addr, p);
		weight = json_object_get(one, "weight");
		members[i].name = (__u64)ntohl(addr) << 16 | ntohs(port_of(one));
		members[i].weight = weight ? (__u32)json_integer_value(weight) : 1;
		members[i].value = first + i + 1;
	}
	if (!rc && maglev_fill(table, entries, members, n))
		rc = problem_is(p, -ENOMEM, "lb: no memory for its tables");
	for (__u32 i = 0; i < entries && !rc; i++) {
		__u32 at = vip * entries + i;

		if (table[i])
			rc = put(skel->maps.table, &at, &table[i], p);
	}
	free(members);
	free(table);
	return rc;
}

static int fill(struct xdp_lb_bpf *skel, const json_t *vips, struct problem *p)
{
	const json_t *vip, *one;
	__u32 number = 0;
	size_t v, i;
	int rc = 0;

	json_array_foreach(vips, v, vip) {
		const json_t *backends = json_object_get(vip, "backends");
		__u32 first = number;

		rc = add_vip(skel, vip, (__u32)v, p);
		json_array_foreach(backends, i, one)
			rc = rc ?: add_backend(skel, vip, one, number++, p);
		rc = rc ?: fill_table(skel, backends, (__u32)v, first, p);
		if (rc)
			break;
	}
	return rc;
}

static __u32 count_backends(const json_t *vips)
{
	const json_t *vip;
	size_t v, n = 0;

	json_array_foreach(vips, v, vip)
		n += json_array_size(json_object_get(vip, "backends"));
	return (__u32)n;
}

int lb_load(struct stage *s, const json_t *conf, struct problem *p)
{
	struct xdp_lb_bpf *skel = xdp_lb_bpf__open();
	const json_t *vips = json_object_get(conf, "vips");
	__u32 n = count_backends(vips), n_vips = (__u32)json_array_size(vips);
	json_int_t entries = json_integer_value(json_object_get(conf, "table_size"));
	int rc;

	s->count = names;
	s->close = lb_close;
	s->own = skel;
	if (!skel)
		return stage_refused(-errno, s->name, p);
	if (!n_vips || entries < 3 || entries * n_vips > 1 << 26)
		return problem_is(p, -EINVAL, "lb: vips or table_size");
	skel->rodata->forward = json_is_true(json_object_get(conf, "forward"));
	skel->rodata->drop_other = stage_is(conf, "other", "drop");
	skel->rodata->entries = (__u32)entries;
	bpf_map__set_max_entries(skel->maps.vips, n_vips * 3);
	bpf_map__set_max_entries(skel->maps.by_backend, n * 2 + 1);
	bpf_map__set_max_entries(skel->maps.backends, n + 1);
	bpf_map__set_max_entries(skel->maps.table, (__u32)entries * n_vips);
	rc = xdp_lb_bpf__load(skel);
	if (rc)
		return stage_refused(rc, s->name, p);
	s->program = bpf_program__fd(skel->progs.lb);
	s->next = bpf_map__fd(skel->maps.next);
	s->counts = bpf_map__fd(skel->maps.counts);
	return fill(skel, vips, p);
}
