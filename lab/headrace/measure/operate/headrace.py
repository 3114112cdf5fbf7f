# SPDX-License-Identifier: Apache-2.0
"""headrace's own policy: as many lcores as the model says that the load of the next moments needs.

The load is smoothed with its trend, and looked at as far ahead as a change takes. More lcores come
at once; fewer only when all that was expected for a second fits them with room to spare, so that a
steady load never makes it go back and forth. Buckets go in parts for which lcores have time beside
their packets, unless they have too many already. What packets cost more than the model says is
learned from how busy lcores are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from headrace.ground.operable import Assignment
from headrace.measure.operate.evened import chosen, even, most_share
from headrace.measure.operate.followed import HOLD_S, FollowedLoad, HighestHeld
from headrace.measure.operate.metered import MeteredSteps
from headrace.measure.operate.policy import PlantSituation, Sizing, WantedStep
from headrace.measure.operate.static import EVEN

_UNEVEN, _AGAIN_S, _BETTER = 1.08, 0.5, 0.97  # when buckets are spread anew, and for what gain


@dataclass
class HeadracePolicy:
    """`first_pps`: the load of the moment in which it begins."""

    sizing: Sizing
    first_pps: float
    interval_s: float
    _spread_at: float = -math.inf
    _load: FollowedLoad = field(init=False)
    _held: HighestHeld = field(init=False)
    _metered: MeteredSteps = field(init=False)

    def __post_init__(self) -> None:
        self._load = FollowedLoad(self.sizing, self.first_pps, self.interval_s)
        self._held = HighestHeld(self.interval_s)
        self._metered = MeteredSteps(self.sizing, self.interval_s)

    @property
    def learned(self) -> float | None:
        return self._load.dearer

    def begin(self) -> int:
        return self.sizing.needed(self._high(1), EVEN)

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        seen, load = situation.seen, self._load
        load.follow(seen)
        target = self._metered.target
        if seen.settled and target is None:
            load.learn(seen)
        used = len((target or situation.now).lcores)
        high = self._high(used)
        more = self.sizing.needed(high, load.uneven, load.dearer)
        if more > used:
            self._held.forget()
        # What one lcore fewer would have to be asked for.
        self._held.expect(seen.seconds, self._high(max(1, used - 1)))
        if more > used:
            return self._resized(situation, more, f"{high / 1e6:.3g} Mpps are expected")
        if target is not None:
            part = self._metered.further(situation, load.level, load.dearer)
            return None if part is None else WantedStep(part, "", goes_on=True)
        if not seen.settled:
            return None
        most = self._held.pps
        fewer = self.sizing.needed(load.room() * most, load.uneven, load.dearer)
        if fewer < used:
            why = f"at most {most / 1e6:.3g} Mpps for {HOLD_S:g} s"
            return self._resized(situation, fewer, why)
        return self._spread(situation)

    def _high(self, lcores: int) -> float:
        """What comes at most until a change of so many lcores is through."""
        return self._load.high(self._metered.through_s(lcores))

    def _resized(self, situation: PlantSituation, count: int, why: str) -> WantedStep | None:
        lcores = chosen(situation.now.lcores, count, self.sizing.model.most)
        if lcores == situation.now.lcores and self._metered.target is None:
            return None
        packets = situation.packets()
        assignment = even(situation.now, lcores, packets)
        self._load.uneven = max(1.0, most_share(assignment, packets) * count)
        self._spread_at = situation.seen.begin_s
        return self._wanted(situation, assignment, most_share(assignment, packets), why)

    def _spread(self, situation: PlantSituation) -> WantedStep | None:
        """The same lcores, with buckets of the busiest ones on others."""
        seen = situation.seen
        if self._load.uneven < _UNEVEN or seen.begin_s - self._spread_at < _AGAIN_S:
            return None
        self._spread_at = seen.begin_s
        packets = situation.packets()
        assignment = even(situation.now, situation.now.lcores, packets)
        share = most_share(assignment, packets)
        if share > _BETTER * most_share(situation.now, packets):
            return None
        uneven, self._load.uneven = self._load.uneven, max(1.0, share * len(assignment.lcores))
        return self._wanted(
            situation, assignment, share, f"the busiest has {uneven:.2f} of an equal share"
        )

    def _wanted(
        self, situation: PlantSituation, assignment: Assignment, share: float, why: str
    ) -> WantedStep:
        model, count, load = self.sizing.model, len(assignment.lcores), self._load
        pps = load.level * share
        p99 = model.p99_s(count, pps, load.dearer)
        busy = float(model.busy(count, np.array([pps * load.dearer]))[0])
        first = self._metered.begin(situation, assignment, load.level, load.dearer)
        return WantedStep(first, why, busy, p99 if np.isfinite(p99) else None, lcores=count)
