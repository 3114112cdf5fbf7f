# SPDX-License-Identifier: Apache-2.0
"""How long a VNF's worker was ready to run and did not: the kernel's own account of its thread.

The numbers of /proc/PID/task/TID/schedstat are the time on a CPU, that on a run queue, and how
often the latter ended (Linux, Documentation/scheduler/sched-stats.rst). For a virtual machine they
are those of the vCPU that works: what a guest cannot see of itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from headrace.engine.counts import RunQueueCounts

_PROC = Path("/proc")
# DPDK's names, before and since 23.07.
WORKER = re.compile(r"(?:lcore|rte)-worker")


def run_queue(pid: int, threads: re.Pattern[str], proc: Path = _PROC) -> RunQueueCounts | None:
    """Waits of a process's threads with such names; None where the kernel does not tell."""
    ran = waited = slices = 0
    there = False
    try:
        tasks = list((proc / str(pid) / "task").iterdir())
    except OSError:
        tasks = []
    for task in tasks:
        try:
            if not threads.match((task / "comm").read_text()):
                continue
            numbers = (task / "schedstat").read_text().split()
        except OSError:
            continue
        if len(numbers) == 3:
            ran, there = ran + int(numbers[0]), True
            waited, slices = waited + int(numbers[1]), slices + int(numbers[2])
    return RunQueueCounts(ran_ns=ran, waited_ns=waited, slices=slices) if there else None


def mean_wait_ns(waited_ns: float, slices: float, during_ns: float) -> float:
    """How long a packet waits that comes at any moment: it meets a wait of w with a probability of
    w / during, and half of it is left. The waits are taken to be alike: were they not, it would be
    longer."""
    if waited_ns <= 0 or slices <= 0 or during_ns <= 0:
        return 0.0
    return waited_ns * waited_ns / (2.0 * slices * during_ns)
