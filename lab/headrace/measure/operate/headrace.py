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
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from headrace.ground.operable import Assignment, PlantTelemetry
from headrace.measure.operate.evened import chosen, even, most_share
from headrace.measure.operate.metered import MeteredSteps
from headrace.measure.operate.policy import PlantSituation, Sizing, WantedStep
from headrace.measure.operate.static import EVEN

_LEVEL, _TREND, _NOISE = 0.3, 0.03, 0.05  # weights of the newest interval
_JUMP = 4.0  # deviations
_SIGMAS = 3.0  # beyond what is expected, that there is room for
_LEARNED, _WORKING = 0.05, 0.1  # weight; how busy an lcore has to be to learn from it
_ALARMED = 0.5  # weight, while the SLO is broken
_HOLD_S, _ROOM, _ROOM_SIGMAS = 1.0, 0.02, 2.0  # of what is expected, before lcores are given up
_UNEVEN, _AGAIN_S, _BETTER = 1.08, 0.5, 0.97  # when buckets are spread anew, and for what gain


@dataclass
class HeadracePolicy:
    """`first_pps`: the load of the moment in which it begins."""

    sizing: Sizing
    first_pps: float
    interval_s: float
    learned: float | None = 1.0
    _level: float = 0.0
    _trend: float = 0.0  # packets/s in an interval
    _variance: float = 0.0
    _uneven: float = EVEN
    _expected: deque[tuple[float, float]] = field(default_factory=deque)  # for how long, pps
    _held_s: float = 0.0  # of these
    _spread_at: float = -math.inf
    _metered: MeteredSteps = field(init=False)

    def __post_init__(self) -> None:
        self._metered = MeteredSteps(self.sizing, self.interval_s)

    def begin(self) -> int:
        self._level = self.first_pps
        self._variance = self.first_pps / self.interval_s  # of a count of packets at random
        return self.sizing.needed(self._high(1), EVEN)

    @property
    def dearer(self) -> float:
        assert self.learned is not None
        return self.learned

    def decide(self, situation: PlantSituation) -> WantedStep | None:
        seen = situation.seen
        self._follow(seen)
        self._learn(seen)
        target = self._metered.target
        used = len((target or situation.now).lcores)
        high = self._high(used)
        more = self.sizing.needed(high, self._uneven, self.dearer)
        if more > used:
            self._expected.clear()  # they are not given up again for what was expected before
            self._held_s = 0.0
        self._expect(seen, self._high(max(1, used - 1)))
        if more > used:
            return self._resized(situation, more, f"{high / 1e6:.3g} Mpps are expected")
        if target is not None:
            part = self._metered.further(situation, self._level, self.dearer)
            return None if part is None else WantedStep(part, "", goes_on=True)
        if not seen.settled:
            return None
        most = max(high for _, high in self._expected)
        fewer = self.sizing.needed(self._room() * most, self._uneven, self.dearer)
        if fewer < used and self._held_s >= _HOLD_S * 0.99:
            why = f"at most {most / 1e6:.3g} Mpps for {_HOLD_S:g} s"
            return self._resized(situation, fewer, why)
        return self._spread(situation)

    def _expect(self, seen: PlantTelemetry, high: float) -> None:
        """What one lcore fewer would have to be asked for, at each moment of the last second:
        looks may be late."""
        self._expected.append((seen.seconds, high))
        self._held_s += seen.seconds
        while self._held_s - self._expected[0][0] >= _HOLD_S - self.interval_s / 2:
            self._held_s -= self._expected.popleft()[0]

    def _follow(self, seen: PlantTelemetry) -> None:
        """Holt's smoothing of level and trend, and how far an interval is from it, which is never
        less than the chance of counts. Beyond that by far it is another load, and no noise."""
        off = seen.offered_pps - (self._level + self._trend)
        jump = _JUMP * math.sqrt(self._variance)
        self._variance += _NOISE * (min(off * off, jump * jump) - self._variance)
        self._variance = max(self._variance, seen.offered_pps / self.interval_s)
        if abs(off) > jump:
            self._level, self._trend = seen.offered_pps, 0.0
            return
        before = self._level
        self._level += self._trend + _LEVEL * off
        self._trend += _TREND * (self._level - before - self._trend)

    def _high(self, lcores: int) -> float:
        """What comes at most until a change of so many lcores is through."""
        ahead = self._metered.through_s(lcores) / self.interval_s + 2
        risen = max(0.0, self._trend) * ahead
        return max(0.0, self._level + risen + _SIGMAS * math.sqrt(self._variance))

    def _room(self) -> float:
        """A load with more noise has more room left, before it is given fewer lcores."""
        noise = math.sqrt(self._variance) / max(1.0, self._level)
        return 1 + max(_ROOM, _ROOM_SIGMAS * noise)

    def _learn(self, seen: PlantTelemetry) -> None:
        """What lcores were busy for is held against what the model says of their packets; time that
        moves took would be learned as packets'."""
        if not seen.settled or self._metered.target is not None:
            return
        model, count = self.sizing.model, seen.lcores
        done = seen.done[seen.on] / seen.seconds
        expected = float(model.busy(count, done, seen.burst[seen.on]).sum())
        if expected >= _WORKING:
            ratio = float(seen.busy[seen.on].sum()) / expected
            slo = self.sizing.slo
            broken = seen.p99_s > slo.p99 or seen.dropped > slo.loss * seen.offered
            weight = _ALARMED if broken else _LEARNED
            self.learned = self.dearer + weight * (ratio - self.dearer)
        came = seen.came[seen.on]
        if came.sum() > 0:
            uneven = float(came.max() / came.mean())
            self._uneven += _LEARNED * (max(1.0, uneven) - self._uneven)

    def _resized(self, situation: PlantSituation, count: int, why: str) -> WantedStep | None:
        lcores = chosen(situation.now.lcores, count, self.sizing.model.most)
        if lcores == situation.now.lcores and self._metered.target is None:
            return None
        packets = situation.packets()
        assignment = even(situation.now, lcores, packets)
        self._uneven = max(1.0, most_share(assignment, packets) * count)
        self._spread_at = situation.seen.begin_s
        return self._wanted(situation, assignment, most_share(assignment, packets), why)

    def _spread(self, situation: PlantSituation) -> WantedStep | None:
        """The same lcores, with buckets of the busiest ones on others."""
        seen = situation.seen
        if self._uneven < _UNEVEN or seen.begin_s - self._spread_at < _AGAIN_S:
            return None
        self._spread_at = seen.begin_s
        packets = situation.packets()
        assignment = even(situation.now, situation.now.lcores, packets)
        share = most_share(assignment, packets)
        if share > _BETTER * most_share(situation.now, packets):
            return None
        uneven, self._uneven = self._uneven, max(1.0, share * len(assignment.lcores))
        return self._wanted(
            situation, assignment, share, f"the busiest has {uneven:.2f} of an equal share"
        )

    def _wanted(
        self, situation: PlantSituation, assignment: Assignment, share: float, why: str
    ) -> WantedStep:
        model, count = self.sizing.model, len(assignment.lcores)
        pps = self._level * share
        p99 = model.p99_s(count, pps, self.dearer)
        busy = float(model.busy(count, np.array([pps * self.dearer]))[0])
        first = self._metered.begin(situation, assignment, self._level, self.dearer)
        return WantedStep(first, why, busy, p99 if np.isfinite(p99) else None, lcores=count)
