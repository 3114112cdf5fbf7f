# SPDX-License-Identifier: Apache-2.0
"""Several things measured in turn, round after round: a machine that slows down does so for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from headrace.ground.inline import EnginePoint
from headrace.profile import point as points
from headrace.profile.point import Bench, PointSample, RunningPoint

T = TypeVar("T")
# What a poll costs once shows where there is a quarter of the load.
SLOW = 0.25


@dataclass
class Case:
    """One of them: samples at full load, and at a part of it."""

    one: EnginePoint
    less: float | None = SLOW  # at this part of the load, too
    samples: list[PointSample] = field(default_factory=list)
    slow: list[PointSample] = field(default_factory=list)

    @property
    def throughput_pps(self) -> float:
        return median(s.throughput_pps for s in self.samples)


def shares(repetitions: int, rounds: int) -> list[int]:
    """Trials of each round, none of them without any."""
    rounds = min(rounds, repetitions)
    each, more = divmod(repetitions, rounds)
    return [each + (i < more) for i in range(rounds)]


def alternating(several: Sequence[T], turn: int) -> list[T]:
    """Which is first changes, lest one always follow another."""
    return list(reversed(several)) if turn % 2 else list(several)


def measure(bench: Bench, cases: Sequence[Case], rounds: int) -> None:
    for turn, count in enumerate(shares(bench.repetitions, rounds)):
        for case in alternating(cases, turn):
            _measure(bench, case, count)


def _measure(bench: Bench, case: Case, count: int) -> None:
    """Rings wait: the slowest lcore sets the rate of all, and nothing is thrown away."""
    with points.running(bench, case.one, "apart", wait=True) as up:
        points.warm_up(up)
        case.samples += full_load(up, count)
        if case.less is None:
            return
        rate = case.less * case.throughput_pps
        case.slow.append(points.sample(up, bench.seconds, rate))


def full_load(up: RunningPoint, count: int) -> list[PointSample]:
    return [points.sample(up, up.bench.seconds) for _ in range(count)]
