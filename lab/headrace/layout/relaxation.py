# SPDX-License-Identifier: Apache-2.0
"""Lagrange's relaxation of a placement problem: the bound that prices of lcores, of limits and of
time over a goal prove.

At given prices each chain is by itself, and its cheapest way a shortest path (cheapest.py). What
all of them cost, less what all that there is is worth at these prices, no placement can be below
(Geoffrion 1974, Lagrangean Relaxation for Integer Programming).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import Literal

import numpy as np

from headrace.layout.cheapest import NEVER, Array, PricedWays, Prices, WayTables
from headrace.layout.placing import capacity, lcores_of, up
from headrace.spec.placement import WHOLE, ModeBound, PlacementProblem

SCALE = 10**12  # of prices in certificates
BoundPart = Literal["all", "servers", "rest"]


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

    @property
    def weight(self) -> int:
        """What a nanosecond of latency counts."""
        return 0 if self.free or self.part == "servers" else self.problem.weight_ns

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
