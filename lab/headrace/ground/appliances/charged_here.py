# SPDX-License-Identifier: Apache-2.0
"""CPU time of containers on this machine, as its kernel counts it (charge.py)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.collect.collector import cpu_times_s
from headrace.collect.virtual_switch import BRIDGE
from headrace.ground.appliances.fabric import bridges_of
from headrace.ground.appliances.graph import ChargeReading
from headrace.host import cpu_time
from headrace.host.scheduling import snapshot

if TYPE_CHECKING:
    from headrace.ground.appliances.deploy import RunningGraph

_NAMED = Path("/run/netns")


def read(deployed: RunningGraph) -> ChargeReading:
    forwarded = {
        name: sum(one.each_ns()) / 1e9 for name, one in deployed.forwarding.items() if one.cpus
    }
    stolen = snapshot().stolen_ns
    groups, spent = _groups(deployed), deployed.clock.spent()
    return ChargeReading(
        at_s=time.monotonic(),
        groups=groups,
        busy_s=cpu_time.busy_seconds(),
        stolen_ns={f"CPU {n}": stolen[n] for n in sorted(os.sched_getaffinity(0) & set(stolen))},
        forwarded=forwarded,
        spent=spent,
        namespaces=_namespaces(deployed) if spent else {},
        processes=(*deployed.pids, *deployed.switch_pids),
    )


def _groups(deployed: RunningGraph) -> dict[str, float]:
    """Control groups of all that belongs to the run and is not the lab itself."""
    seconds = {name: cpu_time.cpu_seconds(pid) for name, pid in deployed.pids.items()}
    for name, pid in deployed.switch_pids.items():
        times = cpu_times_s(pid)
        seconds[name] = None if times is None else sum(times)
    return {name: value for name, value in seconds.items() if value is not None}


def _namespaces(deployed: RunningGraph) -> dict[str, int]:
    """Node, or what forwards between them: its network namespace's inode number."""
    namespaces = {
        node.name: (_NAMED / deployed.name(node)).stat().st_ino for node in deployed.layout.nodes
    }
    for name, pid in deployed.switch_pids.items():
        namespaces[name] = Path(f"/proc/{pid}/ns/net").stat().st_ino
    if deployed.network == "bridge":
        namespaces[BRIDGE] = (_NAMED / bridges_of(deployed.tag)).stat().st_ino
    return namespaces
