# SPDX-License-Identifier: Apache-2.0
"""Which points are measured in turn, and whose slices belong together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.ground.contract import Checked, Offer, Point
from headrace.model.lines_between import steady
from headrace.record.slices import Sliced

KEPT = 60  # trials of a start: a search at its own has fewer, and an hour of them is no better


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
        self._before: list[float | None] = []  # what a line between the lcores cost, by start
        self._kept: dict[tuple[str, str, str, int], dict[int, list[Sliced]]] = {}

    def begin(self, line_cycles: float | None) -> None:
        self._before.append(line_cycles)

    def add(self, point: Point, offer: Offer, repetition: int, slices: Sequence[Sliced]) -> None:
        starts = self._kept.setdefault(_key(point, offer, repetition), {})
        kept = starts.setdefault(len(self._before) - 1, [])
        kept += slices
        del kept[:-KEPT]

    def of(
        self, point: Point, offer: Offer, repetitions: Sequence[int]
    ) -> tuple[list[list[Sliced]], float | None]:
        """Slices of its starts in the machine's commonest state, and what a line between the lcores
        cost there in the median. None, too: all of them were in another state, and are taken."""
        kept = {
            number: start
            for repetition in dict.fromkeys(repetitions)
            for number, start in self._kept.get(_key(point, offer, repetition), {}).items()
            if start
        }
        whole = steady(self._before)
        chosen = [number for number in kept if whole[number]]
        known = [one for number in chosen if (one := self._before[number]) is not None]
        lines = median(known) if known else None
        return [kept[number] for number in chosen or kept], lines


def _key(point: Point, offer: Offer, repetition: int) -> tuple[str, str, str, int]:
    return (point.chain, point.execution, offer.workload, repetition)
