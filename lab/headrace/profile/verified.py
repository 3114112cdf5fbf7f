# SPDX-License-Identifier: Apache-2.0
"""How fast layouts really are, beside a reference that was run when their costs were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median

from headrace.engine.sliced import all_slices
from headrace.ground.inline import EnginePoint
from headrace.layout.layout import Layout
from headrace.profile import point as points
from headrace.profile import race
from headrace.profile.point import Bench, PointSample, RunningPoint
from headrace.profile.quiet import DelaySlice, delay_slices
from headrace.profile.race import Lead
from headrace.profile.rounds import alternating, settled_load
from headrace.spec import plan as record
from headrace.spec.plan import CHOICE_CLOSE
from headrace.spec.profile import Speed

_ROUNDS, _TRIALS = 3, 3
# More of them, while a layout has no round in which lcores were as when costs were taken, and while
# it is not told whether the choice is as fast as another: a goal of 3 % (spec/plan.py) is not to be
# judged by two starts each, that scatter by more. So many starts of all, fewer for who asks for few
# repetitions, and so many seconds.
_STARTS, _STARTS_EACH, _SECONDS = 30, 15, 60.0
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
    """One layout: figures by round."""

    rates: dict[int, float] = field(default_factory=dict)  # with lcores as when costs were taken
    away: dict[int, float] = field(default_factory=dict)  # with lcores elsewhere
    # At the load asked for, once caches were warm, with lcores as when costs were taken and with
    # lcores elsewhere; and of whole trials.
    slices: list[DelaySlice] = field(default_factory=list)
    away_slices: list[DelaySlice] = field(default_factory=list)
    whole_p99s_s: list[float] = field(default_factory=list)
    samples: list[PointSample] = field(default_factory=list)
    # At the pace of when costs were taken; None: nothing tells it.
    paced_pps: float | None = None
    # No round had its lcores, and the reference's, where they were when costs were taken: it is
    # held against no prediction of that machine.
    elsewhere: bool = False
    # Its rate over that of the layout that was chosen; None: they had no such round together.
    over_chosen: Lead | None = None

    @property
    def counting(self) -> list[float]:
        """The rounds with lcores as then, if there are some."""
        return list((self.rates or self.away).values())

    @property
    def quiet(self) -> list[DelaySlice]:
        """Those in which nothing kept an lcore from working, if there are some with lcores as then;
        none where they are too few."""
        return _enough(self.slices) or _enough(self.away_slices)

    @property
    def quiet_share(self) -> float | None:
        """The share of them among all slices at the load, wherever lcores were."""
        every = [*self.slices, *self.away_slices]
        return sum(one.quiet for one in every) / len(every) if every else None

    @property
    def delays_elsewhere(self) -> bool:
        """All that it says of delays is of lcores elsewhere."""
        return not _enough(self.slices) and bool(_enough(self.away_slices))

    def over(self, other: Verified) -> float | None:
        """Round by round: a machine's moods last longer than a round, but not as long as all. By
        the rounds in which both had lcores where they were when costs were taken; None: neither's
        rate over the other's is of that state."""
        ratios = [self.rates[turn] / other.rates[turn] for turn in _shared(self, other)]
        return median(ratios) if ratios else None


def _enough(slices: Sequence[DelaySlice]) -> list[DelaySlice]:
    quiet = [one for one in slices if one.quiet]
    return quiet if len(quiet) >= _QUIET_LEAST else []


