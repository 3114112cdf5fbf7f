# SPDX-License-Identifier: Apache-2.0
"""A chain on a described server whose lcores are added and removed under a load over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.place import Placement
from headrace.ground.load_curve import load_of
from headrace.ground.operable import (
    HELD_PART,
    Assignment,
    Foresight,
    Numbers,
    PlantTelemetry,
    Totals,
)
from headrace.ground.simulated.elastic_model import PricedElastic, cycles_of, priced_lcore
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.ground.simulated.queueing import WIRE, delays_ns
from headrace.layout.buckets import (
    ONE_STAGE,
    TICK_S,
    BucketCounts,
    BucketedLcores,
    BucketLoad,
    StagedWork,
)
from headrace.record.identity import Origin
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.operate import Operate
from headrace.spec.study import Experiment

_COUNTED_S = 0.1  # packets of each bucket
_SEEDS_APART = 1009  # of chains: further than repetitions are


@dataclass(frozen=True)
class SimulatedOperable:
    """`offered`: what the tester makes of the load; `room`: packets of an lcore's queue; `slower`:
    from each time on packets cost so many times as much."""

    model: PricedElastic
    future: Foresight
    offered: Foresight
    asked: Operate
    frame_bytes: float
    room: int
    labels: Sequence[str]
    slower: tuple[tuple[float, float], ...] = ()
    work: StagedWork = ONE_STAGE
    origin: Origin = "predicted"

    def plant(self, lcores: int, repetition: int) -> SimulatedPlant:
        every = np.ones(self.model.most)
        return SimulatedPlant(self, range(lcores), self.asked.seed + repetition - 1, every)

    def apart(self, number: int) -> SimulatedOperable:
        """The same with packets of its own, for the chain of this number."""
        seed = (self.asked.seed + _SEEDS_APART * number) % (1 << 31)
        return replace(self, asked=self.asked.model_copy(update={"seed": seed}))

    def plant_on(self, parts: Numbers, repetition: int) -> SimulatedPlant:
        begin = [int(one) for one in np.flatnonzero(parts)]
        return SimulatedPlant(self, begin, self.asked.seed + repetition - 1, parts)


@dataclass(frozen=True)
class AskedChain:
    """A chain on a described server, as its study asks for it."""

    experiment: Experiment
    doc: Document
    server: DescribedServer
    engine: str
    placement: Placement


def operable_of(
    asked_for: AskedChain,
    alone: PricedLayout,
    slower: tuple[tuple[float, float], ...],
    most_pps: float,
    labels: Sequence[str],
) -> SimulatedOperable:
    """`alone`: the chain on one of its lcores; `most_pps`: what the tester makes."""
    experiment, server = asked_for.experiment, asked_for.server
    asked, deployment = experiment.study.measure.operate, experiment.study.deployment
    assert asked is not None  # the session asks for it
    asked = asked.of_chain(experiment.chain)
    carried, _ = alone.capacity()

    def delays(load_pps: float) -> NDArray[np.float64] | None:
        return delays_ns(alone, load_pps, carried, experiment, server, asked_for.engine)

    most = len(asked_for.placement.segments[0].cpus)
    one, cycles = priced_lcore(alone, delays), cycles_of(alone)
    stages = tuple(each / sum(cycles) for each in cycles)
    model = PricedElastic(one, most, asked.buckets, experiment.flows, asked.costs, stages)
    future = load_of(experiment, asked_for.doc)
    offered = Foresight(future.seconds, np.minimum(future.pps, most_pps))
    wire = WIRE if deployment.wire == "auto" else deployment.wire
    outside = server.tester == "outside"
    room = server.ports[0].buffer_packets if outside else wire
    held_s = HELD_PART * asked.slo.p99 if asked.chains and asked.backpressure else None
    work = StagedWork(stages, deployment.ring.size, held_s)
    return SimulatedOperable(
        model, future, offered, asked, experiment.frame.mean_bytes, room, labels, slower, work
    )


@dataclass
class SimulatedPlant:
    """`parts`: of each lcore, what the chain has from now on."""

    of: SimulatedOperable
    begin: Sequence[int]
    seed: int
    parts: Numbers
    _lcores: BucketedLcores = field(init=False)
    _offered: deque[int] = field(init=False)
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        of, model = self.of, self.of.model
        self._random = np.random.default_rng(self.seed)
        flows = self._random.multinomial(model.flows, [1 / model.buckets] * model.buckets)
        moving = np.asarray(model.moving_s(flows.astype(np.float64)))
        load = BucketLoad(flows / model.flows, moving)
        costs = of.asked.costs
        self._lcores = BucketedLcores(
            load, model.most, self.begin, of.room, costs.start, self.seed, costs.share,
            of.work,
        )  # fmt: skip
        self._ticks = max(1, round(of.asked.interval / TICK_S))
        self._offered = deque(maxlen=max(1, round(_COUNTED_S / of.asked.interval)))

    @property
    def ended(self) -> bool:
        left = float(self.of.future.seconds[-1]) - self._lcores.now_s
        return left < self._ticks * TICK_S * (1 - 1e-6)

    @property
    def assignment(self) -> Assignment:
        return Assignment(self._lcores.used, self._lcores.owners)

    @property
    def core_seconds(self) -> float:
        return self._lcores.core_seconds

    @property
    def on(self) -> NDArray[np.bool_]:
        return self._lcores.on

    def _pace(self, at_s: float) -> float:
        """What packets really cost, over what the model says."""
        begun = [slower for since, slower in self.of.slower if since <= at_s]
        return (1 + self.of.asked.model_error) * (begun[-1] if begun else 1.0)

    def read(self) -> PlantTelemetry:
        begin = self._lcores.now_s
        ticks = begin + (np.arange(self._ticks) + 0.5) * TICK_S
        future, model = self.of.offered, self.of.model
        rates = np.interp(ticks, future.seconds, future.pps)
        pace = self._pace(begin + 1e-9)
        serves = model.carries_pps(self._lcores.lcores) / pace
        parts = np.where(self.parts > 0, self.parts, 1.0)
        self._lcores.parts = parts
        seen = self._lcores.let(rates, serves)
        self._offered.append(seen.offered)
        paced = seen.worked / seen.seconds * pace
        used = len(self._lcores.used)
        moving = seen.moving_s / seen.seconds
        return PlantTelemetry(
            begin_s=begin,
            seconds=seen.seconds,
            offered=seen.offered,
            dropped=seen.dropped,
            p99_s=self._p99_s(seen, parts, pace),
            came=seen.came,
            done=seen.done,
            busy=model.busy(used, paced, free=parts - moving) + moving,
            burst=model.burst_all(paced, parts - moving),
            queued=seen.queued,
            on=seen.on,
            moving=seen.pending,
            settled=seen.pending == 0 and used == self._lcores.lcores,
            held_back=seen.held_back,
            wasted_s=float(seen.wasted.sum()) / serves,
            part=parts,
        )

    def _p99_s(self, seen: BucketCounts, parts: Numbers, pace: float) -> float:
        if not seen.offered:
            return 0.0
        model = self.of.model
        each = (seen.came / parts).max()
        part = float(each) / seen.seconds * pace / model.carries_pps(1)
        return model.with_wait(part, seen.waited_s(0.99))

    def packets(self) -> Numbers:
        shares = self._lcores.load.shares
        drawn: Numbers = self._random.poisson(shares * sum(self._offered)).astype(np.float64)
        return drawn

    def act(self, wanted: Assignment) -> int:
        return self._lcores.change(wanted.lcores, wanted.owners)

    def totals(self) -> Totals:
        offered, done, dropped, _ = (int(one) for one in self._lcores.total)
        ends = np.linspace(0.0, self._lcores.now_s, max(2, round(self._lcores.now_s / TICK_S)))
        future, most = self.of.future, self.of.offered.peak
        over = np.maximum(0.0, np.interp(ends, future.seconds, future.pps) - most)
        unsent = round(float(np.trapezoid(over, ends)))
        behind = self._lcores.lost_behind
        places = {"wire-forward/full": dropped - behind, "ring/full": behind}
        drops = {place: many for place, many in places.items() if many}
        held_back = self._lcores.held_back
        return Totals(
            offered - held_back, done, dropped, self._lcores.queued, unsent, drops,
            held_back=held_back, wasted_s=self._lcores.wasted_s,
        )  # fmt: skip
