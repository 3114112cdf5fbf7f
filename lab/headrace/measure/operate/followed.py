# SPDX-License-Identifier: Apache-2.0
"""What is known of a load without its future: its level, its trend and its noise, how unevenly it
is spread, and what its packets cost beyond what the model says."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from headrace.ground.operable import PlantTelemetry
from headrace.measure.operate.policy import Sizing
from headrace.measure.operate.static import EVEN

HOLD_S = 1.0  # before lcores are given up
_LEVEL, _TREND, _NOISE = 0.3, 0.03, 0.05  # weights of the newest interval
_JUMP = 4.0  # deviations
_SIGMAS = 3.0  # beyond what is expected, that there is room for
_LEARNED, _WORKING = 0.05, 0.1  # weight; how busy an lcore has to be to learn from it
_ALARMED = 0.5  # weight, while the SLO is broken
_WHOLE = 0.99  # of the time that is held: looks do not end with it
_ROOM, _ROOM_SIGMAS = 0.02, 2.0  # of what is expected, before lcores are given up


@dataclass
class FollowedLoad:
    """`level`: of the moment in which it begins. `dearer`: a packet's cost over the model's."""

    sizing: Sizing
    level: float
    interval_s: float
    dearer: float = 1.0
    uneven: float = EVEN
    _trend: float = 0.0  # packets/s in an interval
    _variance: float = 0.0

    def __post_init__(self) -> None:
        self._variance = self.level / self.interval_s  # of a count of packets at random

    def follow(self, seen: PlantTelemetry) -> None:
        """Holt's smoothing of level and trend, and how far an interval is from it, which is never
        less than the chance of counts. Beyond that by far it is another load, and no noise."""
        off = seen.offered_pps - (self.level + self._trend)
        jump = _JUMP * math.sqrt(self._variance)
        self._variance += _NOISE * (min(off * off, jump * jump) - self._variance)
        self._variance = max(self._variance, seen.offered_pps / self.interval_s)
        if abs(off) > jump:
            self.level, self._trend = seen.offered_pps, 0.0
            return
        before = self.level
        self.level += self._trend + _LEVEL * off
        self._trend += _TREND * (self.level - before - self._trend)

    def high(self, through_s: float) -> float:
        """What comes at most until a change is through that takes so long."""
        ahead = through_s / self.interval_s + 2
        risen = max(0.0, self._trend) * ahead
        return max(0.0, self.level + risen + _SIGMAS * math.sqrt(self._variance))

    def room(self) -> float:
        """A load with more noise has more room left, before it is given fewer lcores."""
        noise = math.sqrt(self._variance) / max(1.0, self.level)
        return 1 + max(_ROOM, _ROOM_SIGMAS * noise)

    def learn(self, seen: PlantTelemetry) -> None:
        """What lcores were busy for is held against what the model says of their packets. Asked
        while no buckets move: the time that takes would be learned as packets', as would be what
        was worked on packets that were dropped behind it."""
        model, count = self.sizing.model, seen.lcores
        done = seen.done[seen.on] / seen.seconds
        expected = float(model.busy(count, done, seen.burst[seen.on]).sum())
        if expected >= _WORKING and not seen.wasted_s:
            ratio = float(seen.busy[seen.on].sum()) / expected
            slo = self.sizing.slo
            broken = seen.p99_s > slo.p99 or seen.dropped > slo.loss * seen.offered
            weight = _ALARMED if broken else _LEARNED
            self.dearer += weight * (ratio - self.dearer)
        came = seen.came[seen.on] / seen.parts[seen.on]
        if came.sum() > 0:
            uneven = float(came.max() / came.mean())
            self.uneven += _LEARNED * (max(1.0, uneven) - self.uneven)


@dataclass
class HighestHeld:
    """The highest load that was expected at any moment of the last second. Looks may be late: so it
    is a second of their time, and not so many of them."""

    interval_s: float
    _looks: deque[tuple[float, float]] = field(default_factory=deque)  # for how long, pps
    _seconds: float = 0.0  # of these

    def expect(self, seconds: float, pps: float) -> None:
        self._looks.append((seconds, pps))
        self._seconds += seconds
        while self._seconds - self._looks[0][0] >= HOLD_S - self.interval_s / 2:
            self._seconds -= self._looks.popleft()[0]

    def forget(self) -> None:
        """What was expected before more lcores were taken says nothing for giving them up."""
        self._looks.clear()
        self._seconds = 0.0

    @property
    def pps(self) -> float:
        """Infinite, while less than a second is known: nothing is given up for that."""
        whole = self._seconds >= HOLD_S * _WHOLE
        return max(pps for _, pps in self._looks) if whole else math.inf
