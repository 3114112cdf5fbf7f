# SPDX-License-Identifier: Apache-2.0
"""How fast layouts really are, beside a reference that was run when their costs were taken."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from headrace.engine.sliced import all_slices
from headrace.ground.inline import EnginePoint
from headrace.layout.layout import Layout
from headrace.profile import point as points
from headrace.profile.point import Bench, PointSample, RunningPoint
from headrace.profile.quiet import DelaySlice, delay_slices
from headrace.profile.rounds import alternating, full_load
from headrace.spec import plan as record
from headrace.spec.profile import Speed

_ROUNDS, _TRIALS = 3, 3
# More of them, while the hypervisor has lcores elsewhere, and while a layout has no round in which
# they were as when costs were taken; fewer for who asks for few repetitions.
_TRIALS_MOVED, _ROUNDS_MOVED = 10, 3
# Latency at a load: of so many trials a round, each so long once all flows were met so many times.
_AT_LOAD, _AT_LOAD_S, _MET = 2, 0.6, 2
_COLD_S = 0.1  # the least: caches, and queues that came of their misses
_QUIET_LEAST = 5  # slices; a median of fewer says nothing


@dataclass(frozen=True)
class ReferenceRun:
    """What was run when costs were taken, to be run again: no counter tells how fast a machine is
    for these functions, with what its neighbours do to its caches, but they themselves."""

    what: str
    one: EnginePoint
    then_pps: float
    speed: Speed | None
    layout: Layout | None = None  # None: it is not the chain itself


@dataclass
class Verified:
    """One layout: a figure per round."""

    rates: list[float] = field(default_factory=list)
    same: list[bool] = field(default_factory=list)  # lcores were as when costs were taken
    # At the load asked for, once caches were warm; and of whole trials.
    slices: list[DelaySlice] = field(default_factory=list)
    whole_p99s_s: list[float] = field(default_factory=list)
    samples: list[PointSample] = field(default_factory=list)
    # At the pace of when costs were taken; None: nothing tells it.
    paced_pps: float | None = None
    # No round had its lcores, and the reference's, where they were when costs were taken: it is
    # held against no prediction of that machine.
    elsewhere: bool = False

    @property
    def counting(self) -> list[float]:
        """The rounds with lcores as then, if there are some."""
        return [
            rate for rate, same in zip(self.rates, self.same, strict=True) if same
        ] or self.rates

    @property
    def quiet(self) -> list[DelaySlice]:
        """Those in which nothing kept an lcore from working; none where they are too few."""
        slices = [one for one in self.slices if one.quiet]
        return slices if len(slices) >= _QUIET_LEAST else []

    def over(self, other: Verified) -> float | None:
        """Round by round: a machine's moods last longer than a round, but not as long as all. By
        the rounds in which both had lcores where they were when costs were taken; None: neither's
        rate over the other's is of that state."""
        both = zip(self.rates, other.rates, self.same, other.same, strict=True)
        ratios = [a / b for a, b, ours, theirs in both if ours and theirs]
        return median(ratios) if ratios else None


def verify(
    bench: Bench,
    layouts: Mapping[Layout, EnginePoint],
    reference: ReferenceRun | None,
    rate_pps: float | None,
) -> tuple[dict[Layout, Verified], Verified]:
    """Runs each layout and the reference in turns: A B C R, R C B A, and so on. A layout that is
    the reference's own is not started beside it: two starts of one layout lay 10 to 15 % apart, and
    that was told as how far the choice was behind the best."""
    each = {layout: Verified() for layout in layouts}
    beside = Verified()
    several = [(layouts[layout], into, rate_pps) for layout, into in each.items()]
    if reference is not None and reference.layout in each:
        beside = each[reference.layout]
    elif reference is not None:
        several.append((reference.one, beside, None))
    every = each.values()
    usual = min(_ROUNDS, bench.repetitions)
    for turn in range(usual + min(_ROUNDS_MOVED, bench.repetitions)):
        if turn >= usual and all(_comparable(one, beside, reference) for one in every):
            break
        for point, into, rate in alternating(several, turn):
            _measure(bench, point, into, rate)
    if not all(same for one in (*every, beside) for same in one.same):
        bench.session.progress.say(
            "note: in some rounds the hypervisor had lcores elsewhere than when costs were taken; "
            "a layout that has no other round is held against no prediction"
        )
    for one in every:
        one.elsewhere = not _comparable(one, beside, reference)
        if reference is not None and (ratio := one.over(beside)) is not None:
            one.paced_pps = reference.then_pps * ratio
    return each, beside


def _comparable(one: Verified, beside: Verified, reference: ReferenceRun | None) -> bool:
    """Whether it, and the reference beside it, had a round with lcores as when costs were taken."""
    theirs = beside.same if reference is not None else one.same
    return any(map(operator.and_, one.same, theirs))


def _measure(bench: Bench, one: EnginePoint, into: Verified, rate_pps: float | None) -> None:
    """The slowest lcore sets the rate of all; and the latency at a load."""
    with points.running(bench, one, "apart", wait=True) as up:
        points.warm_up(up)
        samples = full_load(up, _TRIALS)
        for _ in range(min(_TRIALS_MOVED, 3 * bench.repetitions)):
            if any(s.of_state(bench.lines) for s in samples):
                break
            samples += full_load(up, 1)
        same = [s for s in samples if s.of_state(bench.lines)]
        into.samples += same or samples
        into.rates.append(median(s.throughput_pps for s in same or samples))
        into.same.append(bool(same))
        if rate_pps is not None:
            _latencies(up, rate_pps, into)


def _latencies(up: RunningPoint, rate_pps: float, into: Verified) -> None:
    """Goes by slices of 10 ms: another process, or the host, takes an lcore for milliseconds now
    and then, which is no layout's doing; what comes some hundred times a second is in every
    slice."""
    cold = max(_COLD_S, _MET * up.one.experiment.flows / rate_pps)
    for _ in range(_AT_LOAD):
        trial = up.trial(cold + _AT_LOAD_S, rate_pps)
        if trial.latency_ns is None:
            return
        into.whole_p99s_s.append(trial.latency_ns.p99 / 1e9)
        slices = delay_slices(all_slices(up.engine))
        into.slices += [one for one in slices if one.after_s >= cold]


def then_and_now(reference: ReferenceRun, beside: Verified, tsc_hz: float) -> record.Reference:
    rates = beside.counting
    return record.Reference(
        what=reference.what,
        then_pps=reference.then_pps,
        now_pps=median(rates),
        now_min_pps=min(rates),
        now_max_pps=max(rates),
        speed_then=reference.speed,
        speed_now=points.speed(beside.samples, tsc_hz),
    )
