# SPDX-License-Identifier: Apache-2.0
"""The linear program over ways of chains and patterns of lcores, as far as these are known: there
are at least as many items in patterns as ways need, of each kind and size.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.layout.cheapest import Array, ChainWay
from headrace.layout.patterns import ANY, ItemKind, KindPrices, Pattern, kind_of, price_of, rising
from headrace.layout.placing import segment_uses
from headrace.layout.relaxation import Relaxation
from headrace.layout.scaled_program import ScaledProgram
from headrace.spec.placement import ChosenSegment

CLOSE = 1e-7

Taken = tuple[tuple[int, int], ...]  # by segment: replicas, and the size of one
ItemizedWay = tuple[int, ChainWay, Taken]  # of a chain


@dataclass(frozen=True)
class PatternPrices:
    """Prices for items of each kind; and as in cheapest.Prices."""

    kinds: KindPrices
    areas: Array
    limits: Array
    chains: Array


@dataclass(frozen=True)
class SolvedProgram:
    """`worth`: of each chain."""

    value: float
    prices: PatternPrices
    worth: list[float]


class PatternProgram(ScaledProgram):
    """`kinds`: `any_kind` of each area among them."""

    def __init__(
        self,
        of: Relaxation,
        kinds: set[ItemKind],
        grids: Sequence[tuple[int, ...]],
        fluid: bool = True,
    ) -> None:
        super().__init__(of)
        self.kinds, self.grids, self.fluid = kinds, grids, fluid
        self.sizes: dict[ItemKind, dict[int, Any]] = {}  # rows
        self.ways: dict[ItemizedWay, None] = {}
        self.patterns: dict[Pattern, None] = {}
        counted, common = of.counted()
        self.counted = [one / common for one in counted]
        self.loads = [self._row(0.0) for _ in self.areas]

    def _items(self, part: Any, items: Iterable[tuple[ItemKind, int]], sign: float) -> None:
        """While it is `fluid`, kinds that stand for many segments have one row, of all loads."""
        counts: Counter[tuple[ItemKind, int]] = Counter()
        for kind, size in items:
            if kind.chain == ANY:
                grid = self.grids[kind.area]
                size = grid[bisect.bisect_right(grid, size) - 1]
            counts[kind, size] += 1
        loads: Counter[int] = Counter()
        for (kind, size), count in counts.items():
            if kind.chain == ANY and self.fluid:
                loads[kind.area] += count * size
            else:
                self.size(kind, size).SetCoefficient(part, sign * count)
        for area, load in loads.items():
            self.loads[area].SetCoefficient(part, sign * load)

    def size(self, kind: ItemKind, size: int) -> Any:
        """The row of such items. One of them may serve as a smaller one, too."""
        rows = self.sizes.setdefault(kind, {})
        if size not in rows:
            rows[size] = self.solver.Constraint(-self.endless, 0.0)
            ordered = sorted(rows)
            at = ordered.index(size)
            for small, large in itertools.pairwise(ordered[max(0, at - 1) : at + 2]):
                down = self.solver.NumVar(0.0, self.endless, "")
                rows[small].SetCoefficient(down, -1.0)
                rows[large].SetCoefficient(down, 1.0)
        return rows[size]

    # --- columns ---

    def add_way(self, chain: int, way: ChainWay, taken: Taken) -> bool:
        """False: it is there."""
        if (chain, way, taken) in self.ways:
            return False
        self.ways[chain, way, taken] = None
        items: list[tuple[ItemKind, int]] = []
        for key, (count, size) in zip(way.segments, taken, strict=True):
            items += [(kind_of(self.kinds, chain, key), size)] * count
        limits: dict[int, float] = {}
        for limit, amount in self._uses(chain, way):
            limits[limit] = limits.get(limit, 0.0) + amount
        ns = self._ns(chain, way)
        self._items(self.column(chain, float(self.of.weight * ns), limits, ns), items, 1.0)
        return True

    def _ns(self, chain: int, way: ChainWay) -> int:
        ns = self.of.tables.ns
        return int(sum(ns[chain, k.first, k.end, k.area, k.origin] for k in way.segments))

    def _uses(self, chain: int, way: ChainWay) -> Iterator[tuple[int, int]]:
        problem, one = self.of.problem, self.of.problem.chains[chain]
        yield from one.doors[way.door].uses
        for key in way.segments:
            segment = ChosenSegment.model_construct(
                first=key.first, end=key.end, area=key.area, lcores=()
            )
            yield from segment_uses(problem, one, segment, key.origin)

    def add_pattern(self, pattern: Pattern) -> bool:
        if not pattern or pattern in self.patterns:
            return False
        self.patterns[pattern] = None
        area = pattern[0][0].area
        part = self.solver.NumVar(0.0, self.endless, "")
        self.areas[area].SetCoefficient(part, 1.0)
        self.goal.SetCoefficient(part, self.counted[area])
        self._items(part, pattern, -1.0)
        return True

    # --- what they are worth ---

    def solve(self) -> SolvedProgram | None:
        """None: the solver lost its way in rounding errors."""
        if not self.solved():
            return None
        kinds = {}
        for kind in self.kinds:
            if kind.chain == ANY and self.fluid:
                each = max(0.0, -self.loads[kind.area].dual_value())
                kinds[kind] = rising({size: each * size for size in self.grids[kind.area]})
                continue
            rows = self.sizes.get(kind, {}).items()
            kinds[kind] = rising({size: max(0.0, -row.dual_value()) for size, row in rows})
        paid = self.prices()
        prices = PatternPrices(
            kinds, *(np.maximum(0.0, one) for one in (paid.areas, paid.limits, paid.chains))
        )
        return SolvedProgram(self.goal.Value(), prices, self.worths())

    def way_gains(self, solved: SolvedProgram, chain: int, way: ChainWay, taken: Taken) -> bool:
        """Gains at the program's own prices."""
        prices, cost = solved.prices, 0.0
        for key, (count, size) in zip(way.segments, taken, strict=True):
            cost += count * price_of(prices.kinds[kind_of(self.kinds, chain, key)], size)
        cost += sum(prices.limits[limit] * amount for limit, amount in self._uses(chain, way))
        cost += self._ns(chain, way) * (prices.chains[chain] + self.of.weight)
        worth = solved.worth[chain]
        return bool(cost < worth - CLOSE * max(1.0, abs(worth)))

    def pattern_gains(self, solved: SolvedProgram, pattern: Pattern) -> bool:
        if not pattern:
            return False
        area, prices = pattern[0][0].area, solved.prices
        worth = sum(price_of(prices.kinds[kind], size) for kind, size in pattern)
        return bool(worth > (self.counted[area] + prices.areas[area]) * (1 + CLOSE) + 1e-12)


def mixed(a: PatternPrices, b: PatternPrices, share: float) -> PatternPrices:
    """Mixes so much of the first, at the second one's sizes."""

    def mix(x: Any, y: Any) -> Any:
        return share * x + (1 - share) * y

    kinds = {}
    for kind, steps in b.kinds.items():
        before: Sequence[float] = [price_of(a.kinds[kind], size) for size in steps.sizes]
        kinds[kind] = rising(
            {s: mix(x, y) for s, x, y in zip(steps.sizes, before, steps.prices, strict=True)}
        )
    return PatternPrices(
        kinds, mix(a.areas, b.areas), mix(a.limits, b.limits), mix(a.chains, b.chains)
    )
