# SPDX-License-Identifier: Apache-2.0
"""The policy of one who knows the load of all times: what no runtime can do better than by much.

It has as many lcores as the highest load needs between now and the time that a change takes, and
gives up one that it will not need again sooner than it takes to give it up and to have it back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from headrace.ground.operable import Foresight
from headrace.measure.operate.evened import chosen, even
from headrace.measure.operate.metered import MeteredSteps
from headrace.measure.operate.policy import PlantSituation, Sizing, WantedStep
from headrace.measure.operate.static import EVEN

_SIGMAS = 3.0  # deviations of a count of packets that come at random
_BACK = 3.0  # changes


@dataclass
class OraclePolicy:
    sizing: Sizing
    future: Foresight
    interval_s: float
    learned: float | None = None
    _metered: MeteredSteps = field(init=False)

    def __post_init__(self) -> None:
        self._metered = MeteredSteps(self.sizing, self.interval_s)

    def begin(self) -> int:
        return self._needed(0.0, self._ahead_s(1))

    def _ahead_s(self, lcores: int) -> float:
        return self._metered.through_s(lcores) + 2 * self.interval_s

    def loads(self, now_s: float, lcores: int) -> tuple[float, float]:
        """What so many lcores are to be changed for, and what none of them is given up for."""
        ahead = self._ahead_s(lcores)
        return self._high(now_s, ahead), self._high(now_s, _BACK * ahead)

    def _high(self, begin_s: float, ahead_s: float) -> float:
        most = self.future.most(begin_s, begin_s + ahead_s)
        return most + _SIGMAS * math.sqrt(most / self.interval_s)

    def _needed(self, begin_s: float, ahead_s: float) -> int:
        return self.sizing.needed(self._high(begin_s, ahead_s), EVEN)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        now_s = situation.seen.begin_s + situation.seen.seconds
        pps = self.future.most(now_s, now_s + self.interval_s)
        target = self._metered.target
        used = len((target or situation.now).lcores)
        wanted = self._needed(now_s, self._ahead_s(used))
        if wanted <= used and target is not None:
            part = self._metered.further(situation, pps)
            return None if part is None else WantedStep(part, "", goes_on=True)
        if wanted < used:
            if not situation.seen.settled:
                return None
            wanted = self._needed(now_s, _BACK * self._ahead_s(wanted))
        if wanted == used:
            return None
        lcores = chosen(situation.now.lcores, wanted, self.sizing.model.most)
        assignment = even(situation.now, lcores, situation.packets())
        first = self._metered.begin(situation, assignment, pps)
        return WantedStep(first, "the load will be so", lcores=wanted)
