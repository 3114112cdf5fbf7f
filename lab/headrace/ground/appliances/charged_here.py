# SPDX-License-Identifier: Apache-2.0
"""CPU time of containers on this machine, as its kernel counts it (charge.py)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.collect.collector import cpu_times_s
from headrace.collect.cores import Spent
from headrace.ground.appliances.forwarding import Forwarding
from headrace.ground.appliances.graph import ChargeReading
from headrace.host import cpu_time
from headrace.host.scheduling import snapshot

_NAMED = Path("/run/netns")


def read(
    pids: Mapping[str, int],
    switch: Mapping[str, int],
    forwarding: Mapping[str, Forwarding],
    spent: dict[int, Spent],
    namespaces: Mapping[str, str],
) -> ChargeReading:
    """`pids`: of containers; `switch`: of what switches in user space. `namespaces`: the name of
    each container's network namespace, and of what forwards between them in the kernel."""
    stolen = snapshot().stolen_ns
    return ChargeReading(
        at_s=time.monotonic(),
        groups=_groups(pids, switch),
        busy_s=cpu_time.busy_seconds(),
        stolen_ns={f"CPU {n}": stolen[n] for n in sorted(os.sched_getaffinity(0) & set(stolen))},
        forwarded={name: sum(f.each_ns()) / 1e9 for name, f in forwarding.items() if f.cpus},
        spent=spent,
        namespaces=_numbers(namespaces, switch) if spent else {},
        processes=(*pids, *switch),
    )


def _groups(pids: Mapping[str, int], switch: Mapping[str, int]) -> dict[str, float]:
    """Control groups of all that belongs to the run and is not the lab itself."""
    seconds = {name: cpu_time.cpu_seconds(pid) for name, pid in pids.items()}
    for name, pid in switch.items():
        times = cpu_times_s(pid)
        seconds[name] = None if times is None else sum(times)
    return {name: value for name, value in seconds.items() if value is not None}


def _numbers(namespaces: Mapping[str, str], switch: Mapping[str, int]) -> dict[str, int]:
    """Inode numbers, by which the kernel tells namespaces apart."""
    numbers = {name: (_NAMED / one).stat().st_ino for name, one in namespaces.items()}
    processes = {name: Path(f"/proc/{pid}/ns/net").stat().st_ino for name, pid in switch.items()}
    return numbers | processes
