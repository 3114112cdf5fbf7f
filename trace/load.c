/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "names.h"
#include "shared.h"

static void leave_out(struct tracer *t, struct bpf_program *p, const char *why)
{
	struct left_out *l;

	if (t->n_left_out == PROGRAMS_MAX)
		return;
	l = &t->left_out[t->n_left_out++];
	l->program = bpf_program__section_name(p);
	snprintf(l->why, sizeof(l->why), "%s", why);
}

static bool is_fentry(const struct bpf_program *p)
{
	return !strncmp(bpf_program__section_name(p), "fentry/", 7);
}

static bool btf_has(const struct btf *btf, const char *name, uint32_t kind)
{
	return btf && btf__find_by_name_kind(btf, name, kind) >= 0;
}

/* Functions of modules are in the modules' own BTF. */
static bool module_has(struct btf *vmlinux, const char *function)
{
	DIR *d = opendir("/sys/kernel/btf");
	struct dirent *e;
	struct btf *btf;
	bool found = false;

	if (!d)
		return false;
	while (!found && (e = readdir(d))) {
		if (e->d_name[0] == '.' || !strcmp(e->d_name, "vmlinux"))
			continue;
		btf = btf__load_module_btf(e->d_name, vmlinux);
		found = !libbpf_get_error(btf) && btf_has(btf, function, BTF_KIND_FUNC);
		btf__free(btf);
	}
	closedir(d);
	return found;
}

static bool tracepoint_exists(const struct btf *btf, const char *section)
{
	char name[128];

	snprintf(name, sizeof(name), "btf_trace_%s", strchr(section, '/') + 1);
	return btf_has(btf, name, BTF_KIND_TYPEDEF);
}

/* Programs that would make the load of all fail are not even tried. */
static void choose(struct tracer *t, const struct options *o, struct btf *btf)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, t->skel->obj)
	{
		const char *section = bpf_program__section_name(p);
		const char *target = strchr(section, '/') + 1;

		if (is_fentry(p) && o->backend != BACKEND_FENTRY) {
			bpf_program__set_autoload(p, false);
		} else if (is_fentry(p) && !btf_has(btf, target, BTF_KIND_FUNC) &&
			   !module_has(btf, target)) {
			leave_out(t, p, "no such function in this kernel, or inlined");
			bpf_program__set_autoload(p, false);
		} else if (!is_fentry(p) && !tracepoint_exists(btf, section)) {
			leave_out(t, p, "no such tracepoint in this kernel");
			bpf_program__set_autoload(p, false);
		} else if (!o->softirq && !strncmp(target, "softirq_", 8)) {
			bpf_program__set_autoload(p, false);
		}
	}
}

static void set_constants(struct tracer_bpf *skel, const struct options *o, bool direct_reads)
{
	int cpus = libbpf_num_possible_cpus();

	skel->rodata->direct_reads = direct_reads;
	skel->rodata->slot_mask = o->packets - 1;
	skel->rodata->hist_mask = o->histograms - 1;
	skel->rodata->expiry_ns = o->expiry_ms * 1000000ull;
	skel->rodata->sample_all = o->sample >= 1;
	skel->rodata->sample_threshold = o->sample * UINT32_MAX;
	skel->rodata->slow_ns = o->slow_ns;
	skel->rodata->emit_paths = o->paths;
	skel->rodata->bare_head = o->bare_head;
	skel->rodata->audit = o->audit;
	skel->rodata->idle = o->idle;
	skel->rodata->only_proto = o->proto;
	skel->rodata->only_port = o->port;
	skel->rodata->only_addr = o->addr;
	skel->rodata->outside_ops[0] = names_symbol("tun_netdev_ops");
	skel->rodata->outside_ops[1] = names_symbol("tap_netdev_ops");
	bpf_map__set_max_entries(skel->maps.slots, o->packets);
	bpf_map__set_max_entries(skel->maps.homes, o->packets / HOMES);
	if (o->paths)
		bpf_map__set_max_entries(skel->maps.trails, o->packets);
	bpf_map__set_max_entries(skel->maps.hists, o->histograms * cpus);
	bpf_map__set_max_entries(skel->maps.counters, cpus);
	bpf_map__set_max_entries(skel->maps.contexts, cpus);
}

