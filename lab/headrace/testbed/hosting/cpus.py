# SPDX-License-Identifier: Apache-2.0
"""Which lcore runs which VNF: the placements of S1, the pinning of S2 (figures 7 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.spec.hosting import Hosting

_SYS_CPU = Path("/sys/devices/system/cpu")
Refuse = Callable[[str, str], Exception]  # key of `hosting`, what is wrong


@dataclass(frozen=True)
class Cpu:
    number: int
    core: tuple[int, int]  # package, core: hardware threads of one core share it
    node: int


def describe_cpu(number: int, root: Path = _SYS_CPU) -> Cpu:
    folder = root / f"cpu{number}"
    package = _number(folder / "topology" / "physical_package_id", 0)
    core = _number(folder / "topology" / "core_id", number)
    nodes = sorted(int(p.name[4:]) for p in folder.glob("node[0-9]*"))
    return Cpu(number, (package, core), nodes[0] if nodes else 0)


def _number(file: Path, otherwise: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return otherwise


def pin(
    hosting: Hosting, vnfs: int, cpus: Sequence[Cpu], switch: Cpu, refuse: Refuse
) -> list[tuple[int, ...]]:
    """The lcores that each VNF may run on: one, or all where the scheduler decides."""
    if hosting.placement == "explicit":
        return _explicit(hosting, vnfs, cpus, refuse)
    if hosting.placement == "random":
        return [tuple(sorted(cpu.number for cpu in cpus))] * vnfs
    local = [cpu for cpu in cpus if cpu.node == switch.node]
    remote = [cpu for cpu in cpus if cpu.node != switch.node]
    if hosting.placement == "worst" and not remote:
        raise refuse(
            "placement",
            f"worst is a node that the NIC is not on, and all lcores of VNFs are on node "
            f"{switch.node}; allowed: numa-aware, random, explicit",
        )
    chosen = remote if hosting.placement == "worst" else [*local, *remote]
    slots = _slots(chosen, hosting.oversubscription)
    if hosting.oversubscription is not None and vnfs > len(slots):
        raise refuse(
            "oversubscription",
            f"{vnfs} VNFs at {hosting.oversubscription}:1 on {len(_cores(chosen))} physical cores; "
            f"allowed: at most {len(slots)} VNFs, or a higher ratio",
        )
    return [(slots[i % len(slots)],) for i in range(vnfs)]


def _cores(cpus: Sequence[Cpu]) -> list[list[int]]:
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.core, []).append(cpu.number)
    return list(cores.values())


def _slots(cpus: Sequence[Cpu], ratio: int | None) -> list[int]:
    """Each core once, then each again on its next hardware thread, and so on (S2 figures 7-9)."""
    cores = _cores(cpus)
    rounds = ratio if ratio is not None else max(len(threads) for threads in cores)
    return [threads[turn % len(threads)] for turn in range(rounds) for threads in cores]


def _explicit(
    hosting: Hosting, vnfs: int, cpus: Sequence[Cpu], refuse: Refuse
) -> list[tuple[int, ...]]:
    told, allowed = hosting.lcores or (), sorted(cpu.number for cpu in cpus)
    if len(told) != vnfs:
        raise refuse("lcores", f"{len(told)} entries for {vnfs} VNFs; allowed: one for each")
    for number in told:
        if number not in allowed:
            raise refuse("lcores", f"names lcore {number}; allowed: {allowed}")
    return [(number,) for number in told]
