# SPDX-License-Identifier: Apache-2.0
"""What a runtime that keeps an SLO asks of a deployment: telemetry of each interval, and to be
changed. What it decides by is a model of the same deployment, which may be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.record.facts import Facts
from headrace.record.identity import Origin

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
# Of what packets may take, that those inside an lcore take it when no more come of a source.
HELD_PART = 0.5


@dataclass(frozen=True)
class PlantTelemetry:
    """An interval. By lcore of the chain, by its place among them: packets that `came`, and that
    were `done`, how `busy` it was, packets that a poll found which found any, packets that wait for
    it, whether it was `on`. `moving`: buckets that are on their way,
    or yet to go; `settled`: none are, and no lcore begins or leaves. `held_back`: of those that
    were `offered`, packets that the source did not send; `wasted_s`: of lcores, on packets that
    were dropped behind it; `part`: of each lcore, what the chain has, if not all of it."""

    begin_s: float
    seconds: float
    offered: int
    dropped: int
    p99_s: float
    came: Integers
    done: Integers
    busy: Numbers
    burst: Numbers
    queued: Integers
    on: NDArray[np.bool_]
    moving: int
    settled: bool
    held_back: int = 0
    wasted_s: float = 0.0
    part: Numbers | None = None

    @property
    def parts(self) -> Numbers:
        """What the chain has of each lcore."""
        return np.ones(len(self.on)) if self.part is None else self.part

    @property
    def had(self) -> float:
        """Lcores that it has, parts of them added up."""
        return float(self.parts[self.on].sum())

    @property
    def offered_pps(self) -> float:
        return self.offered / self.seconds

    @property
    def lcores(self) -> int:
        return int(self.on.sum())

    @property
    def busiest(self) -> float:
        return float(self.busy.max())


@dataclass(frozen=True)
class Assignment:
    """Lcores that are to be used, and which of them each bucket is to be on."""

    lcores: tuple[int, ...]
    owners: Integers


class Plant(Protocol):
    """A deployment under its load."""

    @property
    def ended(self) -> bool: ...
    @property
    def assignment(self) -> Assignment: ...
    @property
    def core_seconds(self) -> float: ...
    def read(self) -> PlantTelemetry:
        """Lets an interval pass."""

    def packets(self) -> Numbers:
        """Packets of each bucket in the last tenth of a second: fewer tell too little."""

    def act(self, wanted: Assignment) -> int:
        """Begins to change: how many buckets move, which may be fewer than were to."""

    def totals(self) -> Totals: ...


@dataclass(frozen=True)
class Totals:
    """Packets since the beginning: offered = done + dropped + by_policy + queued. `unsent`: of the
    load, those that the tester cannot make; `held_back`: those that it kept, as the chain had too
    few lcores; `wasted_s`: of lcores, on packets that were dropped behind it. `drops`: of
    `dropped`, by place and reason; `by_policy`: those that functions dropped as they were told to.
    """

    offered: int
    done: int
    dropped: int
    queued: int
    unsent: int
    drops: Mapping[str, int] = field(default_factory=dict)
    by_policy: int = 0
    held_back: int = 0
    wasted_s: float = 0.0
    facts: Facts | None = None  # for the audit, of what really ran


class SharedPlant(Plant, Protocol):
    """One chain's of several on the same lcores."""

    parts: Numbers  # of each lcore, what the chain has from now on

    @property
    def on(self) -> NDArray[np.bool_]:
        """Lcores that it has now, those that it is leaving among them."""


class ElasticModel(Protocol):
    """What lcores of the chain would do."""

    @property
    def most(self) -> int:
        """Lcores that there are."""

    @property
    def buckets(self) -> int: ...
    @property
    def change_s(self) -> float:
        """Seconds until a new lcore works, and has the buckets that an even spread gives it."""

    @property
    def bucket_s(self) -> float:
        """Seconds of two lcores that a move of a bucket takes."""

    def carries_pps(self, lcores: int) -> float:
        """What each of so many carries at most."""

    def busy(self, lcores: int, pps: Numbers, burst: Numbers | None = None) -> Numbers:
        """How busy lcores are that get so much each, where there are so many. `burst`: in such
        bursts; None: as polls find them. An lcore that always finds some is busy all the time, and
        finds more at each poll the more come: it can still take more."""

    def p99_s(self, lcores: int, pps: float, dearer: float = 1.0) -> float:
        """That of packets of an lcore that gets so much; infinite in an overload. `dearer`: what
        a packet really costs, over what is known of it."""


@dataclass(frozen=True)
class Foresight:
    """The load of the whole run, for those who are allowed to know it."""

    seconds: Numbers  # at which
    pps: Numbers

    def most(self, begin_s: float, end_s: float) -> float:
        inside = (self.seconds >= begin_s) & (self.seconds <= end_s)
        ends = np.interp([begin_s, end_s], self.seconds, self.pps)
        return float(max(ends.max(), self.pps[inside].max(initial=0.0)))

    def mean(self, begin_s: float, end_s: float) -> float:
        """The mean of that time; what is behind the end of the run is as its end."""
        inside = (self.seconds > begin_s) & (self.seconds < end_s)
        at = np.concatenate([[begin_s], self.seconds[inside], [end_s]])
        ends = np.nextafter([begin_s, end_s], [end_s, begin_s])  # steps are no part of the time
        first, last = np.interp(ends, self.seconds, self.pps)
        rates = np.concatenate([[first], self.pps[inside], [last]])
        return float(np.trapezoid(rates, at)) / (end_s - begin_s)

    def around(self, at_s: Numbers) -> Numbers:
        """At each of these times the more of what it is just before and just behind it."""
        sides = (np.nextafter(at_s, at_s + way) for way in (-1.0, 1.0))
        before, behind = (np.interp(side, self.seconds, self.pps) for side in sides)
        return np.maximum(before, behind)

    @property
    def peak(self) -> float:
        return float(self.pps.max())


class Operable(Protocol):
    """A deployment that can be run anew for each policy."""

    @property
    def model(self) -> ElasticModel: ...
    @property
    def future(self) -> Foresight: ...
    @property
    def frame_bytes(self) -> float: ...
    @property
    def labels(self) -> Sequence[str]: ...
    @property
    def origin(self) -> Origin:
        """Where its figures come from."""

    def plant(self, lcores: int, repetition: int) -> Plant:
        """The plant at its beginning, with so many lcores. All plants of a repetition have the same
        load."""


class SharedOperable(Operable, Protocol):
    """One chain of several on the same lcores, all of which its model counts."""

    def plant_on(self, parts: Numbers, repetition: int) -> SharedPlant:
        """The plant at its beginning, on those lcores of which it has a part."""
