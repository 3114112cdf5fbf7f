# SPDX-License-Identifier: Apache-2.0
"""What lcores of a chain on a described server would do that are added and removed.

Each has a queue of its own in front of it, as a NIC gives one to each, and whole bursts come of it:
so it is priced as a chain on one lcore is. A packet waits for those in front of it, which come at
random (Poisson), and beyond that as long as in a chain with evenly spaced packets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.ground.operable import Numbers
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.layout.latency import BURST, QueueStage
from headrace.layout.queue import wait_s
from headrace.spec.operate import StepCosts

# Parts of what an lcore carries at which delays are followed, and cycles counted.
GRID = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_TAIL = 0.01  # a p99's

Delays = Callable[[float], NDArray[np.float64] | None]


@dataclass(frozen=True)
class PricedElastic:
    """`alone`: the chain on one lcore. `delays`: of packets, ns, at a load that it carries."""

    alone: PricedLayout
    delays: Delays
    most: int
    buckets: int
    flows: int
    costs: StepCosts

    @cached_property
    def _carries(self) -> float:
        [part] = self.alone.stages[1]
        return self.alone.problem.tsc_hz * self.alone.problem.kept * part.packets / part.cycles

    def carries_pps(self, lcores: int) -> float:
        return self._carries

    @cached_property
    def _own(self) -> QueueStage:
        return self.alone.way_at(self._carries)[1][0]

    def busy(
        self, lcores: int, pps: Numbers, burst: Numbers | None = None, free: Numbers | float = 1.0
    ) -> Numbers:
        """When polls that find one packet each follow each other without a gap
        the lcore is always busy, and finds more at each. `free`: the share of the time that there
        is for packets; the less, the more of them each poll finds."""
        poll, more = self._own.line
        if burst is None:
            polled: Numbers = np.minimum(free, pps * (poll + more) / self.alone.problem.tsc_hz)
            return polled
        gathered: Numbers = pps * (poll / burst + more) / self.alone.problem.tsc_hz
        return gathered

    def burst_all(self, pps: Numbers, free: Numbers | float = 1.0) -> Numbers:
        """Packets of a poll: where the lcore is always busy, those that come while it works on as
        many (layout/latency.py's turn, of one segment)."""
        poll, more = self._own.line
        each = self.busy(1, pps, free=free) * self.alone.problem.tsc_hz / np.maximum(pps, 1e-9)
        bursts: Numbers = poll / np.maximum(each - more, poll / BURST) if poll > 0 else pps * 0 + 1
        return np.maximum(1.0, bursts)

    @cached_property
    def _base(self) -> tuple[Numbers, Numbers]:
        """p50 and p99 of evenly spaced packets, seconds."""
        rows = []
        for part in GRID:
            delays = self.delays(part * self._carries)
            assert delays is not None  # below what is carried
            rows.append(np.quantile(delays, (0.5, 0.99)) * 1e-9)
        p50, p99 = np.array(rows).T
        return p50, p99

    def with_wait(self, part: float, waited_s: float) -> float:
        """The p99 of an lcore that has this part of what it carries, where the p99 of the time that
        packets wait for others is known."""
        p50, p99 = (float(np.interp(part, GRID, one)) for one in self._base)
        return max(p99, p50 + waited_s)

    def p99_s(self, lcores: int, pps: float, dearer: float = 1.0) -> float:
        part = pps * dearer / self._carries
        if part >= 1:
            return float("inf")
        return self.with_wait(part, wait_s(part, dearer / self._carries, _TAIL))

    @property
    def change_s(self) -> float:
        """An even spread gives the last of n lcores an nth of the buckets: at most half of them."""
        moving = float(self.moving_s(self.flows / self.buckets)) / self.costs.share
        return self.costs.start + moving * self.buckets / 2

    def moving_s(self, flows: float | Numbers) -> float | Numbers:
        """A bucket of so many."""
        return self.costs.bucket + self.costs.flow * flows
