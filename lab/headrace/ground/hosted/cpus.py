# SPDX-License-Identifier: Apache-2.0
"""Which lcore runs which vCPU: the placements of Wang et al. 2016, the pinning of Ben Hamed et al.
2020 (figures 7 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.host.numa import node_of
from headrace.spec.hosting import Hosting

_SYS_CPU = Path("/sys/devices/system/cpu")
Refuse = Callable[[str, str], Exception]  # key of `hosting`, what is wrong


@dataclass(frozen=True)
class Cpu:
    number: int
    core: tuple[int, int]  # package, core: hardware threads of one core share it
    node: int


Describe = Callable[[int], Cpu]


def describe_cpu(number: int, root: Path = _SYS_CPU) -> Cpu:
    folder = root / f"cpu{number}"
    package = _number(folder / "topology" / "physical_package_id", 0)
    core = _number(folder / "topology" / "core_id", number)
    return Cpu(number, (package, core), node_of(number, root))


def _number(file: Path, otherwise: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return otherwise


def pin(
    hosting: Hosting,
    vnfs: int,
    cpus: Sequence[Cpu],
    switch: Cpu,
    refuse: Refuse,
    vcpus: int = 1,
) -> list[tuple[int, ...]]:
    """The lcores that each vCPU may run on, VNF by VNF: one, or all where the scheduler decides. A
    process is one vCPU."""
    count = vnfs * vcpus
    if hosting.placement == "explicit":
        return _explicit(hosting, count, cpus, refuse)
    if hosting.placement == "random":
        return [tuple(sorted(cpu.number for cpu in cpus))] * count
    local = [cpu for cpu in cpus if cpu.node == switch.node]
    remote = [cpu for cpu in cpus if cpu.node != switch.node]
    if hosting.placement == "worst" and not remote:
        raise refuse(
            "placement",
            f"worst is a node that the NIC is not on, and all lcores of VNFs are on node "
            f"{switch.node}; allowed: numa-aware, random, explicit",
        )
    chosen = remote if hosting.placement == "worst" else [*local, *remote]
    slots = _slots(chosen, hosting.oversubscription, vcpus)
    if hosting.oversubscription is not None and count > len(slots):
        of_each = "" if vcpus == 1 else f" of {vcpus} vCPUs"
        raise refuse(
            "oversubscription",
            f"{vnfs} VNFs{of_each} at {hosting.oversubscription}:1 on {len(_cores(chosen))} "
            f"physical cores; allowed: at most {len(slots) // vcpus} VNFs, or a higher ratio",
        )
    return [(slots[i % len(slots)],) for i in range(count)]


def without_siblings(cpus: Sequence[int], busy: Sequence[int], describe: Describe) -> list[int]:
    """Those that are hardware threads of no core with a busy one: a generator whose core has work
    on its other thread is no steady one. All but the busy where that leaves none."""
    cores = {describe(cpu).core for cpu in busy}
    others = [cpu for cpu in cpus if cpu not in busy]
    return [cpu for cpu in others if describe(cpu).core not in cores] or others


def _cores(cpus: Sequence[Cpu]) -> list[list[int]]:
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.core, []).append(cpu.number)
    return list(cores.values())


def _slots(cpus: Sequence[Cpu], ratio: int | None, vcpus: int) -> list[int]:
    """Core by core, as many of its hardware threads at once as a VNF has vCPUs, so that they are
    siblings (Ben Hamed et al. 2020 figures 7-9); then each core again, until all of its threads, or
    `ratio` vCPUs, are given."""
    cores = _cores(cpus)
    slots: list[int] = []
    given = 0
    while given < max(ratio or len(threads) for threads in cores):
        together = 0
        for threads in cores:
            left = (ratio or len(threads)) - given
            turn = range(given, given + min(vcpus, len(threads), left))
            slots += [threads[i % len(threads)] for i in turn]
            together = max(together, len(turn))
        given += together
    return slots


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