static const char *why_refused(int rc)
{
	switch (-rc) {
	case EPERM:
	case EACCES:
		return "this kernel or user may not load it (CAP_BPF and CAP_PERFMON are needed)";
	case ENOMEM:
		return "no memory, or RLIMIT_MEMLOCK is too low";
	default:
		return strerror(-rc);
	}
}

/*
 * Whether a function may be traced shows only when the program is attached: this
 * decides before, with a probe of one function, what the first stage is.
 */
static bool fentry_allowed(void)
{
	struct tracer_bpf *s = tracer_bpf__open();
	struct bpf_program *p;
	struct bpf_link *l = NULL;

	if (!s)
		return false;
	bpf_object__for_each_program(p, s->obj)
		bpf_program__set_autoload(p, p == s->progs.f_ip_local_deliver);
	if (!tracer_bpf__load(s))
		l = bpf_program__attach(s->progs.f_ip_local_deliver);
	bpf_link__destroy(l);
	tracer_bpf__destroy(s);
	return l != NULL;
}

static int load_once(struct tracer *t, const struct options *o, struct btf *btf, bool direct_reads)
{
	int rc;

	t->n_left_out = 0;
	t->skel = tracer_bpf__open();
	if (!t->skel)
		return -errno;
	choose(t, o, btf);
	set_constants(t->skel, o, direct_reads);
	if (o->backend == BACKEND_FENTRY && bpf_program__autoload(t->skel->progs.f___ip_local_out))
		t->skel->rodata->tx_origin = STAGE_IP_OUT;
	rc = tracer_bpf__load(t->skel);
	if (rc) {
		tracer_bpf__destroy(t->skel);
		t->skel = NULL;
	}
	return rc;
}

int tracer_load(struct tracer *t, const struct options *o, char *msg, unsigned int msg_size)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct btf *btf;
	int rc;

	memset(t, 0, sizeof(*t));
	t->stats_fd = -1;
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* before Linux 5.11 only; may fail */
	btf = btf__load_vmlinux_btf();
	if (!btf) {
		snprintf(msg, msg_size, "this kernel has no BTF (/sys/kernel/btf/vmlinux)");
		return -ENOTSUP;
	}
	rc = -EPERM;
	if (o->backend == BACKEND_FENTRY && !fentry_allowed()) {
		snprintf(msg, msg_size,
			 "--backend: \"fentry\": this kernel does not let BPF trace "
			 "functions; allowed: tp_btf");
	} else {
		if (!o->copy_reads)
			rc = load_once(t, o, btf, true);
		if (rc)
			rc = load_once(t, o, btf, false);
		if (rc)
			snprintf(msg, msg_size, "BPF programs do not load: %s", why_refused(rc));
	}
	btf__free(btf);
	return rc;
}

int tracer_attach(struct tracer *t, const struct options *o, char *msg, unsigned int msg_size)
{
	struct bpf_program *p;
	int i = 0, rc;

	if (o->stats)
		t->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	for (; i < t->skel->skeleton->prog_cnt; i++) {
		struct bpf_prog_skeleton *s = &t->skel->skeleton->progs[i];

		p = *s->prog;
		if (!bpf_program__autoload(p))
			continue;
		*s->link = bpf_program__attach(p);
		if (*s->link) {
			t->n_attached++;
			continue;
		}
		rc = -errno;
		leave_out(t, p, why_refused(rc));
		if (is_fentry(p))
			continue;
		snprintf(msg, msg_size, "%s: %s", bpf_program__section_name(p), why_refused(rc));
		return rc;
	}
	return 0;
}

void tracer_detach(struct tracer *t)
{
	tracer_bpf__detach(t->skel);
}

void tracer_close(struct tracer *t)
{
	if (t->stats_fd >= 0)
		close(t->stats_fd);
	tracer_bpf__destroy(t->skel);
	t->skel = NULL;
}
