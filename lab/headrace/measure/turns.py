# SPDX-License-Identifier: Apache-2.0
"""Which points are measured in turn, and whose slices belong together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from headrace.ground.contract import Checked, Offer, Point
from headrace.record.slices import Sliced, Way

KEPT = 60  # trials of a start: a search at its own has fewer, and an hour of them is no better
MOSTLY = 0.5  # of a start's slices


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
        self._last: Sequence[Sliced] = ()  # of the last trial that counts
        self._lines: dict[Way, float] | None = None  # of all that is kept; None: to be found
        self._kept: dict[tuple[str, str, str, int], dict[int, list[Sliced]]] = {}

    def begin(self) -> None:
        self._begun += 1

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
        """What a line between lcores cost in the state that most slices of all starts are of: what
        is compared is of one state of the machine."""
        from headrace.model.undisturbed import usual_lines  # numpy: not for a check

        if self._lines is None:
            every = (
                one for starts in self._kept.values() for start in starts.values() for one in start
            )
            self._lines = usual_lines(every)
        return self._lines

    def last_counts(self) -> bool:
        """Whether the lcores were mostly where they usually are while the last start ran."""
        last = [one for starts in self._kept.values() for one in starts.get(self._begun, ())]
        return self._mostly_usual(last)

    def last_trial_counts(self) -> bool:
        """The same of the last trial that was not for warming up."""
        return self._mostly_usual(self._last)

    def _mostly_usual(self, slices: Sequence[Sliced]) -> bool:
        from headrace.model.undisturbed import of_usual_state

        lines = self.lines()
        return not slices or fmean(of_usual_state(one, lines) for one in slices) >= MOSTLY


def _key(point: Point, offer: Offer, repetition: int) -> tuple[str, str, str, int]:
    return (point.chain, point.execution, offer.workload, repetition)
