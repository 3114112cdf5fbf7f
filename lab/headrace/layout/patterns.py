# SPDX-License-Identifier: Apache-2.0
"""What one lcore may hold: patterns of items, and the most that one is worth at given prices.

An *item* is a replica of a segment: its load on the busiest lcore. Items are told apart by kind:
one of a segment of a chain in an area, or, for the segments that hardly matter, one of any chain's
in an area. A kind has sizes with a price each; an item has the price of the dearest size that is
no larger. A pattern is a set of items that fit together: in load, in how many segments an lcore
polls, none of a segment twice and none of a function twice (Gilmore and Gomory 1961, A Linear
Programming Approach to the Cutting-Stock Problem).
"""

from __future__ import annotations

import bisect
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from headrace.layout.cheapest import NEVER, Array, ChainWay, SegmentKey, WayTables
from headrace.layout.filling import fill
from headrace.layout.placing import lcores_of
from headrace.spec.placement import FINE

ANY = -1  # the chain of a kind that stands for all of them


@dataclass(frozen=True, order=True)
class ItemKind:
    area: int
    chain: int
    first: int
    end: int


@dataclass(frozen=True)
class SizePrices:
    """`sizes` ascend, and so do `prices`."""

    sizes: tuple[int, ...]
    prices: tuple[Any, ...]

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """Arrays of floats, without sizes that are as dear as the ones before."""
        steps = list(_steps(self))
        return np.array([s for s, _ in steps], int), np.array([p for _, p in steps], float)

    def pairs(self) -> Iterator[tuple[int, Any]]:
        return zip(self.sizes, self.prices, strict=True)


Pattern = tuple[tuple[ItemKind, int], ...]  # kind, size; sorted
KindPrices = Mapping[ItemKind, SizePrices]


def any_kind(area: int) -> ItemKind:
    return ItemKind(area, ANY, 0, 0)


def rising(prices: Mapping[int, Any]) -> SizePrices:
    """Orders them by size. An item may stand for a smaller one, so that prices need not fall."""
    sizes = sorted(prices)
    values = np.maximum.accumulate(np.array([prices[size] for size in sizes]))
    return SizePrices(tuple(sizes), tuple(values.tolist()))


