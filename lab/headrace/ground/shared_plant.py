# SPDX-License-Identifier: Apache-2.0
"""Elastic segments of several chains whose replicas share the lcores of one engine.

An lcore takes a burst of each of its segments in turn. So who has which part of it is decided by
what sources may send: as much as the part works on, and what may wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.counts import EngineCounts, ReplicaCounts, WorkerCounts
from headrace.engine.link_counts import RingCounts
from headrace.engine.together import EngineTogether
from headrace.ground.elastic_engine import EngineOperable, operable_of
from headrace.ground.elastic_plant import (
    LEAST_PPS,
    WINDOW_S,
    ElasticEngine,
    EnginePlant,
    taken,
)
from headrace.ground.inline import DeployedEngine
from headrace.ground.operable import (
    HELD_PART,
    Integers,
    Numbers,
    PlantTelemetry,
    SharedPlant,
    Totals,
)

_HALF = 0.5  # of a ring


@dataclass(frozen=True)
class SendingLimit:
    """What a source may send where it is held back. `held_s`: how long what waits for an lcore may
    take its chain there; `room`: packets of an lcore's ring."""

    carried_pps: float  # of a whole lcore
    held_s: float
    room: int

    def pps(
        self, parts: Numbers, shares: Numbers, queued: Integers, until_s: float = WINDOW_S
    ) -> float:
        """Until the next look no lcore is to have more than it works on, and what may wait for it.
        By lcore: what the chain has of it, its share of the packets, those that wait. `until_s`:
        how long that is, which is longer than a window where the lab has little of a CPU."""
        serves = self.carried_pps * parts
        waits = np.minimum(self.held_s * serves, _HALF * self.room)
        room = np.maximum(0.0, serves * until_s + waits - queued)
        there = shares > 0
        if not there.any():
            return float("inf")
        return float((room[there] / shares[there]).min()) / until_s


@dataclass
class SharedStart:
    """All chains' sources begin at one instant, when the first of them is looked at, and stop at
    one: an engine has one trial at a time."""

    whole: EngineTogether
    _ready: dict[str, SharedEnginePlant] = field(default_factory=dict)
    _sending: bool = False

    def add(self, chain: str, plant: SharedEnginePlant) -> None:
        self._ready[chain] = plant

    def begin(self) -> None:
        """Begins once, with all that were added."""
        if self._ready:
            plants, self._ready = self._ready, {}
            start = self.whole.start({chain: plant.source for chain, plant in plants.items()})
            self._sending = True
            for plant in plants.values():
                plant.began(start)

    def stop(self) -> None:
        if self._sending:
            self._sending = False
            self.whole.engine.request("stop")


@dataclass(kw_only=True)
class SharedEnginePlant(EnginePlant):
    """`parts`: of each lcore, what the chain has from now on."""

    chain: str
    parts: Numbers
    start: SharedStart
    limit: SendingLimit | None  # None: no source is held back
    _told_pps: float | None = None  # to the source at the last look; None: all of the load
    _held: int = 0  # packets, in all
    _look_s: float = WINDOW_S  # how long the last one was

    def _start(self) -> None:
        self.start.add(self.chain, self)

    @property
    def on(self) -> NDArray[np.bool_]:
        on: NDArray[np.bool_] = np.isin(np.arange(len(self.of.cpus)), self.of.at)
        return on

    @property
    def _in_force(self) -> Numbers:
        """Until a chain has left an lcore that it has lost, it has all of it."""
        parts: Numbers = np.where(self.on, np.where(self.parts > 0, self.parts, 1.0), 0.0)
        return parts

    def _has(self) -> float:
        return float(self._in_force.sum())

    def read(self) -> PlantTelemetry:
        self.start.begin()
        self._charged, parts = self._has(), self._in_force
        told_pps = self._told_pps
        seen = super().read()
        held_back = 0
        if told_pps is not None:
            due = self.future.mean(seen.begin_s, seen.begin_s + seen.seconds)
            held_back = max(0, round((due - told_pps) * seen.seconds))
        self._held += held_back
        offered = seen.offered + held_back
        return replace(seen, offered=offered, held_back=held_back, part=parts)

    def _stop(self) -> None:
        """Others may still send: `totals` stops them."""

    def _next_rate(self, at_s: float, now: EngineCounts) -> float:
        due = self._due(at_s)
        self._look_s = max(WINDOW_S, at_s - self._begun(self._before))
        rate = due if self.limit is None else max(LEAST_PPS, min(due, self._may_send(now)))
        self._told_pps = rate if rate < due else None
        return rate

    def _may_send(self, now: EngineCounts) -> float:
        assert self.limit is not None
        most, waits = len(self.of.cpus), now.links[self.of.way.wire]
        assert isinstance(waits, RingCounts), self.of.way.wire
        queued, parts = np.zeros(most, np.int64), self._in_force
        for replica, lcore in enumerate(self.of.at):
            queued[lcore] = waits.used_each[replica]
        weights = self.packets()
        if not weights.sum():
            weights = np.ones(len(self._owners))
        shares = np.bincount(self._owners, weights=weights, minlength=most) / weights.sum()
        return self.limit.pps(parts, shares, queued, self._look_s)

    def _worked(
        self, worker_was: WorkerCounts, worker: WorkerCounts, was: ReplicaCounts, has: ReplicaCounts
    ) -> float:
        """What others on the same lcore worked is theirs; what it was kept from working is of each
        as much as of its work."""
        all_of_them = worker.ops_cycles - worker_was.ops_cycles
        if all_of_them <= 0:
            return 0.0
        return taken(worker_was, worker) * (has.ops_cycles - was.ops_cycles) / all_of_them

    def totals(self) -> Totals:
        self.start.stop()
        held_back = self._held
        whole = super().totals()
        unsent = max(0, whole.unsent - held_back)
        facts = whole.facts
        assert facts is not None and facts.asked is not None
        facts = replace(facts, asked=facts.asked - held_back)
        return replace(whole, unsent=unsent, held_back=held_back, facts=facts)


@dataclass(frozen=True, kw_only=True)
class SharedEngineOperable(EngineOperable):
    chain: str
    start: SharedStart
    limit: SendingLimit | None

    def plant_on(self, parts: Numbers, repetition: int) -> SharedPlant:
        """The state of flows is what the run before left: they are the same."""
        lcores = tuple(int(one) for one in np.flatnonzero(parts))
        self.of.use(lcores)
        owners, _ = self.of.steered()
        self.of.move(np.array(lcores)[np.arange(len(owners)) % len(lcores)])
        return SharedEnginePlant(
            self.of, self.future, chain=self.chain, parts=parts, start=self.start, limit=self.limit
        )


def sharing_of(
    of: ElasticEngine, one: DeployedEngine, chain: str, start: SharedStart
) -> SharedEngineOperable:
    """Measures first, for some seconds."""
    experiment = one.point.experiment
    alone = operable_of(of, experiment, one.point.doc, one.labels)
    asked = experiment.study.measure.operate
    assert asked is not None  # the session asks for it
    limit = None
    if asked.backpressure:
        room = int(one.plan.links[of.way.wire].params["size"])
        slo = asked.of_chain(chain).slo
        limit = SendingLimit(alone.model.one.carried_pps, HELD_PART * slo.p99, room)
    return SharedEngineOperable(
        alone.of, alone.future, alone.frame_bytes, alone.labels, alone.model,
        chain=chain, start=start, limit=limit,
    )  # fmt: skip
