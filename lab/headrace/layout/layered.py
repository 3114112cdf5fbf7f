# SPDX-License-Identifier: Apache-2.0
"""Areas filled by layers (layer_table.py), in a fraction of a millisecond each, and chains that
change places between areas by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983,
Optimization by Simulated Annealing), for the aim `rate`: loads as even as can be.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.layout.cheapest import Array, ChainWay, SegmentKey
from headrace.layout.layer_table import ENDLESS, FEWER, LAYER, SPLIT, layered
from headrace.layout.packed import Draft, PackedArea, Packer, Slot, place_of
from headrace.layout.placing import up
from headrace.spec.placement import WHOLE

_MOST = 8  # segments of an area, of which all sets are looked at
_USUAL = 6  # of each area, so that few have more
_CUT = 8  # ways of a chain in two segments that are tried
_POWER = 60  # of areas' levels: the fullest counts most
_HIGH = 1.6  # of these, which counts as much as any more
_HOT, _COLD = 0.3, 0.001  # of the sum of these powers
Placed = Sequence[tuple[Slot, SegmentKey]]  # segments of an area


@dataclass
class LayeredFiller:
    packer: Packer
    seed: int = 1
    _levels: dict[tuple[int, tuple[tuple[Slot, SegmentKey], ...]], int] = field(
        default_factory=dict
    )
    _sizes: dict[tuple[int, SegmentKey], Array] = field(default_factory=dict)

    @property
    def suits(self) -> bool:
        """Chains are not too many for so few areas."""
        return len(self.packer.pool) <= _USUAL * len(self.packer.areas)

    def level(self, area: int, placed: Placed) -> int:
        """The load of the area's fullest lcore; ENDLESS: too many for a look at all sets."""
        name = area, tuple(sorted(placed))
        if name not in self._levels:
            self._levels[name] = int(self._table(area, placed)[0][-1, -1, -1])
        return self._levels[name]

    def filled(self, area: int, placed: Placed) -> PackedArea | None:
        """None: there is no such layout."""
        if not placed:
            return PackedArea({}, 0, 0, 0.0)
        table = self._table(area, placed)
        if table[0][-1, -1, -1] >= ENDLESS:
            return None
        on: dict[int, list[int]] = {i: [] for i in range(len(placed))}
        _laid(table, table[0].shape[0] - 1, (1 << len(placed)) - 1, self.packer.areas[area], 0, on)
        loads = [0] * self.packer.areas[area]
        for i, ((c, _), key) in enumerate(placed):
            for lcore in on[i]:
                loads[lcore] += self.packer.item(c, key, len(on[i]))
        squares = sum(load * load for load in loads) / WHOLE**2
        lcores = {slot: tuple(sorted(on[i])) for i, (slot, _) in enumerate(placed)}
        return PackedArea(lcores, max(loads), sum(map(bool, loads)), squares)

    def _table(self, area: int, placed: Placed) -> tuple[Array, ...]:
        lcores, polled = self.packer.areas[area], self.packer.problem.lcore_segments
        count = len(placed)
        depths = 1 if count <= polled else polled
        shape = depths, 1 << min(count, _MOST), lcores + 1
        tables = tuple(np.full(shape, ENDLESS, np.int64) for _ in range(4))
        if count > _MOST:
            return tables
        sizes = np.array([self._replicas(c, key, lcores) for (c, _), key in placed])
        layered(sizes.reshape(count, lcores + 1), polled, *tables)
        return tables

    def _replicas(self, chain: int, key: SegmentKey, lcores: int) -> Array:
        """By number of replicas, the load of one."""
        if (chain, key) not in self._sizes:
            sizes = np.full(lcores + 1, ENDLESS, np.int64)
            for k in range(1, self.packer.most(chain, key) + 1):
                sizes[k] = self.packer.item(chain, key, k)
            self._sizes[chain, key] = sizes
        return self._sizes[chain, key]

    # --- chains that change places ---

    def met(self, enough: float, until: float) -> Draft | None:
        """The best placement of one cooling: whole chains to begin with, the largest first, where
        least is. None: there was none."""
        return self.draft(_Search(self, random.Random(self.seed)).cooled(enough, until))

    def draft(self, ways: Sequence[ChainWay]) -> Draft | None:
        """These ways, each area filled by layers."""
        areas = [self.filled(a, placed_in(ways, a)) for a in range(len(self.packer.areas))]
        draft = Draft(list(ways), {}, dict(enumerate(areas)))
        for one in areas:
            if one is None:
                return None
            draft.replicas |= {slot: len(on) for slot, on in one.lcores.items()}
        draft.score = self.packer.scored(draft)
        return draft


