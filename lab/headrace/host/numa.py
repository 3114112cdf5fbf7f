# SPDX-License-Identifier: Apache-2.0
"""Programs started near their lcores, so that the memory they touch first is of the same node."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.host.server.sysfs import cpu_list, numbered, text

_NODES = Path("/sys/devices/system/node")
_CPUS = Path("/sys/devices/system/cpu")


def node_of(cpu: int, cpus: Path = _CPUS) -> int:
    """0 where the kernel knows no nodes."""
    return next((node for node, _ in numbered(cpus / f"cpu{cpu}", "node")), 0)


def near(lcores: Iterable[int], nodes: Path = _NODES) -> set[int]:
    """All CPUs of the nodes that these lcores are on; theirs alone where there are no nodes."""
    wanted = set(lcores)
    around = set(wanted)
    for _, node in numbered(nodes, "node"):
        cpus = set(cpu_list(text(node / "cpulist")))
        if cpus & wanted:
            around |= cpus
    return around


@contextmanager
def started_near(lcores: Iterable[int], nodes: Path = _NODES) -> Iterator[None]:
    """What this thread starts meanwhile runs on those nodes only, as `numactl --cpunodebind` has
    it. The kernel gives memory from the node of who touches it first (set_mempolicy(2)), and an
    engine's first touch is its control thread's, which is pinned to no lcore. Lcores that are
    isolated, which this thread's own affinity does not have, are among them."""
    wanted = set(lcores)
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # none of them, or not ours to use: who is started will say so
        os.sched_setaffinity(0, (near(wanted, nodes) & before) | wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
