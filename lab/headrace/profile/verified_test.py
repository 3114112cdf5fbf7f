# SPDX-License-Identifier: Apache-2.0
"""What is measured in rounds, and read against a reference that ran beside."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.describe import Description
from headrace.engine.plan_compiler import SINK
from headrace.ground.inline import EnginePoint
from headrace.layout.layout import Layout
from headrace.measure.session import Session
from headrace.profile import point as points
from headrace.profile import rounds, verified
from headrace.profile.point import Bench, PointSample, RunningPoint
from headrace.profile.quiet import DelaySlice
from headrace.profile.rounds import Case, alternating, covering, shares
from headrace.profile.verified import ReferenceRun, Verified
from headrace.record.counters import Counters, WorkerReading
from headrace.record.slices import ReplicaSlices, Sliced
from headrace.spec.plan import (
    CHOICE_CLOSE,
    ChainPlan,
    LayoutPlan,
    OverChosen,
    Reference,
    SegmentPlan,
)


@given(st.integers(1, 1000), st.integers(1, 10))
def test_every_round_has_its_share(repetitions: int, rounds: int) -> None:
    parts = shares(repetitions, rounds)
    assert sum(parts) == repetitions and min(parts) >= 1
    assert len(parts) == min(rounds, repetitions) and max(parts) - min(parts) <= 1


def test_nobody_always_follows_another() -> None:
    assert [alternating("ABC", turn) for turn in range(3)] == [
        ["A", "B", "C"],
        ["C", "B", "A"],
        ["A", "B", "C"],
    ]


def by_round(*rates: float | None) -> dict[int, float]:
    return {turn: rate for turn, rate in enumerate(rates) if rate is not None}


def test_a_slow_round_is_slow_for_all() -> None:
    """The machine did half in the second round: to the layout's ratio that is nothing."""
    beside = Verified(by_round(10e6, 5e6, 10e6))
    assert Verified(by_round(8e6, 4e6, 8e6)).over(beside) == pytest.approx(0.8)
    # Medians of each alone would be as far apart as the rounds.
    slower = Verified(by_round(10e6, 5e6, 5e6))
    assert Verified(by_round(8e6, 4e6, 4e6)).over(slower) == 0.8


def test_a_round_with_lcores_elsewhere_tells_no_pace() -> None:
    """What passes between lcores is dear there: a pipeline loses half, run to completion none. Of
    such rounds alone a plan once said 9.1 Mpps at a pace whose rounds allowed 5.2 to 8.4."""
    beside = Verified(by_round(10e6, 10e6))
    assert Verified(by_round(8e6, None, 4e6), away={1: 4e6}).over(beside) == 0.8
    assert Verified(away=by_round(8e6, 4e6, 4e6)).over(beside) is None
    assert Verified(by_round(None, None, 4e6)).over(beside) is None


def test_what_ran_elsewhere_is_held_against_no_prediction() -> None:
    """The same layout did 7.7 Mpps there and, as the reference, 10.7 here: an error of +25 % was
    told of a prediction that was right."""
    assert Verified({2: 10.6e6}, away={0: 7.7e6, 1: 7.6e6}).counting == [10.6e6]
    assert Verified(away={0: 7.7e6}).counting == [7.7e6]
    layout = LayoutPlan(
        role="best", segments=(), predicted_pps=9.5e6, cycles_per_lcore={1: 270},
        measured_pps=7.7e6, paced_pps=7.6e6,
    )  # fmt: skip
    away = layout.model_copy(update={"elsewhere": True})
    assert layout.error == pytest.approx(0.25) and away.error is None


def over_chosen(over: float, off: float = 0.02) -> OverChosen:
    return OverChosen(over=over, least=over - off, most=over + off)