def _laid(
    table: tuple[Array, ...], depth: int, some: int, lcores: int, at: int,
    on: dict[int, list[int]],
) -> None:  # fmt: skip
    """Puts a set's segments on so many lcores from this one on, as the table has it."""
    _, how, part, first = table
    kind, chosen = how[depth, some, lcores], int(part[depth, some, lcores])
    n = int(first[depth, some, lcores])
    if kind == FEWER:
        _laid(table, depth, some, n, at, on)
    elif kind == SPLIT:
        _laid(table, depth, chosen, n, at, on)
        _laid(table, depth, some ^ chosen, lcores - n, at + n, on)
    else:
        assert kind == LAYER
        for i in on:
            if chosen >> i & 1:
                on[i] += range(at, at + lcores)
        rest = some ^ chosen
        if rest:
            below = depth if len(how) == 1 else depth - chosen.bit_count()
            _laid_apart(table, below, rest, lcores, at, on)


def _laid_apart(
    table: tuple[Array, ...], depth: int, some: int, lcores: int, at: int,
    on: dict[int, list[int]],
) -> None:  # fmt: skip
    """The same for what is below a layer: in two parts."""
    least = table[0]
    best, chosen, n = ENDLESS, 0, 0
    other = here = some & (some - 1)
    while other:
        for a in range(1, lcores):
            level = int(max(least[depth, some ^ other, a], least[depth, other, lcores - a]))
            if level < best:
                best, chosen, n = level, some ^ other, a
        other = (other - 1) & here
    assert chosen  # a layer of all of them would have been as good
    _laid(table, depth, chosen, n, at, on)
    _laid(table, depth, some ^ chosen, lcores - n, at + n, on)


def placed_in(ways: Sequence[ChainWay], area: int) -> list[tuple[Slot, SegmentKey]]:
    return [
        ((c, s), key)
        for c, way in enumerate(ways)
        for s, key in enumerate(way.segments)
        if key.area == area
    ]


