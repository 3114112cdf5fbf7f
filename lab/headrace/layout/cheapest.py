# SPDX-License-Identifier: Apache-2.0
"""The cheapest way of each chain at given prices, all chains at once.

A way is a path over (functions done, area of the last segment); arrays have an axis for chains,
first function, end, area and origin. They are of floats while prices are looked for, and of
Python's whole numbers for what a certificate states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.layout.placing import FAR, between, from_door, lcores_of
from headrace.spec.placement import FINE, PlacementProblem, ThreadMode

Array = NDArray[Any]
ORIGINS = 3
NEVER = 1e60  # more than any way costs


@dataclass(frozen=True)
class SegmentKey:
    """A segment of a way: by functions, area and where packets come from."""

    first: int
    end: int
    area: int
    origin: int


@dataclass(frozen=True)
class ChainWay:
    door: int
    segments: tuple[SegmentKey, ...]


@dataclass(frozen=True)
class Prices:
    """For an lcore of each area, for a unit of each limit, for a nanosecond of each chain; `door`
    prices follow from those of limits."""

    areas: Array
    limits: Array
    chains: Array


@dataclass(frozen=True)
class SomeSegments:
    """What one segment of a chain's ways may be. `places`: where it ends, and its area; `replicas`:
    how many of them there are at least and at most (None: any number)."""

    places: frozenset[tuple[int, int]]
    replicas: tuple[int, int] | None = None


# What the first segments of a chain may be, one after the other; those behind may be any.
Begin = tuple[SomeSegments, ...]
Begins = Mapping[int, Begin]  # by chain


@dataclass(frozen=True)
class WayTables:
    problem: PlacementProblem
    mode: ThreadMode
    _shares: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    @cached_property
    def longest(self) -> int:
        return max(len(chain.functions) for chain in self.problem.chains)

    @cached_property
    def _sums(self) -> dict[str, Array]:
        """Sums over functions before each one: chain, function, area."""
        chains, areas = len(self.problem.chains), len(self.problem.areas)
        sums = {}
        for name in ("work", "memory", "delay_ns"):
            table = np.zeros((chains, self.longest + 1, areas), dtype=np.int64)
            for c, chain in enumerate(self.problem.chains):
                rows = np.array([getattr(f, name) for f in chain.functions], dtype=np.int64)
                table[c, 1 : len(rows) + 1] = np.cumsum(rows, axis=0)
            sums[name] = table
        return sums

    def _between(self, name: str) -> Array:
        """chain, first, end, area"""
        table = self._sums[name]
        return table[:, None, :, :] - table[:, :, None, :]

    @cached_property
    def valid(self) -> Array:
        """chain, first, end: whether there is such a segment."""
        n = self.longest + 1
        first, end = np.arange(n)[:, None], np.arange(n)[None, :]
        sizes = np.array([len(c.functions) for c in self.problem.chains])
        return (first < end)[None] & (end[None] <= sizes[:, None, None])

    def _edges(self, name: str) -> Array:
        """chain, function, origin: entering costs."""
        table = np.zeros((len(self.problem.chains), self.longest + 1, ORIGINS), dtype=np.int64)
        for c, chain in enumerate(self.problem.chains):
            for i, function in enumerate(chain.functions):
                table[c, i] = getattr(function, name)
        return table

    @cached_property
    def work(self) -> Array:
        """chain, first, end, area, origin"""
        leave = np.zeros((len(self.problem.chains), self.longest + 1), dtype=np.int64)
        for c, chain in enumerate(self.problem.chains):
            leave[c, 1 : len(chain.functions) + 1] = [f.leave for f in chain.functions]
        inside = self._between("work") + leave[:, None, :, None]
        for c, chain in enumerate(self.problem.chains):
            if chain.apart:
                inside[c] += np.array(chain.apart)
        table: Array = inside[..., None] + self._edges("enter")[:, :, None, None, :]
        return table

    @cached_property
    def ns(self) -> Array:
        """As `work`: latency."""
        entering = self._edges("enter_ns")[:, :, None, None, :]
        table: Array = self._between("delay_ns")[..., None] + entering
        return table

    @cached_property
    def memory(self) -> Array:
        return self._between("memory")

    @cached_property
    def near(self) -> Array:
        """From area to area: the origin; ORIGINS: another server."""
        areas = self.problem.areas
        return np.array(
            [
                [
                    between(self.problem, a, b) if one.server == other.server else ORIGINS
                    for b, other in enumerate(areas)
                ]
                for a, one in enumerate(areas)
            ]
        )

    def shares(self, room: int, step: int) -> Array:
        """As `work`: the least that a segment's replicas take of lcores, in parts of
        room * max(1, step); NEVER: it does not fit."""
        if (room, step) not in self._shares:
            self._shares[room, step] = self._all_shares(room, step)
        return np.where(self.valid[..., None, None], self._shares[room, step], NEVER)

    def _all_shares(self, room: int, step: int) -> Array:
        spread = [chain.spread for chain in self.problem.chains]
        most = max(map(len, spread))
        lcores = np.array([lcores_of(self.problem, self.mode, a) for a in range(len(self.near))])
        least = np.full(self.work.shape, NEVER, dtype=float)
        for k in range(1, most + 1):
            each = np.array([s[k - 1] if k <= len(s) else 0 for s in spread], dtype=np.int64)
            here = self.work * each[:, None, None, None, None]
            item = -(-here // (k * FINE * FINE))
            size = k * _dual_feasible(item, room, step)
            allowed = (item <= room) & (each > 0)[:, None, None, None, None]
            allowed &= (lcores >= k)[None, None, None, :, None]
            least = np.where(allowed, np.minimum(least, size), least)
        return least


def _dual_feasible(item: Array, room: int, step: int) -> Array:
    if step == 0:
        return item
    scaled = (step + 1) * item
    return np.where(scaled % room == 0, item * step, scaled // room * room)


@dataclass(frozen=True)
class PricedWays:
    """What ways cost: `segments` as WayTables.work, `doors` by chain and door."""

    tables: WayTables
    segments: Array
    doors: Sequence[Sequence[Any]]

    @classmethod
    def at(cls, tables: WayTables, shares: Array, prices: Prices, whole: Any) -> PricedWays:
        """`shares` in parts of `whole`, which prices of limits and of time are multiplied by."""
        exact = prices.areas.dtype == object
        fits = shares < NEVER
        size = np.where(fits, shares, 0)
        size = size.astype(np.int64).astype(object) if exact else size
        cost = np.where(fits, size * prices.areas[None, None, None, :, None], NEVER)
        return cls.of(tables, cost, prices, whole)

    @classmethod
    def of(cls, tables: WayTables, lcores: Array, prices: Prices, whole: Any) -> PricedWays:
        """`lcores`: what segments cost of lcores; NEVER: there is none such."""
        problem = tables.problem
        kind: Any = object if prices.limits.dtype == object else float
        fits = lcores < NEVER
        cost = np.where(fits, lcores, 0)
        cost = cost + tables.ns.astype(kind) * (prices.chains * whole)[:, None, None, None, None]
        for a, area in enumerate(problem.areas):
            if area.limit is not None:
                used = tables.memory[..., a].astype(kind) * (prices.limits[area.limit] * whole)
                cost[..., a, :] = cost[..., a, :] + used[..., None]
            crossing = problem.servers[area.server].crossing
            if crossing is not None:
                each = np.array([c.crossing for c in problem.chains]).astype(kind)
                far = each * (prices.limits[crossing] * whole)
                cost[..., a, FAR] = cost[..., a, FAR] + far[:, None, None]
        for c, chain in enumerate(problem.chains):
            if chain.switch is not None:
                used = np.array(chain.switched).astype(kind) * (prices.limits[chain.switch] * whole)
                cost[c] = cost[c] + used[:, None]
        cost = np.where(fits, cost, NEVER)
        doors = [
            [sum(prices.limits[i] * u for i, u in door.uses) * whole for door in chain.doors]
            for chain in problem.chains
        ]
        return cls(tables, cost, doors)

    @cached_property
    def starts(self) -> tuple[Array, Array]:
        """chain, end, area: the least of a first segment, and by which door."""
        problem, n = self.tables.problem, self.tables.longest
        shape = (len(problem.chains), n + 1, len(problem.areas))
        costs = np.full(shape, NEVER, dtype=self.segments.dtype)
        chosen = np.zeros(shape, dtype=int)
        for c, chain in enumerate(problem.chains):
            for d, door in enumerate(chain.doors):
                for a, area in enumerate(problem.areas):
                    if area.server != door.server:
                        continue
                    origin = from_door(problem, door, a)
                    here = self.segments[c, 0, :, a, origin] + self.doors[c][d]
                    better = here < costs[c, :, a]
                    costs[c, :, a] = np.where(better, here, costs[c, :, a])
                    chosen[c, better, a] = d
        return costs, chosen

    @cached_property
    def _paths(self) -> tuple[Array, Array, Array]:
        """chain, end, area: the least; the first function of its last segment; the area before."""
        tables = self.tables
        best, _ = self.starts
        best = best.copy()
        came, before = np.zeros(best.shape, dtype=int), np.full(best.shape, -1)
        near = np.where(tables.near == ORIGINS, 0, tables.near)
        areas = np.arange(best.shape[2])
        away = tables.near == ORIGINS
        for end in range(2, tables.longest + 1):
            for first in range(1, end):
                here = self.segments[:, first, end][:, areas[None, :], near]  # chain, before, area
                total = best[:, first, :, None] + here
                total = np.where(away[None], NEVER, total)
                least = total.argmin(axis=1)
                cost = np.take_along_axis(total, least[:, None, :], axis=1)[:, 0, :]
                better = cost < best[:, end]
                best[:, end] = np.where(better, cost, best[:, end])
                came[:, end][better] = first
                before[:, end][better] = least[better]
        return best, came, before

    @cached_property
    def left(self) -> Array:
        """chain, end, area: the least that the segments behind one that ends there cost."""
        tables = self.tables
        left: Array = np.full(self.starts[0].shape, NEVER, dtype=self.segments.dtype)
        for c, chain in enumerate(self._chains):
            left[c, len(chain.functions)] = 0
        near = np.where(tables.near == ORIGINS, 0, tables.near)
        areas, away = np.arange(left.shape[2]), tables.near == ORIGINS
        for first in range(tables.longest - 1, 0, -1):
            for end in range(first + 1, tables.longest + 1):
                here = self.segments[:, first, end][:, areas[None, :], near]  # chain, before, area
                total = np.where(away[None], NEVER, here + left[:, end, None, :])
                left[:, first] = np.minimum(left[:, first], total.min(axis=2))
        return left

    def least(self) -> list[Any]:
        """By chain."""
        best, _, _ = self._paths
        return [best[c, len(one.functions)].min() for c, one in enumerate(self._chains)]

    @property
    def _chains(self) -> Any:
        return self.tables.problem.chains

    def ways(self) -> list[ChainWay | None]:
        """The cheapest of each chain; None: it has none that fits."""
        best, came, before = self._paths
        _, doors = self.starts
        ways: list[ChainWay | None] = []
        for c, chain in enumerate(self._chains):
            end = len(chain.functions)
            area = int(best[c, end].argmin())
            if best[c, end, area] >= NEVER:
                ways.append(None)
                continue
            segments: list[SegmentKey] = []
            while before[c, end, area] >= 0:
                first, previous = int(came[c, end, area]), int(before[c, end, area])
                origin = int(self.tables.near[previous, area])
                segments.insert(0, SegmentKey(first, end, area, origin))
                end, area = first, previous
            door = int(doors[c, end, area])
            origin = from_door(self.tables.problem, chain.doors[door], area)
            ways.append(ChainWay(door, (SegmentKey(0, end, area, origin), *segments)))
        return ways
