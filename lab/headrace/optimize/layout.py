# SPDX-License-Identifier: Apache-2.0
"""A way to execute a chain, and what it costs each lcore by what its functions cost alone.

The traffic's own segments are in it: the lcore that makes packets has less time for the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Lcores = tuple[int, ...]  # of a segment, one replica on each
# Of what receiving costs another function: below it packets are not classified.
_UNCLASSIFIED = 0.5


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
    # Receiving behind other segments, which have classified the packets as far as they needed to.
    behind: Hop | None = None  # None: as rx

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
class Run:
    """Functions that follow each other, by their positions in the chain."""

    first: int
    size: int

    @property
    def behind(self) -> range:
        """All but the first."""
        return range(self.first + 1, self.first + self.size)


@dataclass(frozen=True)
class Problem:
    nfs: tuple[NfCost, ...]
    traffic: Traffic
    lcores: Lcores  # that the chain may run on
    tsc_hz: float
    runs: tuple[Run, ...] = ()  # that may work on a packet side by side (NFP's rules)
    # What the busiest lcore's time is worth in the cycles above: the rest goes to interruptions, to
    # waiting for the other lcore, and to what measuring adds or leaves out.
    kept: float = 1.0


@dataclass(frozen=True)
class Beside:
    """Functions of one segment side by side: the first on the segment's lcore, each other one on
    its own (docs/design/parallel.md)."""

    run: Run
    lcores: Lcores  # of those behind the first


@dataclass(frozen=True)
class Layout:
    """`cuts`: how many functions each segment has. With `beside` its segment has one replica."""

    cuts: tuple[int, ...]
    lcores: tuple[Lcores, ...]
    beside: Beside | None = None

    def groups(self, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        found, at = [], 0
        for size in self.cuts:
            found.append(tuple(names[at : at + size]))
            at += size
        return tuple(found)

    def text(self, names: Sequence[str]) -> str:
        found = []
        for i, (group, on) in enumerate(zip(self.groups(names), self.lcores, strict=True)):
            here = self.beside_in(i)
            behind = tuple(names[at] for at in here.run.behind) if here else ()
            cpus = (*on, *here.lcores) if here else on
            found.append(f"{joined(group, behind)} @{','.join(map(str, cpus))}")
        return " | ".join(found)

    def beside_in(self, segment: int) -> Beside | None:
        """The functions side by side, if they are in this segment."""
        first = sum(self.cuts[:segment])
        inside = range(first, first + self.cuts[segment])
        return self.beside if self.beside and self.beside.run.first in inside else None

    @property
    def used(self) -> Lcores:
        sides = self.beside.lcores if self.beside else ()
        return tuple(sorted({*sides, *(cpu for on in self.lcores for cpu in on)}))


def joined(names: Sequence[str], beside: Sequence[str]) -> str:
    """`a+b||c`: what is in `beside` works at the same time as what is before it."""
    text = ""
    for name in names:
        text += ("" if not text else "||" if name in beside else "+") + name
    return text


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
            own = segment(nfs, _same(cpu, before), _same(cpu, after), len(on) > 1, i > 0)
            found[cpu] += (own + steer) / len(on)
        if here := layout.beside_in(i):
            found[on[0]] += lead_extra(problem, here)
            for at, cpu in zip(here.run.behind, here.lcores, strict=True):
                found[cpu] += side(problem.nfs[at])
        before = on
    found[traffic.measure] += traffic.sink.mixed(_same(traffic.measure, before), len(before) > 1)
    return found


def segment(
    nfs: Sequence[NfCost],
    from_same: float,
    to_same: float,
    replicated: bool = False,
    behind: bool = False,
) -> float:
    """Cycles per packet of one segment, by the shares that come from and go to its own lcore.

    A segment classifies packets on receipt when any of its functions needs that. Then the header is
    there when the first one, that does not, touches it."""
    first, last = nfs[0], nfs[-1]
    rx = [(nf.behind if behind and nf.behind else nf.rx).mixed(from_same, replicated) for nf in nfs]
    for_later = rx[0] < _UNCLASSIFIED * max(rx)
    return (
        (max(rx) if for_later else rx[0])
        + (first.inside(replicated) if for_later else first.work.mixed(from_same, replicated))
        + sum(nf.inside(replicated) for nf in nfs[1:])
        + last.tx.mixed(to_same, replicated)
        + first.loop
    )


def side(nf: NfCost) -> float:
    """Cycles per packet of a function beside others: the slots that it works through are to it
    what a ring from another lcore is, and its verdicts are written there."""
    return nf.rx.apart + nf.work.apart


def lead_extra(problem: Problem, here: Beside) -> float:
    """What the lead pays for handing packets out and looking for verdicts, each as a ring to and
    from another lcore; less what the others do in its place."""
    first = problem.nfs[here.run.first]
    spared = sum(problem.nfs[at].work.same for at in here.run.behind)
    return first.tx.apart + first.rx.apart - spared


def _same(cpu: int, others: Lcores) -> float:
    return 1 / len(others) if cpu in others else 0.0


def throughput(problem: Problem, layout: Layout) -> float:
    """Packets/s when the busiest lcore has no time left."""
    return problem.tsc_hz * problem.kept / max(loads(problem, layout).values())
