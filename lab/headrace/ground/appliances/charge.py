# SPDX-License-Identifier: Apache-2.0
"""Whose CPU time a trial's was: of processes, and of the kernel's work on packets, by namespace.

Each node of a chain has a network namespace of its own, so a namespace's time is the node's. A
control group's is not: the kernel charges a softirq to the task that it interrupts, and in a chain
on one machine that is mostly the client which sent. Control groups are what is left where the
kernel takes no BPF programs; then nobody knows what the stack took.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.collect.cores import Spent
from headrace.ground.appliances.graph import ApplianceGraph, ChargeReading


@dataclass(frozen=True)
class Used:
    """CPUs, between two moments."""

    processes: dict[str, float]  # by container, or by the switch's process
    stack: dict[str, float]  # by container, or by what forwards between them
    others: float  # of processes that are not of the run
    quota: dict[str, float]  # container: share of its `cpus` that it used


def used(
    deployed: ApplianceGraph,
    before: ChargeReading,
    after: ChargeReading,
    polling: float,
    loaded_s: float,
) -> Used:
    """`polling`: CPUs of the lab's own generator, where control groups are all there is: it is in
    none of them. `loaded_s`: how long the load itself took, without starting and ending it."""
    seconds = after.at_s - before.at_s
    groups = _grown(before.groups, after.groups, seconds)
    limited = before.groups | before.forwarded, after.groups | after.forwarded
    quota = _quota(deployed, _grown(*limited, loaded_s))
    if not after.spent:
        busy = (after.busy_s - before.busy_s) / seconds
        return Used(groups, {}, max(0.0, busy - sum(groups.values()) - polling), quota)
    none = Spent(0, 0)
    grown = {
        inode: Spent(*(a - b for a, b in zip(now, before.spent.get(inode, none), strict=True)))
        for inode, now in after.spent.items()
    }
    own = {name: grown.get(inode, none) for name, inode in after.namespaces.items()}
    processes = {name: one.processes / 1e9 / seconds for name, one in own.items()}
    of_all = sum(one.processes for one in grown.values()) / 1e9 / seconds
    return Used(
        {name: processes[name] for name in after.processes},
        {name: one.stack / 1e9 / seconds for name, one in own.items()},
        of_all - sum(processes.values()),
        quota,
    )


def _grown(before: dict[str, float], after: dict[str, float], seconds: float) -> dict[str, float]:
    return {name: (s - before[name]) / seconds for name, s in after.items() if name in before}


def _quota(deployed: ApplianceGraph, cpus: dict[str, float]) -> dict[str, float]:
    """Share of its `cpus` that each container used; where the kernel forwards, by its threads."""
    return {
        node.name: cpus[node.name] / given
        for node in deployed.layout.containers
        if (given := deployed.supplies[node.vnf].allocation.cpus) is not None and node.name in cpus
    }