@dataclass(frozen=True)
class LcoreItems:
    """LcoreItems of a mode: sizes are loads in parts of `grain`, rounded down."""

    tables: WayTables
    room: int
    grain: int

    @property
    def units(self) -> int:
        return self.room // self.grain

    @cached_property
    def loads(self) -> Array:
        """replicas - 1, chain, first, end, area, origin: the load of one; minus one: none such."""
        problem, tables = self.tables.problem, self.tables
        spread = [chain.spread for chain in problem.chains]
        lcores = [lcores_of(problem, tables.mode, a) for a in range(len(problem.areas))]
        most = min(max(map(len, spread)), max(lcores))
        loads = np.full((most, *tables.work.shape), -1, dtype=np.int64)
        for k in range(1, most + 1):
            each = np.array([s[k - 1] if k <= len(s) else 0 for s in spread], dtype=np.int64)
            item = -(-(tables.work * each[:, None, None, None, None]) // (k * FINE * FINE))
            allowed = (each > 0)[:, None, None, None, None] & tables.valid[..., None, None]
            allowed = allowed & (np.array(lcores) >= k)[None, None, None, :, None]
            loads[k - 1] = np.where(allowed, item, -1)
        return loads

    @cached_property
    def sizes(self) -> Array:
        """The same as `loads`, in units; minus one: none that fits."""
        fits = (self.loads >= 0) & (self.loads <= self.room)
        return np.where(fits, self.loads // self.grain, -1)

    def costs(self, prices: KindPrices) -> Array:
        """chain, first, end, area, origin: the least that all replicas of a segment cost; NEVER."""
        least: Array = self._each(prices).min(axis=0)
        return least

    def _each(self, prices: KindPrices) -> Array:
        sizes = self.sizes
        count = np.arange(1, len(sizes) + 1)[:, None, None, None, None, None]
        each = np.zeros(sizes.shape, dtype=_numbers(prices.values()))
        for kind, steps in prices.items():
            if kind.chain == ANY:
                each[..., kind.area, :] = _priced(steps, sizes[..., kind.area, :])
        for kind, steps in prices.items():
            if kind.chain != ANY:
                at = (slice(None), kind.chain, kind.first, kind.end, kind.area)
                each[at] = _priced(steps, sizes[at])
        return np.where(sizes >= 0, each * count, NEVER)

    def chosen(self, prices: KindPrices, chain: int, way: ChainWay) -> tuple[tuple[int, int], ...]:
        """The cheapest number of replicas of each segment, and the size of one; nothing, where
        none of them fits."""
        picks = []
        for key in way.segments:
            sizes = self.sizes[:, chain, key.first, key.end, key.area, key.origin]
            each = _priced(prices[kind_of(prices, chain, key)], sizes).astype(float)
            cost = np.where(sizes >= 0, each * np.arange(1, len(sizes) + 1), NEVER)
            k = int(cost.argmin())
            if sizes[k] < 0:
                return ()
            picks.append((k + 1, int(sizes[k])))
        return tuple(picks)


def kind_of(kinds: Container[ItemKind], chain: int, key: SegmentKey) -> ItemKind:
    kind = ItemKind(key.area, chain, key.first, key.end)
    return kind if kind in kinds else any_kind(key.area)


def price_of(steps: SizePrices, size: int) -> Any:
    """0 for what is smaller than all sizes."""
    at = bisect.bisect_right(steps.sizes, size)
    return steps.prices[at - 1] if at else 0


def _numbers(several: Iterable[SizePrices]) -> Any:
    """Python's own where prices are whole, as they may be large."""
    whole = any(isinstance(p, int) for steps in several for p in steps.prices[:1])
    return object if whole else float


def _priced(steps: SizePrices, sizes: Array) -> Array:
    table = np.array([0, *steps.prices], dtype=_numbers([steps]))
    priced: Array = table[np.searchsorted(steps.sizes, sizes, side="right")]
    return priced


@dataclass
class Knapsack:
    """The patterns of an area. `most`: items on one lcore at most."""

    area: int
    prices: KindPrices
    units: int
    most: int
    _stages: list[tuple[int, dict[int, Array], list[tuple[ItemKind, SizePrices]]]] = field(
        default_factory=list
    )

    @cached_property
    def _kinds(self) -> dict[int, list[tuple[ItemKind, SizePrices]]]:
        """Finds by chain those that are worth something, by their end."""
        kinds: dict[int, list[tuple[ItemKind, SizePrices]]] = {}
        for kind, steps in sorted(self.prices.items(), key=lambda pair: pair[0].end):
            if kind.area == self.area and kind.chain != ANY and any(steps.prices):
                kinds.setdefault(kind.chain, []).append((kind, steps))
        return kinds

    @cached_property
    def table(self) -> Array:
        """items, load: the most that a pattern of so many, or fewer, and so much is worth."""
        whole = _numbers(self.prices.values())
        total: Array = np.zeros((self.most + 1, self.units + 1), dtype=whole)
        for chain, kinds in self._kinds.items():
            reached = {0: total}  # by function: with the chain's segments that end there or before
            for kind, steps in kinds:
                here = reached.get(kind.end)
                if here is None:
                    here = reached[kind.end] = reached[max(reached)].copy()
                before = reached[max(end for end in reached if end <= kind.first)]
                for count in range(1, self.most + 1):
                    _fill(here[count], before[count - 1], steps)
            self._stages.append((chain, reached, kinds))
            total = reached[max(reached)]
        return self._with_any(total)

    def _with_any(self, total: Array) -> Array:
        steps = self.prices.get(any_kind(self.area))
        if steps is None:
            return total
        table = total.copy()
        for count in range(1, self.most + 1):
            np.maximum(table[count], table[count - 1], out=table[count])
            _fill(table[count], table[count - 1], steps)
        return table

    @property
    def worth(self) -> Any:
        return self.table[-1, -1]

    def pattern(self, count: int) -> Pattern:
        """One that is worth the most, of so many items at most."""
        table, at = self.table, self.units
        items: list[tuple[ItemKind, int]] = []
        steps = self.prices.get(any_kind(self.area))
        total = self._stages[-1][1][max(self._stages[-1][1])] if self._stages else None
        while count and steps is not None:
            if total is not None and table[count, at] == total[count, at]:
                break
            if table[count, at] == table[count - 1, at]:
                count -= 1
                continue
            step = _step(steps, table[count - 1], table[count, at], at)
            if step is None:
                break
            items.append((any_kind(self.area), step))
            count, at = count - 1, at - step
        for _, reached, kinds in reversed(self._stages):
            count, at = self._back(reached, kinds, count, at, items)
        return tuple(sorted(items))

    def _back(
        self,
        reached: Mapping[int, Array],
        kinds: Sequence[tuple[ItemKind, SizePrices]],
        count: int,
        at: int,
        items: list[tuple[ItemKind, int]],
    ) -> tuple[int, int]:
        """Goes back through one chain's segments, from its last function on."""
        ends = sorted(reached)
        place = ends[-1]
        while place:
            value = reached[place][count, at]
            earlier = max(end for end in ends if end < place)
            if value == reached[earlier][count, at]:
                place = earlier
                continue
            for kind, steps in kinds:
                before = max(end for end in ends if end <= kind.first)
                if kind.end == place and count:
                    step = _step(steps, reached[before][count - 1], value, at)
                    if step is not None:
                        items.append((kind, step))
                        count, at, place = count - 1, at - step, before
                        break
            else:
                raise AssertionError("a pattern that came from nowhere")
        return count, at


def _fill(row: Array, before: Array, steps: SizePrices) -> None:
    """See filling.py; whole numbers may be larger than what is compiled has."""
    if row.dtype != object:
        fill(row, before, *steps.arrays)
        return
    for size, price in _steps(steps):
        if size < len(row):
            np.maximum(row[size:], before[: len(row) - size] + price, out=row[size:])


def _steps(steps: SizePrices) -> Iterator[tuple[int, Any]]:
    """Those that are dearer than the ones before."""
    last: Any = 0
    for size, price in steps.pairs():
        if price > last:
            yield size, price
            last = price


def _step(steps: SizePrices, before: Array, value: Any, at: int) -> int | None:
    for size, price in _steps(steps):
        if size <= at and before[at - size] + price == value:
            return size
    return None
