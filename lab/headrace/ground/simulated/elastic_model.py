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
    """`alone`: the chain on one lcore. `delays`: of packets, ns, at a load that it carries, evenly
    spaced."""
    [part], hz = alone.stages[1], alone.problem.tsc_hz
    carried = hz * alone.problem.kept * part.packets / part.cycles
    rows = []
    for share in GRID:
        known = delays(share * carried)
        assert known is not None  # below what is carried
        rows.append(np.quantile(known, (0.5, 0.99)) * 1e-9)
    p50, p99 = np.array(rows).T
    line = alone.way_at(carried)[1][0].line
    return LcoreFigures(carried, hz, line, (np.array(GRID), p50, p99))
