# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of this machine may be lcores of ours, the best first.

`isolcpus` takes CPUs from every process's affinity, init's first, so that sched_getaffinity(2)
hides just those that are kept for pollers; a process may ask for them all the same, unless its
cpuset or its user (taskset) says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.host.server.sysfs import cpu_list, numbered, text

_CPUS = Path("sys/devices/system/cpu")
_V1, _V2 = Path("sys/fs/cgroup/cpuset"), Path("sys/fs/cgroup")


@dataclass(frozen=True)
class CpuSets:
    """A machine's CPUs, as its kernel lists them, and those of one process."""

    online: frozenset[int]
    isolated: frozenset[int]  # isolcpus: the scheduler puts nothing there by itself
    tickless: frozenset[int]  # nohz_full: no scheduler's tick while one task runs
    cpuset: frozenset[int]  # that the process's control group allows
    affinity: frozenset[int]  # that the process has (sched_getaffinity(2))
    threads: Mapping[int, Sequence[int]]  # CPU: all threads of its core


def lcores_of(sets: CpuSets) -> list[int]:
    """Isolated ones are first, those without ticks before others; of each kind one thread of every
    core before the second ones. Isolated CPUs are ours where the process has all others that it
    could have: an affinity that somebody has narrowed is meant."""
    allowed = sets.online & (sets.cpuset or sets.online)
    mine = set(sets.affinity)
    if mine >= allowed - sets.isolated:
        mine |= allowed & sets.isolated

    def rank(cpu: int) -> tuple[bool, bool, int, int]:
        threads = sorted(sets.threads.get(cpu, (cpu,)))
        same = [one for one in threads if one in mine and (one in sets.isolated) == isolated(cpu)]
        return not isolated(cpu), cpu not in sets.tickless, same.index(cpu), cpu

    def isolated(cpu: int) -> bool:
        return cpu in sets.isolated

    return sorted(mine, key=rank)


def housekeeping(lcores: Collection[int], sets: CpuSets) -> frozenset[int]:
    """CPUs for whatever is not traffic's: no lcore, no other thread of an lcore's core, and none
    that is isolated. None, where all are."""
    near = {one for cpu in lcores for one in sets.threads.get(cpu, (cpu,))} | set(lcores)
    return sets.affinity - sets.isolated - near


def cpu_sets(root: Path = Path("/")) -> CpuSets:
    """Those of this process and machine, or of a copy of its /sys and /proc below `root`."""
    cpus = root / _CPUS
    affinity = frozenset(os.sched_getaffinity(0))
    return CpuSets(
        online=frozenset(cpu_list(text(cpus / "online"))) or affinity,
        isolated=frozenset(cpu_list(text(cpus / "isolated"))),
        tickless=frozenset(cpu_list(text(cpus / "nohz_full"))),
        cpuset=frozenset(cpu_list(_cpuset(root))),
        affinity=affinity,
        threads={
            cpu: cpu_list(text(path / "topology" / "thread_siblings_list")) or (cpu,)
            for cpu, path in numbered(cpus, "cpu")
        },
    )


def _cpuset(root: Path) -> str | None:
    """None where no control group limits CPUs (cgroups(7), cpuset(7))."""
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        below = group.lstrip("/")
        files = {
            "cpuset": root / _V1 / below / "cpuset.effective_cpus",
            "": root / _V2 / below / "cpuset.cpus.effective",
        }
        own = files.get("cpuset" if "cpuset" in controllers.split(",") else controllers)
        if own is not None and (cpus := text(own)) is not None:
            return cpus
    return None
