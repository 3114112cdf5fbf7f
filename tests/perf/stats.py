# SPDX-License-Identifier: Apache-2.0
"""Medians and spreads of interleaved runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

RESAMPLES = 4000


@dataclass(frozen=True)
class Sample:
    """Several runs of one thing: median, quartiles, extremes, in the runs' own unit."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def spread(self) -> str:
        return self.quartiles()

    def quartiles(self, digits: int = 1) -> str:
        """As text."""
        if len(self.values) < 3:
            return "–"
        first, _, third = quantiles(self.values, n=4)
        return f"{first:.{digits}f}-{third:.{digits}f}"

    def interval(self) -> tuple[float, float]:
        """Where the median of many such runs lies, 95 %: by bootstrap, over these."""
        draw = random.Random(1)
        medians = sorted(
            median(draw.choices(self.values, k=len(self.values))) for _ in range(RESAMPLES)
        )
        return medians[RESAMPLES // 40], medians[-1 - RESAMPLES // 40]


def within(values: Sequence[float], share: float) -> set[int]:
    """Which values lie within this share of each other, most of them: their indices."""
    best: set[int] = set()
    for low in values:
        here = {i for i, value in enumerate(values) if low <= value <= low * (1 + share)}
        best = max(best, here, key=len)
    return best


def interleave(runs: int, measures: dict[str, Callable[[], float]]) -> dict[str, Sample]:
    """Each measure `runs` times, in turn, so that a slow minute hits all of them alike."""
    values: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(runs):
        for name, measure in measures.items():
            values[name].append(measure())
    return {name: Sample(tuple(v)) for name, v in values.items()}


def ratio(a: Sample, b: Sample) -> Sample:
    """Ratios of runs that stood beside each other."""
    return Sample(tuple(x / y for x, y in zip(a.values, b.values, strict=True)))
