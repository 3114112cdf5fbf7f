/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "xdp_ends.skel.h"

static const struct {
	const char *name;
	int (*load)(struct stage *s, const json_t *conf, struct problem *p);
} functions[] = {
	{"acl", acl_load}, {"l2fwd", l2fwd_load}, {"l3fwd", l3fwd_load},
	{"lb", lb_load},   {"nat", nat_load},
};

static int interface(const json_t *conf, const char *key, unsigned int *index, struct problem *p)
{
	const char *name;
	int rc = stage_text(conf, key, &name, p);

	if (rc)
		return rc;
	*index = if_nametoindex(name);
	return *index ? 0 : problem_is(p, -EINVAL, "%s: there is no interface %s", key, name);
}

static int load_stage(struct stage *s, const json_t *conf, const struct chain *before,
		      struct problem *p)
{
	const char *function;
	int rc = stage_text(conf, "function", &function, p);

	rc = rc ?: stage_text(conf, "name", &s->name, p);
	if (rc)
		return rc;
	for (unsigned int i = 0; before && i < before->n; i++)
		if (!strcmp(before->stages[i].name, s->name))
			s->other = &before->stages[i];
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, function))
			return functions[i].load(s, conf, p);
	return problem_is(p, -EINVAL, "function: \"%s\"; allowed: acl, l2fwd, l3fwd, lb, nat",
			  function);
}

static int load_stages(struct chain *c, const json_t *conf, const struct chain *before,
		       struct problem *p)
{
	const json_t *one, *given = json_object_get(conf, "functions");
	int rc = 0;
	size_t i;

	if (json_array_size(given) > STAGES_MAX)
		return problem_is(p, -EINVAL, "functions: more than %d", STAGES_MAX);
	json_array_foreach(given, i, one) {
		rc = load_stage(&c->stages[c->n++], one, before, p);
		if (rc)
			break;
	}
	return rc;
}

/* From the entry over each function to the exit. */
static int join(struct chain *c, struct problem *p)
{
	int next = bpf_map__fd(c->ends->maps.next), rc = 0;
	__u32 zero = 0;

	for (unsigned int i = 0; i <= c->n && !rc; i++) {
		int to = i < c->n ? c->stages[i].program : bpf_program__fd(c->ends->progs.leave);

		if (bpf_map_update_elem(next, &zero, &to, BPF_ANY))
			rc = stage_refused(-errno, "a tail call", p);
		next = c->stages[i].next;
	}
	if (!rc && bpf_map_update_elem(bpf_map__fd(c->ends->maps.out), &zero, &c->leave, BPF_ANY))
		rc = stage_refused(-errno, "leave", p);
	return rc;
}

int chain_load(struct chain *c, const json_t *conf, const struct chain *before, struct problem *p)
{
	int rc = stage_text(conf, "direction", &c->direction, p);

	c->link = -1;
	rc = rc ?: interface(conf, "enter", &c->enter, p);
	rc = rc ?: interface(conf, "leave", &c->leave, p);
	if (rc)
		return rc;
	c->ends = xdp_ends_bpf__open_and_load();
	if (!c->ends)
		return stage_refused(-errno, "ends", p);
	rc = load_stages(c, conf, before, p);
	return rc ?: join(c, p);
}

int chain_attach(struct chain *c, bool generic, struct problem *p)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	char name[IF_NAMESIZE] = "";

	c->link = bpf_link_create(bpf_program__fd(c->ends->progs.enter), (int)c->enter, BPF_XDP,
				  &opts);
	if (c->link >= 0)
		return 0;
	return problem_is(p, -errno, "%s: its driver takes no XDP program%s: %s",
			  if_indextoname(c->enter, name) ?: "?", generic ? "" : " of its own mode",
			  strerror(errno));
}

void chain_fini(struct chain *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		if (c->stages[i].own)
			c->stages[i].close(c->stages[i].own);
	xdp_ends_bpf__destroy(c->ends);
}

static json_int_t total(int counts, __u32 what)
{
	int cpus = libbpf_num_possible_cpus();
	__u64 *each = calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*each)), sum = 0;

	if (each && !bpf_map_lookup_elem(counts, &what, each))
		for (int i = 0; i < cpus; i++)
			sum += each[i];
	free(each);
	return (json_int_t)sum;
}

static void put(json_t *to, const struct chain *c, const char *what, json_int_t value)
{
	char name[160];

	snprintf(name, sizeof(name), "%s/%s", c->direction, what);
	json_object_set_new(to, name, json_integer(value));
}

void chain_counters(const struct chain *c, json_t *to)
{
	struct bpf_prog_info info = {0};
	__u32 bytes = sizeof(info);
	char name[128];

	put(to, c, "in", total(bpf_map__fd(c->ends->maps.counts), END_PACKETS));
	for (unsigned int i = 0; i < c->n; i++) {
		const struct stage *s = &c->stages[i];

		for (__u32 n = 0; s->count[n]; n++) {
			snprintf(name, sizeof(name), "%s/%s", s->name, s->count[n]);
			put(to, c, name, total(s->counts, n));
		}
	}
	/* With all that was tail-called, as far as run times were taken (main.c). */
	if (!bpf_obj_get_info_by_fd(bpf_program__fd(c->ends->progs.enter), &info, &bytes)) {
		put(to, c, "timed", (json_int_t)info.run_cnt);
		put(to, c, "timed-ns", (json_int_t)info.run_time_ns);
	}
}
