# SPDX-License-Identifier: Apache-2.0
"""How fast layouts really are, beside a reference that was run when their costs were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from headrace.ground.inline import EnginePoint
from headrace.profile import point as points
from headrace.profile.point import Bench, PointSample, RunningPoint
from headrace.profile.rounds import alternating, full_load
from headrace.spec import plan as said
from headrace.spec.profile import Speed

_ROUNDS, _TRIALS = 3, 3
_SHORT, _SHORT_S, _SHORT_PACKETS = 12, 0.02, 2_000


@dataclass(frozen=True)
class ReferenceRun:
    """What was run when costs were taken, to be run again: no counter tells how fast a machine is
    for these functions, with what its neighbours do to its caches, but they themselves."""

    what: str
    one: EnginePoint
    then_pps: float
    speed: Speed | None


@dataclass
class Verified:
    """One layout: a figure per round."""

    rates: list[float] = field(default_factory=list)
    # At the load asked for: the median packet, and the 99th percentile.
    latencies_s: list[float] = field(default_factory=list)
    p99s_s: list[float] = field(default_factory=list)
    samples: list[PointSample] = field(default_factory=list)
    paced_pps: float | None = None  # at the pace of when costs were taken

    def over(self, other: Verified) -> float:
        """Round by round: a machine's moods last longer than a round, but not as long as all."""
        return median(a / b for a, b in zip(self.rates, other.rates, strict=True))


def verify(
    bench: Bench,
    layouts: Sequence[EnginePoint],
    reference: ReferenceRun | None,
    rate_pps: float | None,
) -> tuple[list[Verified], Verified]:
    """Runs each layout and the reference in turns: A B C R, R C B A, and so on."""
    found = [Verified() for _ in layouts]
    beside = Verified()
    several = [(*pair, rate_pps) for pair in zip(layouts, found, strict=True)]
    if reference is not None:
        several.append((reference.one, beside, None))
    for turn in range(min(_ROUNDS, bench.repetitions)):
        for one, into, rate in alternating(several, turn):
            _measure(bench, one, into, rate)
    if reference is not None:
        for each in found:
            each.paced_pps = reference.then_pps * each.over(beside)
    return found, beside


def _measure(bench: Bench, one: EnginePoint, into: Verified, rate_pps: float | None) -> None:
    """The slowest lcore sets the rate of all; and the latency at a load."""
    with points.running(bench, one, "apart", wait=True) as up:
        points.warm_up(up)
        samples = full_load(up, _TRIALS)
        into.samples += samples
        into.rates.append(median(s.throughput_pps for s in samples))
        if rate_pps is not None:
            _latencies(up, rate_pps, into)


def _latencies(up: RunningPoint, rate_pps: float, into: Verified) -> None:
    """By many short trials: what takes an lcore away for milliseconds, and is no layout's doing, is
    the 99th percentile of those that it hit only. The quarter that it hit least is the layout's."""
    seconds = max(_SHORT_S, _SHORT_PACKETS / rate_pps)
    trials = [up.trial(seconds, rate_pps) for _ in range(_SHORT)]
    known = [one.latency_ns for one in trials if one.latency_ns is not None]
    if known:
        into.latencies_s.append(median(one.p50 / 1e9 for one in known))
        into.p99s_s.append(sorted(one.p99 / 1e9 for one in known)[len(known) // 4])


def then_and_now(reference: ReferenceRun, beside: Verified, tsc_hz: float) -> said.Reference:
    return said.Reference(
        what=reference.what,
        then_pps=reference.then_pps,
        now_pps=median(beside.rates),
        now_min_pps=min(beside.rates),
        now_max_pps=max(beside.rates),
        speed_then=reference.speed,
        speed_now=points.speed(beside.samples, tsc_hz),
    )
