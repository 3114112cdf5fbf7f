/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"
#include "xdp_l3fwd.skel.h"

static const char *const names[L3_COUNTS + 1] = {
	[L3_NO_ROUTE] = "no-route",
	[L3_TTL_EXPIRED] = "ttl-expired",
	[L3_BAD_CHECKSUM] = "bad-checksum",
	[L3_MARTIAN] = "martian",
	[L3_MULTICAST] = "multicast",
	[L3_LINK_MULTICAST] = "link-multicast",
	[L3_NOT_IP] = "not-ip",
	[L3_MALFORMED] = "malformed",
};

enum { IPV4, IPV6, FAMILIES };

struct routes {
	struct lpm_prefix *prefixes[FAMILIES];
	uint32_t n[FAMILIES], room[FAMILIES];
	struct lpm table[FAMILIES];
};

static void l3fwd_close(void *own)
{
	xdp_l3fwd_bpf__destroy(own);
}

static struct lpm_prefix *another(struct routes *r, int family)
{
	if (r->n[family] == r->room[family]) {
		uint32_t room = r->room[family] ? r->room[family] * 2 : 256;
		void *more = reallocarray(r->prefixes[family], room, sizeof(struct lpm_prefix));

		if (!more)
			return NULL;
		r->prefixes[family] = more;
		r->room[family] = room;
	}
	return memset(&r->prefixes[family][r->n[family]++], 0, sizeof(struct lpm_prefix));
}

/* `ADDRESS/BITS HOP`. */
static int read_route(struct routes *r, const char *line, uint32_t hops)
{
	char address[64];
	unsigned int bits, hop;
	struct lpm_prefix *to;
	int family;

	if (sscanf(line, "%63[^/]/%u %u", address, &bits, &hop) != 3 || hop >= hops)
		return -EINVAL;
	family = strchr(address, ':') ? IPV6 : IPV4;
	to = another(r, family);
	if (!to)
		return -ENOMEM;
	to->bits = (uint8_t)bits;
	to->value = hop + 1;
	if (bits > (family == IPV4 ? 32 : 128) ||
	    inet_pton(family == IPV4 ? AF_INET : AF_INET6, address, to->addr) != 1)
		return -EINVAL;
	return 0;
}

static int read_routes(struct routes *r, const char *file, uint32_t hops, struct problem *p)
{
	FILE *f = fopen(file, "re");
	char line[128];
	int rc = 0;

	if (!f)
		return problem_is(p, -errno, "%s: %s", file, strerror(errno));
	for (unsigned int i = 1; !rc && fgets(line, sizeof(line), f); i++) {
		rc = read_route(r, line, hops);
		if (rc)
			problem_is(p, rc, "%s: line %u is no route", file, i);
	}
	fclose(f);
	for (int family = 0; family < FAMILIES && !rc; family++) {
		rc = lpm_init(&r->table[family]);
		rc = rc ?: lpm_fill(&r->table[family], r->prefixes[family], r->n[family]);
		if (rc)
			problem_is(p, rc, "%s: no memory for its routes", file);
	}
	return rc;
}

static int fill_hops(struct xdp_l3fwd_bpf *skel, const json_t *hops, struct problem *p)
{
	const json_t *one;
	size_t i;

	json_array_foreach(hops, i, one) {
		__u32 key = (__u32)i;
		struct macs macs;
		int rc = stage_mac(one, "dst_mac", macs.dst, p);

		rc = rc ?: stage_mac(one, "src_mac", macs.src, p);
		if (!rc && bpf_map_update_elem(bpf_map__fd(skel->maps.hops), &key, &macs, BPF_ANY))
			rc = stage_refused(-errno, "next_hops", p);
		if (rc)
			return rc;
	}
	return 0;
}

static int load(struct stage *s, const json_t *conf, const struct routes *r, struct problem *p)
{
	struct xdp_l3fwd_bpf *skel = xdp_l3fwd_bpf__open();
	const json_t *hops = json_object_get(conf, "next_hops");
	int rc;

	if (!skel)
		return stage_refused(-errno, s->name, p);
	s->own = skel;
	skel->rodata->verify_checksum = json_is_true(json_object_get(conf, "verify_checksum"));
	skel->rodata->forward_martians = stage_is(conf, "martians", "forward");
	skel->rodata->pass_not_ip = stage_is(conf, "not_ip", "pass");
	bpf_map__set_max_entries(skel->maps.hops, (__u32)json_array_size(hops));
	bpf_map__set_max_entries(skel->maps.routes4, r->table[IPV4].n);
	bpf_map__set_max_entries(skel->maps.routes6, r->table[IPV6].n);
	rc = xdp_l3fwd_bpf__load(skel);
	if (rc)
		return stage_refused(rc, s->name, p);
	s->program = bpf_program__fd(skel->progs.l3fwd);
	s->next = bpf_map__fd(skel->maps.next);
	s->counts = bpf_map__fd(skel->maps.counts);
	rc = fill_hops(skel, hops, p);
	rc = rc ?: stage_copy_lpm(skel->maps.routes4, &r->table[IPV4], p);
	return rc ?: stage_copy_lpm(skel->maps.routes6, &r->table[IPV6], p);
}

int l3fwd_load(struct stage *s, const json_t *conf, struct problem *p)
{
	size_t hops = json_array_size(json_object_get(conf, "next_hops"));
	struct routes r = {0};
	const char *file;
	int rc = stage_text(conf, "routes", &file, p);

	s->count = names;
	s->close = l3fwd_close;
	if (!rc && (!hops || hops > HOPS_MAX))
		rc = problem_is(p, -EINVAL, "next_hops: %zu; allowed: 1 to %d", hops, HOPS_MAX);
	rc = rc ?: read_routes(&r, file, (uint32_t)hops, p);
	rc = rc ?: load(s, conf, &r, p);
	for (int family = 0; family < FAMILIES; family++) {
		free(r.prefixes[family]);
		lpm_fini(&r.table[family]);
	}
	return rc;
}
