# SPDX-License-Identifier: Apache-2.0
"""What lcores of a chain on a described server would do that are added and removed: each is priced
as a chain on one lcore is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ground.lined_elastic import GRID, LcoreFigures, LinedElastic
from headrace.ground.operable import Numbers
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.spec.operate import StepCosts

Delays = Callable[[float], NDArray[np.float64] | None]


@dataclass(frozen=True)
class PricedElastic(LinedElastic):
    most: int
    buckets: int
    flows: int
    costs: StepCosts
    stages: tuple[float, ...] = (1.0,)  # shares of a packet's cost

    @property
    def change_s(self) -> float:
        """An even spread gives the last of n lcores an nth of the buckets: at most half of them."""
        return self.costs.start + self.bucket_s / self.costs.share * self.buckets / 2

    @property
    def bucket_s(self) -> float:
        return float(self.moving_s(self.flows / self.buckets))

    def moving_s(self, flows: float | Numbers) -> float | Numbers:
        """A bucket of so many."""
        return self.costs.bucket + self.costs.flow * flows


def priced_lcore(alone: PricedLayout, delays: Delays) -> LcoreFigures:
    """`alone`: the chain on one lcore, in one segment or in several that share it. `delays`: of
    packets, ns, at a load that it carries, evenly spaced."""
    hz = alone.problem.tsc_hz
    carried = hz * alone.problem.kept / sum(cycles_of(alone))
    rows = []
    for share in GRID:
        known = delays(share * carried)
        assert known is not None  # below what is carried
        rows.append(np.quantile(known, (0.5, 0.99)) * 1e-9)
    p50, p99 = np.array(rows).T
    lines = [one.line for [one] in alone.way_at(carried)[1:-1]]
    line = sum(poll for poll, _ in lines), sum(more for _, more in lines)
    return LcoreFigures(carried, hz, line, (np.array(GRID), p50, p99))


def cycles_of(alone: PricedLayout) -> list[float]:
    """What a packet costs in each segment of a chain on one lcore, in full bursts."""
    return [part.cycles / part.packets for [part] in alone.stages[1:-1]]
