# SPDX-License-Identifier: Apache-2.0
"""Prices that are kept: what they prove of one part of the placements they often prove of others.

At given prices each chain is by itself (relaxation.py), so that what its ways cost at least needs
to be known by first segment only: a part of the placements is then refuted by a sum over chains.
Prices and costs are whole numbers, in floats, which have those below 2^53 exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from headrace.layout.cheapest import (
    NEVER,
    ORIGINS,
    Array,
    Begin,
    Begins,
    PricedWays,
    Prices,
    SegmentKey,
    SomeSegments,
    WayTables,
)
from headrace.layout.patterns import (
    ANY,
    ItemKind,
    Knapsack,
    LcoreItems,
    SizePrices,
    any_kind,
    price_of,
    rising,
)
from headrace.layout.placing import from_door
from headrace.layout.relaxation import SCALE, Relaxation, ints
from headrace.spec.placement import ItemPrices, ModeBound, PlacementProblem

_EXACT = 2.0**52
T = TypeVar("T", float, Array)


@dataclass(frozen=True)
class WholePrices:
    """Whole numbers, of which `scale` are one. `kinds`: of items, for the aim `rate`, where lcores
    cost what the dearest pattern of them is worth; None: lcores have prices by their load."""

    scale: int
    limits: Array
    chains: Array
    areas: Array | None = None
    kinds: Mapping[ItemKind, SizePrices] | None = None

    @classmethod
    def by_load(cls, prices: Prices, scale: int) -> WholePrices:
        areas = _whole(prices.areas, scale)
        return cls(scale, _whole(prices.limits, scale), _whole(prices.chains, scale), areas)

    @classmethod
    def by_items(
        cls, prices: Mapping[ItemKind, Mapping[int, float]], of: PlacementProblem,
        scale: int = SCALE,
    ) -> WholePrices:  # fmt: skip
        """Takes prices of items alone."""
        kinds = {
            kind: rising({size: float(round(price * scale)) for size, price in each.items()})
            for kind, each in prices.items()
            if any(each.values())
        }
        return cls(scale, np.zeros(len(of.limits)), np.zeros(len(of.chains)), kinds=kinds)


def _whole(values: Array, scale: int) -> Array:
    rounded: Array = np.maximum(0.0, np.round(np.asarray(values, dtype=float) * scale))
    return rounded


@dataclass(frozen=True)
class LoadTables:
    """What all prices at one load have in common: lcores and limits are `full` at most."""

    tables: WayTables
    full: int

    @cached_property
    def of(self) -> Relaxation:
        return Relaxation(self.tables, self.full)

    @cached_property
    def items(self) -> LcoreItems:
        return LcoreItems(self.tables, self.of.room, 1)

    def fitting(self, chain: int, key: SegmentKey) -> dict[int, int]:
        """By number of replicas, the load of one, where it fits."""
        place = (slice(None), chain, key.first, key.end, key.area, key.origin)
        sizes = self.items.sizes[place].tolist()
        return {k + 1: size for k, size in enumerate(sizes) if size >= 0}


@dataclass(frozen=True)
class PricesAt:
    """Prices at a load, and what ways cost at them."""

    prices: WholePrices
    at: LoadTables

    @property
    def problem(self) -> PlacementProblem:
        return self.at.tables.problem

    @cached_property
    def _unit(self) -> int:
        """What all costs are in parts of."""
        return self.at.of.whole if self.prices.kinds is None else 1

    @cached_property
    def areas(self) -> Array:
        """The price of an lcore of each area."""
        if self.prices.areas is not None:
            return self.prices.areas
        kinds, most = self.prices.kinds, self.problem.lcore_segments
        assert kinds is not None
        priced = {kind.area for kind in kinds}
        units = self.at.items.units
        return np.array([
            float(Knapsack(a, kinds, units, most).worth) if a in priced else 0.0
            for a in range(len(self.problem.areas))
        ])  # fmt: skip

    @cached_property
    def worth(self) -> float:
        """What all that there is is worth."""
        one, of = self.prices, self.at.of
        within = [chain.within_ns or 0 for chain in self.problem.chains]
        total = float(np.dot(self.areas, of.lcores().astype(float)))
        total += float(np.dot(one.limits, np.array(of.limits(), dtype=float)))
        return (total + float(np.dot(one.chains, np.array(within, dtype=float)))) * self._unit

    @cached_property
    def ways(self) -> PricedWays:
        one, of = self.prices, self.at.of
        paid = Prices(self.areas, one.limits, one.chains)
        if one.kinds is None:
            shares = self.at.tables.shares(of.room, 0)
            return PricedWays.at(self.at.tables, shares, paid, float(self._unit))
        return PricedWays.of(self.at.tables, self.at.items.costs(one.kinds), paid, 1.0)

    @cached_property
    def least(self) -> Array:
        """chain, end, area: the least that ways with this first segment cost; NEVER."""
        least: Array = np.minimum(self.ways.starts[0] + self.ways.left, NEVER)
        return least

    @property
    def exact(self) -> bool:
        costs = self.least[self.least < NEVER]
        return bool(max(self.worth, costs.max(initial=0.0)) < _EXACT)

    # --- some of the ways ---

    def _segment(self, chain: int, key: SegmentKey, replicas: tuple[int, int] | None) -> float:
        """What it costs with so many replicas."""
        place = chain, key.first, key.end, key.area, key.origin
        every = float(self.ways.segments[place])
        if replicas is None or every >= NEVER:
            return every
        costs = self._lcores(chain, key)
        some = [cost for k, cost in costs.items() if replicas[0] <= k <= replicas[1]]
        return every - min(costs.values()) + min(some) if some else NEVER

    def _lcores(self, chain: int, key: SegmentKey) -> dict[int, float]:
        """By number of replicas that fit, what these cost of lcores."""
        kinds, steps = self.prices.kinds, None
        costs: dict[int, float] = {}
        if kinds is not None:
            steps = kinds.get(
                ItemKind(key.area, chain, key.first, key.end), kinds.get(any_kind(key.area))
            )
        for k, item in self.at.fitting(chain, key).items():
            if kinds is None:
                costs[k] = k * item * float(self.areas[key.area])
            else:
                costs[k] = 0.0 if steps is None else k * float(price_of(steps, item))
        return costs

    def cost(self, chain: int, begin: Begin) -> float:
        """The least of a chain's ways that begin so."""
        if not begin:
            return float(self.least[chain].min())
        doors = self.problem.chains[chain].doors
        starts: dict[tuple[int, int], float] = {}
        for end, area in begin[0].places:
            for d, door in enumerate(doors):
                if door.server == self.problem.areas[area].server:
                    key = SegmentKey(0, end, area, from_door(self.problem, door, area))
                    cost = float(self.ways.doors[chain][d])
                    cost += self._segment(chain, key, begin[0].replicas)
                    starts[end, area] = min(cost, starts.get((end, area), NEVER))
        sofar = _ways_on(
            self.at.tables, chain, begin, starts, min,
            lambda key, some: self._segment(chain, key, some.replicas),
        )  # fmt: skip
        left = self.ways.left[chain]
        return min([NEVER, *(cost + float(left[place]) for place, cost in sofar.items())])

    def surplus(self, begins: Begins) -> float:
        """What these placements cost at least, less what all that there is is worth."""
        chains = range(len(self.problem.chains))
        total = sum(self.cost(c, begins.get(c, ())) for c in chains)
        return total - self.worth if total < NEVER else NEVER

    def bound(self, mode: int) -> ModeBound:
        """The prices as a certificate has them, for placements with a value of `full`."""
        one = self.prices
        return ModeBound(
            mode=mode, part="all", bound=self.at.full + 1, scale=one.scale, step=0, surplus=None,
            areas=ints(self.areas), limits=ints(one.limits), chains=ints(one.chains),
            grain=0 if one.kinds is None else 1, items=tuple(_items(one.kinds or {})),
        )  # fmt: skip


