# SPDX-License-Identifier: Apache-2.0
"""What each part of a chain can carry: by its undisturbed slices where there are enough of them
(record/estimates.py), or else by what the engine counted in the trial. Of a prediction the model
says it, the same at every load.

A part's capacity is TSC Hz / cycles per packet, over its lcores, the cost of its links
included, and as its lcores are shared: an lcore that runs several segments gives each packet
the sum of their cycles. It is stated in packets offered to the chain: a part that sees half
of them is twice as wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from headrace.record.counters import Counters, ReplicaReading, WorkerReading
from headrace.record.estimates import Capacity, PartCapacity
from headrace.record.frozen import Record
from headrace.record.rows import Measurement
from headrace.record.segments import Segment

LOSING = 0.01  # of what was sent, and not meant to be dropped: some part is full
PAUSED = 0.001  # of a trial: worth a word
HELD_UP = 0.05  # of a trial: an lcore away for longer has costs that are mostly waiting
ROUNDING = 1e-9  # of the busy time: no cost of its own

CostKind = Literal["nf", "links", "loop", "tester", "away", "idle", "unknown"]

# The audit's checks for lcores that did not run.
HELD_CHECKS = frozenset({"preemption", "standstill"})


class CycleCost(Record):
    """Cycles per packet: of a part, per packet that enters it; of an lcore, per packet that the
    chain carries. Only lcores have these: `tester`: source and sink; `away`: somebody else had the
    lcore; `unknown`: it was away for so long that its counters do not tell the rest."""

    name: str
    kind: CostKind
    cycles: float


class Part(Record):
    """A segment with all its replicas; the generator and the sink are parts too."""

    name: str
    role: Literal["chain", "generator", "sink"]
    cpus: tuple[int, ...]
    nfs: tuple[str, ...] = ()
    shares_cpu_with: tuple[str, ...] = ()
    costs: tuple[CycleCost, ...] = ()
    cycles_per_packet: float | None = None
    capacity_pps: float | None = None
    utilisation: float | None = None  # of its busiest lcore
    share_of_busiest: float | None = None  # of its packets; 1 / replicas when even
    burst: float | None = None  # packets that a poll found, in the mean,
    most_burst: int | None = None  # of so many at most; and what a packet costs when it finds these
    full_burst_cycles: float | None = None
    predicted: bool = False  # its capacity is the model's
    sampled: PartCapacity | None = None  # by undisturbed slices: then its capacity is this one's
    paused: float | None = None  # of the trial: kept from working; in nobody's cycles
    held_up: float | None = None  # of the trial, when its lcore's cycles say nothing for that
    share_of_lcore: float | None = None  # of the busy cycles of its busiest replica's lcore
    rings: dict[str, int] = Field(
        default_factory=dict
    )  # rings in front of it: packets that found them full
    drops: dict[str, int] = Field(default_factory=dict)  # its NFs' policy and other drops

    @property
    def own_pps(self) -> float | None:
        """What it could carry were its lcores its own."""
        if self.capacity_pps is None or not self.share_of_lcore:
            return self.capacity_pps
        return self.capacity_pps / self.share_of_lcore


def carried_pps(at: Measurement) -> float:
    """The load that the chain took: what it dropped on purpose counts as carried."""
    by_policy = at.policy_dropped / at.duration_s if at.duration_s else 0.0
    return at.throughput_pps + by_policy


def unreached(at: Measurement) -> bool:
    """Whether the generator was narrower than the chain: it made less than was asked for, or than
    the chain takes, and none of what reached the chain was lost. What the tester's own ports did
    not take never reached it."""
    kept = sum(one.value or 0.0 for one in at.audit.failed if one.check == "port")
    return at.audit.verdict == "generator-bound" and at.lost - kept <= LOSING * at.sent


def parts_of(at: Measurement) -> tuple[Part, ...]:
    counters = at.counters
    return tuple(
        Part(name=s.name, role=s.role, cpus=s.cpus, nfs=s.nfs, shares_cpu_with=s.shares_cpu_with)
        if counters is None
        else _part(s, counters, at)
        for s in at.segments
    )


def _part(segment: Segment, counters: Counters, at: Measurement) -> Part:
    replicas = [r for r in counters.replicas if r.segment == segment.name]
    packets = sum(r.packets_in for r in replicas)
    sampled = None if at.capacity is None else at.capacity.part(segment.name)
    workers = [w for w in counters.workers if w.cpu in segment.cpus]
    held = _held_up(workers, counters, at)
    told = sampled is not None or held is None
    costs = costs_of(replicas, segment.nfs) if held is None else ()
    cycles = sum(c.cycles for c in costs) or (sampled and sampled.cycles_per_packet.value)
    rings = {
        link: counters.rings[link].full
        for link in dict.fromkeys(link for r in replicas for link in r.inputs)
        if link in counters.rings
    }
    busiest = max((r.packets_in for r in replicas), default=0)
    model = None if at.predicted is None else at.predicted.part(segment.name)
    counted = _capacity(replicas, counters, at, sum(rings.values()))
    full_bursts = _together(replicas, [r.full_burst_cycles for r in replicas])
    return Part(
        name=segment.name,
        role=segment.role,
        cpus=segment.cpus,
        nfs=segment.nfs,
        shares_cpu_with=segment.shares_cpu_with,
        costs=costs,
        cycles_per_packet=cycles or None,
        capacity_pps=_known(sampled, held, counted) if model is None else model.pps,
        predicted=model is not None,
        sampled=sampled,
        burst=_together(replicas, [r.mean_burst for r in replicas]),
        most_burst=max((r.burst for r in replicas if r.burst), default=None),
        full_burst_cycles=full_bursts if model is None else model.cycles_per_packet,
        paused=max((w.away for w in workers), default=None),
        held_up=held,
        utilisation=max((w.utilisation for w in workers), default=None),
        share_of_busiest=busiest / packets if packets else None,
        share_of_lcore=(_share_of_lcore(replicas, counters, at.capacity) if told else None)
        if model is None
        else model.share_of_lcore,
        rings=rings,
        drops={
            f"{name}/{reason}": n
            for name, reason, n in (
                (
                    name,
                    reason,
                    sum(r.nfs[name].dropped.get(reason, 0) for r in replicas if name in r.nfs),
                )
                for name in dict.fromkeys(n for r in replicas for n in r.nfs)
                for reason in dict.fromkeys(
                    d for r in replicas if name in r.nfs for d in r.nfs[name].dropped
                )
            )
            if n
        },
    )


def _known(sampled: PartCapacity | None, held: float | None, counted: float | None) -> float | None:
    if sampled is not None:
        return sampled.pps.value
    return counted if held is None else None


def costs_of(replicas: Sequence[ReplicaReading], nfs: Sequence[str]) -> tuple[CycleCost, ...]:
    """Per packet into the segment; an NF that only some packets visit costs its share."""
    packets = sum(r.packets_in for r in replicas)
    if not packets:
        return ()
    costs = []
    for nf in dict.fromkeys([*nfs, *(n for r in replicas for n in r.nfs)]):
        readings = [(r.nfs[nf], r.sampled_share) for r in replicas if nf in r.nfs]
        total = sum((n.cycles_per_packet or 0.0) * n.packets_in * share for n, share in readings)
        costs.append(CycleCost(name=nf, kind="nf", cycles=total / packets))
    fast = [(r.fastpath, r.packets_in * r.sampled_share) for r in replicas if r.fastpath]
    if fast:
        total = sum((f.cycles_per_packet or 0.0) * n for f, n in fast)
        costs.append(CycleCost(name="fast path", kind="loop", cycles=total / packets))
    total = sum((r.io_cycles_per_packet or 0.0) * r.packets_in * r.sampled_share for r in replicas)
    costs.append(CycleCost(name="links", kind="links", cycles=total / packets))
    # Busy time that no NF and no link accounts for: classification, splitting, accounting.
    busy = sum(r.ops_cycles for r in replicas) / packets
    rest = busy - sum(c.cycles for c in costs)
    if rest > ROUNDING * busy:
        costs.append(CycleCost(name="loop", kind="loop", cycles=rest))
    return tuple(costs)


def _held_up(workers: Sequence[WorkerReading], counters: Counters, at: Measurement) -> float | None:
    """The share of the trial in which an lcore was kept from running, where it is so large that
    what its packets cost is no longer the question."""
    told = {f.check: f.value or 0.0 for f in at.audit.findings if not f.ok}
    total = at.duration_s * counters.tsc_hz
    worst = None
    for worker in workers:
        # The wait for the last packets is part of both.
        whole = worker.ref_cycles or total
        waited = (worker.waited_ns or 0) / 1e9 * counters.tsc_hz
        if worker.waited_ns is None:  # records of before it was one
            waited = told.get("preemption", 0.0) * whole
        held = max(waited / whole if whole else 0.0, worker.away)
        if held > HELD_UP:
            worst = max(worst or 0.0, held)
    return worst


def _busy_cycles(replica: ReplicaReading) -> float:
    return sum(c.cycles for c in costs_of([replica], ())) * replica.packets_in


def _full_cycles(replica: ReplicaReading) -> float:
    full = replica.full_burst_cycles
    return _busy_cycles(replica) if full is None else full * replica.packets_in


def _together(replicas: Sequence[ReplicaReading], values: Sequence[float | None]) -> float | None:
    """The mean over packets, where all replicas know it."""
    packets = sum(r.packets_in for r in replicas)
    known = [v * r.packets_in for v, r in zip(values, replicas, strict=True) if v is not None]
    return sum(known) / packets if packets and len(known) == len(values) else None


def _share_of_lcore(
    replicas: Sequence[ReplicaReading], counters: Counters, capacity: Capacity | None
) -> float | None:
    """Goes by the cycles that the capacity rests on, so that one divides into the other: of
    undisturbed slices, where all that share the lcore have them, or else of the trial."""
    busiest = max(replicas, key=_busy_cycles, default=None)
    if busiest is None:
        return None
    there = [r for r in counters.replicas if r.cpu == busiest.cpu]
    sampled = [None if capacity is None else capacity.part(r.segment) for r in there]
    cycles = [
        one.cycles_per_packet.value * r.packets_in
        for one, r in zip(sampled, there, strict=True)
        if one is not None
    ]
    if len(cycles) < len(there):
        cycles = [_busy_cycles(r) for r in there]
    return cycles[there.index(busiest)] / sum(cycles) if sum(cycles) else None


def _capacity(
    replicas: Sequence[ReplicaReading], counters: Counters, at: Measurement, full: int
) -> float | None:
    """The load on the chain at which the first of the part's lcores has no cycles left.

    Then its polls find full bursts, in which a packet costs less than it did here, if they did not.
    """
    offered = at.sent or max((r.packets_in for r in counters.replicas), default=0)
    packets = sum(r.packets_in for r in replicas)
    if not packets or not offered:
        return None
    widths = []
    for replica in replicas:
        on_cpu = [r for r in counters.replicas if r.cpu == replica.cpu]
        # Cycles this lcore would need for one packet offered to the chain, had nothing
        # been lost in front of this part.
        cycles = sum(_full_cycles(r) for r in on_cpu) / offered * (packets + full) / packets
        if cycles > 0:
            widths.append(counters.tsc_hz / cycles)
    if not widths:
        return None
    # Cycles are of the clock: an lcore that was held up by other work seems to need more of
    # them. What it took is proof that it can carry at least that.
    return max(min(widths), carried_pps(at))
