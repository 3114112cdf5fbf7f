# SPDX-License-Identifier: Apache-2.0
"""The search against a fake system under test whose true capacity is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.measure.outcome import GoalSample, Limits, Outcome
from headrace.measure.search import _representative, search
from headrace.spec.measure import Measure

GOALS = Measure.model_validate({"search": ["ndr", "pdr"]}).search


class Fake:
    """Forwards up to `capacity`, loses the rest; sends up to `generator`. Counts its own time."""

    def __init__(
        self, capacity: float, generator: float = 1e9, noise: Callable[[], float] = lambda: 1.0
    ) -> None:
        self.capacity, self.generator, self.noise = capacity, generator, noise
        self.trials, self.seconds = 0, 0.0

    def __call__(self, load: float, duration: float) -> Outcome:
        self.trials += 1
        self.seconds += duration
        intended = round(load * duration)
        sent = round(min(load, self.generator) * duration)
        lost = max(0, sent - round(self.capacity * self.noise() * duration))
        return Outcome(self.trials, intended, sent, lost)


@settings(max_examples=60, deadline=None)
@given(capacity=st.floats(2e4, 9.9e7))
def test_bounds_hold_the_capacity(capacity: float) -> None:
    fake = Fake(capacity)
    for outcome in search(GOALS, Limits(1e4, 1e8, 300), fake):
        assert outcome.stopped_by == "width"
        assert outcome.lower_pps is not None and outcome.upper_pps is not None
        # Whole packets: the loss ratio is quantised by 1 / (load x duration).
        edge = capacity / (1 - outcome.goal.loss_ratio)
        assert outcome.lower_pps <= edge * 1.0002
        assert outcome.upper_pps >= edge * 0.9998
        assert (outcome.upper_pps - outcome.lower_pps) / outcome.upper_pps <= outcome.goal.width
        assert outcome.sample is not None and outcome.sample.load_pps == outcome.lower_pps
        assert not outcome.generator_bound


def _gauss(rng: random.Random) -> float:
    return min(1.0, rng.gauss(0.98, 0.01))


def test_default_goals_take_less_than_90_s() -> None:
    times = []
    for seed in range(20):
        rng = random.Random(seed)
        fake = Fake(3.7e6, noise=partial(_gauss, rng))
        search(GOALS, Limits(1e4, 2.5e7, 300), fake)
        times.append(fake.seconds + 0.15 * fake.trials)
    assert sorted(times)[len(times) // 2] < 60
    assert max(times) < 90


def test_capacity_above_the_highest_load() -> None:
    for outcome in search(GOALS, Limits(1e4, 1e6, 300), Fake(1e7)):
        assert outcome.stopped_by == "max-load"
        assert outcome.lower_pps == pytest.approx(1e6)
        assert outcome.upper_pps is None


def test_capacity_below_the_lowest_load() -> None:
    for outcome in search(GOALS, Limits(1e4, 1e6, 300), Fake(1e3)):
        assert outcome.stopped_by == "min-load"
        assert outcome.lower_pps is None
        assert outcome.sample is not None and outcome.sample.load_pps == pytest.approx(1e4)


def test_what_the_generator_cannot_send_is_told_apart() -> None:
    """The figure then says something about the generator: it must be marked."""
    for outcome in search(GOALS, Limits(1e4, 1e8, 300), Fake(1e9, generator=2e6)):
        assert outcome.generator_bound
        assert outcome.lower_pps == pytest.approx(2e6, rel=0.02)
    for outcome in search(GOALS, Limits(1e4, 1e8, 300), Fake(1e6, generator=2e6)):
        assert not outcome.generator_bound


def test_a_source_that_the_machine_held_up_is_no_generators_limit() -> None:
    """Loads above 4 Mpps were not made, as others had the lcores; all that was made came."""

    class Starved(Fake):
        def __call__(self, load: float, duration: float) -> Outcome:
            seen = super().__call__(load, duration)
            behind = seen.sent < seen.intended
            return replace(seen, starved=behind, disturbed=behind)

    for outcome in search(GOALS, Limits(1e4, 1e8, 300), Starved(5e6, generator=4e6)):
        assert (outcome.generator_bound, outcome.disturbed) == (False, True)


def test_two_names_for_one_goal() -> None:
    goals = Measure.model_validate({"search": ["zero", "csit-ndr"]}).search
    first, second = search(goals, Limits(1e4, 1e8, 300), Fake(1e6))
    assert first.goal.name == "zero" and second.goal.name == "csit-ndr"
    assert first.lower_pps == second.lower_pps


def test_progress_sees_narrowing_bounds() -> None:
    seen: list[dict[str, tuple[float | None, float | None]]] = []
    search(GOALS, Limits(1e4, 1e8, 300), Fake(1e6), seen.append)
    lowers = [bounds["pdr"][0] for bounds in seen if bounds["pdr"][0] is not None]
    uppers = [bounds["pdr"][1] for bounds in seen if bounds["pdr"][1] is not None]
    assert lowers or uppers
    assert lowers == sorted(lowers) and uppers == sorted(uppers, reverse=True)
    assert all(low <= 1.01e6 for low in lowers) and all(high >= 1e6 for high in uppers)


def test_representative_is_the_worst_good_trial_of_full_length() -> None:
    goal = GOALS[1]
    samples = [
        GoalSample(1e6, 2.0, Outcome(1, 2000000, 2000000, 100)),
        GoalSample(1e6, 2.0, Outcome(2, 2000000, 2000000, 900)),
        GoalSample(1e6, 2.0, Outcome(3, 2000000, 2000000, 90000)),
        GoalSample(1e6, 1.0, Outcome(4, 1000000, 1000000, 999)),
    ]
    trial = _representative(goal, 1e6, samples)
    assert trial is not None and trial.outcome.trial == 2