def _items(kinds: Mapping[ItemKind, SizePrices]) -> Iterator[ItemPrices]:
    for kind, steps in sorted(kinds.items()):
        yield ItemPrices(
            area=kind.area, chain=None if kind.chain == ANY else kind.chain,
            first=kind.first, end=kind.end, sizes=steps.sizes, prices=ints(np.array(steps.prices)),
        )  # fmt: skip


def _ways_on(
    tables: WayTables, chain: int, begin: Begin, starts: Mapping[tuple[int, int], T],
    lower: Callable[[T, T], T], segment: Callable[[SegmentKey, SomeSegments], T],
) -> dict[tuple[int, int], T]:  # fmt: skip
    """What ways of a chain that begin so cost at least, by where the last of these segments ends
    and is; `starts`: of the first one, `segment`: of one behind it. Ways that are at their end
    before have no segment behind."""
    functions, sofar = len(tables.problem.chains[chain].functions), dict(starts)
    for some in begin[1:]:
        before = sofar
        sofar = {place: cost for place, cost in before.items() if place[0] == functions}
        for (end, area), cost in before.items():
            for place in some.places:
                origin = int(tables.near[area, place[1]])
                if place[0] > end and origin != ORIGINS:
                    total = cost + segment(SegmentKey(end, *place, origin), some)
                    sofar[place] = lower(total, sofar[place]) if place in sofar else total
    return sofar


