# SPDX-License-Identifier: Apache-2.0
"""What lcores of a chain on a described server would do that are added and removed: each is priced
as a chain on one lcore is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.ground.lined_elastic import GRID, LinedElastic
from headrace.ground.operable import Numbers
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.spec.operate import StepCosts

Delays = Callable[[float], NDArray[np.float64] | None]


@dataclass(frozen=True)
class PricedElastic(LinedElastic):
    """`alone`: the chain on one lcore. `delays`: of packets, ns, at a load that it carries."""

    alone: PricedLayout
    delays: Delays
    most: int
    buckets: int
    flows: int
    costs: StepCosts

    @cached_property
    def carried_pps(self) -> float:
        [part] = self.alone.stages[1]
        return self.tsc_hz * self.alone.problem.kept * part.packets / part.cycles

    @property
    def tsc_hz(self) -> float:
        return self.alone.problem.tsc_hz

    @cached_property
    def line(self) -> tuple[float, float]:
        return self.alone.way_at(self.carried_pps)[1][0].line

    @cached_property
    def delays_s(self) -> tuple[Numbers, Numbers, Numbers]:
        """Those of evenly spaced packets."""
        rows = []
        for part in GRID:
            delays = self.delays(part * self.carried_pps)
            assert delays is not None  # below what is carried
            rows.append(np.quantile(delays, (0.5, 0.99)) * 1e-9)
        p50, p99 = np.array(rows).T
        return np.array(GRID), p50, p99

    @property
    def change_s(self) -> float:
        """An even spread gives the last of n lcores an nth of the buckets: at most half of them."""
        moving = float(self.moving_s(self.flows / self.buckets)) / self.costs.share
        return self.costs.start + moving * self.buckets / 2

    def moving_s(self, flows: float | Numbers) -> float | Numbers:
        """A bucket of so many."""
        return self.costs.bucket + self.costs.flow * flows
