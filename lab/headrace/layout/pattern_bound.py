# SPDX-License-Identifier: Apache-2.0
"""How good a placement can be at most, lcores being filled by patterns of items.

Ways and patterns are added to a linear program (pattern_program.py) as long as its prices make some
worth it (Dantzig and Wolfe 1960, Decomposition Principle for Linear Programs). At any prices there
is a bound as in lagrange.py: each chain's cheapest way is a shortest path, each lcore's dearest
pattern a knapsack. Columns are looked for at prices between the program's and those of the best
bound so far, which takes fewer rounds (Wentges 1997, Weighted Dantzig-Wolfe Decomposition).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.layout.cheapest import NEVER, ChainWay, PricedWays, Prices, SegmentKey
from headrace.layout.pattern_program import (
    ItemizedWay,
    PatternPrices,
    PatternProgram,
    SolvedProgram,
    mixed,
)
from headrace.layout.patterns import ANY, ItemKind, Knapsack, LcoreItems, Pattern, any_kind, rising
from headrace.layout.placing import from_door, up
from headrace.layout.relaxation import SCALE, Relaxation, ints, scaled
from headrace.spec.placement import ItemPrices, ModeBound

_UNITS = 2500  # in which an lcore's load is counted, at most
_STABLE = 0.8  # of prices: the share of the best bound's
_FINE = 1.04  # sizes of kinds that stand for all segments: one to the next
_NEAR = 1e-4  # of the linear program's value: the bound is as good as it gets
_TURNS = 4
_WHOLE_KINDS = 100  # up to so many segments of all chains each has a kind of its own


@dataclass
class PatternBound:
    """`relaxation`: its `step` is not used. `began`: prices to begin with, Lagrange's."""

    relaxation: Relaxation
    began: Prices
    best: PatternPrices | None = None
    columns: tuple[dict[ItemizedWay, None], dict[Pattern, None]] = field(
        default_factory=lambda: ({}, {})
    )
    ratio: float = -1e30  # aim `rate`: the surplus's ratio to what there is; else the bound

    @cached_property
    def items(self) -> LcoreItems:
        relaxation = self.relaxation
        return LcoreItems(relaxation.tables, relaxation.room, max(1, relaxation.room // _UNITS))

    @cached_property
    def kinds(self) -> set[ItemKind]:
        """Whole chains, and where there are few all segments."""
        problem = self.relaxation.problem
        areas, sizes = range(len(problem.areas)), [len(c.functions) for c in problem.chains]
        kinds = {any_kind(area) for area in areas}
        every = sum(n * (n + 1) // 2 for n in sizes) * len(areas) <= _WHOLE_KINDS
        for area in areas:
            for c, n in enumerate(sizes):
                kinds.add(ItemKind(area, c, 0, n))
                if every:
                    kinds |= {
                        ItemKind(area, c, first, end)
                        for first in range(n)
                        for end in range(first + 1, n + 1)
                    }
        return kinds

    @cached_property
    def grids(self) -> list[tuple[int, ...]]:
        """Has by area the sizes of segments that have no kind, from the smallest on."""
        sizes, grids = self.items.sizes.copy(), []
        for kind in self.kinds:
            if kind.chain != ANY:
                sizes[:, kind.chain, kind.first, kind.end, kind.area] = -1
        for area in range(sizes.shape[4]):
            here = sizes[..., area, :]
            size, grid = float(max(1, here[here >= 0].min(initial=self.items.units + 1))), []
            while size <= self.items.units:
                grid.append(int(size))
                size = max(size + 1, size * _FINE)
            grids.append(tuple(grid))
        return grids

    def solve(self, until: float, enough: float) -> float:
        """What the linear program came to. `until`: of time.monotonic(); `enough`: a ratio. First
        segments that have no kind take of lcores what they need in all, then each an item."""
        ways, patterns = self.columns
        value = 0.0
        if not ways:
            first = PatternProgram(self.relaxation, self.kinds, self.grids, fluid=True)
            self._begin(first)
            value = self._rounds(first, until, enough)
            ways, patterns = first.ways, first.patterns
            if all(kind.chain != ANY or not self.grids[kind.area] for kind in self.kinds):
                self.columns = ways, patterns
                return value
        second = PatternProgram(self.relaxation, self.kinds, self.grids, fluid=False)
        for chain, way, taken in ways:
            second.add_way(chain, way, taken)
        for pattern in patterns:
            second.add_pattern(pattern)
        value = self._rounds(second, until, enough) or value
        self.columns = second.ways, second.patterns
        return value

    def raised(self, full: int) -> PatternBound:
        """Bounds lcores and limits that may be fuller: what is known holds there, too."""
        other = PatternBound(_at(self.relaxation, full), self.began, self.best)
        other.columns = self.columns
        return other

    def _rounds(self, program: PatternProgram, until: float, enough: float) -> float:
        value = 0.0
        while self.ratio <= enough:
            solved = program.solve()
            if solved is None:
                break
            value = solved.value
            at = solved.prices if self.best is None else mixed(self.best, solved.prices, _STABLE)
            added = self._priced(program, solved, at)
            if not added:
                added = self._priced(program, solved, solved.prices)
            near = abs(value - self.ratio) < _NEAR * max(1e-9, abs(value))
            if not added or near or time.monotonic() > until:
                break
        return value

    def _begin(self, program: PatternProgram) -> None:
        """Whole chains, with each number of replicas; prices as lcores' loads have them."""
        for c, chain in enumerate(self.relaxation.problem.chains):
            for way in self._whole_ways(c, len(chain.functions)):
                key = way.segments[0]
                sizes = self.items.sizes[:, c, key.first, key.end, key.area, key.origin]
                for k, size in enumerate(sizes):
                    if size >= 0:
                        program.add_way(c, way, ((k + 1, int(size)),))
                        program.add_pattern(((ItemKind(key.area, c, 0, key.end), int(size)),))
        kinds, room = {}, self.items.units
        for kind in self.kinds:
            lcore = self.began.areas[kind.area] + program.counted[kind.area]
            grid: Iterable[int] = self.grids[kind.area]
            if kind.chain != ANY:
                grid = program.sizes.get(kind, {})
            kinds[kind] = rising({size: size / room * float(lcore) for size in grid})
        self._priced(
            program,
            None,
            PatternPrices(kinds, self.began.areas, self.began.limits, self.began.chains),
        )

    def _whole_ways(self, chain: int, functions: int) -> Iterator[ChainWay]:
        """Ways in one segment, by each port, on the port's own node."""
        problem = self.relaxation.problem
        for d, door in enumerate(problem.chains[chain].doors):
            for a, area in enumerate(problem.areas):
                if area.server == door.server and area.node == door.node:
                    origin = from_door(problem, door, a)
                    yield ChainWay(d, (SegmentKey(0, functions, a, origin),))

    def _priced(
        self, program: PatternProgram, solved: SolvedProgram | None, at: PatternPrices
    ) -> int:
        """The bound at these prices, kept if it is the best; and how many columns are added."""
        problem, relaxation, added = self.relaxation.problem, self.relaxation, 0
        costs = self.items.costs(at.kinds)
        chains = at.chains + relaxation.weight
        paid = Prices(at.areas, at.limits, chains)
        ways = PricedWays.of(relaxation.tables, costs, paid, 1.0)
        for c, way in self._offered(ways) if solved is not None else ():
            taken = self.items.chosen(at.kinds, c, way)
            if taken and solved is not None and program.way_gains(solved, c, way, taken):
                added += program.add_way(c, way, taken)
        within = [chain.within_ns or 0 for chain in problem.chains]
        total = float(sum(ways.least())) - float(np.dot(at.chains, within))
        worth = float(np.dot(at.limits, program.rooms))
        for area, lcores in enumerate(relaxation.lcores()):
            sack = Knapsack(area, at.kinds, self.items.units, problem.lcore_segments)
            worth += lcores * max(0.0, sack.worth - program.counted[area])
            if solved is not None:
                added += self._filled(program, solved, sack)
        ratio = total / max(1e-30, worth) if relaxation.free else total - worth
        if self.best is None or ratio > self.ratio:
            self.best, self.ratio = at, ratio
        return added

    def _filled(self, program: PatternProgram, solved: SolvedProgram, sack: Knapsack) -> int:
        """The best patterns of an area; then of the chains that are in none of them."""
        added, most, kinds = 0, sack.most, dict(sack.prices)
        counts = list(range(1, most + 1))
        for _ in range(_TURNS):
            pattern: Pattern = ()
            for count in counts:
                pattern = sack.pattern(count)
                if program.pattern_gains(solved, pattern):
                    added += program.add_pattern(pattern)
            used = {kind.chain for kind, _ in pattern}
            kinds = {kind: steps for kind, steps in kinds.items() if kind.chain not in used}
            if not any(kind.area == sack.area and any(s.prices) for kind, s in kinds.items()):
                break
            sack, counts = Knapsack(sack.area, kinds, sack.units, most), [most]
        return added

    def _offered(self, ways: PricedWays) -> Iterator[tuple[int, ChainWay]]:
        for c, way in enumerate(ways.ways()):
            if way is not None:
                yield c, way
            yield from (
                (c, one)
                for one in self._whole_ways(c, len(self.relaxation.problem.chains[c].functions))
            )

    # --- certificates ---

    @cached_property
    def scale(self) -> int:
        """Scales, so that prices are whole numbers of at most thirteen digits."""
        counted, common = self.relaxation.counted()
        most = max(counted) // common
        return SCALE // 10 ** len(str(most)) if most else SCALE

    def certified(self, mode: int, full: int) -> ModeBound | None:
        """What the best prices prove, as whole numbers, lcores and limits being so full at most;
        aim `rate`: that they are not, where there is a surplus. None: some chain has no way."""
        assert self.best is not None
        relaxation, scale = self.relaxation, self.scale
        one = relaxation if full == relaxation.full else _at(relaxation, full)
        items = LcoreItems(one.tables, one.room, self.items.grain)
        best = self.best
        kinds = {
            kind: rising(
                {s: round(p * scale) for s, p in zip(steps.sizes, steps.prices, strict=True)}
            )
            for kind, steps in best.kinds.items()
        }
        limits, chains = scaled(best.limits, scale), scaled(best.chains, scale)
        ways = PricedWays.of(
            one.tables, items.costs(kinds), Prices(limits, limits, chains + scale * one.weight), 1
        )
        least = ways.least()
        if any(cost >= NEVER for cost in least):
            return None
        problem, counted, common = one.problem, *one.counted()
        areas, surplus = [], int(sum(least))
        for area, lcores in enumerate(one.lcores()):
            sack = Knapsack(area, kinds, items.units, problem.lcore_segments)
            areas.append(max(0, up(int(sack.worth) * common - scale * counted[area], common)))
            surplus -= areas[-1] * int(lcores)
        surplus -= sum(int(p) * amount for p, amount in zip(limits, one.limits(), strict=True))
        for price, chain in zip(chains, problem.chains, strict=True):
            surplus -= int(price) * (chain.within_ns or 0)
        bound = full + 1 if one.free else one.least_value(surplus, scale)
        return ModeBound(
            mode=mode, part=one.part, bound=bound, surplus=surplus, step=0, scale=scale,
            areas=tuple(areas) * one.times, limits=ints(limits) * one.times, chains=ints(chains),
            grain=items.grain,
            items=tuple(
                ItemPrices(
                    area=kind.area, chain=None if kind.chain == ANY else kind.chain,
                    first=kind.first, end=kind.end, sizes=steps.sizes, prices=steps.prices,
                )
                for kind, steps in sorted(kinds.items()) if any(steps.prices)
            ),
        )  # fmt: skip


def _at(relaxation: Relaxation, full: int) -> Relaxation:
    return Relaxation(relaxation.tables, full, 0, relaxation.part, relaxation.times)
