# SPDX-License-Identifier: Apache-2.0
"""The policy of one who knows the load of all times: what no runtime can do better than by much.

It has as many lcores as the highest load needs between now and the time that a change takes, and
gives up one that it will not need again sooner than it takes to give it up and to have it back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.ground.operable import Foresight
from headrace.measure.operate.evened import chosen, even
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

    def begin(self) -> int:
        return self._needed(0.0, self._ahead_s)

    @property
    def _ahead_s(self) -> float:
        return self.sizing.model.change_s + 2 * self.interval_s

    def _needed(self, begin_s: float, ahead_s: float) -> int:
        most = self.future.most(begin_s, begin_s + ahead_s)
        chance = _SIGMAS * math.sqrt(most / self.interval_s)
        return self.sizing.needed(most + chance, EVEN)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        now_s = situation.seen.begin_s + situation.seen.seconds
        used = len(situation.now.lcores)
        wanted = self._needed(now_s, self._ahead_s)
        if wanted < used:
            if not situation.seen.settled:
                return None
            wanted = self._needed(now_s, _BACK * self._ahead_s)
        if wanted == used:
            return None
        lcores = chosen(situation.now.lcores, wanted, self.sizing.model.most)
        assignment = even(situation.now, lcores, situation.packets())
        return WantedStep(assignment, "the load will be so")
