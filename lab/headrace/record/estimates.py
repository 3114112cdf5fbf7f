# SPDX-License-Identifier: Apache-2.0
"""Figures that are estimates from a sample, each with the interval that it lies in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from headrace.record.frozen import Record

CONFIDENCE = 0.95  # of every interval here


class Interval(Record):
    """An estimate and the bounds between which it lies with a confidence of 95 %."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """What stands behind the ±."""
        return (self.high - self.low) / 2

    def with_high(self, at_least: float) -> Interval:
        return Interval(value=self.value, low=self.low, high=max(self.high, at_least))


class PartCapacity(Record):
    """What a segment with all its replicas can carry, by what its packets cost while nothing
    disturbed its lcores.

    `pps` is the load on the chain at which the first of its lcores has no cycles left, the cycles
    of other segments on that lcore included; of a generator or sink, its own."""

    name: str
    role: Literal["chain", "generator", "sink"]
    cpus: tuple[int, ...]
    cycles_per_packet: Interval  # that enters the part, in full bursts; TSC cycles at `clock_hz`
    pps: Interval
    tsc_hz: NonNegativeInt  # the clock of these cycles: pps is TSC Hz / cycles
    clock_hz: NonNegativeFloat  # of its cores, that the cycles are stated at: the highest that they
    # had in the sample
    quiet_share: float = Field(ge=0, le=1)  # of its slices, those in which nothing disturbed it
    slices: NonNegativeInt  # undisturbed ones, of 10 ms and one lcore each: what this rests on
    at_limit: bool = True  # its lcores had no time left in them; False: by the line through polls


class Capacity(Record):
    """What a chain can carry on lcores that are its own: NDR and PDR count the losses of a
    disturbed machine, this leaves them out."""

    parts: tuple[PartCapacity, ...]
    narrowest: str  # the part of the chain that has the least pps
    pps: Interval  # its
    trials: NonNegativeInt  # whose slices these are
    line_cycles: NonNegativeFloat | None = None  # TSC cycles of a line that another lcore wrote, in
    # the state of the machine that these slices are of; None: it has no other lcore

    @property
    def clock_hz(self) -> float:
        part = self.part(self.narrowest)
        return part.clock_hz if part is not None else 0.0

    @property
    def at_limit(self) -> bool:
        """It is not only extrapolated, as where its tester was slower."""
        part = self.part(self.narrowest)
        return part is None or part.at_limit

    @property
    def per_cycle(self) -> float:
        """Packets per cycle of a core: each sample has its own clock."""
        return self.pps.value / self.clock_hz

    def part(self, name: str) -> PartCapacity | None:
        return next((one for one in self.parts if one.name == name), None)


class Paired(Record):
    """How one thing's capacity compares with another's, from measurements in turn."""

    name: str
    base: str
    ratio: Interval  # of the capacities: above 1 is faster
    pairs: NonNegativeInt  # of measurements beside each other in time; 1: by slices of one pair
    verdict: Literal["faster", "slower", "tie", "unknown"]  # tie: the interval contains 1 and
    # reaches no further than 10 % from it; unknown: it contains 1 and reaches further
    mixed: bool = False  # pairs of several states of the machine, each pair of one


class Span(Record):
    """Between which figures something lies."""

    low: float
    high: float


class FittedFigure(Record):
    """A figure of a published table, and what the model makes of it."""

    name: str
    unit: str
    published: float
    modelled: float

    @property
    def error(self) -> float:
        return self.modelled / self.published - 1


class PredictedPart(Record):
    """What a segment with all its replicas can carry by the model, in full bursts; whichever load
    was asked for.

    `pps` is the load on the chain at which the first of its lcores has no cycles left, other
    segments' on that lcore included."""

    name: str
    cycles_per_packet: float  # that enters the part
    share_of_lcore: float  # of what the lcore that is full first spends on a packet
    pps: float


class Predicted(Record):
    """What a prediction rests on. `carried_pps`: by the narrowest resource, with all costs at their
    most, and at their least, by the spread that the server's description gives each of them."""

    server: str
    parts: tuple[PredictedPart, ...] = ()  # of the engine's own segments
    carried_pps: Span | None = None  # None: by a model that was fitted, and has no spread
    narrowest: str | None = None  # the resource that has nothing left first
    figures: tuple[FittedFigure, ...] = ()  # of a row of a published table, beside this one

    def part(self, name: str) -> PredictedPart | None:
        return next((one for one in self.parts if one.name == name), None)
