# SPDX-License-Identifier: Apache-2.0
"""The segments of an area on its lcores, exactly: how many replicas each has, and how many lcores
have which of them together (CP-SAT), where layers (layered.py) do not reach a load. Lcores of an
area are alike, so that only their number with each set of segments counts, and none of them has to
be told from another.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ortools.sat.python import cp_model

from headrace.layout.cheapest import ChainWay, SegmentKey
from headrace.layout.layered import LayeredFiller, Placed, placed_in
from headrace.layout.packed import Draft, PackedArea, Packer, Slot
from headrace.layout.placing import capacity
from headrace.spec.placement import WHOLE

_MOST = 10  # segments of an area, of whose sets there are some hundred
_SECONDS = 4.0  # for one area: it takes less than a second, mostly
_Name = tuple[int, tuple[tuple[Slot, SegmentKey], ...]]


@dataclass
class AreaFiller:
    """Fills areas for the aim `rate`: loads as even as can be."""

    packer: Packer
    _refused: dict[_Name, int] = field(default_factory=dict)  # below which load it was not met
    _packed: dict[_Name, PackedArea] = field(default_factory=dict)

    def filled(self, area: int, placed: Placed, below: int, until: float) -> PackedArea | None:
        """The area with a load below so much; None: there is none such, or it was not met."""
        name = area, tuple((slot, key) for slot, key in placed)
        seconds = min(_SECONDS, until - time.monotonic())
        if not placed:
            return PackedArea({}, 0, 0, 0.0)
        if name in self._packed and self._packed[name].most < below:
            return self._packed[name]
        if len(placed) > _MOST or below <= self._refused.get(name, 0) or seconds <= 0:
            return None
        if not self._fits(area, placed, below):
            return None
        answer = _AreaModel(self.packer, area, placed, below).solved(seconds)
        if answer is None:
            self._refused[name] = below
        else:
            self._packed[name] = answer
        return answer

    def _fits(self, area: int, placed: Placed, below: int) -> bool:
        """By load alone."""
        total = 0
        for (c, _), key in placed:
            sizes = [k * size for k, size in self._sizes(c, key, below)]
            if not sizes:
                return False
            total += min(sizes)
        return total <= self.packer.areas[area] * (below - 1)

    def _sizes(self, chain: int, key: SegmentKey, below: int) -> list[tuple[int, int]]:
        """By replicas, the load of one."""
        most = self.packer.most(chain, key)
        sizes = [(k, self.packer.item(chain, key, k)) for k in range(1, most + 1)]
        return [(k, size) for k, size in sizes if size < below]

    def met(self, several: Sequence[Sequence[ChainWay]], full: int, until: float) -> Draft | None:
        """A placement by these ways of each chain, which differ by their ports alone, in which
        nothing is fuller; None: there is none, or it was not met."""
        mode = self.packer.problem.modes[self.packer.mode]
        below = capacity(self.packer.problem, mode, full) + 1
        ways = [min(some, key=lambda way: self._work(c, way)) for c, some in enumerate(several)]
        draft = self._layered.draft(ways)
        if draft is not None and draft.score[0] <= full:
            return draft
        areas: dict[int, PackedArea | None] = {}
        for area in range(len(self.packer.areas)):
            areas[area] = self.filled(area, placed_in(ways, area), below, until)
            if areas[area] is None:
                return None
        packed = [one.lcores for one in areas.values() if one is not None]
        replicas = {slot: len(on) for one in packed for slot, on in one.items()}
        draft = Draft(list(ways), replicas, areas)
        draft.score = self.packer.scored(draft)
        return draft

    def fits(self, area: int, placed: Placed, full: int) -> bool:
        """Whether layers have the area no fuller: yes is certain, no is not."""
        mode = self.packer.problem.modes[self.packer.mode]
        return self._layered.level(area, placed) <= capacity(self.packer.problem, mode, full)

    def _work(self, chain: int, way: ChainWay) -> int:
        return sum(self.packer.item(chain, key, 1) for key in way.segments)

    @cached_property
    def _layered(self) -> LayeredFiller:
        return LayeredFiller(self.packer)


class _AreaModel:
    """`sets`: how many lcores have which segments."""

    def __init__(self, packer: Packer, area: int, placed: Placed, below: int) -> None:
        self.model = cp_model.CpModel()
        self.placed, lcores = placed, packer.areas[area]
        self.level = self.model.new_int_var(0, below - 1, "")
        loads, counts, taken = [], [], []
        for (c, _), key in placed:
            sizes = [(k, packer.item(c, key, k)) for k in range(1, packer.most(c, key) + 1)]
            sizes = [(k, size) for k, size in sizes if size < below]
            chosen = [self.model.new_bool_var("") for _ in sizes]
            self.model.add_exactly_one(chosen)
            counts.append(sum(k * one for (k, _), one in zip(sizes, chosen, strict=True)))
            loads.append(sum(size * one for (_, size), one in zip(sizes, chosen, strict=True)))
            taken.append(sum(k * size * one for (k, size), one in zip(sizes, chosen, strict=True)))
        self.sets = {}
        most = min(packer.problem.lcore_segments, len(placed))
        for number in range(1, most + 1):
            for some in itertools.combinations(range(len(placed)), number):
                there, any_of_it = (
                    self.model.new_int_var(0, lcores, ""),
                    self.model.new_bool_var(""),
                )
                self.model.add(there == 0).only_enforce_if(~any_of_it)
                self.model.add(sum(loads[i] for i in some) <= self.level).only_enforce_if(any_of_it)
                self.sets[some] = there
        for i, count in enumerate(counts):
            self.model.add(sum(n for some, n in self.sets.items() if i in some) == count)
        self.model.add(sum(self.sets.values()) <= lcores)
        self.model.add(sum(taken) <= lcores * self.level)  # follows, and cuts much off
        self.model.minimize(self.level)
        self.loads, self.lcores = loads, lcores

    def solved(self, seconds: float) -> PackedArea | None:
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        if solver.solve(self.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        loads = [solver.value(load) for load in self.loads]
        lcores: dict[Slot, list[int]] = {slot: [] for slot, _ in self.placed}
        sums, at = [0] * self.lcores, 0
        for some, there in self.sets.items():
            for _ in range(solver.value(there)):
                for i in some:
                    lcores[self.placed[i][0]].append(at)
                    sums[at] += loads[i]
                at += 1
        squares = sum(load * load for load in sums) / WHOLE**2
        on = {slot: tuple(numbers) for slot, numbers in lcores.items()}
        return PackedArea(on, max(sums), at, squares)
