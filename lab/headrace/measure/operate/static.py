# SPDX-License-Identifier: Apache-2.0
"""As many lcores all the time as the peak of the load needs: what is done without a runtime."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.ground.operable import Foresight
from headrace.measure.operate.evened import even
from headrace.measure.operate.policy import PlantSituation, Sizing, WantedStep

EVEN = 1.03  # times an equal share, that the busiest lcore has of whole buckets


@dataclass
class StaticPolicy:
    """It is told the peak, and spreads buckets once, by what it sees first."""

    sizing: Sizing
    future: Foresight
    learned: float | None = None
    _spread: bool = False

    def begin(self) -> int:
        return self.sizing.needed(self.future.peak, EVEN)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        if self._spread or not situation.seen.offered:
            return None
        self._spread = True
        now = situation.now
        assignment = even(now, now.lcores, situation.packets())
        if (assignment.owners == now.owners).all():
            return None
        return WantedStep(assignment, "buckets are spread by their packets")
