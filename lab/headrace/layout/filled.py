# SPDX-License-Identifier: Apache-2.0
"""The segments of an area on its lcores, exactly: how many replicas each has, and how many lcores
have which of them together (CP-SAT). Lcores of an area are alike, so that only their number with
each set of segments counts, and none of them has to be told from another. Chains change places
between areas where these can be filled better then (Shaw 1998, Using Constraint Programming and
Local Search Methods to Solve Vehicle Routing Problems).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from headrace.layout.cheapest import ChainWay, SegmentKey
from headrace.layout.packed import Draft, PackedArea, Packer, Slot, place_of
from headrace.spec.placement import WHOLE

_MOST = 10  # segments of an area, of whose sets there are some hundred
_SECONDS = 4.0  # for one area: it takes less than a second, mostly
Placed = Sequence[tuple[Slot, SegmentKey]]  # segments of an area


@dataclass
class AreaFiller:
    """Fills areas for the aim `rate`: loads as even as can be."""

    packer: Packer
    _refused: set[tuple[int, tuple[tuple[int, SegmentKey], ...], int]] = field(default_factory=set)

    def filled(self, area: int, placed: Placed, least: int, below: int, until: float) -> (
        PackedArea | None
    ):  # fmt: skip
        """The area with a load below so much; None: there is none such, or it was not met.
        `least`: a load that is as good as any."""
        name = area, tuple((c, key) for (c, _), key in placed), below
        seconds = min(_SECONDS, until - time.monotonic())
        if not placed:
            return PackedArea({}, 0, 0, 0.0)
        if len(placed) > _MOST or name in self._refused or seconds <= 0:
            return None
        if not self._fits(area, placed, below):
            return None
        answer = _AreaModel(self.packer, area, placed, least, below).solved(seconds)
        if answer is None:
            self._refused.add(name)
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

    # --- chains that change places ---

    def improve(self, draft: Draft, enough: float, until: float) -> Draft:
        """The fullest area is filled anew, then with other chains, as long as that helps."""
        while draft.score[0] > enough and time.monotonic() < until:
            packed = [(area.most, a) for a, area in draft.areas.items() if area is not None]
            most, worst = max(packed, default=(0, 0))
            if not self._taken(draft, [], (worst,), most, until) and not any(
                self._taken(draft, change, areas, most, until)
                for change, areas in self._changes(draft, worst, most)
            ):
                break
        return draft

    def _taken(self, draft: Draft, change: Sequence[tuple[int, ChainWay]], areas: Sequence[int],
               below: int, until: float) -> bool:  # fmt: skip
        """Whether the draft has these ways now, these areas having less than so much load."""
        ways = list(draft.ways)
        for c, way in change:
            ways[c] = way
        packed: dict[int, PackedArea] = {}
        for area in areas:
            new = self.filled(area, placed_in(ways, area), 0, below, until)
            if new is None:
                return False
            packed[area] = new
        other = Draft(ways, dict(draft.replicas), {**draft.areas, **packed})
        for one in packed.values():
            other.replicas.update({slot: len(on) for slot, on in one.lcores.items()})
        other.score = self.packer.scored(other)
        if other.score[0] > draft.score[0]:
            return False
        draft.ways, draft.replicas, draft.areas = other.ways, other.replicas, other.areas
        draft.score = other.score
        return True

    def _changes(self, draft: Draft, worst: int, below: int) -> (
        Iterator[tuple[list[tuple[int, ChainWay]], tuple[int, int]]]
    ):  # fmt: skip
        """A chain of the fullest area goes to another one, where one of that may come back, or two
        for one. Those first by which both areas are most alike."""
        here = [c for c, way in enumerate(draft.ways) if _whole_in(way) == worst]
        changes: list[tuple[float, list[tuple[int, ChainWay]], tuple[int, int]]] = []
        for area in range(len(self.packer.areas)):
            if area == worst:
                continue
            there = [c for c, way in enumerate(draft.ways) if _whole_in(way) == area]
            for gone in (*((c,) for c in here), *itertools.combinations(here, 2)):
                for back in ((), *((d,) for d in there), *itertools.combinations(there, 2)):
                    change = [(c, self._way(c, area)) for c in gone]
                    change += [(d, self._way(d, worst)) for d in back]
                    known = [(c, way) for c, way in change if way is not None]
                    if len(known) == len(change):
                        level = self._level(draft, known, (worst, area))
                        if level < below:
                            changes.append((level, known, (worst, area)))
        for _, known, areas in sorted(changes, key=lambda one: one[0]):
            yield known, areas

    def _level(
        self, draft: Draft, change: Sequence[tuple[int, ChainWay]], areas: tuple[int, int]
    ) -> float:
        """The higher load of both, were lcores filled evenly."""
        ways = list(draft.ways)
        for c, way in change:
            ways[c] = way
        levels = []
        for area in areas:
            work = sum(self.packer.item(c, key, 1) for (c, _), key in placed_in(ways, area))
            levels.append(work / self.packer.areas[area])
        return max(levels)

    def _way(self, chain: int, area: int) -> ChainWay | None:
        """The chain whole in this area, by a port that is as near as any."""
        ways = [way for way in self.packer.pool[chain] if _whole_in(way) == area]
        return min(
            ways,
            key=lambda way: (self.packer.item(chain, way.segments[0], 1), place_of(way)),
            default=None,
        )


def placed_in(ways: Sequence[ChainWay], area: int) -> list[tuple[Slot, SegmentKey]]:
    return [
        ((c, s), key)
        for c, way in enumerate(ways)
        for s, key in enumerate(way.segments)
        if key.area == area
    ]


def _whole_in(way: ChainWay) -> int:
    """The area of a chain that is in one segment; minus one: it is cut."""
    return way.segments[0].area if len(way.segments) == 1 else -1


class _AreaModel:
    """`sets`: how many lcores have which segments."""

    def __init__(self, packer: Packer, area: int, placed: Placed, least: int, below: int) -> None:
        self.model = cp_model.CpModel()
        self.placed, lcores = placed, packer.areas[area]
        self.level = self.model.new_int_var(min(least, below - 1), below - 1, "")
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
