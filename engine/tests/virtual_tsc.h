/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include <rte_cycles.h>

/*
 * For tests of what reads the TSC by itself, as rte_sched does: time stands still, and moves when
 * the test says so. The kernel makes RDTSC fault (PR_SET_TSC, x86 only), and the handler answers it.
 */
static uint64_t virtual_tsc;
static struct sigaction virtual_tsc_before;

static void virtual_tsc_answer(int signal_number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)regs[REG_RIP];

	(void)info;
	if (code[0] == 0x0f && code[1] == 0x31) {
		regs[REG_RIP] += 2;
	} else if (code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9) { /* RDTSCP */
		regs[REG_RIP] += 3;
		regs[REG_RCX] = 0;
	} else {
		/* A fault of the test's own: it comes again, for whom it would have been. */
		sigaction(signal_number, &virtual_tsc_before, NULL);
		return;
	}
	regs[REG_RAX] = (greg_t)(virtual_tsc & UINT32_MAX);
	regs[REG_RDX] = (greg_t)(virtual_tsc >> 32);
}

/* From now on; false where the kernel cannot. */
static inline bool virtual_tsc_start(void)
{
	struct sigaction action = {.sa_sigaction = virtual_tsc_answer, .sa_flags = SA_SIGINFO};

	virtual_tsc = rte_rdtsc();
	return !sigaction(SIGSEGV, &action, &virtual_tsc_before) &&
	       !prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
}

static inline void virtual_tsc_stop(void)
{
	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	sigaction(SIGSEGV, &virtual_tsc_before, NULL);
}