@pytest.mark.parametrize(
    ("over", "loss", "sure"),
    [(1.15, 1 - 1 / 1.15, True), (0.9, 0, True), (1.02, 1 - 1 / 1.02, False), (None, None, True)],
)
def test_a_choice_is_as_far_behind_as_the_fastest_is_ahead(
    over: float | None, loss: float | None, sure: bool
) -> None:
    """Nothing is told where one of them never ran beside the choice."""
    best = LayoutPlan(
        role="best", segments=(), predicted_pps=9e6, cycles_per_lcore={1: 270},
        over_chosen=over_chosen(1, 0),
    )  # fmt: skip
    ahead = None if over is None else over_chosen(over)
    segments = (SegmentPlan(functions=("a",), lcores=(0, 1)),)
    other = best.model_copy(update={"role": "rtc", "over_chosen": ahead, "segments": segments})
    plan = ChainPlan(
        chain="c", workload="64B", lcores=(1,), generator=0, measure=0, tsc_hz=2.6e9, how="",
        bound_pps=1e7, rate_pps=None, functions=(), source=(0, 0), sink=(0, 0),
        layouts=(best, other),
    )  # fmt: skip
    assert plan.choice_loss == (None if loss is None else pytest.approx(loss))
    assert plan.choice_sure == sure


def test_the_pace_is_what_the_reference_does_now() -> None:
    reference = Reference(what="all", then_pps=10e6, now_pps=8e6, now_min_pps=7e6, now_max_pps=9e6)
    assert reference.pace == 0.8


def sample(pps: float, line: float | None, *cpus: int, moved: bool = False) -> PointSample:
    return PointSample(
        nfs={}, rx=0, tx=0, loop=0, source=0, source_tx=0, sink=0, throughput_pps=pps, packets=1,
        passed=1, line=line, moved=moved,
        workers=tuple(WorkerReading(cpu=cpu, ref_cycles=1, ops_cycles=1) for cpu in cpus),
    )  # fmt: skip


def test_costs_are_of_samples_with_lcores_where_they_usually_are() -> None:
    """Other lcores have lines of their own: 344 cycles from 0 to 2 are no other state than 78 from
    0 to 1. What moved meanwhile is of none; what has no sample of the state keeps those it has."""
    lines = {frozenset({0, 1}): 78.0, frozenset({0, 2}): 344.0}
    near = [sample(10e6, 79, 0, 1), sample(6e6, 340, 0, 1), sample(8e6, 78, 0, 1, moved=True)]
    case = Case(cast(EnginePoint, None), samples=near)
    assert not case.few(lines, 1) and case.few(lines, 2)
    case.keep(lines)
    assert [s.throughput_pps for s in case.samples] == [10e6]
    far = Case(cast(EnginePoint, None), samples=[sample(6e6, 346, 0, 2)])
    assert not far.few(lines, 1)
    elsewhere = Case(cast(EnginePoint, None), samples=[sample(6e6, 340, 0, 1)])
    assert elsewhere.few(lines, 1)
    elsewhere.keep(lines)
    assert elsewhere.throughput_pps == 6e6


def test_costs_are_of_the_state_that_no_case_lacks() -> None:
    """The host moves lcores every few seconds: most samples are of one state, but one case was run
    in the other only, so that costs of all are to be had in that one alone."""

    def case(*lines: float) -> Case:
        return Case(cast(EnginePoint, None), less=(), samples=[sample(1e6, x, 0, 1) for x in lines])

    both = frozenset({0, 1})
    several = [case(344, 345, 346, 78), case(344, 345, 79), case(80)]
    assert covering(several, 1) == {both: 79.0}
    # Where each case has both, the commonest.
    assert covering(several[:2], 1) == {both: 345.0}
    # With two samples asked for neither is whole: 344 lacks one case, 79 all three.
    assert covering(several, 2) == {both: 345.0}


def bench_of(repetitions: int, notes: list[str] | None = None) -> Bench:
    say = [].append if notes is None else notes.append
    progress = SimpleNamespace(say=say, status=lambda _text: None)
    session = cast(Session, SimpleNamespace(progress=progress))
    return Bench(cast(Description, None), session, (0, 1), repetitions, 0.2)


