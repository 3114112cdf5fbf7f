# SPDX-License-Identifier: Apache-2.0
"""Whether some segments can be on an area's lcores with no more than a load: a linear program over
patterns of their items (patterns.py), as small as one area's is. Where it needs more lcores than
there are, its prices refute the load, whatever is on the area beside.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from headrace.layout.area_patterns import dearest
from headrace.layout.cheapest import Array

_CLOSE = 1e-9
_ROUNDS = 300
Sizes = Mapping[int, int]  # by number of replicas, the load of each


@dataclass
class AreaBound:
    """`segments`: what their replicas may take. `refuted`: there are too few lcores for them, by
    `prices`, by segment and size, where an lcore is worth one. `needed`: lcores, by the program;
    `parts`: by segment, how much there is of each number of replicas."""

    segments: Sequence[Sizes]
    lcores: int
    units: int  # load of an lcore
    polled: int
    refuted: bool = False
    needed: float = 0.0
    prices: list[dict[int, float]] = field(default_factory=list)
    parts: list[dict[int, float]] = field(default_factory=list)

    def solve(self, until: float) -> None:
        program = _Program(self)
        for _ in range(_ROUNDS):
            if not program.solved():
                return
            self.needed, self.parts = program.value(), program.parts()
            self.prices = program.prices()
            worth, patterns = program.dearest()
            if self.needed > self.lcores * max(1.0, worth) * (1 + _CLOSE):
                self.prices = [{s: p / worth for s, p in one.items()} for one in self.prices]
                self.refuted = True
                return
            added = sum(program.add(pattern) for pattern in patterns)
            if self.needed <= self.lcores or not added or time.monotonic() > until:
                return


class _Program:
    """As few lcores as patterns allow: each segment has some number of replicas, and as many items
    of its sizes are in patterns, or larger ones."""

    def __init__(self, of: AreaBound) -> None:
        self.of = of
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        self.endless = self.solver.infinity()
        self.goal = self.solver.Objective()
        self.goal.SetMinimization()
        self.sizes = [sorted(set(sizes.values())) for sizes in of.segments]
        self.rows: list[dict[int, Any]] = []
        self.chosen: list[dict[int, Any]] = []
        self.known: set[tuple[tuple[int, int], ...]] = set()
        for sizes, ordered in zip(of.segments, self.sizes, strict=True):
            rows = {size: self.solver.Constraint(0.0, self.endless) for size in ordered}
            for small, large in itertools.pairwise(ordered):
                down = self.solver.NumVar(0.0, self.endless, "")
                rows[small].SetCoefficient(down, 1.0)
                rows[large].SetCoefficient(down, -1.0)
            once, chosen = self.solver.Constraint(1.0, 1.0), {}
            for k, size in sizes.items():
                chosen[k] = self.solver.NumVar(0.0, self.endless, "")
                once.SetCoefficient(chosen[k], 1.0)
                rows[size].SetCoefficient(chosen[k], -float(k))
            self.rows.append(rows)
            self.chosen.append(chosen)
        self._begin()
        widest = max(map(len, self.sizes), default=1)
        self.table = np.full((len(self.sizes), widest), of.units + 1, np.int64)
        for i, ordered in enumerate(self.sizes):
            self.table[i, : len(ordered)] = ordered

    def _begin(self) -> None:
        """Each item alone, and with the largest of another segment that fits beside it."""
        for i, ordered in enumerate(self.sizes):
            for size in ordered:
                self.add(((i, size),))
                for j, others in enumerate(self.sizes):
                    beside = [other for other in others if other + size <= self.of.units]
                    if j != i and beside and self.of.polled > 1:
                        self.add(tuple(sorted(((i, size), (j, beside[-1])))))

    def add(self, pattern: tuple[tuple[int, int], ...]) -> bool:
        if pattern in self.known:
            return False
        self.known.add(pattern)
        part = self.solver.NumVar(0.0, self.endless, "")
        self.goal.SetCoefficient(part, 1.0)
        for i, size in pattern:
            self.rows[i][size].SetCoefficient(part, 1.0)
        return True

    def solved(self) -> bool:
        return bool(self.solver.Solve() == pywraplp.Solver.OPTIMAL)

    def value(self) -> float:
        return float(self.goal.Value())

    def parts(self) -> list[dict[int, float]]:
        return [{k: one.solution_value() for k, one in each.items()} for each in self.chosen]

    def prices(self) -> list[dict[int, float]]:
        """They ascend with the size, as a larger item may stand for a smaller one."""
        several = []
        for rows in self.rows:
            duals = np.array([max(0.0, row.dual_value()) for row in rows.values()])
            raised = np.maximum.accumulate(duals).tolist()
            several.append(dict(zip(rows, raised, strict=True)))
        return several

    def dearest(self) -> tuple[float, list[tuple[tuple[int, int], ...]]]:
        """What a pattern is worth at most; some that are worth much: the dearest, and those without
        one of its segments."""
        prices: Array = np.zeros(self.table.shape)
        for i, one in enumerate(self.of.prices):
            prices[i, : len(one)] = list(one.values())
        most = 0.0
        patterns: list[tuple[tuple[int, int], ...]] = []
        for without in range(-1, len(self.sizes)):
            worth, picks = dearest(self.table, prices, self.of.units, self.of.polled, without)
            if worth > 1 + _CLOSE:
                pairs = [(i, self.sizes[i][at]) for i, at in enumerate(picks) if at >= 0]
                patterns.append(tuple(pairs))
            if without < 0:
                most = worth
                if worth <= 1 + _CLOSE:
                    break
        return float(most), patterns
