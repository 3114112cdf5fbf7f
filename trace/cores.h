/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

/* What the BPF programs write and user space reads where it lies: one core's time. */
struct core_times {
	__u64 version;                          /* odd while it is being changed */
	__u64 idle_since_ns, softirq_since_ns;  /* 0: not in it */
	__u64 idle_ns;                          /* in the idle task, with what interrupts it */
	__u64 softirq_ns, softirq_in_idle_ns;   /* the latter in both */
	__u64 to_line[2];
};

_Static_assert(sizeof(struct core_times) == 64, "one cache line for each core");
