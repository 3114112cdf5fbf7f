# SPDX-License-Identifier: Apache-2.0
"""Several things measured in turn, round after round: a machine that slows down does so for all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

from headrace.engine.sliced import all_slices
from headrace.errors import HeadraceError
from headrace.ground.inline import EnginePoint
from headrace.model.lines_between import states
from headrace.profile import point as points
from headrace.profile.point import Bench, PointSample, RunningPoint
from headrace.profile.quiet import settled

T = TypeVar("T")
# What a poll costs once shows where there is a quarter of the load.
SLOW = 0.25
_MET, _COLD_S, _COLD_MOST_S = 2, 0.1, 0.5
_MORE = 3  # trials of a start, while all that it has were disturbed
# Starts of the cases that lack samples, for each case that there is; two for each repetition that
# was asked for. By rounds of those cases one alone had five seconds, and such states last for 45.
_AGAIN = 6


@dataclass
class Case:
    """One of them: samples at full load, and at parts of it."""

    one: EnginePoint
    less: tuple[float, ...] = (SLOW,)  # at these parts of the load, too
    least: int = 1  # trials of a start at full load: another takes a fifth of what a start does
    samples: list[PointSample] = field(default_factory=list)
    partial: dict[float, list[PointSample]] = field(default_factory=dict)  # by part of the load

    @property
    def slow(self) -> list[PointSample]:
        """At the least load."""
        return self.partial[min(self.less)]

    @property
    def throughput_pps(self) -> float:
        return median(s.throughput_pps for s in self.samples)

    def few(self, lines: Mapping[frozenset[int], float], count: int) -> bool:
        """Whether fewer samples of full load than these, or none of a part of it, are of the state
        in which lines between lcores cost so much."""
        some = [self.samples, *self.partial.values()]
        least = [count, *(1 for _ in self.partial)]
        return any(
            sum(s.of_state(lines) for s in samples) < n
            for samples, n in zip(some, least, strict=True)
        )

    def keep(self, lines: Mapping[frozenset[int], float]) -> None:
        """Keeps only samples of that state, where there are some."""
        for samples in (self.samples, *self.partial.values()):
            samples[:] = [s for s in samples if s.of_state(lines)] or samples


def shares(repetitions: int, rounds: int) -> list[int]:
    """Trials of each round, none of them without any."""
    rounds = min(rounds, repetitions)
    each, more = divmod(repetitions, rounds)
    return [each + (i < more) for i in range(rounds)]


def alternating(several: Sequence[T], turn: int) -> list[T]:
    """The same in the other order at each second turn, lest one always follow another."""
    return list(reversed(several)) if turn % 2 else list(several)


def measure(bench: Bench, cases: Sequence[Case], rounds: int) -> None:
    """All in one state of the machine, that which by then most of the cases were measured in: where
    a hypervisor moved lcores meanwhile, what was taken with them elsewhere is taken again, as long
    as _AGAIN rounds of all take, and left out; who asks for few repetitions has fewer."""
    bench.mixed = False
    counts = shares(bench.repetitions, rounds)
    for turn, count in enumerate(counts):
        for case in alternating(cases, turn):
            _measure(bench, case, count)
    bench.lines = covering(cases, counts[0])
    starts = min(_AGAIN, 2 * bench.repetitions) * len(cases)
    while starts > 0 and (few := [one for one in cases if one.few(bench.lines, counts[0])]):
        for case in few:
            _measure(bench, case, counts[0])
        starts -= len(few)
        bench.lines = covering(cases, counts[0])
    if any(case.few(bench.lines, 1) for case in cases):
        bench.mixed = True
        bench.session.progress.say(
            "note: the hypervisor had lcores elsewhere for too long: what some of these cost was "
            "taken with them there, where what passes between lcores costs otherwise"
        )
    for case in cases:
        case.keep(bench.lines)


def covering(cases: Sequence[Case], count: int) -> dict[frozenset[int], float]:
    """Choose for each set of lcores the state (TSC cycles of a line) in which the fewest cases lack
    samples; of two that are as good the commonest. A host that moves lcores around every few
    seconds leaves some cases without the state of most samples, and maybe none without another."""
    samples = [s for case in cases for s in case.samples if s.line and not s.moved]
    chosen: dict[frozenset[int], float] = {}
    for lcores in {s.lcores for s in samples}:
        theirs = [c for c in cases if any(s.lcores == lcores for s in c.samples)]
        several = states(s.line for s in samples if s.line and s.lcores == lcores)
        lacking = [sum(case.few({lcores: line}, count) for case in theirs) for line in several]
        chosen[lcores] = several[lacking.index(min(lacking))]
    return chosen


def _measure(bench: Bench, case: Case, count: int) -> None:
    """Rings wait: the slowest lcore sets the rate of all, and nothing is thrown away."""
    with points.running(bench, case.one, "apart", wait=True) as up:
        points.warm_up(up)
        samples = full_load(up, max(case.least, count))
        for _ in range(_MORE):
            if not all(one.moved for one in samples):
                break
            samples += full_load(up, 1)
        case.samples += samples
        if not case.throughput_pps:
            name = case.one.experiment.study.name
            raise HeadraceError(f"{name}: no packet comes through the chain, so it has no cost")
        for less in case.less:
            rate = less * case.throughput_pps
            case.partial.setdefault(less, []).append(_warm(up, bench.seconds, rate))


def _warm(up: RunningPoint, seconds: float, rate_pps: float) -> PointSample:
    """Warm is a load that has gone on until all flows were met twice, or for _COLD_MOST_S."""
    cold = min(_COLD_MOST_S, max(_COLD_S, _MET * up.one.experiment.flows / rate_pps))
    sample = points.sample(up, cold + seconds, rate_pps)
    return replace(sample, replicas=settled(sample.replicas, all_slices(up.engine), cold))


def settled_load(up: RunningPoint, count: int) -> tuple[list[PointSample], bool]:
    """Samples of full load of the state that costs are of, and True: it is waited for, as another
    start takes longer than another trial. Once nobody has patience any more, those of another one,
    and False."""
    bench = up.bench
    samples = full_load(up, count)
    begun, most = time.monotonic(), bench.patience_s
    while (waited := time.monotonic() - begun) < most and not _of_state(samples, bench):
        up.bench.session.progress.status("waiting for lcores: the hypervisor has them elsewhere")
        samples += full_load(up, 1)
    bench.waited_s += waited
    same = _of_state(samples, bench)
    return same or samples, bool(same)


def _of_state(samples: Sequence[PointSample], bench: Bench) -> list[PointSample]:
    return [one for one in samples if one.of_state(bench.lines)]


def carried(bench: Bench, one: EnginePoint, trials: int) -> float | None:
    """What one start carries, the slowest lcore setting the rate of all; None: with lcores
    elsewhere than when costs were taken, all the time."""
    with points.running(bench, one, "apart", wait=True) as up:
        points.warm_up(up)
        samples, same = settled_load(up, trials)
    return median(s.throughput_pps for s in samples) if same else None


def full_load(up: RunningPoint, count: int) -> list[PointSample]:
    return [points.sample(up, up.bench.seconds) for _ in range(count)]