class _Search:
    """Ways of all chains, the levels of areas and limits by them, and what these count together:
    the sum of high powers of what each is by the level at the beginning."""

    def __init__(self, filler: LayeredFiller, draw: random.Random) -> None:
        self.filler, self.packer, self.draw = filler, filler.packer, draw
        self.ways = self._begin(filler.packer.spread())
        areas = range(len(self.packer.areas))
        self.areas = {a: placed_in(self.ways, a) for a in areas}
        self.used = [0] * len(self.packer.problem.limits)
        for c, way in enumerate(self.ways):
            self._use(c, way, 1)
        self.levels = {a: filler.level(a, placed) for a, placed in self.areas.items()}
        finite = [level for level in self.levels.values() if level < ENDLESS]
        self.base = float(max([1, *finite]))

    def _begin(self, ways: Sequence[ChainWay]) -> list[ChainWay]:
        """Whole chains, the largest first, where areas are filled least; these ways where there is
        no other."""
        filled = [0.0] * len(self.packer.areas)
        begun = list(ways)
        sizes = [
            max((self._work(c, way) for way in whole.values()), default=0)
            for c, whole in enumerate(self._whole)
        ]
        for c in sorted(range(len(begun)), key=lambda c: -sizes[c]):
            levels = {
                a: filled[a] + self._work(c, way) / self.packer.areas[a]
                for a, way in self._whole[c].items()
            }
            if levels:
                area = min(levels, key=lambda a: (levels[a], a))
                begun[c], filled[area] = self._whole[c][area], levels[area]
        return begun

    def _work(self, chain: int, way: ChainWay) -> int:
        return sum(self.packer.item(chain, key, 1) for key in way.segments)

    def _use(self, chain: int, way: ChainWay, sign: int) -> None:
        for limit, amount in self.packer.known(chain, way)[1]:
            self.used[limit] += sign * amount

    @cached_property
    def _whole(self) -> list[dict[int, ChainWay]]:
        """By chain and area, the way of one segment by a port that is as near as any; none that is
        late."""
        tables: list[dict[int, ChainWay]] = []
        for c, ways in enumerate(self.packer.pool):
            within = self.packer.problem.chains[c].within_ns
            table: dict[int, ChainWay] = {}
            for way in sorted(ways, key=lambda w: (self._work(c, w), place_of(w))):
                if len(way.segments) == 1 and (
                    within is None or self.packer.known(c, way)[0] <= within
                ):
                    table.setdefault(way.segments[0].area, way)
            tables.append(table)
        return tables

    @cached_property
    def _cut(self) -> list[list[ChainWay]]:
        """By chain, the ways of two segments with least to do, that are not late."""
        several = []
        for c, ways in enumerate(self.packer.pool):
            within = self.packer.problem.chains[c].within_ns
            kept = [
                way for way in ways
                if len(way.segments) == 2
                and (within is None or self.packer.known(c, way)[0] <= within)
            ]  # fmt: skip
            several.append(sorted(kept, key=lambda way: self._work(c, way))[:_CUT])
        return several

    def _power(self, level: float) -> float:
        return min(_HIGH, level / self.base) ** _POWER

    def _limits(self) -> list[int]:
        limits = self.packer.problem.limits
        return [up(u * WHOLE, one.capacity) for u, one in zip(self.used, limits, strict=True)]

    def value(self) -> int:
        speed = self.packer.problem.modes[self.packer.mode].speed
        lcores = max(up(level * WHOLE, speed) for level in self.levels.values())
        return max([lcores, *self._limits()])

    def cooled(self, enough: float, until: float) -> list[ChainWay]:
        """The best ways that are met while it cools; colder with the time that is over."""
        best, value = list(self.ways), self.value()
        began, heat, step = time.monotonic(), _HOT, 0
        energy = self._energy()
        while value > enough:
            step += 1
            if step % 16 == 0:
                part = (time.monotonic() - began) / max(1e-9, until - began)
                if part >= 1:
                    break
                heat = _HOT * (_COLD / _HOT) ** part
            change = self._change()
            before = {c: self.ways[c] for c in change}
            levels = self._moved(change)
            other = self._energy()
            if other <= energy or self.draw.random() < math.exp((energy - other) / heat):
                energy = other
                now = self.value()
                if now < value:
                    best, value = list(self.ways), now
            else:
                self._moved(before)
                self.levels.update(levels)
        return best

    def _energy(self) -> float:
        speed = self.packer.problem.modes[self.packer.mode].speed / WHOLE
        total = sum(self._power(level) for level in self.levels.values())
        return total + sum(self._power(busy * speed) for busy in self._limits())

    def _change(self) -> dict[int, ChainWay]:
        """A chain goes to another area, or is cut, or two change places; from the fullest area
        every other time."""
        draw, there = self.draw, list(range(len(self.ways)))
        if draw.random() < 0.5:
            worst = max(self.levels, key=lambda a: self.levels[a])
            there = sorted({c for (c, _), _ in self.areas[worst]}) or there
        c, kind = draw.choice(there), draw.random()
        here = self.ways[c].segments[0].area
        if kind < 0.1 and self._cut[c]:
            return {c: draw.choice(self._cut[c])}
        if kind < 0.3:
            way = self._whole[c].get(draw.randrange(len(self.packer.areas)))
            return {} if way is None else {c: way}
        d = draw.randrange(len(self.ways))
        pair = self._whole[c].get(self.ways[d].segments[0].area), self._whole[d].get(here)
        if c == d or pair[0] is None or pair[1] is None:
            return {}
        return {c: pair[0], d: pair[1]}

    def _moved(self, change: dict[int, ChainWay]) -> dict[int, int]:
        """Makes the change; the levels before of the areas that it touched."""
        touched = set()
        for c, way in change.items():
            old = self.ways[c]
            for s, key in enumerate(old.segments):
                self.areas[key.area].remove(((c, s), key))
                touched.add(key.area)
            for s, key in enumerate(way.segments):
                self.areas[key.area].append(((c, s), key))
                touched.add(key.area)
            self._use(c, old, -1)
            self._use(c, way, 1)
            self.ways[c] = way
        before = {a: self.levels[a] for a in touched}
        for a in touched:
            self.levels[a] = self.filler.level(a, self.areas[a])
        return before
