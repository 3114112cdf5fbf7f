# SPDX-License-Identifier: Apache-2.0
"""A way to execute a chain, and what it costs each lcore by what its functions cost alone.

The traffic's own segments are in it: the lcore that makes packets has less time for the chain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.layout.gaps import Gap

Lcores = tuple[int, ...]  # of a segment, one replica on each
SOURCE = -1
# Of what receiving costs another function: below it packets are not classified.
_UNCLASSIFIED = 0.5
# Tables that are an eighth of all fit where they will ever fit.
HALVINGS_MAX = 3.0


@dataclass(frozen=True)
class Hop:
    """Cycles per packet of what depends on where a packet comes from, or goes to: the same lcore,
    or another one (Zheng et al. 2019 table 3). `replicas`: the same pair in a segment of several
    replicas, which share the packets: their bursts are smaller, and what wrote them has classified
    them."""

    same: float
    apart: float
    replicas: tuple[float, float] | None = None  # None: as the two above

    def mixed(self, same: float, replicated: bool = False) -> float:
        near, far = (self.same, self.apart)
        if replicated and self.replicas is not None:
            near, far = self.replicas
        return same * near + (1 - same) * far


@dataclass(frozen=True)
class NfCost:
    """All are cycles per packet that the function gets, in full bursts.

    `work`: the function itself, as the first of its segment; behind another one it costs what it
    does on packets of its own lcore. `tx.replicas`: to replicas on the same lcores, and to others.
    """

    name: str
    rx: Hop
    work: Hop
    tx: Hop
    loop: float
    # One of two replicas, on packets that its lcore has already: each has a part of the flows only.
    replicated: float | None = None  # None: as work.same
    poll: float = 0.0  # cycles that a poll costs once, however many packets it finds
    # Cycles that it costs less with each halving of the tables that are used on its lcore.
    relief: float = 0.0
    # Receiving and `work` with others behind it in its segment, which may need packets classified
    # where it does not; None: not seen, so by what those others pay to receive.
    joined: tuple[Hop, Hop] | None = None
    # It may write what flows are steered by: behind it a flow has another replica than before.
    resteers: bool = False

    def inside(self, replicated: bool, crowd: float | None = None) -> float:
        """Behind the first function of its segment. `crowd`: which part of all functions' tables
        is used on its lcore; None: as in the runs that the costs were taken from."""
        cycles, usual = self.work.same, 1.0
        if replicated and self.replicated is not None:
            cycles, usual = self.replicated, 0.5
        if crowd is None or not self.relief:
            return cycles
        halvings = min(HALVINGS_MAX, math.log2(usual / max(crowd, 1e-6)))
        return max(cycles / 2, cycles - halvings * self.relief)


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
    # What making a packet for replicas costs more with each further segment on the source's lcore.
    crowd: float = 0.0
    receive: Hop = field(default_factory=lambda: Hop(0.0, 0.0))  # the sink's part of it


@dataclass(frozen=True)
class Edge:
    """Packets that one function sends to another, per packet that the source makes. `origin`: its
    position, or SOURCE; `target`: a position, or one past the last for the chain's end."""

    origin: int
    target: int
    share: float


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
    edges: tuple[Edge, ...] = ()  # none: each function sends all that it gets to the next
    # What the functions cost on these lcores; on others, as in `nfs`.
    special: Mapping[int, tuple[NfCost, ...]] = field(default_factory=dict)
    # The same with so many packets in each burst; none: by what polls cost once.
    at_bursts: Mapping[int, Problem] = field(default_factory=dict)
    # What interrupts each lcore, of less than a pause.
    gaps: Mapping[int, tuple[Gap, ...]] = field(default_factory=dict)

    def on(self, cpu: int) -> tuple[NfCost, ...]:
        return self.special.get(cpu, self.nfs)

    @cached_property
    def tables(self) -> float:
        """What halving all tables saves: functions' parts of it stand for their tables' sizes."""
        return sum(nf.relief for nf in self.nfs)

    @cached_property
    def ways(self) -> tuple[Edge, ...]:
        n = len(self.nfs)
        return self.edges or tuple(Edge(i - 1, i, 1.0) for i in range(n + 1))

    @cached_property
    def visits(self) -> tuple[float, ...]:
        """Packets that each function gets, per packet of the source."""
        return tuple(sum(e.share for e in self.ways if e.target == i) for i in range(len(self.nfs)))

    @cached_property
    def delivered(self) -> float:
        """Packets that come out at the chain's end, per packet of the source."""
        return sum(e.share for e in self.ways if e.target == len(self.nfs))


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
        groups, at = [], 0
        for size in self.cuts:
            groups.append(tuple(names[at : at + size]))
            at += size
        return tuple(groups)

    def text(self, names: Sequence[str]) -> str:
        texts = []
        for i, (group, on) in enumerate(zip(self.groups(names), self.lcores, strict=True)):
            here = self.beside_in(i)
            behind = tuple(names[at] for at in here.run.behind) if here else ()
            cpus = (*on, *here.lcores) if here else on
            texts.append(f"{joined(group, behind)} @{','.join(map(str, cpus))}")
        return " | ".join(texts)

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


