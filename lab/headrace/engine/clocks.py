# SPDX-License-Identifier: Apache-2.0
"""What kept each lcore from its work in a trial, those of hosted VNFs too: for the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.engine import counters as count
from headrace.host.scheduling import Snapshot, kept_waiting
from headrace.record.counters import WorkerReading
from headrace.record.facts import LcoreTime

Json = dict[str, Any]


def of_workers(
    workers: Iterable[WorkerReading],
    tsc_hz: int,
    waited_ns: Mapping[int, int],
    watched_s: float,
    read_s: float,
) -> list[LcoreTime]:
    """`waited_ns` is of `watched_s`; the workers' own figures of `read_s`. VNFs' have their own."""
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
            busy=one.utilisation,
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


def of_vnfs(before: Json, after: Json, read_s: float) -> list[LcoreTime]:
    """Each VNF has a CPU of its own, or shares it as it was deployed: then its waiting for the
    others is meant, and what nobody of them ran while all of them polled was somebody else's."""
    vnfs: Json = after.get("vnfs", {})
    sharing = Counter(cpu for one in vnfs.values() for cpu in one["cpus"])
    made = []
    for name, now in vnfs.items():
        alone = all(sharing[cpu] == 1 for cpu in now["cpus"])
        made += _of_vnf(name, before.get("vnfs", {}).get(name, {}), now, read_s, alone)
    return made + [
        clock
        for cpu, several in sharing.items()
        if several > 1 and (clock := _shared(cpu, before, vnfs, read_s)) is not None
    ]


def _of_vnf(name: str, was: Json, now: Json, read_s: float, alone: bool) -> list[LcoreTime]:
    throttled = _grown_s(was, now, "throttled_ns")
    waited = _grown_s(was.get("run_queue", {}), now["run_queue"], "waited_ns")
    # What its own quota took may be in the time that the kernel calls waiting.
    kept = max(0.0, waited - throttled) if now["run_queue"] else None
    clocks = [
        LcoreTime(
            name=f"VNF {name}'s lcore {worker.cpu}",
            watched_s=read_s,
            read_s=read_s,
            kept_s=kept,
            judged=alone,
            stood_s=worker.standstill_cycles / now["tsc_hz"],
            throttled_s=throttled,
            pace=worker.pace,
            width=worker.width,
            tsc_hz=now["tsc_hz"],
        )
        for worker in count.workers(was.get("workers", {}), now["workers"], {})
    ]
    if not clocks:  # an appliance, which has no engine of ours
        cpus = ", ".join(map(str, now["cpus"]))
        clocks = [LcoreTime(f"VNF {name}'s lcore {cpus}", read_s, read_s, kept, alone)]
    return clocks


def _shared(cpu: int, before: Json, vnfs: Json, read_s: float) -> LcoreTime | None:
    """None where somebody of them slept: then nobody had to run."""
    ran_s = 0.0
    for name, now in vnfs.items():
        if cpu not in now["cpus"]:
            continue
        was = before.get("vnfs", {}).get(name, {})
        if not now["run_queue"] or len(now["cpus"]) > 1 or _slept(was, now):
            return None
        ran_s += _grown_s(was.get("run_queue", {}), now["run_queue"], "ran_ns")
    return LcoreTime(f"Lcore {cpu} of several VNFs", read_s, read_s, max(0.0, read_s - ran_s))


def _slept(was: Json, now: Json) -> bool:
    if not now["workers"] or _grown_s(was, now, "throttled_ns"):
        return True
    earlier = was.get("workers", {})
    return any(
        worker.get("sleeps", 0) > earlier.get(cpu, {}).get("sleeps", 0)
        for cpu, worker in now["workers"].items()
    )


def _grown_s(was: Json, now: Json, key: str) -> float:
    return max(0, int(now.get(key, 0)) - int(was.get(key, 0))) / 1e9
