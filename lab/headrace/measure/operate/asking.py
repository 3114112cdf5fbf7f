# SPDX-License-Identifier: Apache-2.0
"""What a policy asks for a chain that shares lcores with others: it says what its SLO needs, and
has what is granted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headrace.ground.operable import Foresight
from headrace.measure.operate.fair import AskedLcores
from headrace.measure.operate.followed import FollowedLoad, HighestHeld
from headrace.measure.operate.metered import MeteredSteps
from headrace.measure.operate.oracle import OraclePolicy
from headrace.measure.operate.policy import PlantSituation, Sizing
from headrace.measure.operate.static import EVEN
from headrace.spec.operate import PolicyName


@dataclass(frozen=True)
class NeededLoad:
    """Packets/s that the chain needs lcores for at once, and those that it keeps lcores for which
    it has."""

    now_pps: float
    kept_pps: float
    uneven: float = EVEN
    dearer: float = 1.0


class LoadView(Protocol):
    """What a policy knows of a chain's load."""

    @property
    def learned(self) -> float | None:
        """As a policy's."""

    @property
    def level(self) -> float:
        """The load of this moment."""

    def first(self, through_s: float) -> NeededLoad: ...
    def look(self, situation: PlantSituation, moving: bool, through_s: float) -> NeededLoad:
        """`through_s`: until one more lcore works."""


@dataclass
class FollowedView:
    """headrace's: the load as it comes, with its trend; what was needed within the last second is
    kept."""

    load: FollowedLoad
    held: HighestHeld

    @property
    def learned(self) -> float | None:
        return self.load.dearer

    @property
    def level(self) -> float:
        return self.load.level

    def first(self, through_s: float) -> NeededLoad:
        high = self.load.high(through_s)
        return NeededLoad(high, high)

    def look(self, situation: PlantSituation, moving: bool, through_s: float) -> NeededLoad:
        seen, load = situation.seen, self.load
        load.follow(seen)
        if seen.settled and not moving:
            load.learn(seen)
        high = load.high(through_s)
        self.held.expect(seen.seconds, high)
        return NeededLoad(high, load.room() * self.held.pps, load.uneven, load.dearer)


@dataclass
class ForeseenView:
    """The oracle's."""

    oracle: OraclePolicy
    future: Foresight
    interval_s: float
    learned: float | None = None
    level: float = 0.0

    def first(self, through_s: float) -> NeededLoad:
        return self._at(0.0)

    def look(self, situation: PlantSituation, moving: bool, through_s: float) -> NeededLoad:
        return self._at(situation.seen.begin_s + situation.seen.seconds)

    def _at(self, now_s: float) -> NeededLoad:
        """It looks as far ahead whatever it has: else it would go back and forth."""
        self.level = self.future.most(now_s, now_s + self.interval_s)
        return NeededLoad(*self.oracle.loads(now_s, 1))


@dataclass
class PeakView:
    """That of one who sets lcores once, for the peak."""

    future: Foresight
    learned: float | None = None

    @property
    def level(self) -> float:
        return self.future.peak

    def first(self, through_s: float) -> NeededLoad:
        return NeededLoad(self.future.peak, self.future.peak)

    def look(self, situation: PlantSituation, moving: bool, through_s: float) -> NeededLoad:
        return self.first(through_s)


def view_of(name: PolicyName, sizing: Sizing, future: Foresight, interval_s: float) -> LoadView:
    if name == "static":
        return PeakView(future)
    if name == "oracle":
        oracle = OraclePolicy(sizing, future, interval_s)
        return ForeseenView(oracle, future, interval_s)
    load = FollowedLoad(sizing, float(future.pps[0]), interval_s)
    return FollowedView(load, HighestHeld(interval_s))


@dataclass
class AskingChain:
    """What it asks for: more at once, and less when all that is kept for needs less."""

    sizing: Sizing
    view: LoadView
    interval_s: float
    asked: AskedLcores | None = None
    needed: NeededLoad = field(init=False)
    metered: MeteredSteps = field(init=False)

    def __post_init__(self) -> None:
        self.metered = MeteredSteps(self.sizing, self.interval_s)

    def first(self) -> AskedLcores:
        return self._asked(self.view.first(self.metered.through_s(1)))

    def asks(self, situation: PlantSituation) -> AskedLcores:
        moving, used = self.metered.target is not None, len(situation.now.lcores)
        return self._asked(self.view.look(situation, moving, self.metered.through_s(used)))

    def _asked(self, needed: NeededLoad) -> AskedLcores:
        self.needed = needed
        (whole, part), (whole_kept, part_kept) = (
            (
                self.sizing.needed(pps, needed.uneven, needed.dearer),
                self.sizing.needed_part(pps, needed.uneven, needed.dearer),
            )
            for pps in (needed.now_pps, needed.kept_pps)
        )
        if self.asked is not None:
            whole = max(whole, min(self.asked.whole, whole_kept))
            part = max(part, min(self.asked.part, part_kept))
        self.asked = AskedLcores(whole, part)
        return self.asked
