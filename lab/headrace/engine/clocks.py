# SPDX-License-Identifier: Apache-2.0
"""What kept each lcore from its work in a trial, those of hosted VNFs too: for the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from headrace.engine import counters as count
from headrace.engine.counts import EngineCounts, VnfCounts
from headrace.host.scheduling import Snapshot, kept_waiting
from headrace.record.counters import WorkerReading
from headrace.record.facts import LcoreTime


def of_workers(
    workers: Iterable[WorkerReading],
    tsc_hz: int,
    waited_ns: Mapping[int, int],
    watched_s: float,
    read_s: float,
    shared: Collection[int] = (),
) -> list[LcoreTime]:
    """`waited_ns` is of `watched_s`; the workers' own figures of `read_s`. VNFs' have their own.
    `shared`: lcores of several VNFs. One that another interrupts takes its time for its own work,
    so that together they may be busy for longer than there was time."""
    return [
        LcoreTime(
            name=f"Lcore {one.cpu}",
            watched_s=watched_s,
            read_s=read_s,
            kept_s=waited_ns[one.cpu] / 1e9 if one.cpu in waited_ns else None,
            stood_s=one.standstill_cycles / tsc_hz,
            pace=one.pace,
            width=one.width,
            tsc_hz=tsc_hz,
            busy=None if one.cpu in shared else one.utilisation,
        )
        for one in workers
    ]


def of_machine(
    before: Snapshot, after: Snapshot, seconds: float, cpus: Iterable[int]
) -> list[LcoreTime]:
    """What a hypervisor took of CPUs on which no poller of ours runs. Whom the kernel lets run
    there is a part of what is measured."""
    return [
        LcoreTime(f"CPU {cpu}", seconds, seconds, stolen / 1e9)
        for cpu, stolen in sorted(kept_waiting(before, after, cpus).items())
    ]


def of_vnfs(before: EngineCounts, after: EngineCounts, read_s: float) -> list[LcoreTime]:
    """Each VNF has a CPU of its own, or shares it as it was deployed: then its waiting for the
    others is meant, and what nobody of them ran while all of them polled was somebody else's."""
    sharing = _vnfs_on(after)
    grown = {name: now.since(before.vnfs.get(name)) for name, now in after.vnfs.items()}
    clocks = []
    for name, one in grown.items():
        alone = all(sharing[cpu] == 1 for cpu in one.cpus)
        clocks += _of_vnf(name, one, read_s, alone)
    return clocks + [
        clock
        for cpu, several in sharing.items()
        if several > 1 and (clock := _shared(cpu, grown.values(), read_s)) is not None
    ]


def shared_by_vnfs(read: EngineCounts) -> frozenset[int]:
    return frozenset(cpu for cpu, several in _vnfs_on(read).items() if several > 1)


def _vnfs_on(read: EngineCounts) -> Counter[int]:
    """How many there are on each lcore."""
    return Counter(cpu for one in read.vnfs.values() for cpu in one.cpus)


def _of_vnf(name: str, one: VnfCounts, read_s: float, alone: bool) -> list[LcoreTime]:
    throttled = one.throttled_ns / 1e9
    # What its own quota took may be in the time that the kernel calls waiting.
    kept = max(0.0, one.run_queue.waited_ns / 1e9 - throttled) if one.run_queue else None
    clocks = [
        LcoreTime(
            name=f"VNF {name}'s lcore {worker.cpu}",
            watched_s=read_s,
            read_s=read_s,
            kept_s=kept,
            judged=alone,
            stood_s=worker.standstill_cycles / one.tsc_hz,
            throttled_s=throttled,
            pace=worker.pace,
            width=worker.width,
            tsc_hz=one.tsc_hz,
        )
        for worker in count.workers(one.workers, {})
    ]
    if not clocks:  # an appliance, which has no engine of ours
        cpus = ", ".join(map(str, one.cpus))
        clocks = [LcoreTime(f"VNF {name}'s lcore {cpus}", read_s, read_s, kept, alone)]
    return clocks


def _shared(cpu: int, vnfs: Iterable[VnfCounts], read_s: float) -> LcoreTime | None:
    """None where somebody of them slept: then nobody had to run."""
    ran_ns = 0
    for one in vnfs:
        if cpu not in one.cpus:
            continue
        if one.run_queue is None or len(one.cpus) > 1 or _slept(one):
            return None
        ran_ns += one.run_queue.ran_ns
    return LcoreTime(
        f"Lcore {cpu} of several VNFs", read_s, read_s, max(0.0, read_s - ran_ns / 1e9)
    )


def _slept(one: VnfCounts) -> bool:
    if not one.workers or one.throttled_ns:
        return True
    return any(worker.sleeps for worker in one.workers.values())