@dataclass
class StageShare:
    """One lcore's part of a stage: source, a segment, or sink. Both are per packet of the source;
    `packets` are those that it gets from other stages."""

    cpu: int
    packets: float = 0.0
    cycles: float = 0.0


def parts(problem: Problem, layout: Layout) -> list[list[StageShare]]:
    """The stages in a packet's order, each on its lcores; a segment's replicas get equal shares."""
    home = homes(len(problem.nfs), layout)
    on = [(problem.traffic.generator,), *layout.lcores, (problem.traffic.measure,)]
    parts = [[StageShare(cpu) for cpu in cpus] for cpus in on]
    for edge in problem.ways:
        a, b = home[edge.origin], home[edge.target]
        if a == b:
            continue
        alike = len(on[a]) == 1 or not resteered(problem.nfs, home, a)  # searches ask often
        for part in parts[a]:
            each = edge.share / len(on[a])
            part.cycles += each * sending(problem, edge, part.cpu, on[a], on[b], alike)
        for part in parts[b]:
            each = edge.share / len(on[b])
            part.packets += each
            part.cycles += each * receiving(problem, home, edge, part.cpu, on[a], on[b], alike)
    if len(on[1]) > 1:
        parts[0][0].cycles += problem.traffic.crowd * further(layout, problem.traffic.generator)
    crowds = _crowds(problem, home, on) if problem.tables else {}
    for i, visits in enumerate(problem.visits):
        here = parts[home[i]]
        for part in here:
            nf = problem.on(part.cpu)[i]
            cycles = nf.inside(len(here) > 1, crowds.get(part.cpu))
            part.cycles += visits / len(here) * cycles
    return parts


def further(layout: Layout, cpu: int) -> int:
    """Segments on an lcore beyond the first."""
    return max(0, sum(cpu in on for on in layout.lcores) - 1)


def homes(nfs: int, layout: Layout) -> dict[int, int]:
    """Function -> stage. The source is stage 0, and the chain's end the last."""
    segments = {SOURCE: 0, nfs: len(layout.cuts) + 1}
    at = 0
    for i, size in enumerate(layout.cuts):
        segments |= dict.fromkeys(range(at, at + size), i + 1)
        at += size
    return segments


def resteered(nfs: Sequence[NfCost], home: Mapping[int, int], stage: int) -> bool:
    """Whether what leaves a stage is steered otherwise than what came to it."""
    return any(nf.resteers and home[i] == stage for i, nf in enumerate(nfs))


