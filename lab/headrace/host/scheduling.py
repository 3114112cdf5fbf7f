# SPDX-License-Identifier: Apache-2.0
"""How long the kernel, or the hypervisor below it, kept a polling lcore from running.

A poller that is preempted for longer than its ring can hold loses packets, however fast the chain
is. /proc/PID/task/TID/schedstat counts the time that a thread was ready but waited (Linux,
Documentation/scheduler/sched-stats.rst); /proc/stat counts what the hypervisor stole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Thread:
    cpu: int
    ran_ns: int
    waited_ns: int


@dataclass(frozen=True)
class Snapshot:
    threads: dict[int, Thread]
    stolen_ns: dict[int, int]


def snapshot(*pids: int) -> Snapshot:
    """Threads that are pinned to one CPU; empty where the kernel does not tell."""
    threads = {}
    for task in (task for pid in pids for task in _tasks(pid)):
        try:
            allowed = os.sched_getaffinity(int(task.name))
            ran, waited = (task / "schedstat").read_text().split()[:2]
        except (OSError, ValueError):
            continue
        if len(allowed) == 1:
            threads[int(task.name)] = Thread(min(allowed), int(ran), int(waited))
    return Snapshot(threads, _stolen())


def _tasks(pid: int) -> list[Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _stolen() -> dict[int, int]:
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    ticks = {}
    try:
        lines = (_PROC / "stat").read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and len(fields) > 7:
            ticks[int(name[3:])] = int(fields[7]) * tick_ns
    return ticks


def kept_waiting(before: Snapshot, after: Snapshot, cpus: Iterable[int]) -> dict[int, int]:
    """Nanoseconds per lcore between two snapshots in which its poller could not run."""
    wanted = set(cpus)
    waits = dict.fromkeys(wanted, 0)
    for tid, now in after.threads.items():
        was = before.threads.get(tid)
        if was is None or now.cpu not in wanted:
            continue
        # A thread that mostly sleeps (control, telemetry) is no poller.
        if now.ran_ns - was.ran_ns > (now.waited_ns - was.waited_ns) / 10:
            waits[now.cpu] = max(waits[now.cpu], now.waited_ns - was.waited_ns)
    for cpu in wanted:
        waits[cpu] += max(0, after.stolen_ns.get(cpu, 0) - before.stolen_ns.get(cpu, 0))
    return waits
