# SPDX-License-Identifier: Apache-2.0
"""A way to execute a chain, and what it costs each lcore by what its functions cost alone.

The traffic's own segments are in it: the lcore that makes packets has less time for the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Lcores = tuple[int, ...]  # of a segment, one replica on each


@dataclass(frozen=True)
class Hop:
    """Cycles per packet of getting packets from, or giving them to, a ring: the other end on the
    same lcore, or on another one (S3 table 3). `spread`: where several replicas share the packets;
    their writer has then classified and steered them, and bursts are shorter."""

    same: float
    apart: float
    spread: float | None = None  # None: as the two above

    def mixed(self, same: float, spread: bool = False) -> float:
        if spread and self.spread is not None:
            return self.spread
        return same * self.same + (1 - same) * self.apart


@dataclass(frozen=True)
class NfCost:
    """`work`: the function itself; `apart` where it is the first to touch a packet that another
    lcore wrote. `loop`: the segment loop's part. All are per packet of full bursts."""

    name: str
    rx: Hop
    work: Hop
    tx: Hop
    loop: float
    # In a replica, on packets that its lcore has already: each has a part of the flows only.
    replicated: float | None = None  # None: as work.same
    poll: float = 0.0  # cycles that a poll costs once, however many packets it finds

    def inside(self, replicated: bool) -> float:
        """Behind the first function of its segment."""
        if replicated and self.replicated is not None:
            return self.replicated
        return self.work.same


@dataclass(frozen=True)
class Traffic:
    """What making and measuring a packet costs, and where it is done."""

    source: Hop
    sink: Hop
    generator: int
    measure: int
    steer: float = 0.0  # what choosing a replica for a packet adds to sending it
    poll: float = 0.0  # as of a function; of source and of sink each
    idle: float = 0.0  # cycles of a poll that finds nothing


@dataclass(frozen=True)
class Problem:
    nfs: tuple[NfCost, ...]
    traffic: Traffic
    lcores: Lcores  # that the chain may run on
    tsc_hz: float


@dataclass(frozen=True)
class Layout:
    """`cuts`: how many functions each segment has."""

    cuts: tuple[int, ...]
    lcores: tuple[Lcores, ...]

    def groups(self, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        found, at = [], 0
        for size in self.cuts:
            found.append(tuple(names[at : at + size]))
            at += size
        return tuple(found)

    def text(self, names: Sequence[str]) -> str:
        parts = zip(self.groups(names), self.lcores, strict=True)
        return " | ".join(f"{'+'.join(group)} @{','.join(map(str, on))}" for group, on in parts)

    @property
    def used(self) -> Lcores:
        return tuple(sorted({cpu for on in self.lcores for cpu in on}))


def loads(problem: Problem, layout: Layout) -> dict[int, float]:
    """Cycles that each lcore spends per packet of the chain's throughput.

    Packets are spread evenly over a segment's replicas, so the chance that one comes from the same
    lcore is the share of the segment before that runs there.
    """
    traffic = problem.traffic
    found = dict.fromkeys((*problem.lcores, traffic.generator, traffic.measure), 0.0)
    before: Lcores = (traffic.generator,)
    first = 0
    to = layout.lcores[0]
    found[traffic.generator] += traffic.source.mixed(_same(traffic.generator, to), len(to) > 1)
    for i, (size, on) in enumerate(zip(layout.cuts, layout.lcores, strict=True)):
        after = layout.lcores[i + 1] if i + 1 < len(layout.cuts) else (traffic.measure,)
        nfs = problem.nfs[first : first + size]
        first += size
        steer = traffic.steer if len(after) > 1 else 0.0
        for cpu in on:
            own = segment(nfs, _same(cpu, before), _same(cpu, after), len(on) > 1)
            found[cpu] += (own + steer) / len(on)
        before = on
    found[traffic.measure] += traffic.sink.mixed(_same(traffic.measure, before), len(before) > 1)
    return found


def segment(
    nfs: Sequence[NfCost], from_same: float, to_same: float, replicated: bool = False
) -> float:
    """Cycles per packet of one segment, by the shares that come from and go to its own lcore."""
    first, last = nfs[0], nfs[-1]
    return (
        first.rx.mixed(from_same, replicated)
        + first.work.mixed(from_same, replicated)
        + sum(nf.inside(replicated) for nf in nfs[1:])
        + last.tx.mixed(to_same, replicated)
        + first.loop
    )


def _same(cpu: int, others: Lcores) -> float:
    return 1 / len(others) if cpu in others else 0.0


def throughput(problem: Problem, layout: Layout) -> float:
    """Packets/s when the busiest lcore has no time left."""
    return problem.tsc_hz / max(loads(problem, layout).values())