def transitions(problem: Problem, layout: Layout) -> list[dict[int, float]]:
    """For each stage, the chances that a packet which it got goes to others; else it is dropped, or
    it is two packets, of which those beyond the first are left out."""
    home = homes(len(problem.nfs), layout)
    entered = [1.0] + [0.0] * (len(layout.cuts) + 1)
    sent: list[dict[int, float]] = [{} for _ in entered]
    for edge in problem.ways:
        a, b = home[edge.origin], home[edge.target]
        if a != b:
            entered[b] += edge.share
            sent[a][b] = sent[a].get(b, 0.0) + edge.share
    return [
        {b: share / entered[a] for b, share in onwards.items()} if entered[a] else {}
        for a, onwards in enumerate(sent)
    ]


def _crowds(problem: Problem, home: dict[int, int], on: Sequence[Lcores]) -> dict[int, float]:
    """Which part of all functions' tables each lcore uses; a replica, its share of the flows'."""
    relieved: dict[int, float] = {}
    for i, nf in enumerate(problem.nfs):
        here = on[home[i]]
        for cpu in here:
            relieved[cpu] = relieved.get(cpu, 0.0) + nf.relief / problem.tables / len(here)
    return relieved


def sending(
    problem: Problem, edge: Edge, cpu: int, own: Lcores, to: Lcores, alike: bool = True
) -> float:
    """To replicas, steering adds to a function's cost of sending; the source's was measured so.
    `alike`: a flow's hash takes it to the same one of as many replicas."""
    traffic = problem.traffic
    if edge.origin == SOURCE:
        return traffic.source.mixed(_same(cpu, to), len(to) > 1)
    tx = problem.on(cpu)[edge.origin].tx
    if len(own) > 1 and tx.replicas is not None:
        return tx.mixed(float(own == to) if alike else _same(cpu, to), replicated=True)
    steer = traffic.steer if len(to) > 1 else 0.0
    return tx.mixed(_same(cpu, to)) + steer


def receiving(
    problem: Problem,
    home: dict[int, int],
    edge: Edge,
    cpu: int,
    of: Lcores,
    own: Lcores,
    alike: bool = True,
) -> float:
    """A segment classifies packets on receipt when any function needs that which they may yet meet
    in it. Then the header is there when the first one, that does not, touches it. `alike`: as of
    sending."""
    same = 1.0 if own == of and len(own) > 1 and alike else _same(cpu, of)
    replicated = len(own) > 1
    if edge.target == len(problem.nfs):
        return problem.traffic.sink.mixed(same, len(of) > 1)
    nfs = problem.on(cpu)
    further = [nf for i, nf in enumerate(nfs) if i >= edge.target and home[i] == home[edge.target]]
    first = further[0]
    if len(further) > 1 and first.joined is not None:
        receive, work = (hop.mixed(same, replicated) for hop in first.joined)
        return receive + first.loop + work - first.inside(replicated)
    rx = [nf.rx.mixed(same, replicated) for nf in further]
    cycles = max(rx) + first.loop
    if rx[0] >= _UNCLASSIFIED * max(rx):
        cycles += first.work.mixed(same, replicated) - first.inside(replicated)
    return cycles


def loads(problem: Problem, layout: Layout) -> dict[int, float]:
    """Cycles that each lcore spends per packet of the source."""
    traffic = problem.traffic
    cycles = dict.fromkeys((*problem.lcores, traffic.generator, traffic.measure), 0.0)
    for stage in parts(problem, layout):
        for part in stage:
            cycles[part.cpu] += part.cycles
    for i, on in enumerate(layout.lcores):
        if here := layout.beside_in(i):
            visits = problem.visits[here.run.first]
            cycles[on[0]] += visits * lead_extra(problem, here)
            for at, cpu in zip(here.run.behind, here.lcores, strict=True):
                cycles[cpu] += visits * side(problem.nfs[at])
    return cycles


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
    """Packets/s that come out when the busiest lcore has no time left."""
    sent = problem.tsc_hz * problem.kept / max(loads(problem, layout).values())
    return sent * problem.delivered