def verify(
    bench: Bench,
    layouts: Mapping[Layout, EnginePoint],
    chosen: Layout,
    reference: ReferenceRun | None,
    rate_pps: float | None,
) -> tuple[dict[Layout, Verified], Verified]:
    """Runs each layout and the reference in turns: A B C R, R C B A, and so on. A layout that is
    the reference's own is not started beside it: two starts of one layout lay 10 to 15 % apart, and
    that was told as how far the choice was behind the best."""
    each: dict[Layout | None, Verified] = {layout: Verified() for layout in layouts}
    ready: dict[Layout | None, EnginePoint] = dict(layouts.items())
    beside = None
    if reference is not None:
        if reference.layout not in layouts:
            each[None], ready[None] = Verified(), reference.one
        beside = each.get(reference.layout) or each[None]
    _in_rounds(bench, ready, each, chosen, beside, rate_pps)
    if any(one.away for one in each.values()):
        bench.session.progress.say(
            "note: in some rounds the hypervisor had lcores elsewhere than when costs were taken; "
            "a layout that has no other round is held against no prediction"
        )
    rates = {layout: one.rates for layout, one in each.items()}
    for layout, one in each.items():
        one.over_chosen = race.lead(layout, chosen, rates)
        one.elsewhere = not _shared(one, beside or one)
        if reference is not None and beside is not None and (ratio := one.over(beside)) is not None:
            one.paced_pps = reference.then_pps * ratio
    return {layout: each[layout] for layout in layouts}, beside or Verified()


def _in_rounds(
    bench: Bench,
    ready: Mapping[Layout | None, EnginePoint],
    each: Mapping[Layout | None, Verified],
    chosen: Layout,
    beside: Verified | None,
    rate_pps: float | None,
) -> None:
    """All of them at first; then those of which something is not told yet. None of these starts has
    had a part in the choice, and all of them count: what was lucky when it was chosen has no more
    luck here than others."""
    left = min(_STARTS, _STARTS_EACH * bench.repetitions)
    usual, until = min(_ROUNDS, bench.repetitions), bench.worked_s() + _SECONDS
    for turn in count():
        late = _late(each) if rate_pps is not None else set()
        wanted = list(each) if turn < usual else _lacking(each, chosen, beside, late)
        if turn >= usual and (not wanted or len(wanted) > left or bench.worked_s() > until):
            break
        left -= len(wanted)
        for key in alternating(wanted, turn):
            at_load = rate_pps if key is not None and (turn < usual or key in late) else None
            _measure(bench, ready[key], each[key], turn, at_load)


def _late(each: Mapping[Layout | None, Verified]) -> set[Layout | None]:
    """The layouts whose delays are all of lcores elsewhere: latency is predicted for where they
    were, as throughput is."""
    return {key for key, one in each.items() if key is not None and one.delays_elsewhere}


def _lacking(
    each: Mapping[Layout | None, Verified],
    chosen: Layout,
    beside: Verified | None,
    late: set[Layout | None],
) -> list[Layout | None]:
    """What has no round in the state that costs are of together with the reference, and this; the
    choice, and those of which it is not told whether it is as fast as they."""
    unpaced = {key for key, one in each.items() if not _shared(one, beside or one)}
    if unpaced:
        unpaced |= {key for key, one in each.items() if one is beside}
    rates = {key: one.rates for key, one in each.items()}
    layouts = [key for key in each if key is not None]
    close = race.undecided(chosen, layouts, rates, CHOICE_CLOSE)
    wanted = unpaced | late | ({chosen, *close} if close else set())
    return [key for key in each if key in wanted]


def _shared(one: Verified, other: Verified) -> list[int]:
    """The rounds in which both had lcores where they were when costs were taken."""
    return sorted(one.rates.keys() & other.rates.keys())


def _measure(
    bench: Bench, one: EnginePoint, into: Verified, turn: int, rate_pps: float | None
) -> None:
    """The slowest lcore sets the rate of all; and the latency at a load."""
    with points.running(bench, one, "apart", wait=True) as up:
        points.warm_up(up)
        samples, same = settled_load(up, _TRIALS)
        into.samples += samples
        rates = into.rates if same else into.away
        rates[turn] = median(s.throughput_pps for s in samples)
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
        same = points.sampled(trial).of_state(up.bench.lines)
        kept = into.slices if same else into.away_slices
        kept += [one for one in delay_slices(all_slices(up.engine)) if one.after_s >= cold]


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
