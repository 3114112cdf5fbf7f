# SPDX-License-Identifier: Apache-2.0
"""Where an lcore's cycles go, per packet that the chain carries: functions, links, idle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headrace.analyse.capacity import PAUSED, CostKind, CycleCost, carried_pps, costs_of, parts_of
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.frozen import Record
from headrace.record.rows import Measurement


class Lcore(Record):
    """One lcore's cycles in the time from one packet of the chain to the next: TSC Hz over the rate
    that it carries, which all of `spent` adds up to."""

    cpu: int
    segments: tuple[str, ...]
    chain: bool  # runs a part of the chain, not the tester alone
    spent: tuple[CycleCost, ...]
    alike: int = 1  # lcores that do the same, of which this one has the least left

    @property
    def busy(self) -> float:
        return sum(s.cycles for s in self.spent if s.kind not in ("away", "idle"))

    def cycles(self, name: str) -> float:
        return sum(s.cycles for s in self.spent if s.name == name)


def lcores_of(at: Measurement) -> tuple[Lcore, ...]:
    """Empty where the engine's counters are not known, or nothing was carried."""
    counters, rate = at.counters, carried_pps(at)
    if counters is None or not rate:
        return ()
    cpus = dict.fromkeys(w.cpu for w in counters.workers if w.segments)
    lcores = [_lcore(cpu, at, counters, counters.tsc_hz / rate) for cpu in cpus]
    return tuple(sorted(lcores, key=lambda one: (one.chain, one.cpu)))


def folded(lcores: Sequence[Lcore], most: int) -> tuple[Lcore, ...]:
    """The lcores; where they are more than `most`, of those with the same functions the fullest."""
    if len(lcores) <= most:
        return tuple(lcores)
    alike: dict[tuple[str, ...], list[Lcore]] = defaultdict(list)
    for one in lcores:
        alike[tuple(s.name for s in one.spent if s.kind in ("nf", "tester"))].append(one)
    return tuple(
        max(some, key=lambda one: one.busy).model_copy(update={"alike": len(some)})
        for some in alike.values()
    )


def _lcore(cpu: int, at: Measurement, counters: Counters, budget: float) -> Lcore:
    """`budget`: cycles of an lcore from one packet to the next."""
    segments = [s for s in at.segments if cpu in s.cpus]
    workers = [w for w in counters.workers if w.cpu == cpu]
    busy = sum(w.utilisation for w in workers)
    # Several threads on one CPU wait for one another: what each was kept from is the others' work.
    away = workers[0].away if len(workers) == 1 else 0.0
    spent = [
        CycleCost(name=name, kind=kind, cycles=share * busy * budget)
        for (name, kind), share in _shares(cpu, at, counters).items()
    ]
    if away >= PAUSED:
        spent.append(CycleCost(name="away", kind="away", cycles=away * budget))
    if (idle := 1 - busy - away) > PAUSED:
        spent.append(CycleCost(name="idle", kind="idle", cycles=idle * budget))
    return Lcore(
        cpu=cpu,
        segments=tuple(s.name for s in segments),
        chain=any(s.role == "chain" for s in segments),
        spent=tuple(spent),
    )


def _shares(cpu: int, at: Measurement, counters: Counters) -> dict[tuple[str, CostKind], float]:
    """What each takes of the lcore's busy time; the functions first."""
    held = {p.name for p in parts_of(at) if p.held_up}
    roles = {s.name: s.role for s in at.segments}
    cycles: dict[tuple[str, CostKind], float] = defaultdict(float)
    for replica in (r for r in counters.replicas if r.cpu == cpu):
        role = roles.get(replica.segment, "chain")
        for name, kind, each in _of_replica(replica, role, replica.segment in held):
            cycles[name, kind] += each
    total = sum(cycles.values())
    order: tuple[CostKind, ...] = ("tester", "nf", "links", "loop", "unknown")
    return {
        key: value / total
        for key, value in sorted(cycles.items(), key=lambda item: order.index(item[0][1]))
        if total and value
    }


def _of_replica(r: ReplicaReading, role: str, held: bool) -> list[tuple[str, CostKind, float]]:
    if role != "chain":
        return [(r.segment, "tester", float(r.ops_cycles))]
    if held:
        return [("not known", "unknown", float(r.ops_cycles))]
    return [(c.name, c.kind, c.cycles * r.packets_in) for c in costs_of([r], ())]