@pytest.mark.parametrize(("repetitions", "again"), [(1, 2), (2, 4), (5, 6)])
def test_who_asks_for_few_repetitions_does_not_wait_for_long(
    repetitions: int, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has lcores elsewhere all the time made one repetition seven: a minute of costs
    that were called mixed all the same."""
    measured: list[int] = []
    notes: list[str] = []

    def moved(_bench: Bench, case: Case, count: int) -> None:
        measured.append(count)
        case.samples += [sample(1e6, 78, 0, 1, moved=True)] * count

    monkeypatch.setattr(rounds, "_measure", moved)
    bench = bench_of(repetitions, notes)
    rounds.measure(bench, [Case(cast(EnginePoint, None), less=())], 1)
    assert measured == [repetitions] * (1 + again)
    assert bench.mixed and len(notes) == 1


def test_one_case_of_many_has_the_starts_that_all_of_them_would_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What alone lacked samples had four starts, five seconds; its costs were of another machine
    then, in three of the first six plans, and states last for up to 45 seconds."""
    cases = [Case(cast(EnginePoint, None), less=()) for _ in range(12)]
    alone = cases[5]

    def measured(_bench: Bench, case: Case, count: int) -> None:
        far = case is alone and len(case.samples) < 40
        case.samples += [sample(1e6, 340 if far else 78, 0, 1)] * count

    monkeypatch.setattr(rounds, "_measure", measured)
    bench = bench_of(2)
    rounds.measure(bench, cases, 2)
    assert not bench.mixed
    assert all(s.line == 78 for case in cases for s in case.samples)


@pytest.mark.parametrize(("least", "count", "trials"), [(1, 1, 1), (3, 1, 3), (3, 5, 5)])
def test_a_start_has_at_least_so_many_trials(
    least: int, count: int, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one trial of each start, layouts that were as good as each other lay 10 % apart."""
    monkeypatch.setattr(points, "running", lambda *_, **__: nullcontext())
    monkeypatch.setattr(points, "warm_up", lambda _up: None)
    monkeypatch.setattr(rounds, "full_load", lambda _up, n: [sample(1e6, 78, 0, 1)] * n)
    case = Case(cast(EnginePoint, None), less=(), least=least)
    rounds.measure(bench_of(count), [case], 1)
    assert len(case.samples) == trials


def test_a_start_whose_trials_were_all_disturbed_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start takes five times as long as another trial."""
    left = [sample(1e6, 78, 0, 1, moved=moved) for moved in (True, True, False, False)]
    starts: list[int] = []

    def running(*_args: object, **_options: object) -> AbstractContextManager[None]:
        starts.append(1)
        return nullcontext()

    monkeypatch.setattr(points, "running", running)
    monkeypatch.setattr(points, "warm_up", lambda _up: None)
    monkeypatch.setattr(rounds, "full_load", lambda _up, n: [left.pop(0) for _ in range(n)])
    case = Case(cast(EnginePoint, None), less=())
    rounds.measure(bench_of(1), [case], 1)
    assert len(starts) == 1 and len(left) == 1
    assert [one.moved for one in case.samples] == [False]


@pytest.mark.parametrize(
    ("slices", "held", "moved"), [(19, 13, False), (19, 14, True), (9, 9, False)]
)
def test_a_trial_that_was_hardly_left_alone_is_no_sample(
    slices: int, held: int, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layout of 12 to 14 Mpps carried 7.8 by such trials, as another guest was on its
    core's other hyperthread. Of fewer than ten slices nothing is said."""
    one = ReplicaSlices(
        SINK, 0, 0, 2_000_000_000, 256,
        {
            "end": 2e7 * np.arange(1.0, slices + 1), "ref": np.full(slices, 2e7),
            "pauses": np.where(np.arange(slices) < held, 4e6, 0.0), "kept_us": np.zeros(slices),
            "packets": np.full(slices, 1e5), "ops": np.full(slices, 2e7),
            "pace": np.full(slices, 160.0), "wide": np.full(slices, 170.0),
            "line": np.full(slices, 78.0),
        },
    )  # fmt: skip

    class Up:
        def trial(self, _seconds: float, _rate: float, slices: list[Sliced]) -> None:
            slices.append(Sliced(0.0, (), Counters(tsc_hz=2_000_000_000), (one,)))

    taken = sample(1e6, 78, 0, 1)
    monkeypatch.setattr(points, "sampled", lambda _trial, _seen=None: taken)
    assert points.sample(cast(RunningPoint, Up()), 0.2).moved is moved


def test_a_layout_that_is_the_reference_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start is both: two of one layout lay 10 to 15 % apart, told as the choice's loss."""
    started: list[object] = []
    monkeypatch.setattr(verified, "_measure", carrying({"whole": 8e6, "pipeline": 6e6}, started))
    reference = ReferenceRun("all", cast(EnginePoint, "reference"), 10e6, None, WHOLE)
    each, beside = verified.verify(bench_of(3), DEPLOYED, WHOLE, reference, None)
    assert started == ["whole", "pipeline", "pipeline", "whole", "whole", "pipeline"]
    assert beside is each[WHOLE] and each[WHOLE].paced_pps == 10e6
    assert each[PIPELINE].paced_pps == pytest.approx(7.5e6)
    another = replace(reference, layout=None)
    started.clear()
    verified.verify(bench_of(3), DEPLOYED, WHOLE, another, None)
    assert started.count("reference") == 3


WHOLE, PIPELINE = Layout((2,), ((1,),)), Layout((1, 1), ((0,), (1,)))
DEPLOYED = {WHOLE: cast(EnginePoint, "whole"), PIPELINE: cast(EnginePoint, "pipeline")}


def carrying(
    rates: dict[str, float], started: list[object], away: Callable[[str, int], bool] | None = None
) -> Callable[..., None]:
    """Starts that carry this; `away`: in which of them lcores are elsewhere."""

    def measured(_bench: Bench, one: EnginePoint, into: Verified, turn: int, _at: object) -> None:
        name = str(one)
        started.append(name)
        where = into.away if away is not None and away(name, turn) else into.rates
        where[turn] = rates.get(name, 7e6)

    return measured


@pytest.mark.parametrize(
    ("other", "rounds"),
    [(6e6, 2), (9e6, 2), (7.9e6, 8), (8.2e6, 15)],
)
def test_what_lies_close_to_the_choice_is_started_until_it_is_told(
    other: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two starts each, layouts as fast as the choice were told 3 % ahead one time in five. The
    reference has no part in that."""
    started: list[object] = []
    monkeypatch.setattr(verified, "_measure", carrying({"whole": 8e6, "pipeline": other}, started))
    reference = ReferenceRun("all", cast(EnginePoint, "reference"), 10e6, None)
    each, _ = verified.verify(bench_of(2), DEPLOYED, WHOLE, reference, None)
    assert started.count("reference") == 2
    assert started.count("pipeline") == started.count("whole") <= rounds
    assert (started.count("whole") > 2) == (rounds > 2)
    ahead = each[PIPELINE].over_chosen
    assert ahead is not None and ahead.over == pytest.approx(other / 8e6)
    most = 1 / (1 - CHOICE_CLOSE)
    assert ahead.most <= most or ahead.least > most or len(started) > 30 - 3


def test_what_ran_elsewhere_is_started_again_beside_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five rounds of another state of the machine tell nothing of this one; and what never is in it
    ends with the starts that there are."""
    started: list[object] = []

    def until(turns: int) -> Callable[[str, int], bool]:
        return lambda name, turn: name == "pipeline" and turn < turns

    rates = {"whole": 8e6, "pipeline": 6e6}
    monkeypatch.setattr(verified, "_measure", carrying(rates, started, until(5)))
    reference = ReferenceRun("all", cast(EnginePoint, "reference"), 7e6, None)
    each, _ = verified.verify(bench_of(2), DEPLOYED, WHOLE, reference, None)
    assert not each[PIPELINE].elsewhere and list(each[PIPELINE].rates) == [5]
    assert each[PIPELINE].paced_pps == pytest.approx(6e6)
    assert started.count("reference") == 6
    started.clear()
    notes: list[str] = []
    monkeypatch.setattr(verified, "_measure", carrying(rates, started, until(99)))
    each, _ = verified.verify(bench_of(1, notes), DEPLOYED, WHOLE, reference, None)
    assert each[PIPELINE].elsewhere and each[PIPELINE].over_chosen is None
    assert 12 < len(started) <= 15 and len(notes) == 1


def delays(p50_s: float) -> list[DelaySlice]:
    return [DelaySlice(0.01 * i, 1000, p50_s, 3e-5, quiet=True) for i in range(60)]


def test_delays_are_of_lcores_where_costs_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With lines of 340 cycles for 78 packets take longer: delays of another state count only
    where there are no others, which is said."""
    lines = iter([340.0, 78.0, 340.0, 340.0])
    took = {78.0: 3.6e-6, 340.0: 5.9e-6}
    up = SimpleNamespace(
        bench=SimpleNamespace(lines={frozenset({0, 1}): 78.0}),
        one=SimpleNamespace(experiment=SimpleNamespace(flows=1000)),
        trial=lambda _seconds, _rate: SimpleNamespace(
            latency_ns=SimpleNamespace(p99=3e4), line=next(lines)
        ),
        engine=None,
    )
    now = [0.0]

    def sampled(trial: SimpleNamespace) -> PointSample:
        now[0] = trial.line
        return sample(1e6, trial.line, 0, 1)

    monkeypatch.setattr(points, "sampled", sampled)
    monkeypatch.setattr(verified, "all_slices", lambda _engine: None)
    monkeypatch.setattr(verified, "delay_slices", lambda _none: delays(took[now[0]]))
    both, elsewhere = Verified(), Verified()
    for one in (both, elsewhere):
        verified._latencies(cast(RunningPoint, up), 1e6, one)
    assert {each.p50_s for each in both.quiet} == {3.6e-6} and not both.delays_elsewhere
    assert len(both.quiet) == 50 and len(both.whole_p99s_s) == 2  # those of 0.1 s are cold
    assert {each.p50_s for each in elsewhere.quiet} == {5.9e-6} and elsewhere.delays_elsewhere


def test_delays_of_elsewhere_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As throughput is; and only of who has no others."""
    asked: list[tuple[str, bool]] = []

    def measured(
        _bench: Bench, one: EnginePoint, into: Verified, turn: int, at: float | None
    ) -> None:
        asked.append((str(one), at is not None))
        into.rates[turn] = 8e6 if str(one) == "whole" else 7.9e6
        if at is not None and str(one) != "reference":
            same = str(one) == "whole" or turn >= 4
            (into.slices if same else into.away_slices).extend(delays(2e-6))

    monkeypatch.setattr(verified, "_measure", measured)
    reference = ReferenceRun("all", cast(EnginePoint, "reference"), 10e6, None)
    each, _ = verified.verify(bench_of(2), DEPLOYED, WHOLE, reference, 1e6)
    assert asked.count(("pipeline", True)) == 5 and asked.count(("whole", True)) == 2
    assert ("whole", False) in asked and not each[PIPELINE].delays_elsewhere


@pytest.mark.parametrize(
    ("near_s", "trials", "same"), [(0, 2, True), (50, 50, True), (9999, 120, False)]
)
def test_a_start_goes_on_until_lcores_are_where_they_were(
    near_s: float, trials: int, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many seconds, of a trial each; for two repetitions all starts together wait for two
    minutes. What ends a race after some seconds does not count them."""
    now = [0.0]

    def taken(_up: object, seconds: float) -> PointSample:
        now[0] += 5 * seconds
        return sample(1e6, 78 if now[0] >= near_s else 340, 0, 1)

    monkeypatch.setattr(points, "sample", taken)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bench = bench_of(2)
    bench.lines = {frozenset({0, 1}): 78.0}
    up = cast(RunningPoint, SimpleNamespace(bench=bench))
    samples, of_state = rounds.settled_load(up, 2)
    assert (round(now[0]), of_state) == (trials + 2 * (not same), same)
    assert {one.line for one in samples} == {78 if same else 340}
    assert bench.worked_s() == pytest.approx(2.0)
    rounds.settled_load(up, 2)
    assert bench.waited_s == pytest.approx(now[0] - 4 if same else 120)
