# SPDX-License-Identifier: Apache-2.0
"""Which points are measured in turn, and whose slices belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from headrace.ground.contract import Checked, Offer, Point
from headrace.record.slices import Sliced, Way

if TYPE_CHECKING:
    from headrace.model.lines_between import Start  # numpy: not for a check

KEPT = 60  # trials of a start: a search at its own has fewer, and an hour of them is no better
LAG = 2  # starts
COMPARED = 0  # the repetition whose trials are the comparison's
Key = tuple[str, str, str, int]  # chain, execution, workload, repetition
Lines = Mapping[Way, float]


def compared(checked: Checked) -> list[Point]:
    """Executions of one chain inside one engine under one workload, where there are several: others
    take long to deploy."""
    if not checked.interleaved:
        return []
    asked = [p for p in checked.points if p.study.measure.pairs and _at_its_limit(p)]
    return [point for point in asked if len(_beside(point, asked)) > 1]


def _at_its_limit(point: Point) -> bool:
    """At a fixed load nobody asks what a chain could carry."""
    asked = point.study.measure.search or point.study.measure.max
    return bool(asked) and {one.hosting for one in point.segments} == {"inline"}


def _beside(point: Point, points: Sequence[Point]) -> set[str]:
    return {
        one.execution
        for one in points
        if (one.chain, one.offers[0].workload) == (point.chain, point.offers[0].workload)
    }


class Starts:
    """Trials' slices: of one deployment together, apart from those of the next."""

    def __init__(self) -> None:
        self._begun = 0
        self._of_point: dict[int, list[int]] = {}  # the numbers of its starts in the comparison
        self._last: Sequence[Sliced] = ()  # of the last trial that counts
        self._lines: Lines | None = None  # of all that is kept; None: to be found
        self._kept: dict[Key, dict[int, list[Sliced]]] = {}
        self._told: dict[int, Sliced] = {}  # of the comparison, by id: they tell a capacity

    def begin(self) -> None:
        self._begun += 1

    def next_compared(self, points: Sequence[Point]) -> Point:
        """The point that has fewest starts of the state that the machine was in last. A hypervisor
        mostly leaves lcores where they are for some seconds: so starts of one state are beside each
        other in time, and each state has as many of one point as of another. Where it did not, and
        some lag behind in the state that is waited for, the one that has fewest of that."""
        from headrace.model.undisturbed import usual_lines

        wanted, here = self._wanted_lines(), usual_lines(self._last)
        counts = [self._of_state(one, wanted) for one in points]
        if max(counts) - min(counts) <= LAG:
            counts = [self._of_state(one, here) for one in points]
        each = [(count, len(self._numbers(one))) for count, one in zip(counts, points, strict=True)]
        point = points[each.index(min(each))]
        self._of_point.setdefault(id(point), []).append(self._begun + 1)
        return point

    def enough(self, points: Sequence[Point], turns: int) -> bool:
        """Whether so many starts of each tell of the state of the machine that is waited for; once
        as many were made in all as that takes, whether as many do as are compared at least."""
        from headrace.model.lines_between import ENOUGH

        in_all = sum(len(self._numbers(point)) for point in points)
        wanted = turns if in_all < turns * len(points) else min(turns, ENOUGH)
        lines = self._wanted_lines()
        each = ([self._tells_of(n, lines) for n in self._numbers(point)] for point in points)
        return all(sum(some) >= wanted for some in each)

    def _wanted_lines(self) -> Lines:
        from headrace.model.lines_between import wanted_state

        return self._lines_of_starts(wanted_state)

    def _tells_of(self, number: int, lines: Lines) -> bool:
        slices = self._slices(number)
        telling = [one for one in slices if self._tells(one)]
        return self._mostly(telling, lines) and (bool(telling) or not slices)

    def all_tell(self, points: Sequence[Point]) -> bool:
        """Whether no start was without a slice that others left alone."""
        each = [self._slices(number) for point in points for number in self._numbers(point)]
        return all(any(map(self._tells, slices)) for slices in each if slices)

    def _numbers(self, point: Point) -> Sequence[int]:
        return self._of_point.get(id(point), ())

    def _of_state(self, point: Point, lines: Lines) -> int:
        """How many of its starts."""
        return sum(self._mostly(self._slices(number), lines) for number in self._numbers(point))

    def _lines_of_starts(self, choose: Callable[[Sequence[Start]], float | None]) -> Lines:
        """What lines cost in the trials of the comparison that ran in the state that is chosen; of
        the same lcores, as ways between others differ by where these are, too."""
        from headrace.model.lines_between import same_state
        from headrace.model.undisturbed import line_of, usual_lines

        among: dict[frozenset[int], list[tuple[str, float | None, Sliced]]] = {}
        for key, starts in self._kept.items():
            for one in (each for start in starts.values() for each in start):
                cpus = frozenset(replica.cpu for replica in one.replicas)
                if key[-1] == COMPARED:
                    among.setdefault(cpus, []).append((" ".join(key[:-1]), line_of(one), one))
        chosen: list[Sliced] = []
        for some in among.values():
            state = choose([(name, line) for name, line, one in some if self._tells(one)])
            chosen += [one for _, line, one in some if same_state(line, state)]
        return usual_lines(chosen)

    def _tells(self, one: Sliced) -> bool:
        """Whether it tells a capacity by itself; where none does, all are alike."""
        return not self._told or id(one) in self._told

    def _slices(self, number: int) -> list[Sliced]:
        return [one for starts in self._kept.values() for one in starts.get(number, ())]

    def add(
        self, point: Point, offer: Offer, repetition: int, slices: Sequence[Sliced], told: bool
    ) -> None:
        """`told`: they tell a capacity by themselves."""
        starts = self._kept.setdefault(_key(point, offer, repetition), {})
        kept = starts.setdefault(self._begun, [])
        kept += slices
        del kept[:-KEPT]
        if told and repetition == COMPARED:
            self._told.update((id(one), one) for one in slices)
        self._last, self._lines = slices, None

    def of(self, point: Point, offer: Offer, repetitions: Sequence[int]) -> list[list[Sliced]]:
        """Those of each of its starts."""
        return [
            start
            for repetition in dict.fromkeys(repetitions)
            for start in self._kept.get(_key(point, offer, repetition), {}).values()
            if start
        ]

    def lines(self) -> Lines:
        """What a line between lcores cost in the state of the machine that all capacities are of:
        the comparison's, as searches of one execution after the other may each meet another one;
        without a comparison, that of most slices."""
        from headrace.model.lines_between import compared_state
        from headrace.model.undisturbed import usual_lines

        if self._lines is None:
            every = (one for s in self._kept.values() for start in s.values() for one in start)
            in_turn = any(key[-1] == COMPARED for key in self._kept)
            self._lines = self._lines_of_starts(compared_state) if in_turn else usual_lines(every)
        return self._lines

    def last_trial_counts(self) -> bool:
        """Whether the lcores were mostly where they usually are in the last trial that was not for
        warming up."""
        return self._mostly(self._last, self.lines())

    def _mostly(self, slices: Sequence[Sliced], lines: Lines) -> bool:
        from headrace.model.undisturbed import MOSTLY, of_usual_state

        return not slices or fmean(of_usual_state(one, lines) for one in slices) >= MOSTLY


def _key(point: Point, offer: Offer, repetition: int) -> Key:
    return (point.chain, point.execution, offer.workload, repetition)
