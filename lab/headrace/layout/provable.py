# SPDX-License-Identifier: Apache-2.0
"""Placing chains: a placement, and a certificate of how far it can be from the best.

For each mode of the servers' threads: prices and ways by Lagrange (lagrange.py), a start from these
and a local search (packed.py), then CP-SAT over all ways of small problems, or those that were met
(solved.py). Where the prices' bound stays below the value and there are few placements, all of them
are the proof (enumerated.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.layout import solved
from headrace.layout.cheapest import ChainWay, Prices, WayTables
from headrace.layout.enumerated import ENUMERATED_MAX, enumerate_all, how_many
from headrace.layout.lagrange import Relaxation, Relaxed, in_whole
from headrace.layout.packed import Draft, Packer
from headrace.layout.placing import value_of
from headrace.spec.placement import (
    WHOLE,
    Certificate,
    ChosenPlacement,
    ModeBound,
    PlacementAnswer,
    PlacementProblem,
)

_ALL_ARCS = 400  # up to so many CP-SAT has all ways
_STEPS = (0, 1, 2, 3, 4)  # dual feasible functions that are tried
_FLUID = 100 * WHOLE  # a load at which no segment is too large for an lcore


@dataclass
class _Mode:
    """What is known of one mode."""

    number: int
    tables: WayTables
    packer: Packer
    bound: ModeBound | None = None
    best: Draft | None = None


@dataclass
class Placing:
    problem: PlacementProblem
    seconds: float = 10.0
    say: Callable[[str], None] = lambda text: None
    began: float = field(default_factory=time.monotonic)

    def answer(self) -> PlacementAnswer:
        modes = [self._mode(number) for number in range(len(self.problem.modes))]
        for mode in modes:
            self._placed(mode, self._until(0.35))
        best = self._best(modes)
        for mode in modes:
            self._bounded(mode, best)
        if best is None or best[0] > self._bound(modes):
            for mode in sorted(modes, key=lambda m: m.best.score if m.best else (9e99, 0.0)):
                self._solved(mode, self._until(0.95), best)
            best = self._best(modes)
            for mode in modes:
                self._bounded(mode, best)
        return self._answer(modes, best)

    def _until(self, part: float) -> float:
        return self.began + part * self.seconds

    def _left(self) -> float:
        return self._until(1.0) - time.monotonic()

    # --- placements ---

    def _mode(self, number: int) -> _Mode:
        tables = WayTables(self.problem, self.problem.modes[number])
        full = _FLUID if self.problem.aim == "rate" else self.problem.full
        relaxed = Relaxation(tables, full).solve(self._until(0.25))
        pool: list[list[ChainWay]] = [[] for _ in self.problem.chains]
        for column, _ in sorted(
            zip(relaxed.columns, relaxed.parts, strict=True), key=lambda p: -p[1]
        ):
            pool[column.chain].append(column.way)
        mode = _Mode(number, tables, Packer(self.problem, number, pool))
        self._price(mode, full, 0, relaxed, None)
        return mode

    def _placed(self, mode: _Mode, until: float) -> None:
        """A start from the ways that the linear program has most of, and a local search."""
        if any(not several for several in mode.packer.pool):
            return
        enough = mode.bound.bound if mode.bound else 0
        ways = [several[0] for several in mode.packer.pool]
        full = max(1, enough) if self.problem.aim == "rate" else self.problem.full
        draft = mode.packer.start(ways, full)
        improved = mode.packer.improve(draft, enough, until)
        self._keep(mode, improved)

    def _keep(self, mode: _Mode, draft: Draft | None) -> None:
        if draft is None or not draft.lcores:
            return
        value = value_of(self.problem, mode.packer.placement(draft))
        if value is None:
            return
        if mode.best is None or value < mode.best.score[0]:
            draft.score = (float(value), 0.0)
            mode.best = draft

    def _solved(self, mode: _Mode, until: float, best: tuple[int, ChosenPlacement] | None) -> None:
        seconds = until - time.monotonic()
        if seconds <= 0:
            return
        arcs = solved.all_arcs(mode.packer)
        if len(arcs) > _ALL_ARCS:
            arcs = solved.arcs_of(mode.packer.pool)
        bound = mode.bound.bound if mode.bound else 0
        draft, _ = solved.solve(mode.packer, arcs, mode.best, bound, seconds)
        self._keep(mode, draft)

    def _best(self, modes: Sequence[_Mode]) -> tuple[int, ChosenPlacement] | None:
        placed = [m for m in modes if m.best is not None]
        if not placed:
            return None
        mode = min(placed, key=lambda m: m.best.score[0] if m.best else 0.0)
        assert mode.best is not None
        return int(mode.best.score[0]), mode.packer.placement(mode.best)

    # --- bounds ---

    def _bound(self, modes: Sequence[_Mode]) -> int:
        return min(m.bound.bound for m in modes if m.bound is not None)

    def _bounded(self, mode: _Mode, best: tuple[int, ChosenPlacement] | None) -> None:
        """Loads taken otherwise, until the bound is the value."""
        for step in _STEPS:
            reached = mode.bound is not None and best is not None and mode.bound.bound >= best[0]
            if reached or time.monotonic() > self._until(1.0) or best is None:
                return
            full = best[0] - 1 if self.problem.aim == "rate" else self.problem.full
            relaxation = Relaxation(mode.tables, full, step)
            if relaxation.room <= 0:
                return
            relaxed = relaxation.solve(self._until(1.0))
            self._price(mode, full, step, relaxed, best[0])

    def _price(
        self, mode: _Mode, full: int, step: int, relaxed: Relaxed, value: int | None
    ) -> None:
        prices = in_whole(relaxed.prices)
        if self.problem.aim != "rate":
            one = Relaxation(mode.tables, full, step)
            surplus = one.proven(prices)
            bound = one.bound(surplus) if surplus is not None else (value or 1 << 40)
            self._better(mode, one.certificate(mode.number, bound, surplus, prices))
            return
        high = full if value is not None else int(full * relaxed.value) + 2
        low = mode.bound.bound - 1 if mode.bound else 0
        if value is not None and self._refuted(mode, high, step, prices):
            return
        high = min(high, int(full * relaxed.value) + 2)
        while low < high:
            middle = (low + high + 1) // 2
            if self._refuted(mode, middle, step, prices):
                low = middle
            else:
                high = middle - 1

    def _refuted(self, mode: _Mode, full: int, step: int, prices: Prices) -> bool:
        one = Relaxation(mode.tables, full, step)
        if one.room <= 0:
            return True
        surplus = one.proven(prices)
        if surplus is not None and surplus <= 0:
            return False
        self._better(mode, one.certificate(mode.number, full + 1, surplus, prices))
        return True

    def _better(self, mode: _Mode, bound: ModeBound) -> None:
        if mode.bound is None or bound.bound > mode.bound.bound:
            mode.bound = bound

    # --- the answer ---

    def _answer(
        self, modes: Sequence[_Mode], best: tuple[int, ChosenPlacement] | None
    ) -> PlacementAnswer:
        bounds = tuple(m.bound for m in modes if m.bound is not None)
        bound = self._bound(modes)
        enumerated = None
        if (best is None or bound < best[0]) and how_many(self.problem) <= ENUMERATED_MAX:
            placement, enumerated, value = enumerate_all(self.problem)
            best = None if placement is None else (value, placement)
            bound, bounds = value, ()
        if best is None:
            raise HeadraceError(_unmet(self.problem))
        value, placement = best
        certificate = Certificate(bound=min(bound, value), modes=bounds, enumerated=enumerated)
        return PlacementAnswer(
            problem=self.problem, placement=placement, value=value, certificate=certificate
        )


def _unmet(problem: PlacementProblem) -> str:
    lcores = sum(area.cores for area in problem.areas)
    return (
        f"no placement was met that keeps all goals of {len(problem.chains)} chains on {lcores} "
        f"cores, none busier than {problem.full / 100:g} %; `--aim rate` says what rates they carry"
    )
