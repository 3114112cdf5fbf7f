# SPDX-License-Identifier: Apache-2.0
"""How good a placement can be at most: the best prices of Lagrange's bound (relaxation.py), by
column generation.

They are the dual of a linear program over ways, of which those that it lacks are added until there
are none. Its solution is where searching begins, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.layout.cheapest import Array, ChainWay, PricedWays, Prices
from headrace.layout.placing import segment_uses
from headrace.layout.relaxation import Relaxation
from headrace.layout.scaled_program import ScaledProgram
from headrace.spec.placement import ChosenSegment

_ROUNDS = 200
_CLOSE = 1e-7


@dataclass
class WayColumn:
    """A way of a chain and what it takes: shares of lcores by area, of limits, its latency."""

    chain: int
    way: ChainWay
    lcores: dict[int, float]
    limits: dict[int, float]
    ns: int
    counted: float


@dataclass
class Relaxed:
    """A solution of the linear program: its value, its prices, how much of each way."""

    value: float
    prices: Prices
    columns: list[WayColumn]
    parts: list[float] = field(default_factory=list)


def relax(of: Relaxation, until: float) -> Relaxed:
    """Solves the linear program. `until`: of time.monotonic(); the prices of any round are good for
    a bound."""
    shares = of.tables.shares(of.room, of.step)
    master = _Master(of)
    counted, common = of.counted()
    prices = Prices(
        np.ones(len(of.problem.areas)),
        np.zeros(len(of.problem.limits)),
        np.zeros(len(of.problem.chains)),
    )
    best = None
    for number in range(_ROUNDS):
        own = np.array(counted, dtype=float) / common
        paid = Prices(prices.areas + own, prices.limits, prices.chains + of.weight)
        ways = PricedWays.at(of.tables, shares, paid, float(of.whole))
        added = master.add(ways, shares, first=number == 0)
        if (best is not None and not added) or (time.monotonic() > until and best):
            break
        solved = master.solve()
        if solved is None:
            break
        best, prices = solved, solved.prices
    return best or Relaxed(0.0, prices, master.columns, [0.0] * len(master.columns))


class _Master(ScaledProgram):
    """The linear program over the ways that are known so far."""

    def __init__(self, relaxation: Relaxation) -> None:
        super().__init__(relaxation)
        self.columns: list[WayColumn] = []
        self.known: set[tuple[int, ChainWay]] = set()
        self.parts: list[Any] = []
        self.worth: list[float] = []

    def add(self, priced: PricedWays, shares: Array, first: bool) -> int:
        """Ways that are cheaper than what the program has; how many there were."""
        added = 0
        least, ways = priced.least(), priced.ways()
        for c, way in enumerate(ways):
            if way is None or (c, way) in self.known:
                continue
            worth = 0.0 if first else self.worth[c]
            if not first and least[c] / self.of.whole >= worth - _CLOSE * max(1.0, abs(worth)):
                continue
            self._add(c, way, shares)
            added += 1
        return added

    def _add(self, c: int, way: ChainWay, shares: Array) -> None:
        column = self._column(c, way, shares)
        self.known.add((c, way))
        self.columns.append(column)
        part = self.column(c, column.counted, column.limits, column.ns)
        self.parts.append(part)
        for area, used in column.lcores.items():
            self.areas[area].SetCoefficient(part, used)

    def _column(self, c: int, way: ChainWay, shares: Array) -> WayColumn:
        problem, chain = self.of.problem, self.of.problem.chains[c]
        lcores: dict[int, float] = {}
        limits: dict[int, float] = {}
        ns, counted = 0, 0.0
        each, common = self.of.counted()
        for limit, amount in chain.doors[way.door].uses:
            limits[limit] = limits.get(limit, 0.0) + amount
        for key in way.segments:
            size = float(shares[c, key.first, key.end, key.area, key.origin]) / self.of.whole
            lcores[key.area] = lcores.get(key.area, 0.0) + size
            counted += size * each[key.area] / common
            ns += int(self.of.tables.ns[c, key.first, key.end, key.area, key.origin])
            segment = ChosenSegment.model_construct(
                first=key.first, end=key.end, area=key.area, lcores=()
            )
            for limit, amount in segment_uses(problem, chain, segment, key.origin):
                limits[limit] = limits.get(limit, 0.0) + amount
        return WayColumn(c, way, lcores, limits, ns, counted + self.of.weight * ns)

    def solve(self) -> Relaxed | None:
        """None: the solver lost its way in rounding errors."""
        if not self.solved():
            return None
        parts = [part.solution_value() for part in self.parts]
        self.worth = self.worths()
        return Relaxed(self.goal.Value(), self.prices(), list(self.columns), parts)
