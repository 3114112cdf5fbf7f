# SPDX-License-Identifier: Apache-2.0
"""CPU time of containers, who else took some, and how containers are kept from losing theirs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_CPUS_MOST = 8192  # CONFIG_NR_CPUS of x86


def shield(pid: int) -> None:
    """Let other work on the machine not take the CPUs of a process that is measured.

    Where sched_autogroup is on, each session, and so each container, is a group of its own, and
    niceness acts between groups only when it is given to the group.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def cpu_seconds(pid: int) -> float | None:
    """CPU time of the control group that a container's first process is in; v1 or v2."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for file, scale in (
            (f"/sys/fs/cgroup/{controllers}{path}/cpuacct.usage", 1e9),
            (f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage", 1e9),
            (f"/sys/fs/cgroup{path}/cpu.stat", 1e6),
        ):
            if "cpuacct" in controllers.split(",") or file.endswith("cpu.stat"):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    return int(Path(file).read_text().split()[0 if scale == 1e9 else 1]) / scale
    return None


def busy_seconds() -> float:
    """CPU time that all processes of this machine have used, interrupts and softirqs apart."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def listed(text: str) -> Iterator[int]:
    """0,2-3 as cpuset(7) writes it. ValueError: more CPUs than a kernel has; who wrote it may be a
    stranger's container."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= _CPUS_MOST:
            raise ValueError(f"CPU {(last or first)[:20]}; allowed: below {_CPUS_MOST}")
        yield from range(int(first), int(last or first) + 1)
