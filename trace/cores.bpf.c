// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Idle and softirq time of each core, from switch to switch and from entry to exit, and its time by
 * network namespace. The kernel's own account goes by clock ticks, which do not see what begins and
 * ends between two of them, and charges a softirq to the task that it interrupts.
 */
#include "charge.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of CPUs */
	__type(key, __u32);
	__type(value, struct core_times);
} cores SEC(".maps");

static __always_inline struct core_times *here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cores, &cpu);
}

/* Each core writes its own, and these events do not interrupt one another. */
static __always_inline void change(struct core_times *c)
{
	c->version++;
	barrier();
}

static __always_inline void changed(struct core_times *c)
{
	barrier();
	c->version++;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool was = !prev->pid, is = !next->pid;
	__u64 now = bpf_ktime_get_ns();
	struct core_times *c;

	charge_switch(next, now);
	if (was == is)
		return 0;
	c = here();
	if (!c)
		return 0;
	change(c);
	if (was && c->idle_since_ns)
		c->idle_ns += now - c->idle_since_ns;
	c->idle_since_ns = is ? now : 0;
	changed(c);
	return 0;
}

/*
 * A machine's supervisor may hide from BPF what happens in its own threads: what they leave a core
 * to is not seen then. The idle task's next step is.
 */
SEC("tp_btf/cpu_idle")
int BPF_PROG(on_idle, unsigned int state, unsigned int cpu)
{
	struct core_times *c = here();
	__u64 now;

	if (!c || c->idle_since_ns || state == -1u)
		return 0;
	now = bpf_ktime_get_ns();
	charge_switch(bpf_get_current_task_btf(), now);
	change(c);
	c->idle_since_ns = now;
	changed(c);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct core_times *c = here();
	__u64 now = bpf_ktime_get_ns();

	charge_softirq(true, now);
	if (!c)
		return 0;
	change(c);
	c->softirq_since_ns = now;
	changed(c);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	__u64 now = bpf_ktime_get_ns(), ns;
	struct core_times *c = here();

	charge_softirq(false, now);
	if (!c || !c->softirq_since_ns)
		return 0;
	ns = now - c->softirq_since_ns;
	change(c);
	c->softirq_ns += ns;
	if (c->idle_since_ns)
		c->softirq_in_idle_ns += ns;
	c->softirq_since_ns = 0;
	changed(c);
	return 0;
}

/* Run once on each core after the others are attached: who runs then has no switch to tell it. */
SEC("raw_tp")
int begin(void *ctx)
{
	struct core_times *c = here();
	__u64 now = bpf_ktime_get_ns();

	charge_switch(bpf_get_current_task_btf(), now);
	if (!c)
		return 0;
	change(c);
	if (!bpf_get_current_pid_tgid() && !c->idle_since_ns)
		c->idle_since_ns = now;
	changed(c);
	return 0;
}