@dataclass
class PricePool:
    """All prices that are known at one load: what ways cost is looked up for all at once."""

    at: LoadTables
    known: list[PricesAt] = field(default_factory=list)
    _stacked: dict[str, Array] = field(default_factory=dict)
    _costs: dict[tuple[int, Begin], Array] = field(default_factory=dict)

    def add(self, prices: WholePrices) -> PricesAt | None:
        """None: its costs are too large to be exact."""
        one = PricesAt(prices, self.at)
        if self.at.of.room <= 0 or not one.exact:
            return None
        self.known.append(one)
        ways = one.ways
        for name, table in (
            ("worth", np.array(one.worth)), ("starts", ways.starts[0]), ("left", ways.left),
            ("segments", ways.segments), ("least", one.least.min(axis=(1, 2))),
        ):  # fmt: skip
            before = self._stacked.get(name)
            row = table[None]
            self._stacked[name] = row if before is None else np.concatenate([before, row])
        return one

    @property
    def worth(self) -> Array:
        return self._stacked["worth"]

    def costs(self, chain: int, begin: Begin) -> Array:
        """By prices, the least of a chain's ways that begin so, each segment with any number of
        replicas."""
        known = self._costs.get((chain, begin))
        if known is None or len(known) < len(self.known):
            known = self._costs[chain, begin] = self._all_costs(chain, begin)
        return known

    def _all_costs(self, chain: int, begin: Begin) -> Array:
        if not begin:
            whole: Array = self._stacked["least"][:, chain]
            return whole
        starts, left = self._stacked["starts"][:, chain], self._stacked["left"][:, chain]
        segments = self._stacked["segments"][:, chain]
        sofar: dict[tuple[int, int], Array] = _ways_on(
            self.at.tables, chain, begin,
            {place: starts[:, place[0], place[1]] for place in begin[0].places}, np.minimum,
            lambda key, _: segments[:, key.first, key.end, key.area, key.origin],
        )  # fmt: skip
        every = [cost + left[:, place[0], place[1]] for place, cost in sofar.items()]
        if not every:
            return np.full(len(self.known), NEVER)
        least: Array = np.minimum(np.min(every, axis=0), NEVER)
        return least


def lifted(one: PricesAt) -> WholePrices:
    """The same prices, and whole chains that have none in an area cost there as much as the dearest
    pattern leaves, one after the other (Padberg 1975, A Note on Zero-One Programming): so these
    prices prove something of placements with other chains in the area, too."""
    known = one.prices.kinds
    assert known is not None
    kinds, problem = dict(known), one.problem
    sizes, units = one.at.items.sizes, one.at.items.units
    for area in range(len(problem.areas)):
        for c, chain in enumerate(problem.chains):
            kind = ItemKind(area, c, 0, len(chain.functions))
            if kind in kinds or not one.areas[area]:
                continue
            sack = Knapsack(area, kinds, units, problem.lcore_segments)
            several = np.unique(sizes[:, c, 0, kind.end, area])
            left = {
                int(size): max(0.0, float(one.areas[area] - sack.table[-2, units - size]))
                for size in several
                if size >= 0
            }
            if any(left.values()):
                kinds[kind] = rising(left)
    return replace(one.prices, kinds=kinds)
