# SPDX-License-Identifier: Apache-2.0
"""What lcores of a chain would do that are added and removed: by the line through what polls of one
lcore cost, and by delays at some parts of what it carries.

Each has a queue of its own in front of it, and whole bursts come of it. A packet waits for those in
front of it, which come at random (Poisson), and beyond that as long as in a chain with evenly
spaced packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.ground.operable import Numbers
from headrace.layout.predicted_latency import BURST
from headrace.layout.queue import wait_s

# Parts of what an lcore carries at which delays are known.
GRID = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_TAIL = 0.01  # a p99's


@dataclass(frozen=True)
class LcoreFigures:
    """What one lcore does by itself: measured, or priced."""

    carried_pps: float  # at most
    tsc_hz: float
    line: tuple[float, float]  # TSC cycles of a poll, and of each packet that it finds
    delays_s: tuple[Numbers, Numbers, Numbers]  # at these parts of what it carries: p50 and p99


@dataclass(frozen=True)
class LinedElastic:
    one: LcoreFigures

    def carries_pps(self, lcores: int) -> float:
        return self.one.carried_pps

    def busy(
        self, lcores: int, pps: Numbers, burst: Numbers | None = None, free: Numbers | float = 1.0
    ) -> Numbers:
        """When polls that find one packet each follow each other without a gap
        the lcore is always busy, and finds more at each. `free`: the share of the time that there
        is for packets; the less, the more of them each poll finds."""
        poll, more = self.one.line
        if burst is None:
            polled: Numbers = np.minimum(free, pps * (poll + more) / self.one.tsc_hz)
            return polled
        gathered: Numbers = pps * (poll / burst + more) / self.one.tsc_hz
        return gathered

    def burst_all(self, pps: Numbers, free: Numbers | float = 1.0) -> Numbers:
        """Packets of a poll: where the lcore is always busy, those that come while it works on as
        many (layout/predicted_latency.py's turn, of one segment)."""
        poll, more = self.one.line
        each = self.busy(1, pps, free=free) * self.one.tsc_hz / np.maximum(pps, 1e-9)
        bursts: Numbers = poll / np.maximum(each - more, poll / BURST) if poll > 0 else pps * 0 + 1
        return np.maximum(1.0, bursts)

    def with_wait(self, part: float, waited_s: float) -> float:
        """The p99 of an lcore that has this part of what it carries, where the p99 of the time that
        packets wait for others is known."""
        parts, *delays = self.one.delays_s
        p50, p99 = (float(np.interp(part, parts, one)) for one in delays)
        return max(p99, p50 + waited_s)

    def p99_s(self, lcores: int, pps: float, dearer: float = 1.0) -> float:
        part = pps * dearer / self.one.carried_pps
        if part >= 1:
            return float("inf")
        return self.with_wait(part, wait_s(part, dearer / self.one.carried_pps, _TAIL))
