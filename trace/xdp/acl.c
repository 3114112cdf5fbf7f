/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "rules.h"
#include "stage.h"
#include "xdp_acl.skel.h"

static const char *const names[ACL_COUNTS + 1] = {
	[ACL_DENIED] = "denied",        [ACL_BY_DEFAULT] = "denied-by-default",
	[ACL_NON_IP] = "denied-non-ip", [ACL_FRAGMENT] = "denied-fragment",
	[ACL_MALFORMED] = "malformed",
};

static void acl_close(void *own)
{
	xdp_acl_bpf__destroy(own);
}

static void set_constants(struct xdp_acl_bpf *skel, const json_t *conf, const struct rule_sets *s)
{
	skel->rodata->words = s->words;
	skel->rodata->permits = s->permits;
	skel->rodata->any_ports = s->any_ports;
	skel->rodata->default_permits = stage_is(conf, "default", "permit");
	skel->rodata->non_ip_permits = !stage_is(conf, "non_ip", "deny");
	skel->rodata->fragments_permits = !stage_is(conf, "fragments", "deny");
	memcpy(skel->bss->of_proto, s->of_proto, sizeof(s->of_proto));
	memcpy(skel->bss->of_sport, s->of_sport, sizeof(s->of_sport));
	memcpy(skel->bss->of_dport, s->of_dport, sizeof(s->of_dport));
	bpf_map__set_value_size(skel->maps.sets, s->words * sizeof(*s->sets));
	bpf_map__set_max_entries(skel->maps.sets, s->n);
	bpf_map__set_max_entries(skel->maps.src4, s->src4.n);
	bpf_map__set_max_entries(skel->maps.dst4, s->dst4.n);
	bpf_map__set_max_entries(skel->maps.src6, s->src6.n);
	bpf_map__set_max_entries(skel->maps.dst6, s->dst6.n);
}

static int fill(struct xdp_acl_bpf *skel, const struct rule_sets *s, struct problem *p)
{
	int rc = stage_copy(skel->maps.sets, s->sets, (size_t)s->n * s->words * sizeof(*s->sets),
			    p);

	rc = rc ?: stage_copy_lpm(skel->maps.src4, &s->src4, p);
	rc = rc ?: stage_copy_lpm(skel->maps.dst4, &s->dst4, p);
	rc = rc ?: stage_copy_lpm(skel->maps.src6, &s->src6, p);
	return rc ?: stage_copy_lpm(skel->maps.dst6, &s->dst6, p);
}

static int load(struct stage *s, const json_t *conf, const struct rule_sets *sets,
		struct problem *p)
{
	struct xdp_acl_bpf *skel = xdp_acl_bpf__open();
	int rc;

	if (!skel)
		return stage_refused(-errno, s->name, p);
	s->own = skel;
	set_constants(skel, conf, sets);
	rc = xdp_acl_bpf__load(skel);
	if (rc)
		return stage_refused(rc, s->name, p);
	s->program = bpf_program__fd(skel->progs.acl);
	s->next = bpf_map__fd(skel->maps.next);
	s->counts = bpf_map__fd(skel->maps.counts);
	return fill(skel, sets, p);
}

int acl_load(struct stage *s, const json_t *conf, struct problem *p)
{
	struct rule_sets *sets = calloc(1, sizeof(*sets));
	struct rule *rules = NULL;
	const char *file;
	uint32_t n;
	int rc = stage_text(conf, "rules", &file, p);

	s->count = names;
	s->close = acl_close;
	rc = rc ?: rules_read(file, &rules, &n, p);
	if (!rc && (!sets || rule_sets_build(sets, rules, n)))
		rc = problem_is(p, -ENOMEM, "%s: no memory for its rules", s->name);
	rc = rc ?: load(s, conf, sets, p);
	if (sets)
		rule_sets_fini(sets);
	free(sets);
	free(rules);
	return rc;
}
