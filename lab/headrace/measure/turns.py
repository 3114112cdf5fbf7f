# SPDX-License-Identifier: Apache-2.0
"""Which points are measured in turn, and whose slices belong together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from headrace.ground.contract import Checked, Offer, Point
from headrace.record.slices import Sliced, Way

KEPT = 60  # trials of a start: a search at its own has fewer, and an hour of them is no better
MOSTLY = 0.5  # of a start's slices
COMPARED = 0  # the repetition whose trials are the comparison's


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
        self._lines: dict[Way, float] | None = None  # of all that is kept; None: to be found
        self._kept: dict[tuple[str, str, str, int], dict[int, list[Sliced]]] = {}

    def begin(self) -> None:
        self._begun += 1

    def next_compared(self, points: Sequence[Point], turns: int) -> Point | None:
        """The point that has fewest starts of the state that most of all ran in, so that starts of
        that state are beside each other in time, whatever the hypervisor did between. None: each
        has so many."""
        counts = [(self._usual_starts(point), point) for point in points]
        fewest, point = min(counts, key=lambda one: one[0])
        if fewest >= turns:
            return None
        self._of_point.setdefault(id(point), []).append(self._begun + 1)
        return point

    def _usual_starts(self, point: Point) -> int:
        return sum(self._mostly_usual(self._slices(n)) for n in self._of_point.get(id(point), ()))

    def _slices(self, number: int) -> list[Sliced]:
        return [one for starts in self._kept.values() for one in starts.get(number, ())]

    def add(self, point: Point, offer: Offer, repetition: int, slices: Sequence[Sliced]) -> None:
        starts = self._kept.setdefault(_key(point, offer, repetition), {})
        kept = starts.setdefault(self._begun, [])
        kept += slices
        del kept[:-KEPT]
        self._last, self._lines = slices, None

    def of(self, point: Point, offer: Offer, repetitions: Sequence[int]) -> list[list[Sliced]]:
        """Those of each of its starts."""
        return [
            start
            for repetition in dict.fromkeys(repetitions)
            for start in self._kept.get(_key(point, offer, repetition), {}).values()
            if start
        ]

    def lines(self) -> dict[Way, float]:
        """What a line between lcores cost in the state of the machine that all capacities are of:
        that which most slices of the comparison are of, as searches of one execution after the
        other may each meet another one; without a comparison, that of most slices."""
        from headrace.model.undisturbed import usual_lines  # numpy: not for a check

        if self._lines is None:
            in_turn = [starts for key, starts in self._kept.items() if key[-1] == COMPARED]
            several = in_turn or list(self._kept.values())
            self._lines = usual_lines(
                one for starts in several for start in starts.values() for one in start
            )
        return self._lines

    def last_trial_counts(self) -> bool:
        """Whether the lcores were mostly where they usually are in the last trial that was not for
        warming up."""
        return self._mostly_usual(self._last)

    def _mostly_usual(self, slices: Sequence[Sliced]) -> bool:
        from headrace.model.undisturbed import of_usual_state

        lines = self.lines()
        return not slices or fmean(of_usual_state(one, lines) for one in slices) >= MOSTLY


def _key(point: Point, offer: Offer, repetition: int) -> tuple[str, str, str, int]:
    return (point.chain, point.execution, offer.workload, repetition)
