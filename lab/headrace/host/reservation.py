# SPDX-License-Identifier: Apache-2.0
"""Decide between hugepages and ordinary memory, and reserve what is lacking."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headrace.errors import HeadraceError
from headrace.host import hugepages
from headrace.host.state import RunState, claimed_kb
from headrace.spec.deployment import Deployment

# DPDK's own needs beside what the plan asks for: rings, the heap's alignment, a page per lcore.
_EXTRA_MB = 64


@dataclass(frozen=True)
class Memory:
    """What the engine runs on, and what that costs."""

    hugepages: bool
    note: str


def provide(deployment: Deployment, state: RunState, hosted_mb: int = 0) -> Memory:
    """Reserve hugepages if that is wanted and possible. The state's end undoes it. `hosted_mb`:
    what VNFs apart need of them, without which there is no run.

    To be asked for once the lcores are held: what is free before that may be gone afterwards.
    """
    if deployment.hugepages is False:
        return Memory(
            False, _ordinary("as the spec asks, or as its virtio_user ports or engines need")
        )
    pool = hugepages.pool()
    if pool is None or not pool.control.exists():
        return _without(deployment, hosted_mb, "this kernel has none")
    memory: Memory | str = ""

    def reserved() -> bool:
        nonlocal memory
        with hugepages.locked(pool.control):
            memory = _reserve(deployment.memory_mb + _EXTRA_MB + hosted_mb, state)
        return isinstance(memory, Memory)

    hugepages.until(reserved)
    if isinstance(memory, str):
        return _without(deployment, hosted_mb, f"{memory}: {hugepages.whose()}")
    return memory


def _reserve(wanted_mb: int, state: RunState) -> Memory | str:
    """So much of hugepages, or why it is not to be had."""
    pool = hugepages.pool()  # again, now that no other run changes it
    if pool is None:
        return "this kernel has none"
    # Free pages that another run has been promised are that run's.
    promised = math.ceil(claimed_kb(state) / pool.page_kb)
    pool = replace(pool, free=max(0, pool.free - promised))
    lacking = hugepages.lacking(wanted_mb, pool)
    if lacking == 0:
        state.claim(wanted_mb * 1024)
        return Memory(True, f"hugepages of {pool.page_kb} kB, {pool.free} were free")
    if not hugepages.may_add(pool.control):
        return (
            f"{lacking} more pages of {pool.page_kb} kB are needed, and only root may add them, "
            f"outside of a container (echo {pool.total + lacking} > {pool.control})"
        )
    before = hugepages.count(pool.control)
    state.note_hugepages(pool.control, before, lacking, done=False)
    came = hugepages.add(lacking, pool.control)
    state.note_hugepages(pool.control, before, came, done=True)
    if came < lacking:
        hugepages.give_back(pool.control, before, came, done=True)
        state.forget("hugepages")
        return f"of {lacking} pages asked for the kernel had {came}"
    state.claim(wanted_mb * 1024)
    return Memory(True, f"hugepages of {pool.page_kb} kB, {came} added for this run")


def _without(deployment: Deployment, hosted_mb: int, why: str) -> Memory:
    if deployment.hugepages is True:
        raise HeadraceError(f"deployment.hugepages: true, but {why}")
    if hosted_mb:
        raise HeadraceError(f"deployment.hosting.hugepages: true, but {why}")
    return Memory(False, _ordinary(why))


def _ordinary(why: str) -> str:
    return f"ordinary memory of 4 kB pages ({why}): more TLB misses, so lower figures"
