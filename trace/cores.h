/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/* What the BPF programs write and user space reads where it lies: one core's time. */
struct core_times {
	__u64 version;                         /* odd while it is being changed */
	__u64 idle_since_ns, softirq_since_ns; /* 0: not in it */
	__u64 idle_ns;                         /* in the idle task, with what interrupts it */
	__u64 softirq_ns, softirq_in_idle_ns;  /* the latter in both */
	__u64 to_line[2];
};

_Static_assert(sizeof(struct core_times) == 64, "one cache line for each core");

/* CPU time of one network namespace: of its processes, without what interrupts them, and of the
 * kernel's work on its packets in softirqs and NAPI threads. */
struct share {
	__u32 netns, pad;
	__u64 process_ns, stack_ns;
};

#define SHARES 256 /* the first: of no namespace, or of none that had room */
#define NOBODY 0xffffffffu

enum task_kind {
	TASK_UNKNOWN,
	TASK_IDLE,
	TASK_PROCESS,
	TASK_NAPI, /* a thread that polls a device: what it does is that device's namespace's */
};

/* One core's time, by network namespace. */
struct core_charge {
	__u64 version;  /* odd while it is being changed */
	__u64 since_ns; /* all before is charged; 0: nothing is known yet */
	__u64 dev;      /* whose packet is being worked on */
	__u32 kind, in_softirq;
	__u32 task, owner, thread_owner; /* shares; the owner may be nobody (yet) */
	__u32 pad;
	struct share share[SHARES];
	__u64 to_line[2];
};

_Static_assert(sizeof(struct core_charge) % 64 == 0, "each core has cache lines of its own");
