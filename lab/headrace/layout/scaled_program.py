# SPDX-License-Identifier: Apache-2.0
"""What every linear program over ways of chains has: lcores and limits that are there, times a
level; each chain once; no more time than its goal. Its columns are whose program it is
(lagrange.py, pattern_program.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from headrace.layout.cheapest import Array, Prices
from headrace.layout.relaxation import Relaxation

_ELASTIC = 1e6  # what it costs to have less than is needed, so that there is always a solution


class ScaledProgram:
    """Rows are scaled to what there is: of limits and goals each has used a share."""

    def __init__(self, of: Relaxation) -> None:
        self.of = of
        problem, free = of.problem, of.free
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        self.endless = self.solver.infinity()
        self.goal = self.solver.Objective()
        self.goal.SetMinimization()
        self.level = self.solver.NumVar(0 if free else 1, self.endless if free else 1, "level")
        self.goal.SetCoefficient(self.level, 1.0 if free else 0.0)
        self.rooms = [max(room, 1) for room in of.limits()]
        self.areas = [self._row(float(n)) for n in of.lcores()]
        self.limits = [self._row(1.0) for _ in self.rooms]
        self.chains = [self.solver.Constraint(1.0, 1.0) for _ in problem.chains]
        self.goals: list[Any] = [
            None if chain.within_ns is None else self.solver.Constraint(-self.endless, 1.0)
            for chain in problem.chains
        ]
        for row in self.chains:
            self._slack(row, 1.0)
        for row in (*self.goals, *(() if free else (*self.areas, *self.limits))):
            if row is not None:
                self._slack(row, -1.0)

    def _row(self, room: float) -> Any:
        row = self.solver.Constraint(-self.endless, 0.0)
        row.SetCoefficient(self.level, -room)
        return row

    def _slack(self, row: Any, sign: float) -> None:
        variable = self.solver.NumVar(0.0, self.endless, "")
        row.SetCoefficient(variable, sign)
        self.goal.SetCoefficient(variable, _ELASTIC)

    def column(self, chain: int, cost: float, limits: dict[int, float], ns: int) -> Any:
        """A variable: how much of a way of the chain there is, with what it takes of limits and of
        the time to the goal; lcores are the caller's."""
        part = self.solver.NumVar(0.0, self.endless, "")
        self.goal.SetCoefficient(part, cost)
        self.chains[chain].SetCoefficient(part, 1.0)
        for limit, used in limits.items():
            self.limits[limit].SetCoefficient(part, used / self.rooms[limit])
        within = self.of.problem.chains[chain].within_ns
        if within is not None:
            self.goals[chain].SetCoefficient(part, ns / within)
        return part

    def solved(self) -> bool:
        """No: the solver lost its way in rounding errors."""
        return bool(self.solver.Solve() == pywraplp.Solver.OPTIMAL)

    def prices(self) -> Prices:
        goals = [float(chain.within_ns or 1) for chain in self.of.problem.chains]
        return Prices(
            _paid(self.areas, [1.0] * len(self.areas)),
            _paid(self.limits, self.rooms),
            _paid(self.goals, goals),
        )

    def worths(self) -> list[float]:
        """What a packet of each chain is worth."""
        return [row.dual_value() for row in self.chains]


def _paid(rows: Iterable[Any], units: Sequence[float]) -> Array:
    duals = [0.0 if row is None else -row.dual_value() for row in rows]
    return np.array([dual / unit for dual, unit in zip(duals, units, strict=True)])
