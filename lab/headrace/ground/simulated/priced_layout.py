# SPDX-License-Identifier: Apache-2.0
"""A layout with costs: what its lcores are busy for, and what bounds it beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from headrace.layout.layout import Layout, Problem, StageShare, parts
from headrace.layout.predicted_latency import BURST, QueueStage, at_bursts, bursts, stages

OUTSIDE = -1  # the lcore of a tester that is another machine
PORT, NIC_RATE = "port", "NIC"  # of `caps`


@dataclass(frozen=True)
class PricedLayout:
    """`uneven`: by segment, how much more than an equal share its busiest replica gets. `caps`:
    packets/s that something else than an lcore lets through, by what it is."""

    problem: Problem
    layout: Layout
    uneven: tuple[float, ...]
    caps: Mapping[str, float] = field(default_factory=dict)
    owners: tuple[tuple[str, ...], ...] = ()  # segment of each part of each stage; (): one each
    order: tuple[str, ...] = ()  # of the segments, as packets meet them; (): as they are listed
    other: PricedLayout | None = None  # the other direction, with as many packets

    @cached_property
    def stages(self) -> list[list[StageShare]]:
        return parts(self.problem, self.layout)

    def busiest(self) -> dict[int, float]:
        """Cycles of each lcore for a packet of the source, the busiest replica's where flows are
        spread unevenly."""
        return dict(self._busiest)

    @cached_property
    def _busiest(self) -> dict[int, float]:
        cycles = {} if self.other is None else self.other.busiest()
        for i, stage in enumerate(self.stages):
            more = self.more_on(i)
            for part in stage:
                cycles[part.cpu] = cycles.get(part.cpu, 0.0) + part.cycles * more
        cycles.pop(OUTSIDE, None)
        return cycles

    def more_on(self, stage: int) -> float:
        """How much more than an equal share this stage's busiest replica gets."""
        return self.uneven[stage - 1] if 0 < stage <= len(self.uneven) else 1.0

    def stages_pps(self) -> list[float]:
        """Packets/s of the source at which the first lcore of each stage has nothing left."""
        lcores = self.lcores_pps()
        return [min(lcores.get(part.cpu, math.inf) for part in stage) for stage in self.stages]

    def capacity(self) -> tuple[float, str]:
        """Packets/s at which the first resource has nothing left, and which it is."""
        lcores = self.lcores_pps()
        worst = min(lcores, key=lambda cpu: lcores[cpu])
        limits = {self._called(worst): lcores[worst], **self.caps}
        name = min(limits, key=lambda one: limits[one])
        return limits[name], name

    def lcores_pps(self) -> dict[int, float]:
        """Packets/s of the source at which each lcore has nothing left, in full bursts."""
        kept = self.problem.tsc_hz * self.problem.kept
        return {cpu: kept / cycles for cpu, cycles in self.busiest().items()}

    def _called(self, cpu: int) -> str:
        return f"lcore {cpu}"

    def received_pps(self, sent: float) -> float:
        return min(sent, self.capacity()[0])

    def way_at(self, load_pps: float) -> list[tuple[QueueStage, ...]]:
        """What the lcores poll at this load, stage by stage."""
        return stages(self.problem, self.layout, load_pps)

    def others_at(self, load_pps: float) -> list[QueueStage]:
        """What they poll of the other direction, behind this one's."""
        if self.other is None:
            return []
        far = len(self.stages)
        return [
            replace(one, position=one.position + far)
            for several in self.other.way_at(load_pps)
            for one in several
        ]

    def visits_in(self, names: Sequence[str]) -> dict[str, float]:
        """Packets that each of a segment's functions gets, of those that the segment gets."""
        order = [nf.name for nf in self.problem.nfs]
        visits = {name: self.problem.visits[order.index(name)] for name in names if name in order}
        most = max(visits.values(), default=1.0) or 1.0
        return {name: visits.get(name, most) / most for name in names}

    def each_at(self, load_pps: float) -> list[list[float]]:
        """Cycles of a packet that each part of each stage gets. At low loads polls find few of
        them, and what a poll costs once is theirs alone. 0: as fast as possible, in full bursts."""
        if load_pps:
            way, others = self.way_at(load_pps), self.others_at(load_pps)
            return at_bursts(way, self._gathered(load_pps), others)
        return [
            [part.cycles / (part.packets or 1.0) for part in several] for several in self.stages
        ]

    def bursts_at(self, load_pps: float) -> list[list[float]]:
        """Packets that each part's polls find."""
        if load_pps:
            way, others = self.way_at(load_pps), self.others_at(load_pps)
            return bursts(way, self._gathered(load_pps), others)
        return [[float(BURST)] * len(several) for several in self.stages]

    def _gathered(self, load_pps: float) -> Mapping[int, float] | None:
        """Bursts that come while an lcore is another task's."""
        return None

    def source_pps(self) -> float:
        """What the tester makes at most: by its ports, or by its lcore beside what else that does,
        which is no more than what the narrowest of the others lets through."""
        [source] = self.stages[0]
        if source.cpu == OUTSIDE:
            return self.caps[PORT]
        hz, cycles = self.problem.tsc_hz, self.busiest()
        alone = cycles.pop(source.cpu)
        making = source.cycles + (self.other.stages[0][0].cycles if self.other else 0.0)
        rest = min((hz * self.problem.kept / one for one in cycles.values()), default=hz / alone)
        return max(hz / alone, (hz - rest * (alone - making)) / making)
