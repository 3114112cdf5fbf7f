# SPDX-License-Identifier: Apache-2.0
"""How good a placement can be at most: Lagrange's bound, its prices by column generation.

Given prices of lcores, of limits and of time over a goal, each chain is by itself, and its cheapest
way a shortest path (cheapest.py). What all of them cost, less what all that there is is worth at
these prices, no placement can be below (Geoffrion 1974, Lagrangean Relaxation for Integer
Programming). The best prices are the dual of a linear program over ways, of which those that it
lacks are added until there are none. Its solution is where searching begins, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import gcd, lcm
from typing import Any, Literal

import numpy as np

from headrace.layout.cheapest import NEVER, Array, ChainWay, PricedWays, Prices, WayTables
from headrace.layout.placing import capacity, lcores_of, segment_uses, up
from headrace.layout.scaled_program import ScaledProgram
from headrace.spec.placement import WHOLE, ChosenSegment, ModeBound, PlacementProblem

SCALE = 10**12  # of prices in certificates
BoundPart = Literal["all", "servers", "rest"]
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


@dataclass(frozen=True)
class Relaxation:
    """One mode of a problem, lcores and limits being `full` at most, loads taken as `step` says."""

    tables: WayTables
    full: int
    step: int = 0
    part: BoundPart = "all"
    times: int = 1  # servers that are like the problem's only one

    @property
    def problem(self) -> PlacementProblem:
        return self.tables.problem

    @property
    def room(self) -> int:
        return capacity(self.problem, self.tables.mode, self.full)

    @property
    def whole(self) -> int:
        return self.room * max(1, self.step)

    @property
    def free(self) -> bool:
        return self.problem.aim == "rate"

    def lcores(self) -> Array:
        areas = range(len(self.problem.areas))
        each = [lcores_of(self.problem, self.tables.mode, area) for area in areas]
        return np.array(each) * self.times

    def limits(self) -> list[int]:
        """What there is of each."""
        return [one.capacity * self.full // WHOLE * self.times for one in self.problem.limits]

    def counted(self) -> tuple[list[int], int]:
        """What the aim counts for an lcore of each area, and the denominator of these."""
        if self.free:
            return [0] * len(self.problem.areas), 1
        lcores, problem = self.lcores(), self.problem
        total = [0] * len(problem.servers)
        for area, count in zip(problem.areas, lcores, strict=True):
            total[area.server] += int(count) // self.times
        common = lcm(*total)
        each = []
        for server, among in zip(problem.servers, total, strict=True):
            fixed = {"all": server.fixed, "servers": 1, "rest": 0}[self.part]
            own = 0 if self.part == "servers" else server.each
            each.append(own * common + fixed * common // among)
        return [each[area.server] for area in problem.areas], common

    # --- the linear program ---

    def solve(self, until: float) -> Relaxed:
        """`until`: of time.monotonic(); the prices of any round are good for a bound."""
        shares = self.tables.shares(self.room, self.step)
        master = _Master(self)
        counted, common = self.counted()
        prices = Prices(np.ones(len(self.problem.areas)), *self._nothing())
        relaxed = None
        for number in range(_ROUNDS):
            own = np.array(counted, dtype=float) / common
            paid = Prices(prices.areas + own, prices.limits, prices.chains + self.weight)
            ways = PricedWays.at(self.tables, shares, paid, float(self.whole))
            added = master.add(ways, shares, first=number == 0)
            if (relaxed is not None and not added) or (time.monotonic() > until and relaxed):
                break
            solved = master.solve()
            if solved is None:
                break
            relaxed, prices = solved, solved.prices
        return relaxed or Relaxed(0.0, prices, master.columns, [0.0] * len(master.columns))

    def _nothing(self) -> tuple[Array, Array]:
        return np.zeros(len(self.problem.limits)), np.zeros(len(self.problem.chains))

    @property
    def weight(self) -> int:
        """What a nanosecond of latency counts."""
        return 0 if self.free or self.part == "servers" else self.problem.weight_ns

    # --- the bound ---

    def proven(self, prices: Prices) -> int | None:
        """The surplus at prices as whole numbers, exactly: above 0 there is no placement at all
        (rate); otherwise a multiple of what the aim counts, see `bound`. None: no way fits."""
        shares = self.tables.shares(self.room, self.step)
        counted, common = self.counted()
        areas = np.array(
            [int(p) * common + SCALE * c for p, c in zip(prices.areas, counted, strict=True)],
            dtype=object,
        )
        limits = np.array([int(p) * common for p in prices.limits], dtype=object)
        chains = np.array(
            [(int(p) + SCALE * self.weight) * common for p in prices.chains], dtype=object
        )
        least = PricedWays.at(
            self.tables, shares, Prices(areas, limits, chains), self.whole
        ).least()
        if any(cost >= NEVER for cost in least):
            return None
        total = int(sum(least))
        each = self.whole * common
        for price, chain in zip(prices.chains, self.problem.chains, strict=True):
            total -= int(price) * (chain.within_ns or 0) * each
        for price, count in zip(prices.areas, self.lcores(), strict=True):
            total -= int(price) * int(count) * each
        for price, amount in zip(prices.limits, self.limits(), strict=True):
            total -= int(price) * amount * each
        return total

    def bound(self, surplus: int) -> int:
        """The least value that the surplus allows, of those that there are."""
        _, common = self.counted()
        return self.least_value(surplus, self.whole * common * SCALE)

    def least_value(self, surplus: int, scale: int) -> int:
        return self._unit * up(surplus, scale * self._unit)

    @property
    def _unit(self) -> int:
        """What all values are a multiple of, where no latencies are in them."""
        if self.weight:
            return 1
        fixed = {"all": [s.fixed for s in self.problem.servers], "servers": [1], "rest": []}[
            self.part
        ]
        each = [] if self.part == "servers" else [s.each for s in self.problem.servers]
        return max(1, gcd(*fixed, *each))

    def certificate(self, mode: int, bound: int, surplus: int | None, prices: Prices) -> ModeBound:
        return ModeBound(
            mode=mode, part=self.part, bound=bound, surplus=surplus, step=self.step, scale=SCALE,
            areas=ints(prices.areas) * self.times, limits=ints(prices.limits) * self.times,
            chains=ints(prices.chains),
        )  # fmt: skip


def in_whole(prices: Prices) -> Prices:
    return Prices(*(scaled(each, SCALE) for each in (prices.areas, prices.limits, prices.chains)))


def scaled(values: Array, scale: int) -> Array:
    """Prices in whole numbers, of which none is negative."""
    return np.array([max(0, round(float(v) * scale)) for v in values], dtype=object)


def ints(values: Array) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


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
        return Relaxed(self.goal.Value(), self.prices(), self.columns, parts)


def first_server(problem: PlacementProblem) -> PlacementProblem:
    """The problem as its first server has it, where all are of one type: then all may have the same
    prices, and a chain's cheapest way is as cheap on each."""
    count = len(problem.servers)
    if count == 1 or len({server.type for server in problem.servers}) > 1:
        return problem
    areas, limits = len(problem.areas) // count, len(problem.limits) // count
    chains = []
    for chain in problem.chains:
        functions = tuple(
            f.model_copy(
                update={name: getattr(f, name)[:areas] for name in ("work", "memory", "delay_ns")}
            )
            for f in chain.functions
        )
        doors = tuple(door for door in chain.doors if door.server == 0)
        chains.append(chain.model_copy(update={"functions": functions, "doors": doors}))
    return problem.model_copy(
        update={
            "servers": problem.servers[:1],
            "areas": problem.areas[:areas],
            "limits": problem.limits[:limits],
            "chains": tuple(chains),
        }
    )
